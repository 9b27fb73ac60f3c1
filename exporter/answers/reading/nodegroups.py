"""What is asked once of all exporters of a span, and which of them have to be read together.

A bill reads a few nodes at a time. What binds nodes to one another:

- a card that moved, or that two targets show: its UUID was seen under both addresses, and its time
  goes from the one to the other;
- the targets of one node: a page of it without a card ends the card's time;
- an address: its targets may differ in labels that their series do not show.

A pod on several nodes binds nothing: each node's page names the owners of the pods on its cards,
and only these count. Nor do runs of exporters that started at one time: they differ in
their cards. Who is down everywhere at once is known by ``up``, which is asked of all.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from re import compile as pattern
from re import escape

from exporter.answers.reading.lives import CYCLES, START, Target, target_of
from exporter.answers.reading.queryapi import (
    MAX_POINTS,
    NODE_LABELS,
    Labels,
    Prometheus,
    Series,
    node_of,
    quoted,
)
from exporter.answers.reading.ranges import Span

PLACE = pattern(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
"""In a UUID of its PCI address, which a card of another node has, too."""

STALE_S = 300  # before a time, where Prometheus finds the last scrape
UP_OF_TARGET = "up"  # of a target, by Prometheus itself
DOWN = "[86400s:300s]"
"""So far back the last page of an exporter is looked for that is down as a range begins.

