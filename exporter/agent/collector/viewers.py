"""Whether somebody looks at the figures. While nobody does, a driver is asked more seldom.

A page, a document and a command are looked at by people, so that each request counts. A Prometheus
reads at its interval. One that is shorter than that of the readings counts too; before any other
scrape is due, one cycle reads. Its figures are then of the same age in each scrape, and rates over
a minute are right.
"""

from threading import Lock
from typing import NamedTuple

from exporter.agent.fairness import Held
from exporter.model import SECOND_NS, Clock

STAYS_NS = 60 * SECOND_NS  # after the last request
OFTEN_NS = 4_500_000_000  # less between two scrapes of one client than the readings have
SOON_NS = 1_200_000_000  # a cycle, and what it takes
SELDOM_NS = 120 * SECOND_NS  # what is further apart is no Prometheus
MOST_CLIENTS = 64  # of whom the last scrape is known: the peer with most gives up its oldest


class _Scraped(NamedTuple):
    """When a client scraped last, and how long after the time before; 0: it was the first time."""

    at_ns: int
    every_ns: int


class Viewers:
    """Who has looked lately. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._until_ns = self._now()
        self._scraped: dict[str, _Scraped] = {}
        self._held = Held[str](MOST_CLIENTS)
        self._lock = Lock()

    def are_there(self) -> bool:
        """Whether somebody has looked within the last minute, or a scrape is due."""
        now_ns = self._now()
        if now_ns < self._until_ns:
            return True
        with self._lock:
            scraped = tuple(self._scraped.values())
        return any(
            every_ns and 0 < at_ns + every_ns - now_ns <= SOON_NS for at_ns, every_ns in scraped
        )

    def look(self) -> None:
        """Notes that somebody looks."""
        self._until_ns = self._now() + STAYS_NS

    def scrape(self, peer: str, program: str) -> None:
        """Notes a scrape by this program of a peer."""
        client = f"{peer} {program}"
        with self._lock:
            now_ns, before = self._now(), self._scraped.pop(client, None)
            every_ns = now_ns - before.at_ns if before else 0
            self._scraped[client] = _Scraped(now_ns, every_ns if every_ns <= SELDOM_NS else 0)
            if (over := self._held.add(client, peer)) is not None:
                del self._scraped[over]
        if before and every_ns < OFTEN_NS:
            self.look()
