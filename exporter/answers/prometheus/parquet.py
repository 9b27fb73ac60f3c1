"""Rows of FOCUS as Parquet: numbers are decimals, times are UTC, null is null.

pyarrow is imported once something is written. It is an extra, which ``kubectl mgpu`` does without.
"""

import io
from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from typing import Any

_PRECISION, _SCALE = 38, 17  # of decimals
_LAST_DIGIT = Decimal(1).scaleb(-_SCALE)
_TIMES = ("PeriodStart", "PeriodEnd")
_NUMBERS = ("Cost", "Quantity", "UnitPrice")


def as_parquet(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """The rows, whose columns are those of FOCUS.

    Raises:
        ModuleNotFoundError: the extra ``parquet`` is not installed.

    """
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    found = list(rows)
    columns = {}
    for name in found[0] if found else ():
        columns[name] = pa.array([_value(name, row[name]) for row in found], _type(name))
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def _type(name: str) -> Any:  # noqa: ANN401 - pyarrow's
    pa = import_module("pyarrow")
    if name.endswith(_TIMES):
        return pa.timestamp("us", tz="UTC")
    return pa.decimal128(_PRECISION, _SCALE) if name.endswith(_NUMBERS) else pa.string()


def _value(name: str, value: Any) -> Any:  # noqa: ANN401 - of any column
    if name.endswith(_TIMES):
        return datetime.fromisoformat(value)
    # Arrow refuses a decimal with more digits after the point than its type has.
    return value.quantize(_LAST_DIGIT) if name.endswith(_NUMBERS) and value is not None else value
