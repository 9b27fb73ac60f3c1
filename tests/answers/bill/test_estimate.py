"""A bill at once, from what recording rules counted."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from exporter.answers.bill.estimate import RECORDED
from exporter.answers.reading.ranges import written
from tests.histories.checks import Said, command
from tests.histories.store import MemoryStore, answering

DAY, EVERY_S = 86_400, 120
BEGIN = 1_780_012_800  # a day's begin
PLACE = {"job": "mgpu", "instance": "a:10045", "model": "L4", "method": "allocation"}
# Four cards: of a namespace, which idles a half, of Docker, and nobody's.
PARTS: Mapping[tuple[tuple[str, str], ...], float] = {
    (("namespace", "red"), ("part", "used")): 1.0,
    (("namespace", "red"), ("part", "allocated_idle")): 1.0,
    (("exported_namespace", "blue"), ("namespace", "monitoring"), ("part", "used")): 0.5,
    (("kind", "docker"), ("part", "used")): 0.25,
    (("part", "unallocated"),): 1.25,
}


def both(label: str) -> MemoryStore:
    """A store in which two sources, which one label tells apart, recorded the same."""
    return recorded(0.25, of={label: "b"}, store=recorded(0.25, of={label: "a"}))


def recorded(
    days: float = 3,
    gap: range = range(0),
    of: Mapping[str, str] = MappingProxyType({}),
    store: MemoryStore | None = None,
) -> MemoryStore:
    """A store with days of recorded series, but those of a gap."""
    store = store or MemoryStore()
    for at_s in range(BEGIN + EVERY_S, BEGIN + int(days * DAY) + 1, EVERY_S):
        values = {
            tuple(sorted({"__name__": RECORDED, **PLACE, **of, **dict(own)}.items())): value
            for own, value in PARTS.items()
        }
        store.show(f"rules {of}", {} if (at_s - 1 - BEGIN) // DAY in gap else values, at_s)
    return store


def estimate(store: MemoryStore, *flags: str, days: float = 3) -> Said:
    span = [f"--since={written(BEGIN)}", f"--until={written(BEGIN + int(days * DAY))}"]
    with answering(store) as address:
        return command(address, "bill", "--estimate", *span, *flags)


def hours(said: Said) -> dict[str, float]:
    """GPU hours by payer and part."""
    assert said.status == 0, said.err
    rows: list[dict[str, Any]] = json.loads(said.out)["rows"]
    return {f"{row['payer']} {row['part']}": row["gpu_seconds"] / 3600 for row in rows}


@pytest.mark.parametrize("days", [3, 1, 0.25, 1.5])
def test_an_estimate_is_what_was_recorded(days: float) -> None:
    said = estimate(recorded(days), "--price=2", "--format=json", days=days)

    found = {
        "red used": 1.0,
        "red allocated_idle": 1.0,
        "blue used": 0.5,
        "docker used": 0.25,
        "(nobody) unallocated": 1.25,
    }
    assert hours(said) == pytest.approx({k: v * days * 24 for k, v in found.items()}, rel=0.01)
    total = json.loads(said.out)["totals"]
    assert float(total["cost"]) == pytest.approx(4 * days * 24 * 2, rel=0.01)
    assert "within 1 %" in said.err


@pytest.mark.parametrize("label", ["cluster", "region", "tenant_id"])
def test_clusters_that_share_names_of_nodes_are_billed_each(label: str) -> None:
    said = estimate(both(label), "--price=2", "--format=json", days=0.25)

    assert hours(said)["red used"] == pytest.approx(2 * 6, rel=0.01)


@pytest.mark.parametrize("label", ["replica", "prometheus_replica", "thanos_ruler_replica"])
def test_what_two_replicas_recorded_is_billed_once(label: str) -> None:
    said = estimate(both(label), "--price=2", "--format=json", days=0.25)

    assert hours(said)["red used"] == pytest.approx(6, rel=0.01)


def test_days_without_a_record_are_named() -> None:
    said = estimate(recorded(gap=range(1, 2)), "--price=1", "--step=1d", "--format=csv")

    assert said.status == 0, said.err
    assert "of what is recorded alone: 2026-05-30 has 0 seconds of the day\n" in said.err
    assert {line[:10] for line in said.out.splitlines()[1:]} == {"2026-05-29", "2026-05-31"}


def test_a_day_that_is_recorded_in_part_is_named_and_not_said_to_be_the_bill() -> None:
    said = estimate(recorded(1.25), "--price=1", days=2)

    assert "2026-05-30 has 6 hours of the day\n" in said.err
    assert "2026-05-29" not in said.err
    assert "within 1 %" not in said.err


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--by=pod"], "--by=pod is of a bill"),
        (["--step=1h"], "--step=1d"),
        (["--format=focus"], "--format=focus is of a bill"),
        ([], "no price for L4"),
    ],
)
def test_what_an_estimate_does_not_know_is_said(flags: list[str], why: str) -> None:
    said = estimate(recorded(0.05), *flags, days=0.05)

    assert said.status == 2
    assert why in said.err


def test_without_rules_there_is_no_estimate() -> None:
    said = estimate(MemoryStore(), "--price=1")

    assert said.status == 2
    assert "rules/mgpu-recording.yaml" in said.err


def test_prices_by_node_are_not_of_an_estimate(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("default: 1\nnode_labels: {zone: {east: 3}}\n")
    said = estimate(recorded(0.05), f"--prices={prices}", "--format=json", days=0.05)

    assert hours(said)["red used"] == pytest.approx(1.2, rel=0.05)
    assert "labels of nodes are not in it" in said.err
