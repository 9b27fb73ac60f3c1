"""The bill as rows of FOCUS 1.3, the FinOps Foundation's format of cost and usage, with split cost.

Each row is a part of one card's charge. ``AllocatedMethodId`` names the method, which
docs/bill.md describes. ``AllocatedResourceId`` is null for what nobody had.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from importlib import import_module
from typing import Any

from exporter.prometheus.bill import Bill, BillRow
from exporter.prometheus.money import largest_remainder
from exporter.prometheus.parts import NOBODY

VERSION = "1.3"
METHOD_IDS = {"allocation": "mgpu-exporter/allocation/1", "use": "mgpu-exporter/use/1"}
_HOUR_MS = Decimal(3_600_000)
_HOURS = "GPU-Hours"
_RATIO_DIGITS = 12
_RATIO = Decimal(1).scaleb(-_RATIO_DIGITS)
_PRECISION, _SCALE = 38, 17  # of decimals in Parquet


def rows(bill: Bill, issuer: str, account: str) -> Iterator[dict[str, Any]]:
    """The rows with FOCUS' columns; None is null. ``issuer`` bills ``account``."""
    for row, ratio in zip(bill.rows, _ratios(bill), strict=True):
        yield _row(bill, row, ratio, issuer, account)


def _ratios(bill: Bill) -> list[Decimal]:
    """The part of its card's charge that each row is; those of a card add up to 1."""
    by_card: dict[str, dict[int, Decimal]] = defaultdict(dict)
    for position, row in enumerate(bill.rows):
        by_card[row.card.uuid][position] = Decimal(row.milliseconds)
    parts: dict[int, int] = {}
    for weights in by_card.values():
        parts |= largest_remainder(10**_RATIO_DIGITS, weights)
    return [Decimal(part).scaleb(-_RATIO_DIGITS) for _, part in sorted(parts.items())]


def _row(bill: Bill, row: BillRow, ratio: Decimal, issuer: str, account: str) -> dict[str, Any]:
    hours = (Decimal(row.milliseconds) / _HOUR_MS).quantize(_RATIO)
    has_name = row.payer != NOBODY
    name = "/".join(
        filter(None, (row.payer.namespace, row.payer.owner_kind, row.payer.owner, row.payer.pod))
    )
    details = {
        "Elements": [
            {"AllocatedRatio": float(ratio), "UsageUnit": _HOURS, "UsageQuantity": float(hours)}
        ],
        "x_Part": row.part.value,
    }
    begin, end = month(bill.since_s, bill.until_s)
    return {
        "AllocatedMethodDetails": json.dumps(details),
        "AllocatedMethodId": METHOD_IDS[bill.method],
        "AllocatedResourceId": name if has_name else None,
        "AllocatedResourceName": name if has_name else None,
        "AllocatedTags": None,
        "BilledCost": row.cost,
        "BillingAccountId": account,
        "BillingAccountName": account,
        "BillingAccountType": "Cluster",
        "BillingCurrency": bill.currency,
        "BillingPeriodEnd": end,
        "BillingPeriodStart": begin,
        "ChargeCategory": "Usage",
        "ChargeClass": None,
        "ChargeDescription": f"{row.part.value} time of GPU {row.card.uuid}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": instant(bill.until_s),
        "ChargePeriodStart": instant(bill.since_s),
        "ConsumedQuantity": hours,
        "ConsumedUnit": _HOURS,
        "ContractedCost": row.cost,
        "ContractedUnitPrice": row.hourly,
        "EffectiveCost": row.cost,
        "HostProviderName": issuer,
        "InvoiceId": None,
        "InvoiceIssuerName": issuer,
        "ListCost": row.cost,
        "ListUnitPrice": row.hourly,
        "PricingCategory": "Standard",
        "PricingQuantity": hours,
        "PricingUnit": _HOURS,
        "ProviderName": issuer,
        "PublisherName": issuer,
        "ResourceId": row.card.uuid,
        "ResourceName": f"{row.card.node}/{row.card.uuid}",
        "ResourceType": "GPU",
        "ServiceCategory": "Compute",
        "ServiceName": "Shared GPU",
        "ServiceProviderName": issuer,
        "ServiceSubcategory": "Containers",
        "SkuId": row.card.model or "GPU",
        "SkuPriceId": f"{row.card.model or 'GPU'}/hour",
        "SubAccountId": row.payer.namespace or None,
        "SubAccountName": row.payer.namespace or None,
        "SubAccountType": "Namespace" if row.payer.namespace else None,
        "x_BorrowedQuantity": (Decimal(row.borrowed_ms) / _HOUR_MS).quantize(_RATIO),
        "x_Part": row.part.value,
    }


def month(since_s: int, until_s: int) -> tuple[str, str]:
    """The billing period: the months, in UTC, that the range touches."""
    first = datetime.fromtimestamp(since_s, UTC).replace(day=1, hour=0, minute=0, second=0)
    last = datetime.fromtimestamp(max(since_s, until_s - 1), UTC)
    after = last.replace(
        year=last.year + last.month // 12,
        month=last.month % 12 + 1,
        day=1,
        hour=0,
        minute=0,
        second=0,
    )
    return instant(int(first.timestamp())), instant(int(after.timestamp()))


def instant(unix_s: int) -> str:
    """A time as FOCUS writes it."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_csv(bill: Bill, issuer: str, account: str) -> str:
    """The rows as CSV with a head; null is empty."""
    out = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows(bill, issuer, account):
        if writer is None:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({k: f"{v:f}" if isinstance(v, Decimal) else v for k, v in row.items()})
    return out.getvalue()


def as_parquet(bill: Bill, issuer: str, account: str) -> bytes:
    """The rows as Parquet: numbers are decimals, times are UTC, null is null.

    Raises:
        ModuleNotFoundError: the extra ``parquet`` is not installed.

    """
    pa, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    found = list(rows(bill, issuer, account))
    number, text = pa.decimal128(_PRECISION, _SCALE), pa.string()
    time = pa.timestamp("us", tz="UTC")
    columns = {}
    for name in found[0] if found else ():
        values = [row[name] for row in found]
        if name.endswith(("PeriodStart", "PeriodEnd")):
            columns[name] = pa.array([datetime.fromisoformat(value) for value in values], time)
        elif any(isinstance(value, Decimal) for value in values):
            columns[name] = pa.array([_scaled(value) for value in values], number)
        else:
            columns[name] = pa.array(values, text)
    out = io.BytesIO()
    parquet.write_table(pa.table(columns), out)
    return out.getvalue()


def _scaled(value: Decimal) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-_SCALE))
