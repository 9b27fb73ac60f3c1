"""The books of a span, a few nodes at a time and side by side: no more is in memory at once."""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from exporter.answers.bill.books import NAMES, UNALLOCATED, Books, Wanted, books_of
from exporter.answers.reading.cutting import Cutter, is_too_much
from exporter.answers.reading.lives import ClaimedError
from exporter.answers.reading.nodegroups import Group, read_fleet
from exporter.answers.reading.nodelabels import read_node_labels
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.reading.ranges import Span
from exporter.answers.reading.storedcounters import INFO, AskedCounters, read_counters
from exporter.httpclient import NoAnswerError

_AT_ONCE = 3  # questions in flight: a store answers some side by side
_SAMPLES = 100_000  # of a piece, about 20 MB
_SERIES = 50  # of a card, until that is known
_ADDRESSES = 50  # in one question, mostly one of each node
_SLOW_S = 20.0  # of a piece: a store stops after 120 s


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
    of: Callable[[str], bool] = lambda _: True,
) -> Iterator[Books]:
    """The books of all cards of a span, of some nodes after others; none where nobody was scraped.

    ``done`` receives how many nodes are read, of how many. ``of``: which nodes are wanted; those
    that are read together with them are in the books, too.

    Raises:
        NoAnswerError: Prometheus does not answer, or two exporters have one card.

    """
    fleet = read_fleet(prometheus, span, [INFO, UNALLOCATED])
    # Without it, as of an older exporter, a card's parts do not add up: ``why_none`` says so.
    if UNALLOCATED not in fleet.names:
        return
    nodes, changed = read_node_labels(prometheus, span, wanted.node_labels)

    def read(instances: Collection[str]) -> _Piece:
        begun_s = time.monotonic()
        stored = read_counters(prometheus, AskedCounters(NAMES, span, fleet, instances, changed))
        books = books_of(stored, nodes, span, wanted)
        return _Piece(books, len(stored.series), time.monotonic() - begun_s)

    series, points = float(_SERIES), len(span.grid.times)  # of a card, as the last piece had them
    cutter = Cutter[Group](
        _ADDRESSES,
        _may_be_less,
        weigh=lambda group: len(group.cards) * series * points,
        room=_SAMPLES,
    )
    left = deque(group for group in fleet.groups if any(map(of, group.nodes)))
    read_so_far, every = 0, len(_addresses(left))
    done(0, every)
    asked: deque[tuple[Sequence[Group], Future[_Piece]]] = deque()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            while left or asked:
                while left and len(asked) < _AT_ONCE:
                    some = cutter.take(left)
                    asked.append((some, pool.submit(read, _addresses(some))))
                some, answer = asked.popleft()
                try:
                    piece = answer.result()
                except NoAnswerError as error:
                    cutter.put_back(some, left, error)
                    continue
                series = max(1.0, piece.series / max(1, sum(len(one.cards) for one in some)))
                if piece.seconds > _SLOW_S:
                    cutter.most = max(1, len(some) // 2)
                read_so_far += len(_addresses(some))
                done(read_so_far, every)
                yield piece.books
        except BaseException:
            prometheus.interrupt()  # else the other questions are waited for
            raise


def _addresses(groups: Iterable[Group]) -> set[str]:
    """The addresses of some groups."""
    return {one for group in groups for one in group.instances}


def _may_be_less(error: NoAnswerError) -> bool:
    """Whether a question of fewer nodes may be answered."""
    # A question whose time ran out has no status, though somebody is there. Two exporters of one
    # card remain two in a smaller question.
    is_late = not error.status and not error.absent and not isinstance(error, ClaimedError)
    return is_too_much(error) or is_late
