"""The bill as a table for people, as JSON and as CSV."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

from exporter.answers.prometheus.bill import Bill, BillRow
from exporter.answers.prometheus.parts import NOBODY, Part, Payer
from exporter.answers.prometheus.ranges import written
from exporter.shown.printable import cell, clean

_HOUR_MS = 3_600_000
_LEAST = Decimal("0.005")
_CONTAINER_ID = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")  # shown as docker shows it
_FIELDS = ("node", "uuid", "model", "namespace", "owner", "pod", "part", "gpu_seconds", "cost")
_WORDS = {
    Part.USED: "used",
    Part.ALLOCATED_IDLE: "allocated, idle",
    Part.UNALLOCATED: "unallocated",
    Part.UNATTRIBUTED: "unattributed",
    Part.UNOBSERVED: "unobserved",
}


def as_json(bill: Bill) -> str:
    """The bill as JSON. Money is text, so that no reader rounds it."""
    document = {
        "from": written(bill.since_s),
        "until": written(bill.until_s),
        "method": bill.method,
        "currency": bill.currency,
        "rows": [_record(row) for row in bill.rows],
        "totals": {"gpu_seconds": bill.milliseconds / 1000, "cost": str(bill.cost)},
    }
    return json.dumps(document, indent=1) + "\n"


def as_csv(bill: Bill) -> str:
    """A line for each row, after a head."""
    out = io.StringIO()
    writer = csv.DictWriter(out, _FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: cell(v) if isinstance(v, str) else v for k, v in _record(row).items()}
        for row in bill.rows
    )
    return out.getvalue()


def _record(row: BillRow) -> dict[str, object]:
    return {
        "node": row.card.node,
        "uuid": row.card.uuid,
        "model": row.card.model,
        "namespace": row.payer.namespace,
        "owner": "/".join(filter(None, (row.payer.owner_kind, row.payer.owner))),
        "pod": row.payer.pod,
        "part": row.part.value,
        "gpu_seconds": row.milliseconds / 1000,
        "cost": str(row.cost),
    }


def as_table(bill: Bill) -> str:
    """A line for each payer, with GPU hours of each part; what nobody had stands last.

    Payers whose line would say 0.00 alone are one line together.
    """
    parts = [part for part in Part if bill.of(part)]
    by_payer: dict[Payer, list[BillRow]] = defaultdict(list)
    for row in bill.rows:
        by_payer[row.payer].append(row)
    order = sorted(by_payer, key=lambda payer: (payer == NOBODY, -_cost(by_payer[payer]), payer))
    # Every figure of these would be shown as 0.00.
    least: set[Payer] = set()
    for payer, mine in by_payer.items():
        hours = Decimal(sum(row.milliseconds for row in mine)) / _HOUR_MS
        if payer != NOBODY and max(hours, abs(_cost(mine))) < _LEAST:
            least.add(payer)
    least = least if len(least) > 1 else set()
    lines = [["", *(_WORDS[part] for part in parts), "GPU hours", bill.currency]]
    for payer in (payer for payer in order if payer not in least):
        named = "/".join(filter(None, (_CONTAINER_ID.sub(r"\1", each) for each in payer)))
        name = "(nobody)" if payer == NOBODY else clean(named, longest=None)
        lines.append([name, *_figures(by_payer[payer], parts)])
    if least:
        few = [row for payer in least for row in by_payer[payer]]
        at = len(lines) - (NOBODY in by_payer)
        lines.insert(at, [f"{len(least)} others below {_LEAST}", *_figures(few, parts)])
    lines.append(["all", *_figures(bill.rows, parts)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = "".join(
        f"{line[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
        + "\n"
        for line in lines
    )
    days = f"{written(bill.since_s)} to {written(bill.until_s)}, by {bill.method}"
    return f"{days}\n\n{table}\n{_notes(bill)}"


def _cost(rows: Iterable[BillRow]) -> Decimal:
    return sum((row.cost for row in rows), Decimal(0))


def _figures(rows: Sequence[BillRow], parts: Sequence[Part]) -> list[str]:
    by_part = {part: sum(row.milliseconds for row in rows if row.part is part) for part in parts}
    return [
        *(f"{by_part[part] / _HOUR_MS:.2f}" if by_part[part] else "" for part in parts),
        f"{sum(by_part.values()) / _HOUR_MS:.2f}",
        f"{_cost(rows):,.2f}",
    ]


def _notes(bill: Bill) -> str:
    unobserved, borrowed = bill.of(Part.UNOBSERVED), sum(row.borrowed_ms for row in bill.rows)
    notes = []
    if Decimal(unobserved) / _HOUR_MS >= _LEAST:
        part = unobserved / bill.milliseconds
        notes.append(
            f"{unobserved / _HOUR_MS:.2f} GPU hours ({part:.1%}) are unobserved: nothing was "
            "scraped, or the driver gave no use.\n"
        )
    if Decimal(borrowed) / _HOUR_MS >= _LEAST:
        notes.append(f"{borrowed / _HOUR_MS:.2f} GPU hours were borrowed: used beyond a share.\n")
    return "".join(notes)
