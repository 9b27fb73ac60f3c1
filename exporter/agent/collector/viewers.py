"""Whether somebody looks at the figures. While nobody does, a driver is asked more seldom.

A page, a document and a command are looked at by people, so that each request counts. A Prometheus
reads at its interval: one that is shorter than the readings counts too.
"""

from threading import Lock

from exporter.model import Clock

SECOND = 10**9
STAYS_NS = 60 * SECOND  # after the last request
OFTEN_NS = 4_500_000_000  # less between two scrapes of one client than the readings have
MOST_CLIENTS = 64  # of whom the last scrape is known


class Viewers:
    """Who has looked lately. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._now = clock.monotonic_ns
        self._until_ns = self._now()
        self._scraped_ns: dict[str, int] = {}
        self._lock = Lock()

    def are_there(self) -> bool:
        """Whether somebody has looked within the last minute."""
        return self._now() < self._until_ns

    def look(self) -> None:
        """Notes that somebody looks."""
        self._until_ns = self._now() + STAYS_NS

    def scrape(self, client: str) -> None:
        """Notes a scrape of this client."""
        with self._lock:
            now_ns, before_ns = self._now(), self._scraped_ns.pop(client, None)
            self._scraped_ns[client] = now_ns
            if len(self._scraped_ns) > MOST_CLIENTS:
                del self._scraped_ns[next(iter(self._scraped_ns))]
        if before_ns is not None and now_ns - before_ns < OFTEN_NS:
            self.look()
