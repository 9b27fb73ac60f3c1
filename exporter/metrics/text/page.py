"""Writes a page of a Snapshot in a text format: family by family, in the table's order.

The texts of labels and numbers are cached from page to page, because most of them stay and
formatting a float is slow.

OpenMetrics has the start time of every counter as ``_created``: a counter begins at 0 when the
exporter begins to count it. Prometheus can put that 0 into its store, so that ``increase()`` misses
nothing of what was counted before the first scrape.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from exporter.metrics.families import FAMILIES, LEVELS, NS, Family
from exporter.model import Number, Snapshot, Table
from exporter.rows.lazy import table_of

SINCE = "observed_since_timestamp_seconds"


class OrderedRows(NamedTuple):
    """The rows of a level in the page's order.

    ``texts`` are those of their labels. ``order``: the place of each row in ``table``.
    """

    texts: Sequence[str]
    order: Sequence[int]
    table: Table


class StartTimes:
    """When each counter on the pages began, as text in Unix seconds. Not thread-safe.

    A series that stood on the page before keeps its start. One that did not is new: it began no
    earlier than that page, and where its row says since when it is observed, then. On the first
    page it began with the collector. A series that left the page is forgotten: if it comes back,
    it begins again.
    """

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, str]] = {}
        self._before_ns: int | None = None
        self._earliest_ns = 0

    def begin(self, snapshot: Snapshot) -> None:
        """Begin the page of a Snapshot."""
        before = self._before_ns
        self._earliest_ns = snapshot.started_unix_ns if before is None else before
        self._before_ns = snapshot.unix_ns

    def of(self, family: Family, texts: Sequence[str], rows: OrderedRows) -> list[str]:
        """The start of each series of a counter, by the texts of its labels."""
        known = self._known.get(family.full_name, {})
        if len(known) == len(texts) and all(map(known.__contains__, texts)):  # as nearly always
            return [known[text] for text in texts]
        since = {} if family.labels else _since(rows)
        starts = {
            text: known.get(text) or _written(max(self._earliest_ns, since.get(text) or 0))
            for text in texts
        }
        self._known[family.full_name] = starts
        return list(starts.values())


def _since(rows: OrderedRows) -> Mapping[str, int]:
    """Since when the owner of each row is observed, by the texts of its labels."""
    column = rows.table.columns.get(SINCE)
    if column is None:
        return {}
    values = zip(rows.texts, (column[place] for place in rows.order), strict=True)
    return {text: value for text, value in values if isinstance(value, int)}


def _written(unix_ns: int) -> str:
    """Unix seconds with milliseconds, rounded down: Prometheus keeps no more."""
    milliseconds = unix_ns // (NS // 1000)
    return f"{milliseconds // 1000}.{milliseconds % 1000:03}"


_DIGITS = {10**digits: digits for digits in range(1, 16)}
_EXACT_BELOW = 1 << 52  # below it, floats are closer to one another than whole numbers are

_NOT_FINITE = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Format(Enum):
    """A text format."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


def written(number: Number, divisor: int) -> str:
    """Write ``number / divisor`` as the shortest text that reads back as the same float."""
    digits = _DIGITS.get(divisor)
    if digits and type(number) is int and divisor <= number < _EXACT_BELOW:
        text = str(number)  # as below, in a third of the time
        return f"{text[:-digits]}.{text[-digits:].rstrip('0') or '0'}"
    text = repr(number / divisor)
    return _NOT_FINITE.get(text, text)


def labelled(names: Iterable[str], values: Iterable[str], before: str = " ") -> str:
    """Write labels with their braces and a blank. A name, this text and a number make a line.

    ``before`` is another text of this kind. Its labels come first.
    """
    pairs = [f'{n}="{escaped(v)}"' for n, v in zip(names, values, strict=True)]
    if before != " ":
        pairs.insert(0, before[1:-2])
    return f"{{{','.join(pairs)}}} " if pairs else " "


def escaped(value: str) -> str:
    """Escape a label's value, as both formats require.

    A half surrogate (an invalid byte of a path) becomes its escape in ASCII, so that values that
    differ stay different.
    """
    return value.encode(errors="backslashreplace").decode().translate(_ESCAPES)


def head(name: str, kind: str, about: str, form: Format) -> str:
    """Write a family's HELP and TYPE."""
    about = about.translate(_ESCAPES)
    if form is Format.OPENMETRICS and kind == "counter":
        name = name.removesuffix("_total")
    if form is Format.TEXT:  # in this format a quotation mark in HELP stands for itself
        about = about.replace(r"\"", '"')
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


_PAGES = 2  # the cache holds at most as many numbers as this many pages have


class _Texts(dict[Number, str]):
    """The texts of numbers with one divisor, written on first use."""

    def __init__(self, divisor: int) -> None:
        self._divisor = divisor

    def __missing__(self, number: Number) -> str:
        text = self[number] = written(number, self._divisor)
        return text


class _Wholes(dict[Number, str]):
    """The texts of integers that are not divided."""

    def __missing__(self, number: Number) -> str:
        text = self[number] = str(number)
        return text


class Numbers:
    """Writes numbers and caches their texts. Equal numbers have one text: 0.0 and -0.0 too."""

    def __init__(self, divisors: Iterable[int]) -> None:
        self._divided = {divisor: _Texts(divisor) for divisor in {1, *divisors}}
        self._wholes = _Wholes()

    def written(self, numbers: Sequence[Number], divisor: int) -> list[str]:
        """Their texts: integers without a divisor as integers, all others as floats."""
        texts = self._divided[divisor]
        if divisor != 1:
            return list(map(texts.__getitem__, numbers))
        wholes, kinds = self._wholes, set(map(type, numbers))
        if kinds == {int}:  # and no bool
            return list(map(wholes.__getitem__, numbers))
        if int not in kinds:
            return list(map(texts.__getitem__, numbers))
        return [wholes[n] if type(n) is int else texts[n] for n in numbers]

    def forget(self, samples: int) -> None:
        """Clear the cache if it holds more numbers than ``_PAGES`` pages of ``samples`` samples."""
        everything = (self._wholes, *self._divided.values())
        if sum(map(len, everything)) > _PAGES * samples:
            for texts in everything:
                texts.clear()


_NO_MORE: Mapping[str, str] = {}


class Level:
    """Orders the rows of a level by their labels. ``names`` are the names of these labels."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._labels: Sequence[tuple[str, ...]] = []
        self._order: list[int] = []
        self._texts: list[str] = []

    def ordered(self, table: Table) -> OrderedRows:
        """The table's rows by their labels; the texts of labels are cached."""
        labels = table.labels
        if labels != self._labels:
            before = (self._labels[place] for place in self._order)
            known = dict(zip(before, self._texts, strict=True))
            order = sorted(range(len(labels)), key=labels.__getitem__)
            ordered = (labels[place] for place in order)
            texts = [known.get(one) or labelled(self._names, one) for one in ordered]
            self._labels, self._order, self._texts = labels, order, texts
        return OrderedRows(self._texts, self._order, table)


class Samples(NamedTuple):
    """The samples of a family: the texts of their labels, and their numbers."""

    texts: Sequence[str] = ()
    numbers: Sequence[Number] = ()


def samples_of(family: Family, rows: OrderedRows) -> Samples:
    """The samples of a family; nine in ten are of families without labels of their own."""
    column: Sequence[Any] | None = rows.table.columns.get(family.name)
    if column is None:
        return Samples()
    values = [column[place] for place in rows.order]
    if family.labels:
        return _labelled_samples(family, rows, values)
    if None not in values:
        return Samples(rows.texts, values)
    there = [place for place, value in enumerate(values) if value is not None]
    return Samples([rows.texts[place] for place in there], [values[place] for place in there])


def _labelled_samples(
    family: Family, rows: OrderedRows, values: Sequence[Mapping[tuple[str, ...], Number] | None]
) -> Samples:
    """The samples of a family with labels of its own; an ``open`` family may have further ones."""
    texts: list[str] = []
    numbers: list[Number] = []
    further = rows.table.more.get(family.name) if family.open else None
    for place, text, labels in zip(rows.order, rows.texts, values, strict=True):
        if not labels:
            continue
        more = (further[place] if further else None) or _NO_MORE
        names = (*family.labels, *more)
        texts += [labelled(names, (*one, *more.values()), text) for one in labels]
        numbers += labels.values()
    return Samples(texts, numbers)


def _lines(name: str, texts: Sequence[str], numbers: Sequence[str]) -> bytes:
    """A line for each sample. All are joined at once: a string for each line would cost more."""
    parts = [f"\n{name}"] * (3 * len(texts))
    parts[0] = name
    parts[1::3], parts[2::3] = texts, numbers
    parts.append("\n")
    return "".join(parts).encode()


def _lines_with_starts(
    name: str, texts: Sequence[str], numbers: Sequence[str], starts: Sequence[str]
) -> bytes:
    """Like ``_lines``, with the line of its start time after each counter's line.

    Prometheus looks for a counter's start in the lines after it, and finds the next line soonest.
    """
    created = f"{name.removesuffix('_total')}_created"
    many = zip(texts, numbers, starts, strict=True)
    lines = [f"{name}{text}{number}\n{created}{text}{start}\n" for text, number, start in many]
    return "".join(lines).encode()


class Renderer:
    """Writes pages. It caches the texts of labels and numbers, because most of them stay.

    With ``created``, OpenMetrics pages have the start time of each counter. Not thread-safe.
    """

    def __init__(self, families: Sequence[Family] = FAMILIES, *, created: bool = False) -> None:
        self.families = families
        self.created = created
        self._starts = StartTimes()
        self._heads = {
            form: [head(f.full_name, f.type, f.help, form).encode() for f in families]
            for form in Format
        }
        self._levels = {level: Level(names) for level, names in LEVELS.items()}
        self._numbers = Numbers(family.divisor for family in families)

    def follow(self, before: "Renderer") -> None:
        """Take over the start times of counters from another renderer, and share them with it."""
        self._starts = before._starts  # noqa: SLF001 - of the same class

    def render(
        self, snapshot: Snapshot, form: Format, levels: Collection[str] = tuple(LEVELS)
    ) -> bytes:
        """Write the families of these levels in the table's order; one without samples is left out.

        OpenMetrics' closing ``# EOF`` is not written: the caller may have more to add.
        """
        rows = {
            level: self._levels[level].ordered(table_of(snapshot.rows, level)) for level in levels
        }
        page: list[bytes] = []
        count = 0
        dated = self.created and form is Format.OPENMETRICS
        if dated:
            self._starts.begin(snapshot)
        for family, about in zip(self.families, self._heads[form], strict=True):
            if family.level not in rows:
                continue
            texts, numbers = samples_of(family, rows[family.level])
            if texts:
                written_numbers = self._numbers.written(numbers, family.divisor)
                if dated and family.type == "counter":
                    since = self._starts.of(family, texts, rows[family.level])
                    lines = _lines_with_starts(family.full_name, texts, written_numbers, since)
                else:
                    lines = _lines(family.full_name, texts, written_numbers)
                page += about, lines
                count += len(texts)
        self._numbers.forget(count)
        return b"".join(page)
