"""Which run of an exporter answered a scrape: a life, whatever labels its target has.

A life is one run of an exporter's process on its cards. It is known by when the process started,
which is on each page, and by the cards' UUIDs. Labels prove nothing: a reload of Prometheus renames
a target, and two jobs or two replicas of a Prometheus read one exporter under two names. Where
``process_start_time_seconds`` is not stored, a life is a target until its counters begin again.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import combinations
from math import inf
from re import escape
from typing import NamedTuple

from exporter.answers.reading.queryapi import OWN, Labels
from exporter.httpclient import NoAnswerError

_OF_A_NODE = {"instance", "pod", "node", "container", "namespace", "service", "endpoint"}

START = "process_start_time_seconds"
CYCLES = "mgpu_exporter_cycles_total"  # falls when the exporter restarts, and stands on each page
_DRIFT_S = 1  # by which a stored start differs from scrape to scrape, without another process
_MOST_CYCLES_A_S, _MOST_CYCLES = 2, 600  # that a new process can have counted
OVERLAP_S = 300
"""How long two lives may have one card, in seconds: one is replaced by the other."""


Target = frozenset[tuple[str, str]]
"""All labels that a Prometheus gave a target, whatever it calls them."""


def target_of(labels: Labels) -> Target:
    """The target of a series that has no labels of its own."""
    return frozenset(item for item in labels.items() if item[0] != "__name__")


class Life(NamedTuple):
    """One run of an exporter: when it started, in Unix seconds.

    Where that is not known it is the first, second, … ``run`` of a target.
    """

    start_s: float | None
    target: Target = frozenset()
    run: int = 0

    def is_since(self, unix_s: float) -> bool:
        """Whether it is known to have started at this time or later."""
        return self.run > 1 if self.start_s is None else self.start_s >= unix_s


class OfLife(NamedTuple):
    """Those samples of a series that are of a life, as a target of it has them.

    ``times``: when they were read. ``numbers``: which of all they are; empty if all.
    """

    life: Life
    target: Target
    times: Sequence[float]
    numbers: Sequence[int]

    def of(self, values: Sequence[float]) -> Sequence[float]:
        """Their values, of those of the series."""
        return [values[number] for number in self.numbers] if self.numbers else values


class Index:
    """Which targets the series of the exporters' families may be of.

    A Prometheus that honours a page's labels drops a target's labels of the same names. So a series
    has some labels of its target, and several targets may differ in the others only.
    """

    def __init__(self, targets: Iterable[Target]) -> None:
        self._targets = tuple(targets)
        self._by: dict[frozenset[str], dict[Target, list[Target]]] = {}
        self._found: dict[tuple[_Names, tuple[str, ...]], Sequence[Target]] = {}

    def of(self, labels: Labels) -> Sequence[Target]:
        """The targets that a series may be of."""
        if not self._targets:  # those of a range are known once it is read
            return ()
        names = _names(labels.get("__name__", ""), tuple(labels))
        # A node has thousands of series, and most have the same labels of their target.
        key = names, tuple([labels[name] for name in names.visible])
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._find(names.hidden, self.visible(labels))
        return found

    def _find(self, hidden: frozenset[str], visible: Target) -> Sequence[Target]:
        if hidden not in self._by:
            by: dict[Target, list[Target]] = defaultdict(list)
            for target in self._targets:
                by[frozenset(item for item in target if item[0] not in hidden)].append(target)
            self._by[hidden] = by
        known = self._by[hidden]
        if visible in known:
            return known[visible]
        # An exporter of another version may give a family one label more.
        less = [targets for those, targets in known.items() if those < visible]
        return [target for targets in less for target in targets]

    def visible(self, labels: Labels) -> Target:
        """The labels of a series that are its target's."""
        names = _names(labels.get("__name__", ""), tuple(labels))
        return frozenset((name, labels[name]) for name in names.visible)


class _Names(NamedTuple):
    """Names of a series' labels: those of the exporter that keep theirs, and its target's."""

    hidden: frozenset[str]
    visible: tuple[str, ...]


