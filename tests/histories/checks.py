"""What readers say of a history, held to its truth."""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from exporter.answers.bill.books import span_of
from exporter.answers.reading.ranges import written
from exporter.cli import main
from tests.histories.scrapes import scrapes
from tests.histories.store import MemoryStore, filled
from tests.histories.truth import Amount, Asked, Row, truth_of
from tests.histories.values import History, PriceList

REFUSED = {
    "page_copied_by_a_tenant",
    "page_of_before_copied_by_a_tenant",
    "owners_forged_by_a_tenant",
    "store_averages",
}
"""Twists that nobody can see through: a refusal that says so is right."""

ROUNDED_S, ROUNDED = 1.0, 0.001


class Said(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


def stored(history: History, *, opens: bool = False, gauges: bool = False) -> MemoryStore:
    """The store that has a history."""
    taken = scrapes(history, gauges=gauges)
    return filled(taken, opens=opens, averages=history.averages)


def command(address: str, *arguments: str) -> Said:
    """What a command says, asked of an address."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([arguments[0], f"--prometheus={address}", *arguments[1:]])
    return Said(status, out.getvalue(), err.getvalue())


def price_file(prices: PriceList, folder: Path) -> Path:
    """The prices as a user gives them."""
    path = folder / "prices.yaml"
    document = {
        "default": str(prices.default),
        "models": {model: str(price) for model, price in prices.by_model.items()},
        "node_labels": {prices.label: {k: str(v) for k, v in prices.by_label.items()}},
    }
    path.write_text(json.dumps(document))
    return path


def bill(history: History, address: str, folder: Path, by: str, method: str, *more: str) -> Said:
    """The bill of a history."""
    span = [f"--since={written(history.since_s)}", f"--until={written(history.until_s)}"]
    flags = [f"--by={by}", f"--method={method}", f"--prices={price_file(history.prices, folder)}"]
    return command(address, "bill", *span, *flags, "--format=json", *more)


def rows_of(document: dict[str, Any], by: str) -> dict[Row, Amount]:
    """The rows of a bill in JSON as the truth has them."""
    field = {"namespace": "", "pod": "pod"}.get(by, "owner")
    found: dict[Row, Amount] = defaultdict(Amount)
    for row in document["rows"]:
        who = row["namespace"], row[field] if field else ""
        if not row["namespace"] and row["payer_kind"] != "nobody":  # a group, or all pods
            who = "", row["payer"]
        seconds, cost = row["gpu_seconds"], float(row["cost"])
        mine = found[Row(row["uuid"], row["node"], who, row["part"])]
        mine.least_s, mine.least = mine.least_s + seconds, mine.least + cost
    return found


def wrong_bill(history: History, said: Said, by: str, method: str) -> Iterator[str]:
    """What a bill says that is not the truth, as far as scrapes can know it."""
    day_s = min(history.until_s, history.since_s + 86_400)  # each is read by itself
    truth = truth_of(history, Asked(by, method, span_of(history.since_s, day_s).step_s))
    if said.status:  # of no card there is no bill
        if truth.rows and not REFUSED & set(history.twists):
            yield f"refused: {said.err.strip()}"
        return
    found = rows_of(json.loads(said.out), by)
    for row in sorted(truth.rows.keys() | found.keys()):
        is_, right = found.get(row, Amount()), truth.rows.get(row, Amount())
        if not right.least_s - ROUNDED_S <= is_.least_s <= right.most_s + ROUNDED_S:
            yield (
                f"{_named(row)}: {is_.least_s:.0f} s, "
                f"right: {right.least_s:.0f} to {right.most_s:.0f}"
            )
        elif not right.least - ROUNDED <= is_.least <= right.most + ROUNDED:
            yield (
                f"{_named(row)}: {is_.least:.3f} USD, right: {right.least:.3f} to {right.most:.3f}"
            )
    for node in sorted(truth.untold):
        if node not in said.err:
            yield f"no word on the default price of {node}"


def _named(row: Row) -> str:
    return f"{row.uuid}@{row.node} {'/'.join(row.who).strip('/') or '(nobody)'} {row.part}"
