"""The rows of a closed day as Parquet: FOCUS' columns, and those that a bill is made of again.

A row is a part of one card's day, of one pod or group, by both methods: the columns of FOCUS are by
one of them. pyarrow is imported once something is written or read.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple

from exporter.answers.bill import focus, parquet
from exporter.answers.bill.bill import Bill, BillRow, Period
from exporter.answers.bill.parts import ALLOCATION, METHODS, USE, Part, Payer
from exporter.answers.reading.who import CardFacts

ISSUER = "mgpu-exporter"
_BATCH = 16_384  # rows
_MONEY = 18, 6  # of decimals
_OF_PAYER = {
    "x_Namespace": "namespace",
    "x_Pod": "pod",
    "x_PodUid": "uid",
    "x_OwnerKind": "owner_kind",
    "x_Owner": "owner",
    "x_User": "user",
    "x_Account": "account",
    "x_PodLabels": "labels",
}
_OF_CARD = ("ResourceId", "x_Node", "x_Model", "x_HourlyPrice")
_BORROWED = "x_BorrowedMilliseconds"
MILLISECONDS = {ALLOCATION: "x_AllocationMilliseconds", USE: "x_UseMilliseconds"}
COST = {ALLOCATION: "x_AllocationCost", USE: "x_UseCost"}
# What of a pod, and what of a group, says who pays, by ``--by``.
_POD: Mapping[str, set[str]] = {
    "pod": {"pod"},
    "owner": {"owner_kind", "owner"},
    "label": {"labels"},
}
_NAMED = {"owner_kind", "owner", "pod"}
_GROUP: Mapping[str, set[str]] = {
    **dict.fromkeys(("pod", "owner", "label"), _NAMED),
    "user": {"owner_kind", "user"},
    "account": {"owner_kind", "account"},
}


class Divided(NamedTuple):
    """A part of a card's day: the row by the one method, and what it is by the other."""

    row: BillRow
    milliseconds: int
    cost: Decimal


def divided(by_method: Mapping[str, Bill], method: str) -> list[Divided]:
    """The rows of a day by ``method``, with what each is by the other, in a fixed order."""
    other = next(one for one in METHODS if one != method)
    found: dict[str, dict[tuple[Any, ...], BillRow]] = {}
    borrowed: dict[tuple[Any, ...], int] = {}
    for name, bill in by_method.items():
        found[name] = {
            (row.card.node, row.card.uuid, row.card.model, row.hourly, row.payer, row.part): row
            for row in bill.rows
        }
        for (*payer, _), row in found[name].items():
            borrowed[tuple(payer)] = max(borrowed.get(tuple(payer), 0), row.borrowed_ms)
    rows = []
    for key in sorted(found[method].keys() | found[other].keys()):
        mine, others = found[method].get(key), found[other].get(key)
        row = mine or replace(found[other][key], milliseconds=0, cost=Decimal(0))
        row = replace(row, borrowed_ms=borrowed.pop(key[:-1], 0))
        rows.append(
            Divided(
                row, others.milliseconds if others else 0, others.cost if others else Decimal(0)
            )
        )
    return rows


def written(bill: Bill, rows: Sequence[Divided], account: str) -> bytes:
    """The rows of a day as a file; the same for the same rows. ``bill`` is of what day and how."""
    pa, files = import_module("pyarrow"), import_module("pyarrow.parquet")
    records = _records(bill, rows, account)
    out, writer, schema = io.BytesIO(), None, None
    while batch := [record for _, record in zip(range(_BATCH), records, strict=False)]:
        schema = schema or pa.schema([(name, _type(name)) for name in batch[0]])
        columns = [
            pa.array([parquet.value_of(name, one[name]) for one in batch], schema.field(name).type)
            for name in schema.names
        ]
        writer = writer or files.ParquetWriter(out, schema, compression="zstd")
        writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    if writer is not None:
        writer.close()
    return out.getvalue()


def _type(name: str) -> Any:  # noqa: ANN401 - pyarrow's
    pa = import_module("pyarrow")
    if name in COST.values():
        return pa.decimal128(*_MONEY)
    return pa.int64() if name.endswith("Milliseconds") else parquet.type_of(name)


