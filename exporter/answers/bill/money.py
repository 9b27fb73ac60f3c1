"""Prices and money. Decimals throughout; what is divided adds up to the last unit."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import NamedTuple, TypeVar

from exporter.answers.reading.nodelabels import sanitized

K = TypeVar("K", bound=Hashable)

HOUR_MS = 3_600_000
DEAREST = Decimal(10) ** 6  # of a card's hour
DIGITS = 6  # of an amount of money


class Priced(NamedTuple):
    """A card's price of an hour, and what it is by: a node's label and value, or a model.

    Both are empty where it is the default.
    """

    hourly: Decimal
    label: str = ""
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of a card's hour: by a label of its node, else by model, else the same for all.

    ``by_node_label``: label → value → price. A model may be written shorter than the driver does:
    its first words are enough, and of several that fit the longest is meant.
    """

    currency: str = "USD"
    flat: Decimal | None = None
    by_model: Mapping[str, Decimal] = field(default_factory=dict)
    by_node_label: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)

    def of(self, model: str, node_labels: Mapping[str, str]) -> Priced | None:
        """The price of an hour of a card; None if there is none for it."""
        for label, prices in self.by_node_label.items():
            value = node_labels.get(label, node_labels.get(sanitized(label), ""))
            if value in prices:
                return Priced(prices[value], label, value)
        if entry := self.entry_of(model):
            return Priced(self.by_model[entry], entry=entry)
        return None if self.flat is None else Priced(self.flat)

    def entry_of(self, model: str) -> str:
        """The entry of the file that a model's price is by; "" if it has none."""
        # An entry ends where a word of the model does: the price of a T4 is not that of a T400.
        known = model.casefold()
        fitting = [
            entry
            for entry in self.by_model
            if known.startswith(start := entry.casefold())
            and not known[len(start) : len(start) + 1].isalnum()
        ]
        return max(fitting, key=len, default="")


def price(text: str) -> Decimal:
    """The price that a text states; raises ValueError if it is none."""
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("nan")
    if not found.is_finite() or not 0 <= found <= DEAREST:
        raise ValueError(f"{text[:40]!r} is no price from 0 to {DEAREST:,}")
    return found


def largest_remainder(total: int, weights: Mapping[K, Decimal]) -> dict[K, int]:
    """Splits whole units by weight. What is left goes to the largest remainders, then by key."""
    of_all = sum(weights.values())
    if not of_all:
        return dict.fromkeys(weights, 0)
    exact = {key: total * weight / of_all for key, weight in weights.items()}
    found = {key: int(value) for key, value in exact.items()}
    left = total - sum(found.values())
    if left > 0:
        rest = {key: found[key] - value for key, value in exact.items()}  # the largest is the least
        last = sorted(rest.values())[left - 1]
        first = [key for key, value in rest.items() if value < last]
        # By key: the same bill has the same rows, whatever was read first.
        equal = sorted((key for key, value in rest.items() if value == last), key=str)
        for key in (*first, *equal)[:left]:
            found[key] += 1
    return found


def cost_of(milliseconds: int, hourly: Decimal) -> Decimal:
    """The price of this time of a card, rounded to the last unit."""
    return round(Decimal(milliseconds) * hourly / HOUR_MS, DIGITS)


def units(amount: Decimal) -> int:
    """The amount in last units."""
    return int(amount.scaleb(DIGITS))


def amount(of_units: int) -> Decimal:
    """The amount of these units."""
    return Decimal(of_units).scaleb(-DIGITS)
