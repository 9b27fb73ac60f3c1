"""The feed of all exporters of a cluster, for `kubectl mgpu top`."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus

from exporter.answers.kubectl.cluster import Exporter
from exporter.answers.reading.feeds import FeedResult, NodeSight
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.jsonclient import HttpClient
from exporter.httpclient import NoAnswerError
from exporter.model import Clock

_AT_ONCE = 8
_FOUND_NS = 15 * 10**9


class FleetFeed:
    """Implements ``Feed``. An exporter that does not answer costs only its own node.

    One that refuses is no trouble where another one answers: its node has no pod for this user.

    ``find`` lists the exporters; one that does not answer may have been replaced, so that they are
    looked for again then. ``http`` makes a client of one, with a token that may run out.
    """

    def __init__(
        self,
        find: Callable[[], Sequence[Exporter]],
        http: Callable[[Exporter], HttpClient],
        clock: Clock = time,
    ) -> None:
        self._find = find
        self._exporters = find()
        self._clock = clock
        self._found_ns = clock.monotonic_ns()
        self._http = http
        self._feeds: dict[Exporter, RemoteFeed] = {}
        self._has_all = True  # each exporter answered, or has nothing for this user
        self._pool = ThreadPoolExecutor(_AT_ONCE)

    @property
    def name(self) -> str:
        """How many exporters are asked."""
        count = len(self._exporters)
        return f"{count} nodes" if count > 1 else self._exporters[0].name

    def read(self) -> FeedResult:
        """All nodes; raises NoAnswerError if none answers."""
        # An exporter that did not answer may have been replaced. Looking for it is a list of pods,
        # so it is done from time to time, and not each second.
        now_ns = self._clock.monotonic_ns()
        if not self._has_all and now_ns - self._found_ns >= _FOUND_NS:
            self._found_ns = now_ns
            with suppress(NoAnswerError):
                self._exporters = self._find()
            self._feeds = {e: feed for e, feed in self._feeds.items() if e in self._exporters}
        answers = list(self._pool.map(self._read, self._exporters))
        errors = [each for each in answers if isinstance(each, NoAnswerError)]
        self._has_all = all(each.status == HTTPStatus.FORBIDDEN for each in errors)
        # Two releases may have an exporter on one node. Its devices are shown once.
        known: set[tuple[str, str]] = set()
        found: list[NodeSight] = []
        for node in (node for e in answers if isinstance(e, FeedResult) for node in e.nodes):
            devices = {(node.name, each.uuid) for each in node.tree.devices}
            if not devices or not devices <= known:
                found.append(node)
            known |= devices
        if not found:
            raise NoAnswerError("; ".join(dict.fromkeys(map(str, errors))))
        troubles = tuple(str(each) for each in errors if each.status != HTTPStatus.FORBIDDEN)
        return FeedResult(found, troubles)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _read(self, exporter: Exporter) -> FeedResult | NoAnswerError:
        try:
            feed = self._feeds.get(exporter)
            if feed is None:
                feed = self._feeds[exporter] = RemoteFeed(self._http(exporter))
            result = feed.read()
        except NoAnswerError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:  # next time with the token that is new then
                self._feeds.pop(exporter, None)
            return error
        except Exception as error:  # noqa: BLE001 - what one of them answers costs only its node
            return NoAnswerError(f"{exporter.name} answers with something unexpected: {error!r}")
        named = [replace(node, name=node.name or exporter.node) for node in result.nodes]
        return result._replace(nodes=named)
