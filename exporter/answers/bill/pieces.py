"""The books of a span, a few nodes at a time and side by side: no more is in memory at once."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from exporter.answers.bill.books import NAMES, UNALLOCATED, Books, Wanted, books_of
from exporter.answers.reading.lives import ClaimedError
from exporter.answers.reading.nodegroups import Group, read_fleet
from exporter.answers.reading.nodelabels import read_node_labels
from exporter.answers.reading.queryapi import Prometheus, is_refused_as_too_much
from exporter.answers.reading.ranges import Span
from exporter.answers.reading.storedcounters import INFO, AskedCounters, read_counters
from exporter.httpclient import NoAnswerError

_AT_ONCE = 3  # questions in flight: a store answers some side by side
_SAMPLES = 100_000  # of a piece, about 20 MB
_SERIES = 50  # of a card, until that is known
_ADDRESSES = 50  # in one question
_SLOW_S = 20.0  # of a piece: a store stops after 120 s
_LEAST = 2_000  # samples of a piece


class _Piece(NamedTuple):
    """What was read of some nodes: their books, how many series that took, and seconds."""

    books: Books
    series: int
    seconds: float


def read_books(
    prometheus: Prometheus,
    span: Span,
    wanted: Wanted,
    done: Callable[[int, int], None] = lambda *_: None,
) -> Iterator[Books]:
    """The books of all cards of a span, of some nodes after others; none where nobody was scraped.

    ``done`` receives how many nodes are read, of how many.

    Raises:
        NoAnswerError: Prometheus does not answer, or nobody knows which of two exporters of a card
            is true.

    """
    fleet = read_fleet(prometheus, span, [INFO, UNALLOCATED])
    if UNALLOCATED not in fleet.names:
        return
    nodes, changed = read_node_labels(prometheus, span, wanted.node_labels)

    def read(instances: Collection[str]) -> _Piece:
        begun_s = time.monotonic()
        stored = read_counters(prometheus, AskedCounters(NAMES, span, fleet, instances, changed))
        books = books_of(stored, nodes, span, wanted)
        return _Piece(books, len(stored.series), time.monotonic() - begun_s)

    left = _Left(fleet.groups, len(span.grid.times))
    done(0, left.all)
    asked: deque[tuple[list[Group], Future[_Piece]]] = deque()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            while left.groups or asked:
                while left.groups and len(asked) < _AT_ONCE:
                    some = left.take()
                    asked.append((some, pool.submit(read, addresses(some))))
                some, answer = asked.popleft()
                try:
                    piece = answer.result()
                except NoAnswerError as error:
                    if len(some) == 1 or not _is_too_much(error):
                        raise
                    left.put_back(some)
                    continue
                left.learn(some, piece)
                done(left.done, left.all)
                yield piece.books
        except BaseException:
            prometheus.interrupt()  # else the other questions are waited for
            raise


def addresses(groups: Iterable[Group]) -> set[str]:
    """The addresses of some groups."""
    return {one for group in groups for one in group.instances}


def _is_too_much(error: NoAnswerError) -> bool:
    """Whether a question of fewer nodes may be answered."""
    is_late = not error.status and not error.absent and not isinstance(error, ClaimedError)
    return is_refused_as_too_much(error) or is_late


class _Left:
    """The nodes that are still to be read, and how many of them are read at once.

    That is as many as there is room for, by how many series a card had so far; fewer where the
    store is slow, or refuses.
    """

    def __init__(self, groups: Sequence[Group], points: int) -> None:
        self.groups, self._points = deque(groups), points
        self.all, self.done = len(addresses(groups)), 0
        self._series, self._room = float(_SERIES), _SAMPLES

    def take(self) -> list[Group]:
        """The next ones."""
        some = [self.groups.popleft()]
        cards, count = len(some[0].cards), len(some[0].instances)
        while self.groups:
            cards += len(self.groups[0].cards)
            count += len(self.groups[0].instances)
            if cards * self._series * self._points > self._room or count > _ADDRESSES:
                break
            some.append(self.groups.popleft())
        return some

    def put_back(self, some: Sequence[Group]) -> None:
        """Takes back what the store refused: less of it is asked next."""
        self.groups.extendleft(reversed(some))
        cards = sum(len(group.cards) for group in some)
        self._room = max(_LEAST, int(cards * self._series * self._points / 2))

    def learn(self, some: Sequence[Group], piece: _Piece) -> None:
        """Learns from what was read."""
        self.done += len(addresses(some))
        cards = max(1, sum(len(group.cards) for group in some))
        self._series = max(1.0, piece.series / cards)
        if piece.seconds > _SLOW_S:
            self._room = max(_LEAST, self._room // 2)
