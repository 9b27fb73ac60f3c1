"""Who bore a name, and when: the owners of pods, the labels of nodes, the models of cards. Pure.

A name is a bearer's for a time. What was seen under it says from when until when.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Seen(NamedTuple, Generic[T]):
    """A bearer, and when it was seen first and last, in Unix seconds."""

    first_s: float
    last_s: float
    bearer: T


class Bearers(Generic[T]):
    """The bearers of one name, one after another."""

    def __init__(self, samples: Iterable[tuple[float, T]]) -> None:
        """``samples``: when each was seen."""
        # Of two that were seen at one time the one that came later is meant: the other is what a
        # step of time still remembers.
        came: dict[T, float] = {}
        at: dict[float, T] = {}
        for at_s, bearer in sorted(samples, key=lambda each: each[0]):
            came.setdefault(bearer, at_s)
            before = at.get(at_s)
            if before is None or came[before] < came[bearer]:
                at[at_s] = bearer
        found: list[Seen[T]] = []
        for at_s, bearer in at.items():
            if found and found[-1].bearer == bearer:
                found[-1] = found[-1]._replace(last_s=at_s)
            else:
                found.append(Seen(at_s, at_s, bearer))
        self.seen: Sequence[Seen[T]] = found
        self._begins = [one.first_s for one in found]

    def at(self, unix_s: float) -> T | None:
        """Who bore it at this time; where nobody was seen, who was seen nearest to it."""
        if not self.seen:
            return None
        at = bisect_right(self._begins, unix_s) - 1
        if at < 0:
            return self.seen[0].bearer
        one = self.seen[at]
        if at + 1 < len(self.seen):
            after_s = self.seen[at + 1].first_s - unix_s
            if unix_s > one.last_s and after_s < unix_s - one.last_s:
                return self.seen[at + 1].bearer
        return one.bearer

    def within(self, begin_s: float, end_s: float) -> Sequence[Seen[T]]:
        """Those who were seen in this time, both ends included."""
        first = bisect_left([one.last_s for one in self.seen], begin_s)
        return self.seen[first : bisect_right(self._begins, end_s)]
