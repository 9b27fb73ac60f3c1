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
        columns[name] = pa.array([value_of(name, row[name]) for row in found], type_of(name))
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def type_of(name: str) -> Any:  # noqa: ANN401 - pyarrow's
    """The type of a column of FOCUS."""
    pa = import_module("pyarrow")
    if name.endswith(_TIMES):
        return pa.timestamp("us", tz="UTC")
    return pa.decimal128(_PRECISION, _SCALE) if name.endswith(_NUMBERS) else pa.string()


def value_of(name: str, value: Any) -> Any:  # noqa: ANN401 - of any column
    """A value of a column of FOCUS as pyarrow takes it."""
    if name.endswith(_TIMES):
        return datetime.fromisoformat(value)
    # Arrow refuses a decimal with more digits after the point than its type has.
    is_long = isinstance(value, Decimal) and name.endswith(_NUMBERS)
    return value.quantize(_LAST_DIGIT) if is_long else value