@lru_cache(maxsize=1000)
def _names(family: str, labels: tuple[str, ...]) -> _Names:
    """Whose the labels of a family's series are."""
    own = OWN.get(family, frozenset())
    own |= {name for name in labels if name.startswith("label_")}  # a pod's, by --pods.labels
    renamed = frozenset(name for name in own if f"exported_{name}" in labels)
    of_exporter = {"__name__", *own - renamed, *(f"exported_{name}" for name in renamed)}
    return _Names(own - renamed, tuple(name for name in labels if name not in of_exporter))


class ClaimedError(NoAnswerError):
    """Two lives have one card, or one set of labels: nobody knows whose figures are true."""


class Scrapes:
    """When each target was scraped, and which life answered, as far as that is read."""

    def __init__(self) -> None:
        self._starts: dict[Target, dict[float, float]] = defaultdict(dict)
        self._cycles: dict[Target, dict[float, float]] = defaultdict(dict)
        self._known: dict[Target, tuple[list[float], list[Life]]] = {}
        self._lives: dict[Target, frozenset[Life]] = {}
        self._merged: dict[
            tuple[Target, ...], tuple[Sequence[float], Sequence[tuple[Life, Target]]]
        ] = {}
        self._divided: dict[tuple[tuple[Target, ...], Sequence[float]], Sequence[OfLife]] = {}

    @property
    def targets(self) -> set[Target]:
        """All targets that are known."""
        # Any program has a start of its process: who counts cycles is an exporter.
        return set(self._cycles)

    def when(self, target: Target) -> Collection[float]:
        """The times at which it is known to have been scraped, without an order."""
        return self._cycles.get(target, ())

    def take(self, labels: Labels, samples: Iterable[tuple[float, float]]) -> None:
        """Takes samples of one of the two families that distinguish lives."""
        target, name = target_of(labels), labels.get("__name__")
        if name in {START, CYCLES}:
            known = self._starts if name == START else self._cycles
            known[target].update(samples)
            self._forget(target)

    def let_go(self, target: Target, ends: Iterable[float]) -> None:
        """Lets go of what stands for scrapes at these times."""
        for unix_s in ends:
            self._starts[target].pop(unix_s, None)
            self._cycles[target].pop(unix_s, None)
        self._forget(target)

    def _forget(self, target: Target) -> None:
        self._known.pop(target, None)
        self._lives.pop(target, None)
        self._merged.clear()
        self._divided.clear()

    def of(self, target: Target) -> tuple[Sequence[float], Sequence[Life]]:
        """The times of its scrapes, oldest first, and which life answered each."""
        if target in self._known:
            return self._known[target]
        # A start time that drifts a little is the same process: the wall clock was corrected. Where
        # it is missing, cycles that fell show another process.
        starts, cycles = self._starts[target], self._cycles[target]
        times = sorted(starts.keys() | cycles.keys())
        lives: list[Life] = []
        run, cycle = 0, 0.0
        for at in times:
            fell = cycles.get(at, cycle) < cycle
            cycle = cycles.get(at, cycle)
            if at in starts:
                before_s = lives[-1].start_s if lives and not fell else None
                drifts = before_s is not None and abs(starts[at] - before_s) <= _DRIFT_S
                lives.append(lives[-1] if drifts else Life(starts[at]))
            elif lives and not fell:
                lives.append(lives[-1])
            else:
                run += 1
                lives.append(Life(None, target, run))
        self._known[target] = times, lives
        return times, lives

    def averaged(self) -> str:
        """What shows that the samples are averages of several; "" if nothing does.

        A start that lies between two others is no start of a process where that had counted more
        cycles than there was time for: it is the mean of both, and so are its counts.
        """
        for target, starts in self._starts.items():
            cycles = self._cycles.get(target, {})
            if any(value != int(value) for value in cycles.values()):
                return f"{CYCLES} of {name_of(target)} is no whole number"
            known = sorted(at for at in starts if at in cycles)
            for before, at, after in zip(known, known[1:], known[2:], strict=False):
                one, mean, other = starts[before], starts[at], starts[after]
                between = one + _DRIFT_S < mean < other - _DRIFT_S
                most = _MOST_CYCLES_A_S * (at - before) + _MOST_CYCLES
                if between and cycles[at] > most and cycles[after] < cycles[at]:
                    return f"{START} of {name_of(target)} is {mean:.0f} between two restarts"
        return ""

    def ordered(self, targets: Iterable[Target]) -> list[Target]:
        """The targets by how they were scraped, and not by their labels, as far as that differs."""

        def rank(target: Target) -> tuple[object, ...]:
            read = sorted(self._cycles[target].items())
            return -len(self.of(target)[0]), read, sorted(target)

        return sorted(targets, key=rank)

    def same_life(self, target: Target, one_s: float, later_s: float) -> bool:
        """Whether it was scraped by the first time, and one life answered then and later."""
        times, lives = self.of(target)
        one, later = bisect_right(times, one_s) - 1, bisect_right(times, later_s) - 1
        return one >= 0 and lives[one] == lives[later]

    def which(self, targets: Sequence[Target], unix_s: float) -> tuple[Life, Target] | None:
        """Which of some targets was scraped at this time, and the life that answered.

        None if none of them was there yet.
        """
        key = tuple(targets)
        if key not in self._merged:
            every = [
                (at, (life, target))
                for target in key
                for at, life in zip(*self.of(target), strict=True)
            ]
            merged = sorted(every, key=lambda each: each[0])
            self._merged[key] = [at for at, _ in merged], [answer for _, answer in merged]
        times, answers = self._merged[key]
        if not times:
            return None
        at = bisect_right(times, unix_s)
        # Targets of one address come one after another: the nearest scrape is of the one meant. A
        # store may give a sample a time just before that of its scrape.
        near = (each for each in (at - 1, at) if 0 <= each < len(times))
        at = min(near, key=lambda each: abs(times[each] - unix_s))
        life, target = answers[at]
        if times[at] > unix_s and (life.start_s is None or life.start_s > unix_s):
            return answers[at - 1] if at else None
        return life, target

    def divided(self, targets: Sequence[Target], times: Sequence[float]) -> Sequence["OfLife"]:
        """The samples of a series by the life that was scraped at their times, oldest first.

        Where its labels do not say which of several targets of that life it is of, each has them.
        The series of a page have the same times, and are divided alike: that is found once.
        """
        key = tuple(targets), times
        found = self._divided.get(key)
        if found is None:
            found = self._divided[key] = list(self._divide(*key)) if times else []
        return found

    def _divide(self, targets: Sequence[Target], times: Sequence[float]) -> "Iterator[OfLife]":
        lives = [self._lives_of(target) for target in targets]
        every = frozenset[Life]().union(*lives)
        by: dict[Life, list[int]] = defaultdict(list)
        firsts = (self.of(one)[0][0] for one, of in zip(targets, lives, strict=True) if of)
        if len(every) == 1 and times[0] >= min(firsts):
            by[next(iter(every))] = list(range(len(times)))
        else:
            for number, at_s in enumerate(times):
                found = self.which(targets, at_s)
                if found is not None:
                    by[found[0]].append(number)
        for life, numbers in by.items():
            is_whole = len(numbers) == len(times)
            some = times if is_whole else tuple(times[number] for number in numbers)
            for target, of in zip(targets, lives, strict=True):
                if life in of:
                    yield OfLife(life, target, some, () if is_whole else numbers)

    def _lives_of(self, target: Target) -> frozenset[Life]:
        if target not in self._lives:
            self._lives[target] = frozenset(self.of(target)[1])
        return self._lives[target]

    def by_life(self, targets: Iterable[Target]) -> dict[Life, dict[Target, list[float]]]:
        """When each life was scraped, by target."""
        found: dict[Life, dict[Target, list[float]]] = defaultdict(lambda: defaultdict(list))
        for target in targets:
            for at, life in zip(*self.of(target), strict=True):
                found[life][target].append(at)
        return found


