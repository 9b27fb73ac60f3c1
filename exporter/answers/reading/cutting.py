"""One way to ask of many things: of fewer at once where an answer would be too long. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from exporter.httpclient import TooLongError

T = TypeVar("T")
S = TypeVar("S")


class Cutter:
    """Asks of ``at_once`` things at once; of half as many from an answer on that is too long."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once

    def ask(self, things: Sequence[T], question: Callable[[Sequence[T]], S]) -> Iterator[S]:
        """The answers, in the order of the things.

        Raises:
            TooLongError: that of a single thing is too long.

        """
        begin = 0
        while begin < len(things):
            some = things[begin : begin + self.at_once]
            try:
                answer = question(some)
            except TooLongError:
                if len(some) == 1:
                    raise
                self.at_once = len(some) // 2
                continue
            yield answer
            begin += len(some)
