"""Two months in a real Prometheus: a bill is the sum of its days and weeks, to the last unit."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.histories.checks import bill, stored
from tests.histories.making import DAY, plain, twisted
from tests.histories.store import answering, written
from tests.histories.values import History
from tests.store import Store

OFTEN_S = 240
TWISTS = ("node_made_anew_as_another_type", "exporter_restarts", "namespace_made_anew")

Sums = dict[tuple[str, ...], tuple[Decimal, Decimal]]


def months(days: int) -> History:
    """So many days, from a midnight on."""
    rng = Random(5)  # noqa: S311 - no secret
    history = plain(rng, days * DAY, OFTEN_S)
    since_s = history.since_s // DAY * DAY + DAY
    history = replace(history, since_s=since_s, until_s=since_s + (days - 1) * DAY)
    return twisted(rng, history, TWISTS)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[History, str]]:
    history = months(62)
    with Store(tmp_path_factory.mktemp("months")) as real:
        written(stored(history), real)
        yield history, f"http://{real.address}"


def billed(history: History, address: str, folder: Path, by: str, *flags: str) -> Any:
    said = bill(history, address, folder, by, "use", *flags)
    assert said.status == 0, said.err
    return json.loads(said.out)


def sums(rows: list[dict[str, Any]]) -> Sums:
    """Seconds and money by card, payer and part, whatever the rows are of."""
    found: Sums = defaultdict(lambda: (Decimal(0), Decimal(0)))
    for row in rows:
        key = tuple(row[name] for name in ("uuid", "node", "namespace", "owner", "pod", "part"))
        seconds, cost = found[key]
        found[key] = seconds + Decimal(str(row["gpu_seconds"])), cost + Decimal(row["cost"])
    return dict(found)


@pytest.mark.slow
@pytest.mark.program("prometheus")
@pytest.mark.timeout(900)
def test_days_weeks_and_months_are_the_same_to_the_last_unit(
    served: tuple[History, str], tmp_path: Path
) -> None:
    history, address = served
    whole = billed(history, address, tmp_path, "owner")
    by_day = billed(history, address, tmp_path, "owner", "--step=1d")
    by_week = billed(history, address, tmp_path, "owner", "--step=1w")
    assert sums(by_day["rows"]) == sums(by_week["rows"]) == sums(whole["rows"])
    assert whole["totals"] == by_day["totals"] == by_week["totals"]
    one = replace(history, since_s=history.since_s + 30 * DAY, until_s=history.since_s + 31 * DAY)
    alone = billed(one, address, tmp_path, "owner")
    assert alone["from"] in {row["from"] for row in by_day["rows"]}
    of_that_day = [row for row in by_day["rows"] if row["from"] == alone["from"]]
    assert sums(alone["rows"]) == sums(of_that_day)


@pytest.mark.slow
@pytest.mark.program("prometheus")
@pytest.mark.timeout(900)
def test_a_month_of_the_store_in_this_process_is_that_of_the_real_one(
    served: tuple[History, str], tmp_path: Path
) -> None:
    history, address = served
    month = replace(history, until_s=history.since_s + 30 * DAY)
    with answering(stored(history)) as mine:
        found = billed(month, mine, tmp_path, "owner")
    assert found == billed(month, address, tmp_path, "owner")