def _records(bill: Bill, rows: Sequence[Divided], account: str) -> Iterator[dict[str, Any]]:
    other = next(one for one in METHODS if one != bill.method)
    whole = replace(bill, rows=tuple(one.row for one in rows))
    for one, of_focus in zip(rows, focus.rows(whole, ISSUER, account), strict=True):
        row, payer = one.row, one.row.payer._asdict()
        payer["labels"] = (
            json.dumps(dict(payer["labels"]), sort_keys=True) if payer["labels"] else ""
        )
        yield {
            **of_focus,
            **{column: payer[name] or None for column, name in _OF_PAYER.items()},
            "x_Node": row.card.node,
            "x_Model": row.card.model,
            "x_HourlyPrice": str(row.hourly),
            MILLISECONDS[bill.method]: row.milliseconds,
            COST[bill.method]: row.cost,
            MILLISECONDS[other]: one.milliseconds,
            COST[other]: one.cost,
            _BORROWED: row.borrowed_ms,
        }


class PayerSum:
    """The sum of files, by whoever pays: no more in memory than one file and the sum itself."""

    def __init__(self, by: str, method: str) -> None:
        self._by, self._method = by, method
        name = by.partition(":")[0]
        self._pod, self._group = _POD.get(name, set()), _GROUP.get(name, {"owner_kind"})
        self._columns = [
            column
            for column, one in _OF_PAYER.items()
            if one in {"namespace", *self._pod, *self._group}
        ]
        self._table: Any = None

    def add(self, file: BinaryIO, period: Period) -> None:
        """Adds a file, of which all is of a period."""
        pa, pc, files = (import_module(f"pyarrow{name}") for name in ("", ".compute", ".parquet"))
        sums = MILLISECONDS[self._method], COST[self._method], _BORROWED
        names = [*_OF_CARD, "x_Part", *self._columns]
        table = files.ParquetFile(file).read([*names, *sums])
        is_group = pc.is_null(table["x_Namespace"])
        keys = {}
        for name in names:
            # A pod is of its namespace, and by the pods' own columns alone; a group by a group's.
            one, values = _OF_PAYER.get(name), pc.fill_null(table[name], "")
            if one not in {None, "namespace"} and not (one in self._pod and one in self._group):
                shown = is_group if one in self._group else pc.invert(is_group)
                values = pc.if_else(shown, values, "")
            keys[name] = values
        since, until = (pa.array([at] * len(table), pa.int64()) for at in period)
        counted = {name: table[name] for name in sums[:1]} | {
            # A sum of decimals may have more digits than each of them.
            sums[1]: table[sums[1]].cast(pa.decimal128(38, _MONEY[1])),
            _BORROWED: table[_BORROWED],
        }
        mine = pa.table({**keys, "since": since, "until": until, **counted})
        whole = mine if self._table is None else pa.concat_tables([self._table, mine])
        by = [*names, "since", "until"]
        summed = whole.group_by(by).aggregate([(name, "sum") for name in sums])
        self._table = summed.rename_columns(
            [name.removesuffix("_sum") for name in summed.column_names]
        )
        self._table = self._table.select(mine.column_names).cast(mine.schema)

    def rows(self) -> Iterator[BillRow]:
        """The rows of a bill, once; some of a payer may be several, as of pods of its own."""
        table, self._table = self._table, None  # the memory of it is the rows' then
        if table is None:
            return
        names = table.column_names
        cards: dict[tuple[str, ...], CardFacts] = {}
        payers: dict[tuple[str, ...], Payer] = {}
        prices: dict[str, Decimal] = {}
        payer_at = [names.index(name) for name in self._columns]
        fields = [_OF_PAYER[name] for name in self._columns]
        for batch in table.to_batches(_BATCH):
            columns = [column.to_pylist() for column in batch.columns]
            for one in zip(*columns, strict=True):
                uuid, node, model, hourly, part, *_ = one
                since_s, until_s, milliseconds, cost, borrowed = one[-5:]
                if not (milliseconds or cost or borrowed):
                    continue
                card = cards.get(one[:3]) or cards.setdefault(
                    one[:3], CardFacts(uuid, node, model, {})
                )
                said = tuple(one[at] for at in payer_at)
                if said not in payers:
                    known = dict(zip(fields, said, strict=True))
                    labels = tuple(json.loads(known.pop("labels", "") or "{}").items())
                    payers[said] = Payer(**known, labels=labels).of(self._by)
                price = prices.get(hourly) or prices.setdefault(hourly, Decimal(hourly))
                yield BillRow(
                    card,
                    Period(since_s, until_s),
                    payers[said],
                    Part(part),
                    milliseconds,
                    cost,
                    price,
                    borrowed,
                )
