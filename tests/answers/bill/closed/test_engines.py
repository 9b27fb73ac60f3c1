"""Others' engines sum closed days as the documents say, and find what the bill says."""

import re
from collections import defaultdict
from decimal import Decimal
from json import loads
from pathlib import Path

import duckdb

from tests.answers.bill.closed.test_closed import Fleet, made

__all__ = ["made"]
PAGE = Path(__file__).parents[4] / "docs" / "scaling.md"


def test_duckdb_has_the_same_hours_and_cents(made: Fleet) -> None:
    [query] = re.findall(r"```sql\n(SELECT [^`]*read_parquet[^`]*)```", PAGE.read_text())
    query = query.replace("'bills/", f"'{made.folder}/closed/")
    query = query.replace("2026-10-01", made.days[0]).replace("2026-11-01", made.days[-1])
    found = duckdb.execute(query).fetchall()
    closed = f"--closed={made.folder / 'closed'}"
    said = made.bill(*made.whole_days, closed, "--format=json", asks=False)
    expected: dict[str | None, list[Decimal]] = defaultdict(lambda: [Decimal(0), Decimal(0)])
    for row in loads(said.out)["rows"]:
        sums = expected[row["namespace"] or None]
        sums[0] += round(Decimal(row["gpu_seconds"] * 1000))
        sums[1] += Decimal(row["cost"])
    assert {payer: cost for payer, _, cost in found} == {
        payer: cost for payer, (_, cost) in expected.items()
    }
    for payer, hours, _ in found:
        assert round(hours * 3_600_000) == expected[payer][0]
    assert [cost for *_, cost in found] == sorted((cost for *_, cost in found), reverse=True)
