"""An exporter on another machine, by its JSON (docs/api.md)."""

import time

from exporter.model import Clock
from exporter.terminal.feeds.feed import FeedError, Sight
from exporter.terminal.feeds.http import Http
from exporter.terminal.reading import Json, clean

SNAPSHOT, HISTORY = "/api/v1/snapshot", "/api/v1/history"
HISTORY_NS = 5 * 10**9  # as often as it has a new point
VERSION = "v1"


class RemoteFeed:
    """Implements ``Feed``."""

    def __init__(self, http: Http, clock: Clock = time) -> None:
        self._http = http
        self._clock = clock
        self._history: Json | None = None
        self._history_due_ns = clock.monotonic_ns()

    @property
    def name(self) -> str:
        """Its address."""
        return self._http.address

    def read(self) -> Sight:
        """Ask for the newest."""
        document = self._http.json(SNAPSHOT)
        version = document.get("api_version")
        if version != VERSION:
            raise FeedError(
                f"{self.name} speaks {clean(str(version))[:20]}; this version {VERSION}"
            )
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._history_due_ns:
            self._history_due_ns = now_ns + HISTORY_NS
            self._history = self._http.json(HISTORY)
        return Sight([(document, self._history)])

    def metrics(self, path: str) -> bytes:
        """Its metrics page."""
        return self._http.get(path)

    def close(self) -> None:
        """Nothing is held."""
