"""What is raised of a scenario; apart from the rest, for those that run on a real node."""


class ScenarioError(Exception):
    """A scenario cannot be used; the message names the file, the key and what is allowed there."""
