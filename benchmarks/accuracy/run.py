"""One run: a scenario under one rule and seed, all readers beside the truth."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from benchmarks.accuracy.readers import (
    SECOND,
    Accounting,
    BenchNode,
    Gauge,
    Ours,
    Reader,
    RowPoll,
    SetClock,
    Sums,
    label,
)
from benchmarks.accuracy.scenarios import START_S, UNIDENTIFIED, Case
from exporter.agent.simulation.load_scenario import describe
from tests.agent.simulation.truth import truth_of

MINUTE_S = 60
# Measured from here on: everything runs, the idle power is known, and no process has come for a
# minute, so that the rhythm is the default one.
BEGIN_S = 2 * MINUTE_S
SCRAPES_S = (1, 15, 60, 300)  # at which the exporter's counters are read
LEAST_NS = SECOND // 10  # who used less has no relative error worth a look


class Error(NamedTuple):
    """A relative error of one container over one range of time, and the sampling floor there."""

    reader: str
    quantity: str
    minutes: int
    scrape_s: int
    error: float
    floor: float


def readers(node: BenchNode, clock: SetClock) -> list[Reader]:
    """All that are compared, ours first."""
    gauges = [Gauge(node, clock, s, ring=ring) for ring in (False, True) for s in (15, 30)]
    polls = [RowPoll(node, clock, scaled=scaled) for scaled in (False, True)]
    accounting = [Accounting(node, scaled=scaled) for scaled in (False, True)]
    ours = [Ours(node, clock, watched=watched) for watched in (False, True)]
    return [*ours, *gauges, *polls, *accounting]


def run(case: Case, rule: str, seed: int, minutes: tuple[int, ...]) -> list[Error]:
    """Errors of all readers over ranges of so many minutes; the longest comes last."""
    clock = SetClock()
    node = BenchNode(describe(case.file(rule, seed), case.name), clock)
    compared = readers(node, clock)
    marks: list[Mapping[tuple[str, str], Sums]] = []  # every minute: (reader, quantity) → sums
    for second in range(1, BEGIN_S + minutes[-1] * MINUTE_S + 1):
        clock.now_ns += SECOND
        standing = second % 300 in case.pauses
        for reader in compared:
            if not standing or isinstance(reader, Accounting):
                reader.look(second)
        if second >= BEGIN_S and second % MINUTE_S == 0:
            marks.append(dict(_sums(compared)))
    truths = [_truth(node, minute) for minute in range(minutes[-1])]
    return [error for length in minutes for error in _errors(marks, truths, length, case.period_ms)]


def _sums(compared: list[Reader]) -> Iterator[tuple[tuple[str, str], Sums]]:
    for reader in compared:
        yield (reader.name, "core"), Counter(reader.busy())
        energy = reader.energy()
        if energy is not None:
            yield (reader.name, "energy"), Counter(energy)


def _truth(node: BenchNode, minute: int) -> Mapping[str, Counter[str]]:
    """What happened in one minute, by quantity and label."""
    begin = node.start_unix_ns + (BEGIN_S + minute * MINUTE_S) * SECOND
    truth = truth_of(node, begin, begin + MINUTE_S * SECOND)
    core: Counter[str] = Counter()
    energy: Counter[str] = Counter()
    for (owner, _), ns in truth.core_ns.items():
        core[label(owner)] += ns
    for (owner, _), uj in truth.active_energy_uj.items():
        energy[label(owner)] += uj
    return {"core": core, "energy": energy}


def _errors(
    marks: list[Mapping[tuple[str, str], Sums]],
    truths: list[Mapping[str, Counter[str]]],
    minutes: int,
    period_ms: float,
) -> Iterator[Error]:
    for begin in range(0, len(truths) - minutes + 1, minutes):
        for reader, quantity in marks[0]:
            for scrape_s in SCRAPES_S if reader in Ours.names else (0,):
                first, last = _scraped(begin, minutes, scrape_s)
                if first < last:
                    before, after = (marks[m][reader, quantity] for m in (first, last))
                    span = truths[first:last]
                    for name, error, floor in _compare(before, after, span, quantity, period_ms):
                        if name != UNIDENTIFIED:
                            yield Error(reader, quantity, minutes, scrape_s, error, floor)


def _scraped(begin: int, minutes: int, scrape_s: int) -> tuple[int, int]:
    """The first and the last minute in a range at which a scrape was made.

    Scrapes of minutes fall a minute after the range's begin, so that its ends are not theirs.
    """
    apart = scrape_s // MINUTE_S
    if apart <= 1:
        return begin, begin + minutes
    first = begin + 1
    return first, first + (minutes - 1) // apart * apart


def _compare(
    before: Sums,
    after: Sums,
    truths: list[Mapping[str, Counter[str]]],
    quantity: str,
    period_ms: float,
) -> Iterator[tuple[str, float, float]]:
    busy: Counter[str] = Counter()
    true: Counter[str] = Counter()
    for truth in truths:
        busy.update(truth["core"])
        true.update(truth[quantity])
    for name, ns in busy.items():
        if ns >= LEAST_NS:
            measured = after.get(name, 0) - before.get(name, 0)
            share = min(ns / (len(truths) * MINUTE_S * SECOND), 1.0)
            samples = MINUTE_S * len(truths) * 1000 / period_ms
            floor = math.sqrt((1 - share) / (samples * share))
            yield name, abs(measured / true[name] - 1), floor


assert START_S < BEGIN_S
