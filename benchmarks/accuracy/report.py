"""Errors to tables, and whether the goal is met."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks.accuracy.readers import Ours
from benchmarks.accuracy.run import SCRAPES_S, Error
from benchmarks.accuracy.scenarios import CASES
from exporter.agent.simulation.description import SampleRule

Found = Mapping[tuple[str, str], Sequence[Error]]  # by scenario and rule, all seeds together

MEAN_GOAL, MEAN_FLOORS = 0.03, 1.2
TAIL_GOAL, TAIL_FLOORS = 0.08, 2.5
TAIL = 0.95
RECORDED = (SampleRule.LAST, SampleRule.RANDOM)  # rules that fit the recordings of real boards


class Quality(NamedTuple):
    """How far off one reader is: mean and 95th percentile of the relative errors."""

    mean: float
    tail: float
    floor: float
    met: bool

    def __str__(self) -> str:
        return f"{self.mean:.1%} / {self.tail:.1%}"


def within_reach(case: str, rule: str) -> bool:
    """Whether what the driver gives is enough to meet the goal."""
    return not CASES[case].reason(rule)


def quality(errors: Iterable[Error]) -> Quality | None:
    """Mean and tail, and whether the goal is met, each container held against its own floor."""
    known = sorted(errors, key=lambda error: error.error)
    if not known:
        return None
    count = len(known)
    mean = sum(e.error for e in known) / count
    wanted = sum(max(MEAN_GOAL, MEAN_FLOORS * e.floor) for e in known) / count
    beyond = sum(e.error > max(TAIL_GOAL, TAIL_FLOORS * e.floor) for e in known)
    return Quality(
        mean,
        known[math.ceil(TAIL * count) - 1].error,
        sum(e.floor for e in known) / count,
        met=mean <= wanted and beyond <= (1 - TAIL) * count,
    )


def of(errors: Sequence[Error], reader: str, quantity: str, minutes: int) -> Quality | None:
    """One cell of a table; of the exporter, the worst scrape interval."""
    cells = [
        quality(
            e
            for e in errors
            if (e.reader, e.quantity, e.minutes, e.scrape_s) == (reader, quantity, minutes, scrape)
        )
        for scrape in (SCRAPES_S if reader in Ours.names else (0,))
    ]
    known = [cell for cell in cells if cell]
    if not known:
        return None
    worst = max(known, key=lambda cell: cell.mean)
    return worst._replace(met=all(cell.met for cell in known))


def table(found: Found, quantity: str, minutes: int) -> str:
    """One table in Markdown: a row for each scenario and rule, a column for each reader."""
    errors = [e for part in found.values() for e in part if e.quantity == quantity]
    names = list(dict.fromkeys(e.reader for e in errors))
    heads = ["scenario", "rule", "floor", *names, "goal"]
    rows = []
    for (case, rule), part in found.items():
        cells = {name: of(part, name, quantity, minutes) for name in names}
        ours = cells[Ours.name]
        if ours:
            numbers = [str(cells[name] or "") for name in names]
            rows.append([case, rule, f"{ours.floor:.1%}", *numbers, _verdict(case, rule, ours)])
    rules = dict.fromkeys(rule for _, rule in found)
    rows += [_worst(found, rule, names, quantity, minutes) for rule in rules]
    return "".join(f"| {' | '.join(row)} |\n" for row in (heads, ["---"] * len(heads), *rows))


def _verdict(case: str, rule: str, ours: Quality) -> str:
    if ours.met:
        return "met"
    return f"**missed**: {CASES[case].reason(rule) or 'not known why'}"


def _worst(found: Found, rule: str, names: Sequence[str], quantity: str, minutes: int) -> list[str]:
    """The worst of each column over all scenarios of one rule."""
    cells = []
    for name in names:
        every = [
            cell
            for (_, own), part in found.items()
            if own == rule and (cell := of(part, name, quantity, minutes))
        ]
        means, tails = ([getattr(c, kind) for c in every] for kind in ("mean", "tail"))
        cells.append(f"**{max(means):.1%} / {max(tails):.1%}**" if every else "")
    return ["**worst of all**", rule, "", *cells, ""]


def scrapes(found: Found, minutes: int) -> str:
    """The exporter's error by scrape interval, over all scenarios under the recorded rules."""
    lines = ["| scrape interval | mean / p95 |\n", "| --- | --- |\n"]
    for scrape in SCRAPES_S:
        cell = quality(
            e
            for (_, rule), part in found.items()
            if rule in RECORDED
            for e in part
            if (e.reader, e.quantity, e.minutes, e.scrape_s) == (Ours.name, "core", minutes, scrape)
        )
        lines.append(f"| {scrape} s | {cell or ''} |\n")
    return "".join(lines)


def missed(found: Found, minutes: int) -> list[str]:
    """Where the goal is within reach and not met."""
    return [
        f"{case}, rule {rule}: {quantity} {cell}"
        for (case, rule), part in found.items()
        if within_reach(case, rule)
        for quantity in ("core", "energy")
        if (cell := of(part, Ours.name, quantity, minutes)) and not cell.met
    ]
