"""The feed of all exporters of a cluster, for `kubectl mgpu top`."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any, TypeVar

from exporter.answers.kubectl.cluster import Exporter
from exporter.answers.kubectl.nodesums import NodeSums, fleet_of, sums_of, with_pods
from exporter.answers.reading.cutting import Cutter
from exporter.answers.reading.feeds import FeedResult, NodeSight
from exporter.answers.reading.feeds.feed import of_namespace
from exporter.answers.reading.feeds.fleetlines import Look
from exporter.answers.reading.feeds.nodedocument import node_of_document
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import place_of
from exporter.httpclient import NoAnswerError
from exporter.model import Clock
from exporter.shown.printable import clean
from exporter.shown.words import plural

FEW_NODES = 8  # of which all is read at once; of more, sums and what is open
A_TURN = 32  # exporters of a fleet that are asked in one read, besides those that are open
_MOST_OPEN = 16  # nodes of which all is read each time
_MOST_SAID = 20  # troubles of a fleet
_AT_ONCE = 8
_FOUND_NS = 15 * 10**9


T = TypeVar("T")


class FleetFeed:
    """Implements ``GuidedFeed``. An exporter that does not answer costs only its own node.

    One that refuses is no trouble where another one answers: its node has no pod for this user.

    Of a few nodes all is read. Of more, each read asks those that are open, and some of the others,
    half of them those on the screen; only sums are kept of these. ``namespace``: only its pods.

    ``find`` lists the exporters; one that does not answer may have been replaced, so that they are
    looked for again then. ``http`` makes a client of one, with a token that may run out.
    """

    def __init__(
        self,
        find: Callable[[], Sequence[Exporter]],
        http: Callable[[Exporter], HttpClient],
        clock: Clock = time,
        namespace: str = "",
    ) -> None:
        self._find = find
        self._exporters = find()
        self._clock = clock
        self._found_ns = clock.monotonic_ns()
        self._http = http
        self._namespace = namespace
        self._feeds: dict[Exporter, RemoteFeed] = {}
        self._look = Look()
        self._kept: dict[Exporter, NodeSums] = {}  # of a fleet
        self._errors: dict[Exporter, NoAnswerError] = {}  # of those that did not answer last
        self._turns: dict[Exporter, int] = {}  # in which read each was asked last
        self._shown: set[str] = set()  # the nodes on the screen
        self._turn = 0
        self._pool = ThreadPoolExecutor(_AT_ONCE)

    @property
    def name(self) -> str:
        """How many exporters are asked."""
        count = len(self._exporters)
        return f"{count} nodes" if count > 1 else self._exporters[0].name

    def look(self, look: Look) -> None:
        """Says what the screen shows, for the next read."""
        self._look = look

    def read(self) -> FeedResult:
        """All of a few nodes; of more their sums, and all of those that are open.

        Raises:
            NoAnswerError: none answers.

        """
        # Where one does not answer, another pod may be in its place. To look for that is a list of
        # pods, so it is done from time to time, and not each second.
        now_ns = self._clock.monotonic_ns()
        failed = (e for e in self._errors.values() if e.status != HTTPStatus.FORBIDDEN)
        if any(failed) and now_ns - self._found_ns >= _FOUND_NS:
            self._found_ns = now_ns
            with suppress(NoAnswerError):
                self._exporters = self._find()
            for known in (self._feeds, self._kept, self._errors, self._turns):
                for gone in known.keys() - set(self._exporters):
                    del known[gone]
        if len(self._exporters) > FEW_NODES:
            return self._read_fleet()
        return self._result(self._answers(self._exporters, self._all_of))

    def parts(self) -> Iterator[FeedResult]:
        """All of a few nodes; of more some after the others, and then the sums of all."""
        if len(self._exporters) <= FEW_NODES:
            yield self.read()
            return
        for answers in self._some_at_once(self._all_of):
            self._keep(answers)
            with suppress(NoAnswerError):
                if (part := self._result(answers)).nodes:
                    yield part._replace(is_part=True, troubles=())
        yield self._fleet(())

    def documents(self) -> Iterator[Mapping[str, Any] | NoAnswerError]:
        """The JSON of each exporter, or why there is none; in the order of the nodes."""
        for answers in self._some_at_once(lambda feed, _: feed.document):
            yield from answers.values()

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    # --- a fleet ---

    def _read_fleet(self) -> FeedResult:
        self._turn += 1
        places = {key[0] for key in self._look.opened if len(key) == 1}
        if self._look.needle:
            places |= {one.place for one in with_pods(self._kept.values(), self._look.needle)}
        wanted = [one for one in self._exporters if self._place(one) in places]
        opened, others = wanted[:_MOST_OPEN], list[Exporter]()
        for on_screen in (True, False):
            chosen = {*opened, *others}
            rest = (one for one in self._exporters if one not in chosen)
            some = (one for one in rest if not on_screen or self._place(one) in self._shown)
            order = sorted(some, key=lambda one: self._turns.get(one, 0))
            others += order[: A_TURN // 2 if on_screen else A_TURN - len(others)]
        in_full = self._answers(opened, self._all_of)
        self._keep(in_full)
        self._keep(self._answers(others, self._now_of))
        said = () if len(wanted) <= _MOST_OPEN else (f"only {_MOST_OPEN} open nodes are read",)
        return self._fleet(said, [e for e in in_full.values() if isinstance(e, FeedResult)])

    def _place(self, exporter: Exporter) -> str:
        kept = self._kept.get(exporter)
        return clean(kept.place if kept else exporter.node)

    def _keep(self, answers: Mapping[Exporter, FeedResult | NoAnswerError]) -> None:
        """Keeps the sums of what answered; nothing of what did not is shown as of now."""
        for exporter, answer in answers.items():
            self._turns[exporter] = self._turn
            self._kept.pop(exporter, None)
            self._errors.pop(exporter, None)
            if isinstance(answer, NoAnswerError):
                self._errors[exporter] = answer
                continue
            for node in answer.nodes:
                self._kept[exporter] = sums_of(node, self._namespace)

    def _fleet(self, said: Sequence[str], in_full: Iterable[FeedResult] = ()) -> FeedResult:
        known: set[tuple[str, str]] = set()
        kept: list[NodeSums] = []
        for one in (self._kept[e] for e in self._exporters if e in self._kept):
            cards = {(one.place, uuid) for uuid in one.cards}
            is_seen = bool(one.pods) if self._namespace else not cards or not cards <= known
            if is_seen or one.troubles:  # two releases may have an exporter on one node
                kept.append(one)
            known |= cards
        if not self._kept:
            raise self._none(self._errors.values())
        read = len(self._kept) + len(self._errors)
        every = len(self._exporters)
        troubles = [*said, *self._said(self._errors.values())]
        troubles += [f"{clean(one.place)}: {text}" for one in kept for text in one.troubles]
        if len(troubles) > _MOST_SAID:
            troubles[_MOST_SAID:] = [f"and {plural(len(troubles) - _MOST_SAID, 'trouble')} more"]
        if read < every:
            troubles.insert(0, f"{read:,} of {every:,} nodes are read so far")
        # Nodes, not exporters: of two on one node one counts, and each that was not asked yet.
        fleet = fleet_of(kept, self._look, len(kept) + every - read, self._namespace)
        self._shown = {clean(place_of(one.labels)) for one in fleet.nodes}
        nodes = [replace(node, troubles=()) for one in in_full for node in one.nodes]
        return FeedResult(nodes, tuple(troubles), self._namespace, fleet)

    # --- exporters ---

    def _some_at_once(
        self, read: Callable[[RemoteFeed, Exporter], T]
    ) -> Iterator[Mapping[Exporter, T | NoAnswerError]]:
        cutter = Cutter[Exporter](_AT_ONCE)
        return cutter.ask(self._exporters, lambda some: self._answers(some, read))

    def _answers(
        self, exporters: Sequence[Exporter], read: Callable[[RemoteFeed, Exporter], T]
    ) -> dict[Exporter, T | NoAnswerError]:
        """What some exporters answer, asked side by side."""

        def ask(exporter: Exporter) -> T | NoAnswerError:
            try:
                feed = self._feeds.get(exporter)
                if feed is None:
                    feed = self._feeds[exporter] = RemoteFeed(self._http(exporter))
                return read(feed, exporter)
            except NoAnswerError as error:
                if error.status == HTTPStatus.UNAUTHORIZED:  # next time with the token of then
                    self._feeds.pop(exporter, None)
                return error
            except Exception as error:  # noqa: BLE001 - what one answers costs only its node
                said = f"{exporter.name} answers with something unexpected: {error!r}"
                return NoAnswerError(said)

        return dict(zip(exporters, self._pool.map(ask, exporters), strict=True))

    def _all_of(self, feed: RemoteFeed, exporter: Exporter) -> FeedResult:
        return self._named(feed.read(), exporter)

    def _now_of(self, feed: RemoteFeed, exporter: Exporter) -> FeedResult:
        """Without the last minutes, which sums do not have."""
        return self._named(FeedResult((node_of_document(feed.document, {}),)), exporter)

    def _named(self, result: FeedResult, exporter: Exporter) -> FeedResult:
        nodes = [replace(node, name=node.name or exporter.node) for node in result.nodes]
        if self._namespace:
            nodes = [of_namespace(node, self._namespace) for node in nodes]
        return result._replace(nodes=nodes)

    def _result(self, answers: Mapping[Exporter, FeedResult | NoAnswerError]) -> FeedResult:
        """What some exporters brought; raises NoAnswerError if none answers."""
        errors = {e: one for e, one in answers.items() if isinstance(one, NoAnswerError)}
        self._errors = {e: one for e, one in self._errors.items() if e not in answers} | errors
        # Two releases may have an exporter on one node. Its devices are shown once.
        known: set[tuple[str, str]] = set()
        found: list[NodeSight] = []
        for node in (n for e in answers.values() if isinstance(e, FeedResult) for n in e.nodes):
            devices = {(node.name, each.uuid) for each in node.tree.devices}
            if not devices or not devices <= known:
                found.append(node)
            known |= devices
        if not found:
            raise self._none(errors.values())
        if self._namespace and len(answers) > 1:
            found = [n for n in found if n.tree.devices or n.tree.nowhere or n.troubles]
        return FeedResult(found, tuple(self._said(errors.values())), self._namespace)

    def _none(self, errors: Iterable[NoAnswerError]) -> NoAnswerError:
        said = list(dict.fromkeys(map(str, errors)))
        return NoAnswerError("; ".join(said[:FEW_NODES]))

    def _said(self, errors: Iterable[NoAnswerError]) -> Iterator[str]:
        return (str(each) for each in errors if each.status != HTTPStatus.FORBIDDEN)
