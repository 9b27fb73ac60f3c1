"""What a bill says beside its figures: which prices are defaults, and which entries have no card.

A part is not the whole: one node has a label, another has not, and nobody sees it by the sum.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from exporter.answers.bill.books import CardBook
from exporter.answers.bill.money import Prices
from exporter.answers.reading.lives import name_of
from exporter.answers.reading.nodelabels import sanitized
from exporter.answers.reading.ranges import written

_HOUR_S = 3600
_LEAST_HOURS = 0.005  # less would be said as 0.00
_MOST = 10  # names or lines
_NUMBERED = re.compile(r"_conflict\d+$")


class Remarks:
    """Collects them from the books of one range after another."""

    def __init__(self, prices: Prices, by: str = "", key: str = "", method: str = "") -> None:
        """``by`` and ``key``: who pays, as ``label`` and the label's name; ``method``: for what."""
        self._prices, self._by = prices, f"{by}:{sanitized(key)}"
        self._is_for_use = method == "use"
        self._is_owned = by in {"owner", "label"}
        self._whose = f"label {key}" if by == "label" else by
        self.first_s: float | None = None  # of the first card
        # GPU hours until counting began, of each exporter and time; of pods without an owner
        self._late: dict[tuple[str, float], float] = defaultdict(float)
        self._unidentified: dict[str, float] = defaultdict(float)
        self._hours = 0.0
        self._labels: set[str] = set()  # of all nodes, as Prometheus has them
        self._values: set[tuple[str, str]] = set()
        self._models: set[str] = set()
        # by price: the GPU hours by node, and why there is no price of their own
        self._fell_back: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._whys: dict[str, set[str]] = defaultdict(set)

    def take(self, books: Iterable[CardBook]) -> None:
        """Takes the books of a range."""
        prices = self._prices
        for book in books:
            self.first_s = min(book.begin_s, book.begin_s if self.first_s is None else self.first_s)
            for one in book.late:
                late_s = min(one.from_s, book.end_s) - max(one.since_s, book.begin_s)
                self._late[name_of(one.target), one.from_s] += late_s / _HOUR_S
            self._take_unidentified(book)
            self._hours += (book.end_s - book.begin_s) / _HOUR_S
            labels, model = book.facts.node_labels, book.facts.model
            self._labels |= labels.keys()
            self._models.add(model)
            for label in prices.by_node_label:
                self._values |= {(label, labels.get(one, "")) for one in (label, sanitized(label))}
            priced = prices.of(model, labels)
            if priced is None or priced.label or not (prices.by_node_label or prices.by_model):
                continue
            # Without prices by label, a model's price is the card's own: it did not fall back to
            # it.
            if priced.entry and not prices.by_node_label:
                continue
            what = f"the price of {priced.entry}" if priced.entry else "the default price"
            price = f"{what} {priced.hourly}"
            hours = (book.end_s - book.begin_s) / _HOUR_S
            self._fell_back[price][book.facts.node or book.facts.uuid] += hours
            self._whys[price].add(self._why(book))

    def _take_unidentified(self, book: CardBook) -> None:
        """Takes the hours of the pods whose owner or label nobody knows."""
        for step in book.steps.values() if self._is_owned else ():
            for payer, had in step.had.items():
                lacks = payer in book.unidentified or (
                    self._whose.startswith("label") and not payer.of(self._by).owner
                )
                billed = max(had.allocated, (had.used or 0.0) * self._is_for_use)
                if lacks and payer.namespace and billed:
                    name = f"{payer.namespace}/{payer.pod or '(short jobs)'}"
                    self._unidentified[name] += billed / _HOUR_S

    def _why(self, book: CardBook) -> str:
        """Why a card has no price of its own."""
        labels, missing = book.facts.node_labels, []
        for label, values in self._prices.by_node_label.items():
            value = labels.get(label, labels.get(sanitized(label)))
            if value is None:
                plain = sanitized(label)
                numbered = sorted(one for one in labels if _NUMBERED.sub("", one) == plain != one)
                collides = f" (it collides: label_{', label_'.join(numbered)})" if numbered else ""
                missing.append(f"no label {label}{collides}")
            elif value not in values:
                missing.append(f"no price for {label}={value}")
        if self._prices.by_model and not self._prices.entry_of(book.facts.model):
            missing.append(f"no price for the model {book.facts.model or '(unknown)'}")
        return " and ".join(missing)

    def lines(self) -> Iterator[str]:
        """Sentences for people."""
        late = sorted((each, hours) for each, hours in self._late.items() if hours >= _LEAST_HOURS)
        for (target, from_s), hours in late[:_MOST]:
            yield (
                f"counting of {target} begins at {written(int(from_s))}: it is older than the "
                f"range, and was not scraped as that began. Of {hours:.2f} GPU hours until then, "
                "what is not certain is unobserved"
            )
        if rest := late[_MOST:]:
            yield f"so does that of {len(rest)} others: {sum(h for _, h in rest):.2f} GPU hours"
        if (hours := sum(self._unidentified.values())) >= max(_LEAST_HOURS, self._hours / 1000):
            yield (
                f"of {hours:.2f} GPU hours the {self._whose} is not known: of "
                f"{_named('pod', self._unidentified)}"
            )
        for price, nodes in sorted(self._fell_back.items())[:_MOST]:
            # A fleet has many models: those without a price are one list, and not a sentence each.
            whys = "; ".join(sorted(self._whys[price])).replace("; no price for the model ", ", ")
            if (hours := sum(nodes.values())) >= _LEAST_HOURS:
                yield f"{hours:.2f} GPU hours of {_named('node', nodes)} are at {price}: {whys}"
        for name in self._prices.by_node_label:
            yield from self._of_label(name)
        entries = {one: self._prices.entry_of(one) for one in sorted(self._models)}
        if longer := [f"{of} is taken for {m}" for m, of in entries.items() if of not in {"", m}]:
            yield "; ".join(longer[:_MOST])
        if unused := [one for one in self._prices.by_model if one not in entries.values()]:
            yield f"no card in this range is a {' or '.join(unused[:_MOST])}: none has that price"

    def _of_label(self, name: str) -> Iterator[str]:
        """What is to be said of a node's label that prices are by."""
        plain = sanitized(name)
        numbered = sorted(one for one in self._labels if _NUMBERED.sub("", one) == plain != one)
        if not self._labels & {name, plain} and not numbered:
            yield (
                f"no node has the label {name}, as a label of its target or in kube_node_labels of "
                "this Prometheus: its prices are of no card"
            )
        elif numbered:
            yield (
                f"{name} is one of two labels of a node that Prometheus writes alike: they are "
                f"label_{', label_'.join(numbered)} there, and nobody says which is which. So "
                "neither has a price; name one of these in the price file"
            )
        if self._labels & {name, plain}:
            unused = [
                f"{name}={value}"
                for value in self._prices.by_node_label[name]
                if (name, value) not in self._values
            ]
            if unused:
                named = ", ".join(unused[:_MOST])
                yield f"no node in this range has {named}: its price is of no card"


def _named(what: str, names: Iterable[str]) -> str:
    """``the node a``, or ``3 nodes (a, b, c)``."""
    known = sorted(names)
    if len(known) == 1:
        return f"the {what} {known[0]}"
    more = ", …" if len(known) > _MOST else ""
    return f"{len(known)} {what}s ({', '.join(known[:_MOST])}{more})"
