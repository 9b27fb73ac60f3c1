"""Prices and money. Decimals throughout; what is divided adds up to the last unit."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)

HOUR_MS = 3_600_000
DEAREST = Decimal(10) ** 6  # of a card's hour
DIGITS = 6  # of an amount of money


class PriceError(ValueError):
    """A price file or flag cannot be used. ``problems`` has a sentence for each mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Prices:
    """The price of a card's hour: by a label of its node, else by model, else the same for all.

    ``by_node_label``: label → value → price.
    """

    currency: str = "USD"
    flat: Decimal | None = None
    by_model: Mapping[str, Decimal] = field(default_factory=dict)
    by_node_label: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)

    def of(self, model: str, node_labels: Mapping[str, str]) -> Decimal | None:
        """The price of an hour of a card; None if there is none for it."""
        for label, prices in self.by_node_label.items():
            found = prices.get(node_labels.get(label, node_labels.get(sanitized(label), "")))
            if found is not None:
                return found
        return self.by_model.get(model, self.flat)


def sanitized(label: str) -> str:
    """A label of a node as Prometheus writes it."""
    return "".join(char if char.isascii() and char.isalnum() else "_" for char in label)


def price(text: object) -> Decimal:
    """The price that a text or number states; raises ValueError if it is none."""
    try:
        found = Decimal(str(text))
    except InvalidOperation:
        found = Decimal("nan")
    if isinstance(text, bool) or not found.is_finite() or not 0 <= found <= DEAREST:
        raise ValueError(f"{str(text)[:40]!r} is no price from 0 to {DEAREST:,}")
    return found


_KEYS = ("currency", "default", "models", "node_labels")


def prices_of(document: Any) -> Prices:  # noqa: ANN401 - of a user's file
    """The prices of a price file, once parsed.

    Raises:
        PriceError: with all mistakes.

    """
    problems: list[str] = []

    def one(where: str, value: object) -> Decimal:
        try:
            return price(value)
        except ValueError as error:
            problems.append(f"{where}: {error}")
            return Decimal(0)

    def many(where: str, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            problems.append(f"{where}: a mapping is needed")
            return {}
        return {str(key): mine for key, mine in value.items()}

    given = many("the file", document if document is not None else {})
    problems += [
        f"{key}: unknown; known are {', '.join(_KEYS)}" for key in given if key not in _KEYS
    ]
    currency = given.get("currency", "USD")
    if not (isinstance(currency, str) and len(currency) == 3 and currency.isalpha()):  # noqa: PLR2004 - ISO 4217
        problems.append("currency: three letters are needed, such as EUR")
    made = Prices(
        str(currency).upper(),
        one("default", given["default"]) if "default" in given else None,
        {
            model: one(f"models: {model}", value)
            for model, value in many("models", given.get("models", {})).items()
        },
        {
            label: {v: one(f"node_labels: {label}: {v}", p) for v, p in many(label, values).items()}
            for label, values in many("node_labels", given.get("node_labels", {})).items()
        },
    )
    if problems:
        raise PriceError(problems)
    return made


def largest_remainder(total: int, weights: Mapping[K, Decimal]) -> dict[K, int]:
    """Splits whole units by weight. What is left goes to the largest remainders, then by key."""
    whole = sum(weights.values())
    if not whole:
        return dict.fromkeys(weights, 0)
    exact = {key: total * weight / whole for key, weight in weights.items()}
    found = {key: int(value) for key, value in exact.items()}
    left = total - sum(found.values())
    order = sorted(exact, key=lambda key: (found[key] - exact[key], str(key)))
    for key in order[:left]:
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
