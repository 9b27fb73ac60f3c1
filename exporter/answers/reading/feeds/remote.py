"""The feed from an exporter on another machine, by its JSON (docs/api.md)."""

import time
from contextlib import suppress

from exporter.answers.reading.feeds.feed import FeedResult
from exporter.answers.reading.feeds.nodedocument import node_of_document
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import QUERY, SNAPSHOT, is_answered
from exporter.answers.reading.untrusted import Json
from exporter.httpclient import NoAnswerError
from exporter.model import Clock
from exporter.shown.printable import clean

HISTORY = "/api/v1/history"
HISTORY_NS = 10 * 10**9  # as often as it has a new point
VERSION = "v1"


class RemoteFeed:
    """Implements ``Feed``."""

    def __init__(self, http: HttpClient, clock: Clock = time) -> None:
        self._http = http
        self._clock = clock
        self._history: Json = {}
        self._history_due_ns = clock.monotonic_ns()

    @property
    def name(self) -> str:
        """The exporter's address."""
        return self._http.address

    def read(self) -> FeedResult:
        """The newest document of the exporter."""
        document = self.document
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._history_due_ns:
            self._history_due_ns = now_ns + HISTORY_NS
            with suppress(NoAnswerError):  # the figures go on without it
                self._history = self._http.json(HISTORY)
        return FeedResult((node_of_document(document, self._history),))

    @property
    def document(self) -> Json:
        """What the exporter answers to ``/api/v1/snapshot``."""
        try:
            document = self._http.json(SNAPSHOT)
        except NoAnswerError as error:
            if is_answered(self._http, error, f"{QUERY}?query=1", "status"):
                said = f"{self.name} is a Prometheus, no exporter: give it with --prometheus"
                raise NoAnswerError(said) from None
            raise
        version = document.get("api_version")
        if version != VERSION:
            raise NoAnswerError(
                f"{self.name} speaks {clean(str(version))[:20]}; this version {VERSION}"
            )
        return document

    def metrics(self, path: str) -> bytes:
        """The exporter's metrics page."""
        return self._http.get(path)

    def close(self) -> None:
        """Does nothing: no connection is kept."""
