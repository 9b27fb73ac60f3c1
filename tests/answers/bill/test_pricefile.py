"""The price file: what it means, and where it is wrong."""

from decimal import Decimal

import pytest

from exporter.answers.bill.money import Prices
from exporter.answers.bill.pricefile import PriceError, prices_of

FILE = """\
currency: eur
default: 1.80
models: {NVIDIA L4: "0.70"}
node_labels:
  cloud.google.com/gke-nodepool: {spot: 0.4}
"""


def test_a_label_of_the_node_is_before_the_model_and_that_before_the_default() -> None:
    prices = prices_of(FILE)
    spot = {"cloud_google_com_gke_nodepool": "spot"}
    found = [prices.of("NVIDIA L4", spot), prices.of("NVIDIA L4", {}), prices.of("T4", {})]
    assert [one.hourly for one in found if one] == [
        Decimal("0.4"),
        Decimal("0.70"),
        Decimal("1.80"),
    ]
    assert [one.entry for one in found if one] == ["spot", "NVIDIA L4", ""]
    assert prices.currency == "EUR"
    assert prices_of("") == Prices()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- 1", "line 1: keys are expected: currency, default, models, node_labels"),
        ("model: {}", "line 1: model: no such key; known: currency, default, models, node_labels"),
        ("default: 1\ndefault: 2", "line 2: default: given twice; see line 1"),
        ("default: 1,50", "line 1: default: '1,50' is no price from 0 to 1,000,000"),
        ("default: [1]", "line 1: default: one value is needed"),
        ("currency: euro", "line 1: currency: 'euro' is no currency: three letters are needed, "),
        ("models:\n- a", "line 2: models: a mapping is needed"),
        ("models:\n  a: 1\n  b: x", "line 3: models.b: 'x' is no price"),
        ("models:\n  a: 1\n  a: 2", "line 3: models.a: given twice; see line 2"),
        ("models:\n  a: 1\n  [b]: 2", "line 3: models: a key is one value"),
        ("node_labels: {a: 1}", "line 1: node_labels.a: a mapping is needed"),
        ("node_labels:\n  a:\n    b: true", "line 3: node_labels.a.b: 'true' is no price"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(PriceError) as error:
        prices_of(text)
    assert said in str(error.value)


def test_all_mistakes_are_named() -> None:
    with pytest.raises(PriceError) as error:
        prices_of("default: x\nmodels: 1\nother: 2\n")
    assert len(error.value.problems) == 3
