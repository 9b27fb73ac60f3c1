"""What holds of the bills of any history, whatever is true."""

import csv
import json
import re
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories.__main__ import BY_GROUPS, METHODS
from tests.histories.checks import Said, bill, stored
from tests.histories.making import RANDOM, TWISTS, made, plain, twisted
from tests.histories.store import MemoryStore, answering
from tests.histories.values import History, Labels, Target

KINDS = sorted(TWISTS)
Bill = dict[str, Any]


def billed(history: History, seed: int, *flags: str, shuffled: bool = False) -> Bill | str:
    """A bill by what a seed chooses; or why there is none."""
    store = _Shuffled(stored(history)) if shuffled else stored(history)
    said = asked(history, store, seed, *flags)
    return dict(json.loads(said.out)) if said.status == 0 else said.err


def asked(history: History, store: MemoryStore, seed: int, *flags: str) -> Said:
    """What a bill by what a seed chooses says."""
    by, method = BY_GROUPS[seed % len(BY_GROUPS)], METHODS[seed // len(BY_GROUPS) % len(METHODS)]
    with tempfile.TemporaryDirectory() as folder, answering(store) as address:
        return bill(history, address, Path(folder), by, method, *flags)


class _Shuffled(MemoryStore):
    """The same store, with series and labels in another order each time."""

    def __init__(self, store: MemoryStore) -> None:
        self.__dict__.update(store.__dict__)
        self._rng = Random(0)  # noqa: S311 - no secret

    def json(self, path: str, query: Labels | None = None) -> Bill:
        answer = super().json(path, query)
        result = answer["data"]["result"]
        for one in result:
            labels = list(one["metric"].items())
            self._rng.shuffle(labels)
            one["metric"] = dict(labels)
        self._rng.shuffle(result)
        return answer


def check_order(history: History, seed: int) -> None:
    """The order of series, and of their labels, is nothing."""
    assert billed(history, seed, shuffled=True) == billed(history, seed)


def check_label(history: History, seed: int) -> None:
    """A label that all targets have is nothing."""
    targets = [replace(one, labels={**one.labels, "zone": "z"}) for one in history.targets]
    labelled = replace(history, targets=tuple(targets))
    assert billed(labelled, seed) == billed(history, seed)


def check_foreign(history: History, seed: int) -> None:
    """A target that is no exporter of ours is nothing, not even on the same address."""
    assert billed(_with_foreign(history), seed) == billed(history, seed)


def _with_foreign(history: History) -> History:
    targets: list[Target] = []
    for number, one in enumerate(history.targets[:2]):
        labels = {**one.labels, "job": ("foreign", one.labels["job"])[number % 2]}
        labels["instance"] = f"{one.labels['instance'].partition(':')[0]}:9100"
        targets.append(replace(one, labels=labels, foreign=True))
    return replace(history, targets=(*history.targets, *targets))


def check_nodes(history: History, seed: int) -> None:
    """A cluster is the sum of its nodes, to the last unit."""
    whole = billed(history, seed)
    if isinstance(whole, str):
        return
    parts: list[Bill] = []
    for node in sorted({one.labels["node"] for one in history.targets}):
        part = billed(history, seed, f"--target=node={node}")
        assert not isinstance(part, str), part
        parts += part["rows"]
    assert _sorted(parts) == _sorted(whole["rows"])


def _sorted(rows: Sequence[Bill]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def check_days(history: History, seed: int) -> None:
    """A range is the sum of its parts, as closely as scrapes are at the cut between them."""
    cut_s = (history.since_s + history.until_s) // 2 // 3600 * 3600
    if cut_s - history.since_s < 3600 or history.until_s - cut_s < 3600 or history.averages:
        return
    whole = billed(history, seed)
    first = billed(replace(history, until_s=cut_s), seed)
    last = billed(replace(history, since_s=cut_s), seed)
    if isinstance(whole, str) or isinstance(first, str) or isinstance(last, str):
        return
    found: dict[tuple[str, ...], float] = defaultdict(float)
    for one, sign in ((whole, 1), (first, -1), (last, -1)):
        for row in one["rows"]:
            key = ("uuid", "node", "namespace", "owner", "pod", "part")
            found[tuple(row[name] for name in key)] += sign * row["gpu_seconds"]
    differs = {key: round(value) for key, value in found.items() if abs(value) > 300}
    assert differs == {}


def check_formats(history: History, seed: int) -> None:
    """All formats say the same of each payer; the table to the cent."""
    store = stored(history)
    said = {one: asked(history, store, seed, f"--format={one}") for one in FORMATS}
    if any(one.status for one in said.values()):
        assert {(one.status, one.err) for one in said.values()} == {(2, said["json"].err)}
        return
    rows = json.loads(said["json"].out)["rows"]
    as_text = [{name: str(value) for name, value in row.items()} for row in rows]
    of_csv = list(csv.DictReader(StringIO(said["csv"].out)))
    assert [{name: row[name] for name in as_text[0]} for row in of_csv] == as_text
    pivot = _pivot((row["payer"], row["cost"], row["gpu_seconds"]) for row in rows)
    of_focus = csv.DictReader(StringIO(said["focus"].out))
    found = _pivot(
        (row["x_Payer"], row["BilledCost"], float(row["ConsumedQuantity"]) * 3600)
        for row in of_focus
    )
    assert found == pivot
    table = said["table"].out
    for payer, (cost, seconds) in pivot.items():
        line = rf"^ *{re.escape(payer)}  .* {seconds / 3600:,.2f} +{cost:,.2f}$"
        is_shown = round(cost, 2) >= Decimal("0.01") and re.search(line, table, re.MULTILINE)
        assert is_shown or max(cost, Decimal(seconds) / 3600) < Decimal("0.01"), (payer, cost)


def _pivot(
    rows: Iterable[tuple[str, Decimal | str, float]],
) -> dict[str, tuple[Decimal, float]]:
    """What each payer pays, and the GPU-seconds that it has, to the millisecond."""
    found: dict[str, tuple[Decimal, float]] = defaultdict(lambda: (Decimal(0), 0.0))
    for payer, cost, seconds in rows:
        before = found[payer]
        found[payer] = before[0] + Decimal(cost), before[1] + seconds
    return {payer: (cost, round(seconds, 3)) for payer, (cost, seconds) in found.items()}


FORMATS = ("json", "csv", "focus", "table")
CHECKS = [check_order, check_label, check_foreign, check_nodes, check_days, check_formats]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("two_replicas", marks=pytest.mark.slow),
        "exporter_restarts",
        "pod_name_again_at_once",
        "groups_beside_pods",
    ],
)
def test_of_fixed_histories(check: Callable[[History, int], None], kind: str) -> None:
    check(made(7, kind), 7)


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 5)
@given(
    RANDOM,
    st.lists(st.sampled_from(KINDS), max_size=2),
    st.sampled_from(CHECKS),
    st.integers(0, 99),
)
def test_of_any_history(
    rng: Random, twists: list[str], check: Callable[[History, int], None], seed: int
) -> None:
    check(twisted(rng, plain(rng), twists), seed)