def check(
    what: str, lives: Mapping[Life, Mapping[Target, Sequence[float]]], most_s: float = OVERLAP_S
) -> None:
    """Refuses lives that were there at one time for longer than one takes to replace another.

    Raises:
        ClaimedError: it names both, and what to do.

    """
    # When each life was scraped first and last, by any target.
    bounds = {
        life: (min(one[0] for one in times.values()), max(one[-1] for one in times.values()))
        for life, times in lives.items()
    }
    # Which two are named follows from their times, and not from the order of an answer.
    for one, other in combinations(sorted(lives, key=lambda life: bounds[life]), 2):
        together_s = min(bounds[one][1], bounds[other][1]) - max(bounds[one][0], bounds[other][0])
        if together_s > most_s:
            raise ClaimedError(
                f"{what}: {_described(one, lives[one])}, and {_described(other, lives[other])}. "
                f"{_remedy(lives[one], lives[other])}"
            )


def _described(life: Life, targets: Iterable[Target]) -> str:
    target = min(targets, key=sorted)
    if life.start_s is None:
        return f"{name_of(target)} (without {START})"
    started = datetime.fromtimestamp(life.start_s, UTC)
    return f"{name_of(target)} (started {started:%Y-%m-%dT%H:%M:%SZ})"


def _remedy(one: Iterable[Target], other: Iterable[Target]) -> str:
    """What to do about two lives."""
    if set(one) & set(other):
        return (
            "Give each target a label of its own, such as instance, and bill from then on: what is "
            "stored under one name cannot be separated"
        )
    ones, others = (dict(min(targets, key=sorted)) for targets in (one, other))
    differ = sorted(name for name in ones.keys() | others if ones.get(name) != others.get(name))
    # What names a place of several nodes, such as a cluster, says more than an address does.
    name = min(differ, key=lambda each: (each != "job", each in _OF_A_NODE, each))
    flag = f"--{name}" if name == "job" else f"--target={name}"
    both = " or ".join(sorted(f"{flag}={escape(one.get(name, ''))}" for one in (ones, others)))
    return f"Say which is yours ({both}), and find out who runs the other"


