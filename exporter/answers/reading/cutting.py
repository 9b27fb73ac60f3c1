"""Splits a question about many things into smaller ones where a store refuses it. Pure."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from http import HTTPStatus
from typing import Generic, TypeVar

from exporter.httpclient import NoAnswerError, TooLongError

T = TypeVar("T")
S = TypeVar("S")

# Prometheus answers 422 to too many samples and 503 where its time ran out, Mimir 422 beyond a
# tenant's limits. A proxy before them answers 413 or 504.
_TOO_MUCH = {
    *(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY),
    *(HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT),
}  # how a store refuses what takes it too much memory or time


def is_too_long(error: NoAnswerError) -> bool:
    """Whether the answer is longer than is read: a question of less may have one."""
    return isinstance(error, TooLongError)


def is_too_much(error: NoAnswerError) -> bool:
    """Whether the answer is too long, or the store refuses: a question of less may have one."""
    return is_too_long(error) or error.status in _TOO_MUCH


class Cutter(Generic[T]):
    """Asks of ``most`` things at once; of half as many from an answer on that is too much.

    ``is_cut`` knows such an answer. ``room`` bounds the sum of what ``weigh`` says of each thing.
    """

    def __init__(
        self,
        most: int,
        is_cut: Callable[[NoAnswerError], bool] = is_too_long,
        *,
        weigh: Callable[[T], float] = lambda _: 0.0,
        room: float = 0.0,
    ) -> None:
        self.most = most
        self._is_cut, self._weigh, self._room = is_cut, weigh, room

    def ask(self, things: Iterable[T], question: Callable[[Sequence[T]], S]) -> Iterator[S]:
        """The answers, in the order of the things.

        Raises:
            NoAnswerError: there is none, or that of a single thing is too much.

        """
        left = deque(things)
        while left:
            some = self.take(left)
            try:
                answer = question(some)
            except NoAnswerError as error:
                self.put_back(some, left, error)
                continue
            yield answer

    def take(self, left: deque[T]) -> Sequence[T]:
        """The next things to ask of: one at least."""
        if not self._room:
            return [left.popleft() for _ in range(min(self.most, len(left)))]
        some = [left.popleft()]
        weight = self._weigh(some[0])
        while left and len(some) < self.most:
            weight += self._weigh(left[0])
            if weight > self._room:
                break
            some.append(left.popleft())
        return some

    def put_back(self, some: Sequence[T], left: deque[T], error: NoAnswerError) -> None:
        """Takes things back whose answer was too much; raises all other errors."""
        if len(some) == 1 or not self._is_cut(error):
            raise error
        # They go back in their order: ``ask`` promises the answers in that of the things.
        left.extendleft(reversed(some))
        self.most = min(self.most, len(some) // 2)
