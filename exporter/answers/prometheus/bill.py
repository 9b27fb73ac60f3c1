"""The bill of a range: every card's time, divided to the last millisecond and unit of money."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from exporter.answers.prometheus.books import CardBook, CardFacts
from exporter.answers.prometheus.money import Prices, amount, cost_of, largest_remainder, units
from exporter.answers.prometheus.parts import NOBODY, Part, Parts, Payer, divide

_MS = 1000


@dataclass(frozen=True, slots=True)
class BillRow:
    """A part of a card's time: whose, how long in milliseconds of the card, and its price."""

    card: CardFacts
    payer: Payer
    part: Part
    milliseconds: int
    cost: Decimal
    hourly: Decimal
    borrowed_ms: int = 0


@dataclass(frozen=True, slots=True)
class Bill:
    """The bill of a range in Unix seconds. The rows of a card add up to its time and its price."""

    since_s: int
    until_s: int
    method: str
    currency: str
    rows: tuple[BillRow, ...]

    @property
    def milliseconds(self) -> int:
        """The time of all cards."""
        return sum(row.milliseconds for row in self.rows)

    @property
    def cost(self) -> Decimal:
        """The price of all cards' time."""
        return sum((row.cost for row in self.rows), Decimal(0))

    def of(self, part: Part) -> int:
        """The time that this part makes up, in milliseconds."""
        return sum(row.milliseconds for row in self.rows if row.part is part)


class Unpriced(ValueError):  # noqa: N818 - it says what is missing
    """A card has no price. ``models`` are those without one."""

    def __init__(self, models: Sequence[str]) -> None:
        super().__init__(", ".join(models))
        self.models = tuple(models)


def bill_of(
    books: Iterable[CardBook],
    prices: Prices,
    method: str,
    by: str,
    since_s: int,
    until_s: int,
) -> Bill:
    """The bill of some cards. Parts are those of pods, summed by who pays.

    Raises:
        Unpriced: there are cards without a price.

    """
    rows: list[BillRow] = []
    unpriced: set[str] = set()
    for book in books:
        hourly = prices.of(book.facts.model, book.facts.node_labels)
        if hourly is None:
            unpriced.add(book.facts.model or book.facts.uuid)
            continue
        rows += _card_rows(book, hourly, method, by)
    if unpriced:
        raise Unpriced(sorted(unpriced))
    return Bill(since_s, until_s, method, prices.currency, tuple(rows))


def _card_rows(book: CardBook, hourly: Decimal, method: str, by: str) -> list[BillRow]:
    length_ms = round((book.end_s - book.begin_s) * _MS)
    parts: Parts = defaultdict(float)
    for step in book.steps.values():
        for (payer, part), seconds in divide(step, method).items():
            parts[payer.of(by), part] += seconds
    # What nobody counted of the card's time is a part too, so that they are all of it. The time
    # is divided into whole milliseconds, and the price by these into whole units of money: rounded
    # one by one, neither would add up.
    exact = {key: Decimal(repr(seconds * _MS)) for key, seconds in parts.items()}
    missing = length_ms - sum(exact.values(), Decimal(0))
    if missing > 0:
        unobserved = NOBODY, Part.UNOBSERVED
        exact[unobserved] = exact.get(unobserved, Decimal(0)) + missing
    divided = largest_remainder(length_ms, exact)
    costs = largest_remainder(
        units(cost_of(length_ms, hourly)), {key: Decimal(ms) for key, ms in divided.items()}
    )
    borrowed: dict[Payer, float] = defaultdict(float)
    for step in book.steps.values():
        for payer, had in step.had.items():
            borrowed[payer.of(by)] += had.borrowed
    # What was borrowed is a note on a payer's first row, and no part: it is in what others left.
    marked: set[Payer] = set()
    rows = []
    for key in sorted(divided):
        payer, part = key
        if not divided[key] and not costs[key]:
            continue
        note = 0 if payer in marked else round(borrowed[payer] * _MS)
        marked.add(payer)
        rows.append(
            BillRow(book.facts, payer, part, divided[key], amount(costs[key]), hourly, note)
        )
    return rows
