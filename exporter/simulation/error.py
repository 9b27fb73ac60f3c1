"""The error of a scenario file. Its own module: commands catch it without loading scenarios."""


class ScenarioError(Exception):
    """A scenario cannot be used; the message names the file, the key and what is allowed there."""
