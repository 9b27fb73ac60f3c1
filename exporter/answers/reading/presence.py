"""When a card was there: while its UUID was seen, which is not its target's time. Pure.

A page of its node that does not have it ends its time: it was taken out, or the machine is another
one under the same name. While nobody answers, it is there as long as Prometheus knows its target.
A card that its exporter could not read when it was seen last is lost, and not gone: it stays what
it was, until it is seen again or its target is known no longer.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import NamedTuple

from exporter.answers.reading.lives import Life, Scrapes, Target
from exporter.answers.reading.queryapi import OF_SCRAPES, node_of

_AWAY_S = 300  # that a node was not known for
_TIE_S = 1  # by which a store moves the times of one scrape's samples


class Run(NamedTuple):
    """A time in which each page of one life had the card, in Unix seconds."""

    life: Life
    begin_s: float
    first_s: float
    last_s: float
    target: Target
    is_lost: bool


class Presence(NamedTuple):
    """A time in which a card was there, in Unix seconds.

    ``targets``: those that showed it, the last one last. ``is_new``: it came then.
    ``began_s``: since when an exporter was on it, which may be before the range.
    """

    begin_s: float
    end_s: float
    targets: Sequence[Target]
    is_new: bool
    began_s: float


class Known(NamedTuple):
    """When Prometheus knew of a target, whether or not it answered: times, oldest first.

    ``pauses``: where none was for so long that it was not known, as their begins and ends.
    """

    times: Sequence[float]
    pauses: Sequence[tuple[float, float]]

    def is_by(self, unix_s: float) -> bool:
        """Whether it was known by a time: a machine's next target may come long after its last."""
        return bool(self.times) and self.times[0] <= unix_s

    def until(self, unix_s: float) -> float:
        """Until when it was known without a pause after a time."""
        for begin_s, end_s in self.pauses:
            if end_s > unix_s:
                return max(begin_s, unix_s)
        return max(self.times[-1], unix_s) if self.times else unix_s


def runs_of(shown: Sequence[float], pages: Sequence[float]) -> list[tuple[float, float]]:
    """The times in which no page lacks the card; both oldest first."""
    found: list[tuple[float, float]] = []
    for at_s in shown:
        if found and not _between(pages, found[-1][1], at_s):
            found[-1] = found[-1][0], at_s
        else:
            found.append((at_s, at_s))
    return found


def _between(times: Sequence[float], begin_s: float, end_s: float) -> bool:
    at = bisect_right(times, begin_s + _TIE_S)
    return at < len(times) and times[at] < end_s - _TIE_S


class Places:
    """Which targets are of one node: those that name it, where no label of both differs."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._by_node: dict[str, list[Target]] = defaultdict(list)
        for one in targets:
            self._by_node[node_of(dict(one))].append(one)
        self._found: dict[Target, list[Target]] = {}

    def of(self, target: Target) -> Sequence[Target]:
        """The targets of a target's node; it is one of them."""
        if target not in self._found:
            mine = {item for item in target if item[0] not in OF_SCRAPES}
            names = {name for name, _ in mine}
            others = (
                one
                for one in self._by_node.get(node_of(dict(target)), ())
                if one != target
                and all(
                    item in mine or item[0] not in names
                    for item in one - mine
                    if item[0] not in OF_SCRAPES
                )
            )
            self._found[target] = [target, *others]
        return self._found[target]


class Presences:
    """When cards were there in a range.

    ``places``: of the targets that show cards. ``known``: when Prometheus knew of these.
    ``others``: when it knew of any, once a step at most.
    """

    def __init__(
        self,
        scrapes: Scrapes,
        places: Places,
        known: Mapping[Target, Known],
        others: Mapping[Target, Sequence[float]],
        since_s: float,
        until_s: float,
    ) -> None:
        self._scrapes, self._places, self._known = scrapes, places, known
        self._others = others
        self._since_s, self._until_s = since_s, until_s

    def of(self, runs: Sequence[Run]) -> list[Presence]:
        """When a card was there, by the runs of all lives that showed it."""
        order = sorted(runs, key=lambda run: run.first_s)
        found: list[Presence] = []
        for number, run in enumerate(order):
            end_s = self._end(run, order[number + 1] if number + 1 < len(order) else None)
            before = found[-1] if found else None
            is_together = before is not None and run.begin_s <= before.end_s
            if before is not None and is_together and not self._is_moved(order[number - 1], run):
                targets = [*before.targets, run.target]
                found[-1] = before._replace(end_s=max(before.end_s, end_s), targets=targets)
                continue
            if before is not None and is_together:  # it is in its new node, and so not in the old
                found[-1] = before._replace(end_s=run.begin_s)
            is_new = run.begin_s > self._since_s
            found.append(Presence(run.begin_s, end_s, [run.target], is_new, run.begin_s))
        clipped = (
            one._replace(
                begin_s=max(one.begin_s, self._since_s), end_s=min(one.end_s, self._until_s)
            )
            for one in found
        )
        return [one for one in clipped if one.end_s > one.begin_s]

    def _is_moved(self, run: Run, following: Run) -> bool:
        """Whether a card stands in another node. A life under another name stays where it was."""
        return run.life != following.life and following.target not in self._places.of(run.target)

    def _end(self, run: Run, following: Run | None) -> float:
        """Until when the card was there: until the next run, if it never left its node."""
        places = self._places.of(run.target)
        # The first page of its node after it, by any life, which does not have it.
        without_s = inf
        for target in () if run.is_lost else places:
            times, lives = self._scrapes.of(target)
            at = bisect_right(times, run.last_s + _TIE_S)
            if at < len(times):
                # What began in between, and does not have it, began without it.
                start_s = lives[at].start_s
                is_between = start_s is not None and run.last_s < start_s < times[at]
                without_s = min(without_s, start_s if start_s and is_between else times[at])
        known = (
            self._known[one].until(run.last_s)
            for one in places
            if one in self._known
            and (one == run.target or self._known[one].is_by(run.last_s + _AWAY_S))
        )
        known_s = max(run.last_s, max(known, default=0.0))
        if (
            following is not None
            and following.target in places
            and without_s >= following.begin_s - _TIE_S
            and (following.life == run.life or not self._was_away(places, known_s, following))
        ):
            return max(run.last_s, following.begin_s)
        return max(run.last_s, min(known_s, without_s))

    def _was_away(self, places: Sequence[Target], known_s: float, following: Run) -> bool:
        """Whether its node was gone before a run, and not the Prometheus that had its targets."""
        if known_s >= following.begin_s - _AWAY_S:
            return False
        others = [times for target, times in self._others.items() if target not in places]
        middle_s = (known_s + following.begin_s) / 2
        return not others or any(
            times and abs(nearest(times, middle_s) - middle_s) < middle_s - known_s
            for times in others
        )


def nearest(times: Sequence[float], unix_s: float) -> float:
    """The nearest of some times, oldest first, to one."""
    at = bisect_left(times, unix_s)
    return min(times[max(0, at - 1) : at + 1], key=lambda each: abs(each - unix_s))


def gap_is_counted(
    clock: Sequence[tuple[float, float]], begin_s: float, end_s: float, slack_s: float
) -> bool:
    """Whether the card's own clock went on in a gap. ``clock``: when it stood where."""
    times = [at for at, _ in clock]
    before, after = bisect_right(times, begin_s + _TIE_S) - 1, bisect_left(times, end_s - _TIE_S)
    if before < 0 or after >= len(clock):
        return False
    return clock[after][1] - clock[before][1] >= end_s - begin_s - slack_s
