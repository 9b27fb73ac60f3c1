"""What importers of cost and usage met with files of the format FOCUS."""

import csv
import io
from decimal import Decimal

from exporter.answers.bill import focus
from exporter.answers.bill.bill import bill_of
from exporter.answers.bill.books import CardBook
from exporter.answers.bill.money import Prices
from exporter.answers.bill.parts import CardStep, Had, Payer
from exporter.answers.reading.ranges import Span
from exporter.answers.reading.who import CardFacts
from tests.field.report import report

MUST = {  # of version 1.2's columns those that every data set has
    *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency"),
    *("BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass"),
    *("ChargeDescription", "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost"),
    *("EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity", "PricingUnit"),
    *("ProviderName", "PublisherName", "ServiceCategory", "ServiceName", "ServiceSubcategory"),
}


@report(
    source="FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec#1974",
    seen="Files missed columns that must be there, had units such as «Instance Hours», and issuers "
    "that differ from providers, which a validator takes for a third party's bill.",
    first="right",
    group="configuration",
)
def test_a_bill_has_the_columns_units_and_one_name_of_who_provides() -> None:
    begin, hour = 1_780_000_000 // 3600 * 3600, 3600
    step = CardStep({Payer("0042", "Job", "7"): Had(900.0, 1800.0, 0.0)}, 3600.0, 900.0, 0.0, 0.0)
    book = CardBook(CardFacts("GPU-1", "node-1", "L4", {}), {0: step}, begin, begin + hour)
    span = Span(begin, begin + hour, hour)
    bill = bill_of([book], Prices(flat=Decimal("1.20")), "allocation", "owner", span)
    rows = list(csv.DictReader(io.StringIO(focus.as_csv(bill, "Platform", "prod-1"))))
    assert rows
    for row in rows:
        assert row.keys() >= MUST
        empty = {name for name in MUST if not row[name]}
        assert empty == {"ChargeClass"}  # null: it is no correction
        assert {row[name] for name in ("ProviderName", "InvoiceIssuerName", "PublisherName")} == {
            "Platform"
        }
        assert row["PricingUnit"] == row["ConsumedUnit"] == "GPU-Hours"
        assert row["SubAccountId"] in {"0042", ""}
