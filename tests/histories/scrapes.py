"""What a store takes of a history: pages as each target's scrapes had them."""

from collections.abc import Iterator, Mapping

from tests import store
from tests.histories.page import Exporter, Own, is_at, told
from tests.histories.promql import Labels
from tests.histories.values import History, Target

TOLD_EVERY_S = 60

_FOREIGN: Mapping[Own, float] = {
    (("__name__", "process_start_time_seconds"),): 1_700_000_000.0,
    (("__name__", "node_load1"),): 0.5,
}

Scrape = tuple[object, Mapping[Labels, float], float]
"""Who showed it, the series as they are stored, and when."""


def scrapes(history: History, *, gauges: bool = False) -> Iterator[Scrape]:
    """All scrapes that are within the retention, oldest first; with gauges or without."""
    events: list[tuple[float, int]] = []
    for number, target in enumerate(history.targets):
        events += [(at_s, number) for at_s in target.times]
        events.append((target.there.end_s, number))
    pages = _Pages(history, gauges=gauges)
    named = [_Named(target) for target in history.targets]
    told_s = max(history.since_s - 3600, history.kept_from_s)
    for at_s, number in sorted(events):
        if at_s < history.kept_from_s:
            continue
        while told_s <= at_s:
            yield "told", _told(history, told_s), told_s
            told_s += TOLD_EVERY_S
        target = history.targets[number]
        if at_s == target.there.end_s:
            yield number, {}, at_s
            continue
        page = _FOREIGN if target.foreign else pages.of(target.machine, at_s)
        if target.behind_s:
            page = pages.before(target.machine, at_s - target.behind_s)
        if page is not None and target.forged:
            page = _forged(page, *target.forged)
        if page is not None and target.adopts:
            page = {_adopted(own, target.adopts): value for own, value in page.items()}
        yield number, named[number].stored(page), at_s


def _told(history: History, unix_s: float) -> dict[Labels, float]:
    found = {}
    for cluster, series in told(history, unix_s):
        target = store.Target({**history.tells, **cluster}, honors=False)
        found[target.label(dict(series))] = 1.0
    return found


_Copies = list[tuple[float, Mapping[Own, float] | None]]
"""Pages, and when they were shown."""


class _Pages:
    """The pages of all runs, each rendered once."""

    def __init__(self, history: History, *, gauges: bool) -> None:
        self._history, self._has_gauges = history, gauges
        self._exporters: dict[int, Exporter] = {}
        self._last: dict[str, tuple[float, Mapping[Own, float] | None]] = {}
        self._copied = {one.machine: _Copies() for one in history.targets if one.behind_s}

    def of(self, machine: str, at_s: float) -> Mapping[Own, float] | None:
        """The page of a machine's exporter; None where none answers."""
        if self._last.get(machine, (None, None))[0] != at_s:
            self._last[machine] = at_s, self._render(machine, at_s)
            if machine in self._copied:
                self._copied[machine].append(self._last[machine])
        return self._last[machine][1]

    def before(self, machine: str, at_s: float) -> Mapping[Own, float] | None:
        """The last of its pages that were shown by a time."""
        copies = self._copied[machine]
        while len(copies) > 1 and copies[1][0] <= at_s:
            del copies[0]
        return copies[0][1] if copies and copies[0][0] <= at_s else None

    def _render(self, machine: str, at_s: float) -> Mapping[Own, float] | None:
        for number, run in enumerate(self._history.runs):
            if run.machine == machine and is_at(run.there, at_s):
                if number not in self._exporters:
                    self._exporters[number] = Exporter(self._history, run, gauges=self._has_gauges)
                return self._exporters[number].page(at_s)
        return None


class _Named:
    """The series of one target as they are stored."""

    def __init__(self, target: Target) -> None:
        self._target = store.Target(target.labels, target.honors)
        self._labels: dict[Own, Labels] = {}
        self._up = self._target.label({"__name__": "up"})

    def stored(self, page: Mapping[Own, float] | None) -> dict[Labels, float]:
        found = {}
        for own, value in () if page is None else page.items():
            if own not in self._labels:
                self._labels[own] = self._target.label(dict(own))
            found[self._labels[own]] = value
        found[self._up] = float(page is not None)
        return found


def _forged(page: Mapping[Own, float], tenant: str, victim: str) -> dict[Own, float]:
    """A page whose writer gives what it has to another, half as much again."""
    found = {}
    for own, value in page.items():
        labels = dict(own)
        if labels.get("namespace") == tenant:
            mine = tuple((k, victim if k == "namespace" else v) for k, v in own)
            found[mine] = value * (1.5 if labels["__name__"].endswith("_total") else 1.0)
        elif labels.get("namespace") != victim:
            found[own] = value
    return found


def _adopted(own: Own, owner: str) -> Own:
    """A pod's own series with another owner."""
    return tuple((k, owner if k == "owner_name" else v) for k, v in own)
