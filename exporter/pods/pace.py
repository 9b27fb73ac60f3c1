"""How long the watch of pods waits, and for what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """Waiting times in seconds, spread at random so that the nodes do not march in step.

    A watch is asked to end after ``watch_s`` to 1.2 * ``watch_s``; ``slack_s`` later its
    connection is given up as half-open. ``list_s`` bounds each wait for bytes of a list,
    ``node_wait_s`` that for bytes of the node, which is asked for before the pods; a whole list may
    take ``whole_list_s``. A kubelet, which has no watch, is asked every ``poll_s``. A list, which
    is what a fleet that starts or loses its server all at once asks for all at once, waits for up
    to ``list_spread_s``.
    """

    watch_s: float = 300
    slack_s: float = 15
    list_s: float = 30
    whole_list_s: float = 120
    poll_s: float = 10
    node_s: float = 600
    node_wait_s: float = 5
    backoff_s: float = 0.8
    backoff_limit_s: float = 60
    list_spread_s: float = 0

    def delay(self, failures: int, chance: float) -> float:
        """How long to wait before the next connection, ``chance`` being from 0 to 1."""
        longest = min(self.backoff_limit_s, self.backoff_s * float(1 << min(failures, 16)))
        return longest * (0.5 + chance / 2)

    def spread(self, chance: float) -> float:
        """How long a list waits, so that not all nodes ask for theirs in the same moment."""
        return self.list_spread_s * chance


DEFAULT_PACE = Pace()
