"""A simulated node with a clock and exact figures of its use.

A small YAML file describes devices, pods, processes and their work over time. The simulated
sources, tests and benchmarks read it. It behaves as the driver does (sample ring, one pid per
sample, truncation) and, unlike the driver, has the true busy time. It has no metrics.

``load`` reads a file into the values of ``description``; ``node`` answers for a moment. Everything
is a pure function of the description, the start and the clock: nothing accumulates, and any moment
can be asked for. Caches are bounded and only save work.
"""


class ScenarioError(Exception):
    """A scenario cannot be used; the message names the file, the key and what is allowed there.

    ``problems`` has all that was found in the file, each with its line.
    """

    def __init__(self, *problems: object) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems
