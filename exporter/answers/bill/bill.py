"""The bill of a range: every card's time, divided to the last millisecond and unit of money.

Each day of a card, in UTC, is divided by itself among pods and groups. A longer time is the sum of
its days, and a namespace's or an owner's part the sum of its pods'. So a day costs the same in a
bill of its own and in that of a month, and each ``--by`` adds up to the others.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from exporter.answers.bill.books import CardBook
from exporter.answers.bill.money import Prices, amount, cost_of, largest_remainder, units
from exporter.answers.bill.parts import NOBODY, Part, Parts, Payer, divide
from exporter.answers.reading.ranges import Span
from exporter.answers.reading.who import CardFacts

_MS = 1000
_HOUR_S, _DAY_S, _WEEK_S = 3600, 86_400, 604_800
_MONDAY_S = 4 * _DAY_S  # the first Monday since 1970
STEPS = {"1h": _HOUR_S, "1d": _DAY_S, "1w": _WEEK_S}
_UNOBSERVED = NOBODY, Part.UNOBSERVED


class Period(NamedTuple):
    """A part of a range that has rows of its own, in Unix seconds."""

    since_s: int
    until_s: int


@dataclass(frozen=True, slots=True)
class BillRow:
    """A part of a card's time: whose, how long in milliseconds of the card, and its price."""

    card: CardFacts
    period: Period
    payer: Payer
    part: Part
    milliseconds: int
    cost: Decimal
    hourly: Decimal
    borrowed_ms: int = 0

    def and_(self, other: "BillRow") -> "BillRow":
        """Both, of the same card, period and payer at the same price."""
        return replace(
            other,
            milliseconds=self.milliseconds + other.milliseconds,
            cost=self.cost + other.cost,
            borrowed_ms=self.borrowed_ms + other.borrowed_ms,
        )


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

    @property
    def periods(self) -> list[Period]:
        """The times that have rows of their own, in their order."""
        return sorted({row.period for row in self.rows})

    def of(self, part: Part) -> int:
        """The time that this part makes up, in milliseconds."""
        return sum(row.milliseconds for row in self.rows if row.part is part)


class Unpriced(ValueError):  # noqa: N818 - it says what is missing
    """A card has no price. ``models`` are those without one."""

    def __init__(self, models: Sequence[str]) -> None:
        super().__init__(", ".join(models))
        self.models = tuple(models)


def bill_of(
    books: Sequence[CardBook],
    prices: Prices,
    method: str,
    by: str,
    span: Span,
    step_s: int = 0,
    whole: Period | None = None,
) -> Bill:
    """The bill of some cards. Parts are those of pods, summed by who pays as ``Payer.of`` says.

    ``step_s``: how long each row is of, one of ``STEPS``; 0 stands for the whole range, which is
    ``whole`` where the span is only a part of it.

    Raises:
        Unpriced: there are cards without a price.

    """
    if whole is None:  # what the heading says is what was billed
        first_s = min((int(book.begin_s) for book in books), default=span.since_s)
        whole = Period(max(span.since_s, first_s), span.until_s)
    rows: list[BillRow] = []
    unpriced: set[str] = set()
    for book in books:
        priced = prices.of(book.facts.model, book.facts.node_labels)
        if priced is None:
            # It is not refused yet: one run names every model that has no price.
            unpriced.add(book.facts.model or book.facts.uuid)
            continue
        rows += _card_rows(_CardTime(book, span, method), by, priced.hourly, whole, step_s)
    if unpriced:
        raise Unpriced(sorted(unpriced))
    return Bill(whole.since_s, whole.until_s, method, prices.currency, tuple(rows))


class Total:
    """Adds up bills of parts of a range. It keeps no more than its own rows."""

    def __init__(self) -> None:
        self._first: Bill | None = None
        self._rows: dict[tuple[object, ...], BillRow] = {}
        self._currencies: set[str] = set()

    def add(self, bill: Bill) -> None:
        """Adds one."""
        self._first = self._first or bill
        self._currencies.add(bill.currency)
        for row in bill.rows:
            card = row.card
            # A card's labels are a mapping, which no key may hold. A price that they change is in
            # the key.
            key = card.uuid, card.node, card.model, row.hourly, row.period, row.payer, row.part
            before = self._rows.get(key)
            self._rows[key] = row if before is None else before.and_(row)

    @property
    def currencies(self) -> set[str]:
        """Those of the bills that were added."""
        return self._currencies

    def bill(self, since_s: int) -> Bill:
        """All of it, from the first card on; something was added."""
        assert self._first is not None  # noqa: S101 - a bill is made of what was added
        since_s = max(since_s, self._first.since_s)
        rows = (
            row
            if row.period.since_s >= since_s
            else replace(row, period=row.period._replace(since_s=since_s))
            for row in self._rows.values()
        )
        return replace(self._first, since_s=since_s, rows=tuple(_noted(rows)))


def summed(bills: Iterable[Bill], since_s: int) -> Bill:
    """One bill of parts of a range, from its first card on. A row is the sum of theirs."""
    total = Total()
    for one in bills:
        total.add(one)
    return total.bill(since_s)


def _noted(rows: Iterable[BillRow]) -> Iterator[BillRow]:
    """The rows in their order. What was borrowed is noted on the first of each payer."""
    groups: dict[tuple[object, ...], list[BillRow]] = defaultdict(list)
    for row in rows:
        card = row.card
        groups[card.node, card.uuid, row.period, row.payer, card.model, row.hourly].append(row)
    for _, mine in sorted(groups.items(), key=lambda each: each[0]):
        noted = sum(row.borrowed_ms for row in mine)
        some = [row for row in mine if row.milliseconds or row.cost]
        for row in sorted(some, key=lambda row: row.part):
            yield row if row.borrowed_ms == noted else replace(row, borrowed_ms=noted)
            noted = 0


