"""What a bill says beside its figures: each thing in one line, however many cards it is of."""

from decimal import Decimal

import pytest

from exporter.answers.bill.books import CardBook
from exporter.answers.bill.money import Prices
from exporter.answers.bill.parts import CardStep, Had, Payer
from exporter.answers.bill.remarks import Remarks
from exporter.answers.reading.who import CardFacts

HOUR_S = 3600
MODELS = ("NVIDIA A10", "NVIDIA H100 80GB HBM3", "NVIDIA L4", "NVIDIA L40S", "Tesla T4")


def lines(prices: Prices) -> list[str]:
    """The remarks on an hour of a card of each model, on a node each."""
    remarks = Remarks(prices)
    remarks.take(
        CardBook(CardFacts(f"GPU-{n}", f"node-{n}", model, {}), end_s=HOUR_S)
        for n, model in enumerate(MODELS)
    )
    return list(remarks.lines())


def test_all_models_without_a_price_are_one_line() -> None:
    said = lines(Prices(flat=Decimal("1.80"), by_model={"NVIDIA H100": Decimal("3.50")}))

    fallen, taken = said
    assert fallen == (
        "4.00 GPU hours of 4 nodes (node-0, node-2, node-3, node-4) are at the default price 1.80: "
        "no price for the model NVIDIA A10, NVIDIA L4, NVIDIA L40S, Tesla T4"
    )
    assert taken == "NVIDIA H100 is taken for NVIDIA H100 80GB HBM3"


def test_all_entries_without_a_card_are_one_line() -> None:
    known = dict.fromkeys((*MODELS, "NVIDIA B200", "NVIDIA V100"), Decimal(1))

    said = lines(Prices(by_model=known))

    assert said == ["no card in this range is a NVIDIA B200 or NVIDIA V100: none has that price"]


@pytest.mark.parametrize(("used_s", "lines_said"), [(80, 0), (90, 1)])
def test_hours_without_an_owner_are_said_from_a_thousandth_on(used_s: int, lines_said: int) -> None:
    """The newest jobs of seconds have none yet, in each bill of a fleet."""
    job = Payer("batch", pod="job-1")
    remarks = Remarks(Prices(), by="owner", method="use")
    step = CardStep({job: Had(allocated=used_s)})
    facts = CardFacts("GPU-1", "node-1", "NVIDIA L4", {})
    remarks.take([CardBook(facts, {0: step}, end_s=24 * HOUR_S, unidentified={job})])

    assert len([one for one in remarks.lines() if "the owner is not known" in one]) == lines_said