def name_of(target: Target) -> str:
    """How a target is named to people: its job and address, or all its labels."""
    labels = dict(target)
    place = "/".join(filter(None, (labels.get("job"), labels.get("instance"))))
    return place or ", ".join(f"{name}={value}" for name, value in sorted(target)) or "a target"


class Stretch(NamedTuple):
    """A time in which one target's scrapes are counted, in Unix seconds, both ends included."""

    begin_s: float
    end_s: float
    target: Target

    def of(self, times: Sequence[float]) -> Sequence[float]:
        """Those of these times that are in it."""
        return times[bisect_left(times, self.begin_s) : bisect_right(times, self.end_s)]


def stretches_of(
    scrapes: Mapping[Target, Sequence[float]], order: Sequence[Target], pause_s: float
) -> list[Stretch]:
    """The scrapes of one life that are counted: at each time those of one target.

    Of two at one time the first in ``order`` is. Another target takes over where one pauses for
    longer than ``pause_s``, or ends. What two of them scraped at nearly the same time may be in
    another order, as each has a clock of its own.
    """
    found: list[Stretch] = []
    current: Target | None = None
    after_s = -inf
    while True:
        following = [
            (scrapes[target][at], rank, target)
            for rank, target in enumerate(order)
            if target in scrapes
            and (at := bisect_right(scrapes[target], after_s)) < len(scrapes[target])
        ]
        if not following:
            return found
        goes_on = [
            each for each in following if each[2] == current and each[0] - after_s <= pause_s
        ]
        begin_s, _, current = min(goes_on or following)
        times = scrapes[current]
        last = bisect_left(times, begin_s)
        while last + 1 < len(times) and times[last + 1] - times[last] <= pause_s:
            last += 1
        after_s = times[last]
        found.append(Stretch(begin_s, after_s, current))
