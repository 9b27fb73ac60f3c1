"""The bill as a table for people, as JSON and as CSV."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal

from exporter.answers.bill.bill import Bill, BillRow
from exporter.answers.bill.parts import NOBODY, Part
from exporter.answers.reading.ranges import written
from exporter.shown.printable import cell, clean, wrapped
from exporter.shown.words import short_ids

_HOUR_MS = 3_600_000
_LEAST = Decimal("0.005")
_DAY_S = 86_400
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
    """A line for each row, after a head; each says what the bill is of, too."""
    same = {"currency": bill.currency, "method": bill.method}
    records = [{**_record(row), **same} for row in bill.rows]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {k: cell(v) if isinstance(v, str) else v for k, v in each.items()} for each in records
    )
    return out.getvalue()


def payer_of(row: BillRow) -> str:
    """Who pays, as the table says it."""
    return clean(short_ids(row.payer.name), longest=None)


def _record(row: BillRow) -> dict[str, object]:
    return {
        "from": written(row.period.since_s),
        "until": written(row.period.until_s),
        "payer": payer_of(row),
        "payer_kind": row.payer.kind,
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


def as_table(bill: Bill, width: int | None = None) -> str:
    """A line for each payer, with GPU hours of each part; what nobody had stands last.

    Payers whose line would say 0.00 alone are one line together. Of several periods each has its
    lines, and the range has them, too. In less than its ``width`` the parts that are mostly
    nobody's stand below their payer, and in still less the figures below the name.
    """
    parts = [part for part in Part if bill.of(part)]
    head = ["", *(_WORDS[part] for part in parts), "GPU hours", bill.currency]
    rows = _aligned([head, *_body(bill, parts)])
    if width is not None and max(map(len, rows)) > width:
        own = [part for part in parts if part in {Part.USED, Part.ALLOCATED_IDLE}]
        head = ["", *(_WORDS[part] for part in own), "GPU hours", bill.currency]
        above, below = zip(*(title.rpartition(" ")[::2] for title in head), strict=True)
        lines = [list(above), list(below), *_body(bill, own)]
        rows = _aligned(lines)
        if max(map(len, rows)) > width:
            # Each name, which may be long, stands above its figures.
            figures = _aligned([["", *line[1:]] for line in lines])
            pairs = zip(lines, figures, strict=True)
            rows = [row for line, figure in pairs for row in (line[0], figure) if row]
    days = f"{written(bill.since_s)} to {written(bill.until_s)}, by {bill.method}"
    table = "".join(f"{row}\n" for row in rows)
    return f"{wrapped(days, width)}\n\n{table}\n{wrapped(_notes(bill), width)}"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines with names at the left of their column, and figures at the right of theirs."""
    widths = [
        max(len(line[column]) for line in lines if column < len(line))
        for column in range(len(lines[0]))
    ]
    rows = (
        [
            f"{line[0]:<{widths[0]}}",
            *(f"{each:>{width}}" for each, width in zip(line[1:], widths[1:], strict=False)),
        ]
        for line in lines
    )
    return ["  ".join(row).rstrip() for row in rows]


def _body(bill: Bill, parts: Sequence[Part]) -> list[list[str]]:
    """All lines but the head."""
    lines: list[list[str]] = []
    periods = bill.periods
    if len(periods) > 1:
        # The first period begins with the range, which may be in the middle of a day.
        begins_days = all(period.since_s % _DAY_S == 0 for period in periods[1:])
        for period in periods:
            begun = written(period.since_s)
            lines.append([begun[:10] if begins_days else f"{begun[:10]} {begun[11:16]}"])
            lines += _lines([row for row in bill.rows if row.period == period], parts, "  ")
        lines.append(["the whole range"])
    return lines + _lines(bill.rows, parts, "  " * (len(periods) > 1))


def _lines(rows: Sequence[BillRow], parts: Sequence[Part], before: str) -> list[list[str]]:
    """The lines of payers, of those of next to nothing together, and of all.

    Parts that are not among ``parts`` have lines below their payer's.
    """
    # A namespace and a kind of groups may have one name: these are two lines.
    by_payer: dict[tuple[str, str], list[BillRow]] = defaultdict(list)
    for row in rows:
        by_payer[payer_of(row), row.payer.kind].append(row)
    nobody = NOBODY.name, NOBODY.kind
    order = sorted(by_payer, key=lambda payer: (payer == nobody, -_cost(by_payer[payer]), payer))
    # Every figure of these would be shown as 0.00.
    least: set[tuple[str, str]] = set()
    for payer, mine in by_payer.items():
        hours = Decimal(sum(row.milliseconds for row in mine)) / _HOUR_MS
        if payer != nobody and max(hours, abs(_cost(mine))) < _LEAST:
            least.add(payer)
    # One alone keeps its name: a line of others would be no shorter, and say less.
    least = least if len(least) > 1 else set()
    named = [(payer[0], by_payer[payer]) for payer in order if payer not in least]
    if least:
        few = [row for payer in least for row in by_payer[payer]]
        # What nobody had is the last line, also where others are folded.
        at = len(named) - (nobody in by_payer)
        named.insert(at, (f"{len(least)} others below {_LEAST}", few))
    lines: list[list[str]] = []
    for name, mine in named:
        lines.append([before + name, *_figures(mine, parts)])
        for part in (one for one in Part if one not in parts):
            if its := [row for row in mine if row.part is part and row.milliseconds]:
                none = [""] * len(parts)
                lines.append([f"{before}  {_WORDS[part]}", *none, *_figures(its, ())])
    return [*lines, [before + "all", *_figures(rows, parts)]]


def _cost(rows: Iterable[BillRow]) -> Decimal:
    return sum((row.cost for row in rows), Decimal(0))


def _figures(rows: Sequence[BillRow], parts: Sequence[Part]) -> list[str]:
    by_part = {part: sum(row.milliseconds for row in rows if row.part is part) for part in parts}
    return [
        *(f"{by_part[part] / _HOUR_MS:.2f}" if by_part[part] else "" for part in parts),
        f"{sum(row.milliseconds for row in rows) / _HOUR_MS:.2f}",
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
