"""The bill as rows of FOCUS 1.3, the FinOps Foundation's format of cost and usage, with split cost.

Each row is a part of one card's charge. ``AllocatedMethodId`` names the method, which
docs/bill.md describes. ``AllocatedResourceId`` is null for what nobody had.
"""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from exporter.answers.bill.bill import Bill, BillRow, Period
from exporter.answers.bill.billreport import payer_of
from exporter.answers.bill.money import largest_remainder
from exporter.answers.reading.ranges import written
from exporter.shown.printable import cell

VERSION = "1.3"
METHOD_IDS = {"allocation": "mgpu-exporter/allocation/1", "use": "mgpu-exporter/use/1"}
_HOUR_MS = Decimal(3_600_000)
_HOURS = "GPU-Hours"
_ISSUER = (
    "HostProviderName",
    "InvoiceIssuerName",
    "ProviderName",
    "PublisherName",
    "ServiceProviderName",
)
_RATIO_DIGITS = 12
_RATIO = Decimal(1).scaleb(-_RATIO_DIGITS)

_ALWAYS: Mapping[str, str | None] = {
    "AllocatedTags": None,
    "BillingAccountType": "Cluster",
    "ChargeCategory": "Usage",
    "ChargeClass": None,
    "ChargeFrequency": "Usage-Based",
    "ConsumedUnit": _HOURS,
    "InvoiceId": None,
    "PricingCategory": "Standard",
    "PricingUnit": _HOURS,
    "ResourceType": "GPU",
    "ServiceCategory": "Compute",
    "ServiceName": "Shared GPU",
    "ServiceSubcategory": "Containers",
}


def rows(bill: Bill, issuer: str, account: str) -> Iterator[dict[str, Any]]:
    """The rows with FOCUS' columns; None is null. ``issuer`` bills ``account``."""
    same = {
        **_ALWAYS,
        "AllocatedMethodId": METHOD_IDS[bill.method],
        **dict.fromkeys(("BillingAccountId", "BillingAccountName"), account),
        "BillingCurrency": bill.currency,
        **dict.fromkeys(_ISSUER, issuer),
    }
    # The part of its card's charge that each row is. FOCUS wants those of a charge to add up to 1.
    by_card: dict[tuple[str, Period], dict[int, Decimal]] = defaultdict(dict)
    for position, row in enumerate(bill.rows):
        by_card[row.card.uuid, row.period][position] = Decimal(row.milliseconds)
    parts: dict[int, int] = {}
    for weights in by_card.values():
        parts |= largest_remainder(10**_RATIO_DIGITS, weights)
    for position, row in enumerate(bill.rows):
        ratio = Decimal(parts[position]).scaleb(-_RATIO_DIGITS)
        yield dict(sorted({**same, **_of_payer(row), **_of_charge(row, ratio)}.items()))


def _of_payer(row: BillRow) -> dict[str, Any]:
    """Whose the part is; null for what nobody had."""
    payer = row.payer
    account, kind = payer.namespace, "Namespace"
    if not account:  # a group: of its user or account where the bill is by these, else of its kind
        is_charged = payer.owner_kind in {"user", "account"} and not payer.pod and payer.owner
        account = payer.owner if is_charged else payer.owner_kind
        kind = payer.owner_kind.capitalize() if is_charged else "Kind"
    whole = (payer.namespace, payer.owner_kind, payer.owner, payer.pod)
    return {
        "AllocatedResourceId": "/".join(filter(None, whole)) or None,
        "AllocatedResourceName": payer_of(row) if account else None,
        **dict.fromkeys(("SubAccountId", "SubAccountName"), account or None),
        "SubAccountType": kind if account else None,
        "x_Payer": payer_of(row),
        "x_PayerKind": payer.kind,
    }


def _of_charge(row: BillRow, ratio: Decimal) -> dict[str, Any]:
    """What the part is of the card and of its price, and when."""
    begin, end = month(*row.period)
    hours = _hours(row.milliseconds)
    element = {"AllocatedRatio": float(ratio), "UsageUnit": _HOURS, "UsageQuantity": float(hours)}
    model = row.card.model or "GPU"
    return {
        "AllocatedMethodDetails": json.dumps({"Elements": [element], "x_Part": row.part.value}),
        **dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), row.cost),
        "BillingPeriodEnd": end,
        "BillingPeriodStart": begin,
        "ChargeDescription": f"{row.part.value} time of GPU {row.card.uuid}",
        "ChargePeriodEnd": written(row.period.until_s),
        "ChargePeriodStart": written(row.period.since_s),
        **dict.fromkeys(("ConsumedQuantity", "PricingQuantity"), hours),
        **dict.fromkeys(("ContractedUnitPrice", "ListUnitPrice"), row.hourly),
        "ResourceId": row.card.uuid,
        "ResourceName": f"{row.card.node}/{row.card.uuid}",
        "SkuId": model,
        "SkuPriceId": f"{model}/hour",
        "x_BorrowedQuantity": _hours(row.borrowed_ms),
        "x_Part": row.part.value,
    }


def _hours(milliseconds: int) -> Decimal:
    return (Decimal(milliseconds) / _HOUR_MS).quantize(_RATIO)


def month(since_s: int, until_s: int) -> tuple[str, str]:
    """The billing period: the months, in UTC, that the range touches."""
    # A range that ends as a month begins does not touch that month.
    first, last = (datetime.fromtimestamp(at, UTC) for at in (since_s, max(since_s, until_s - 1)))
    # From the first of any month 31 days lead into the next one, and never beyond it.
    after = last.replace(day=1) + timedelta(days=31)
    begin, end = (f"{day:%Y-%m}-01T00:00:00Z" for day in (first, after))
    return begin, end


def as_csv(bill: Bill, issuer: str, account: str) -> str:
    """The rows as CSV with a head; null is empty."""
    out = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows(bill, issuer, account):
        if writer is None:
            writer = csv.DictWriter(out, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return out.getvalue()


def _cell(value: object) -> object:
    # Without an exponent: a spreadsheet may take 1E+3 for a text.
    return cell(value) if isinstance(value, str) else f"{value:f}" if value is not None else None