class _CardTime:
    """The time of a card, in hours since 1970: its parts, and what was borrowed in them."""

    def __init__(self, book: CardBook, span: Span, method: str) -> None:
        self.book = book
        self.parts: dict[int, Parts] = defaultdict(lambda: defaultdict(float))
        self.borrowed: dict[int, dict[Payer, float]] = defaultdict(lambda: defaultdict(float))
        for number, step in book.steps.items():
            hour = (span.since_s // span.step_s + number) * span.step_s // _HOUR_S
            parts = self.parts[hour]
            for key, seconds in divide(step, method).items():
                parts[key] += seconds
            for payer, had in step.had.items():
                if had.borrowed:
                    self.borrowed[hour][payer] += had.borrowed

    def days(self) -> Iterator[range]:
        """The hours of each day in which the card was there."""
        begin, end = int(self.book.begin_s // _HOUR_S), -int(-self.book.end_s // _HOUR_S)
        day = _DAY_S // _HOUR_S
        for first in range(begin // day * day, end, day):
            yield range(max(begin, first), min(end, first + day))

    def length_ms(self, hours: range) -> int:
        """How long the card was there in these hours."""
        # Both ends are rounded, not the length: the books of a card that follow one another share
        # an end, and so they add up to its time.
        begin_s = max(self.book.begin_s, hours.start * _HOUR_S)
        end_s = min(self.book.end_s, hours.stop * _HOUR_S)
        return max(0, round(end_s * _MS) - round(begin_s * _MS))

    def borrowed_ms(self, hours: range) -> dict[Payer, int]:
        """What was borrowed in these hours."""
        found: dict[Payer, float] = defaultdict(float)
        for hour in hours:
            for payer, seconds in self.borrowed.get(hour, {}).items():
                found[payer] += seconds
        return {payer: round(seconds * _MS) for payer, seconds in found.items()}

    def exact(self, hours: range) -> dict[tuple[Payer, Part], Decimal]:
        """The parts of these hours in milliseconds. What nobody counted of them is a part, too."""
        parts: Parts = defaultdict(float)
        for hour in hours:
            for key, seconds in self.parts.get(hour, {}).items():
                parts[key] += seconds
        exact = {key: Decimal(repr(seconds * _MS)) for key, seconds in parts.items()}
        missing = self.length_ms(hours) - sum(exact.values(), Decimal(0))
        if missing > 0:
            exact[_UNOBSERVED] = exact.get(_UNOBSERVED, Decimal(0)) + missing
        return exact


class _Share(NamedTuple):
    """What a payer has of a card in some hours, in whole milliseconds and units of money."""

    milliseconds: int
    units: int


_Shares = Mapping[tuple[Payer, Part], _Share]


def _card_rows(
    card: _CardTime, by: str, hourly: Decimal, whole: Period, step_s: int
) -> Iterator[BillRow]:
    found: dict[Period, dict[tuple[Payer, Part], _Share]] = defaultdict(dict)
    borrowed: dict[Period, dict[Payer, int]] = defaultdict(lambda: defaultdict(int))
    for day in card.days():
        for hours, shares in _divided(card, day, hourly, by_hour=0 < step_s < _DAY_S):
            period = period_of(hours.start * _HOUR_S, step_s, whole)
            for (payer, part), (milliseconds, cost) in shares.items():
                key = payer.of(by), part
                before = found[period].get(key, _Share(0, 0))
                found[period][key] = _Share(before[0] + milliseconds, before[1] + cost)
            for payer, milliseconds in card.borrowed_ms(hours).items():
                borrowed[period][payer.of(by)] += milliseconds
    # What was borrowed is a note on a payer's first row, and no part: it is in what others left.
    for period, shares in sorted(found.items()):
        notes = borrowed[period]
        for (payer, part), (milliseconds, cost) in sorted(shares.items()):
            if milliseconds or cost:
                note = notes.pop(payer, 0)
                money = amount(cost)
                facts = card.book.facts
                yield BillRow(facts, period, payer, part, milliseconds, money, hourly, note)


def _divided(
    card: _CardTime, day: range, hourly: Decimal, *, by_hour: bool
) -> Iterator[tuple[range, _Shares]]:
    """The shares of a card's day, or of each hour of it: these add up to those of the day."""
    # The time is divided into whole milliseconds, and the price by these into whole units of money:
    # rounded one by one, neither would add up.
    length_ms = card.length_ms(day)
    divided = largest_remainder(length_ms, card.exact(day))
    weights = {key: Decimal(ms) for key, ms in divided.items()}
    costs = largest_remainder(units(cost_of(length_ms, hourly)), weights)
    if not by_hour:
        yield day, {key: _Share(divided[key], costs[key]) for key in divided}
        return
    hours: dict[int, dict[tuple[Payer, Part], _Share]] = {hour: {} for hour in day}
    exact = {hour: card.exact(range(hour, hour + 1)) for hour in day}
    for key, milliseconds in divided.items():
        had = {hour: parts[key] for hour, parts in exact.items() if key in parts}
        times = largest_remainder(milliseconds, had)
        prices = largest_remainder(costs[key], {hour: Decimal(ms) for hour, ms in times.items()})
        for hour, ms in times.items():
            hours[hour][key] = _Share(ms, prices[hour])
    for hour, shares in hours.items():
        yield range(hour, hour + 1), shares


def period_of(at_s: int, step_s: int, whole: Period) -> Period:
    """The period that a time is in; weeks begin on Monday."""
    if not step_s:
        return whole
    first_s = _MONDAY_S if step_s == _WEEK_S else 0
    begin_s = (at_s - first_s) // step_s * step_s + first_s
    return Period(max(begin_s, whole.since_s), min(begin_s + step_s, whole.until_s))