A bill is read day by day: what is down over midnight would else be nowhere until it is back. A
machine that has not answered for longer was taken away, though somebody may still ask for it.
"""
_USUAL_S = 1800  # over which scrapes are counted
_LATE = 1.2  # of the usual time between two scrapes
_SELDOM_S = 120  # the longest usual time between two scrapes
_UUIDS = ("uuid", "exported_uuid")
_SHOWN = ", ".join(("__name__", "job", "instance", *_UUIDS, *NODE_LABELS))


@dataclass(slots=True)
class Group:
    """Addresses that are read together, the UUIDs that they show, and the names of their nodes."""

    instances: set[str] = field(default_factory=set)
    cards: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class ScrapedFleet:
    """The exporters of a span.

    ``names``: their families that were found. ``jobs``: who scrapes them. ``up``: when Prometheus
    knew of each target. ``fell``: in which steps a target began again. ``at_end``: the targets that
    are there at the end. ``old``: those whose last scrape before the range was long before it: a
    gap began there, and what they counted from then on is not all of the range. ``down``: the
    addresses that Prometheus knew as the range began, and that had not answered for some minutes.
    """

    names: Collection[str]
    jobs: Collection[str]
    groups: Sequence[Group]
    up: Mapping[Target, Sequence[float]]
    fell: Mapping[Target, Collection[int]]
    at_end: Collection[Target]
    old: Collection[Target]
    down: Collection[str]

    @property
    def cycles(self) -> str:
        """The family that stands for a scrape: somebody may drop what exporters say of themselves.

        Then it is the start of their process, which is on each page, too.
        """
        return CYCLES if CYCLES in self.names else START

    @property
    def matcher(self) -> str:
        """The matcher of their jobs."""
        return f"job=~{quoted('|'.join(map(escape, sorted(self.jobs))))}"


def read_fleet(prometheus: Prometheus, span: Span, families: Sequence[str]) -> ScrapedFleet:
    """The exporters of a span; ``families``: those of which each card shows one."""
    shown = prometheus.selector([*families, CYCLES])
    found = [
        *prometheus.over(
            f"count by ({_SHOWN}) ({last(shown, span.step_s)})", span.grid, MAX_POINTS
        ),
        *prometheus.at(f"count by ({_SHOWN}) ({shown})", span.since_s),
    ]
    shows = [one.labels for one in found]
    down = _down(prometheus, span, {labels.get("job", "") for labels in shows})
    if down:
        of_these = f"instance=~{quoted('|'.join(sorted(map(escape, down))))}"
        before = f"last_over_time({prometheus.selector([*families, CYCLES], of_these)}{DOWN})"
        away = prometheus.at(f"count by ({_SHOWN}) ({before})", span.since_s)
        shows += [one.labels for one in away]
    names = {labels.get("__name__", "") for labels in shows}
    jobs = {labels.get("job", "") for labels in shows}
    fleet = ScrapedFleet(names, jobs, groups_of(shows), {}, {}, (), (), down)
    if not shows:
        return fleet
    cycles = prometheus.selector([fleet.cycles], fleet.matcher)
    ups = prometheus.selector([UP_OF_TARGET], fleet.matcher)
    up: dict[Target, set[float]] = defaultdict(set)
    until_s = float(span.until_s)
    for one in prometheus.over(last(ups, span.step_s), span.grid, MAX_POINTS):
        # The last step of the grid may end after the range.
        up[target_of(one.labels)].update(min(at, until_s) for at in one.times)
    for one in prometheus.at(ups, until_s):
        up[target_of(one.labels)].add(until_s)
    fell: dict[Target, set[int]] = defaultdict(set)
    for one in _began_again(prometheus, span, fleet, cycles):
        fell[target_of(one.labels)] |= {span.step_of(at) for at in one.times}
    at_end = {target_of(one.labels) for one in prometheus.at(cycles, until_s)}
    known = {target: sorted(times) for target, times in up.items()}
    # The last scrape is old if it is older than two minutes, and than the usual time between two.
    age_s = f"({span.since_s} - timestamp({cycles}))"
    usual_s = f"{_USUAL_S} / count_over_time({cycles}[{_USUAL_S}s])"
    late = prometheus.at(f"{age_s} > {_SELDOM_S} and {age_s} > {_LATE} * {usual_s}", span.since_s)
    old = {target_of(one.labels) for one in late}
    return ScrapedFleet(names, jobs, fleet.groups, known, fell, at_end, old, down)


def _down(prometheus: Prometheus, span: Span, jobs: Collection[str]) -> set[str]:
    """The addresses that were known as the range began, and had not answered for some minutes.

    ``jobs``: those of the exporters that are known. Where none is, it is asked who had any before.
    """
    if not jobs:
        pages = prometheus.selector([CYCLES])
        before = prometheus.at(f"count by (job) (last_over_time({pages}{DOWN}))", span.since_s)
        jobs = {one.labels.get("job", "") for one in before}
    if not jobs:
        return set()
    of_jobs = f"job=~{quoted('|'.join(map(escape, sorted(jobs))))}"
    up, pages = (prometheus.selector([name], of_jobs) for name in (UP_OF_TARGET, CYCLES))
    # By the whole target: exporters of two clusters may have one address.
    found = prometheus.at(f"{up} == 0 unless {pages}", span.since_s)
    return {one.labels.get("instance", "") for one in found}


def _began_again(
    prometheus: Prometheus, span: Span, fleet: ScrapedFleet, cycles: str
) -> list[Series]:
    # Another life may have begun and ended within a step, and so may one whose start nobody
    # stored. The one before it may have been scraped last before the step.
    start = prometheus.selector([START], fleet.matcher)
    changed = f"changes({start}[{span.step_s}s]) and {last(cycles, span.step_s)}"
    fell = f"resets({cycles}[{span.step_s + STALE_S}s])"
    return prometheus.over(f"({changed} or {fell}) > 0", span.grid, MAX_POINTS)


def groups_of(known: Iterable[Labels]) -> list[Group]:
    """The addresses that have to be read together, by the labels of what they show."""
    above: dict[tuple[str, str], tuple[str, str]] = {}  # what binds, as a forest

    def root(mark: tuple[str, str]) -> tuple[str, str]:
        while above.setdefault(mark, mark) != mark:
            above[mark] = mark = above[above[mark]]
        return mark

    for labels in known:
        first, *others = _marks(labels)
        for other in others:
            above[root(other)] = root(first)
    found: dict[tuple[str, str], Group] = defaultdict(Group)
    for mark in above:
        kind, text = mark
        group = found[root(mark)]
        {"address": group.instances, "card": group.cards, "node": group.nodes}[kind].add(text)
    return sorted(found.values(), key=lambda group: sorted(group.instances))


def _marks(labels: Labels) -> Iterator[tuple[str, str]]:
    """What a series shows that binds it to others."""
    yield "address", labels.get("instance", "")
    yield "node", node_of(labels)
    for name in _UUIDS:
        uuid = labels.get(name, "")
        if uuid and not PLACE.search(uuid):  # which a card of another node has, too
            yield "card", uuid


def last(selector: str, seconds: int) -> str:
    """The last sample of each step."""
    return f"last_over_time({selector}[{seconds}s])"
