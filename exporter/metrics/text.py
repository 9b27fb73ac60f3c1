"""Snapshot → the text of a page, in the Prometheus text format 0.0.4 and OpenMetrics 1.0.0. Pure.

Family by family, in the table's order. Formatted here and not by prometheus_client, whose 8-15 µs a
sample would be most of the exporter's CPU; the tests hold the result against its parsers. Both
formats differ in the name of a counter's family only.

OpenMetrics has the start time of every counter as ``_created``: a counter begins at 0 when the
exporter begins to count it. Prometheus can put that 0 into its store, so that ``increase()`` misses
nothing of what was counted before the first scrape.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

from exporter.metrics.families import FAMILIES, LEVELS, Family
from exporter.metrics.levelfacts import labelled_facts
from exporter.model import SECOND_NS, Holding, Number, Snapshot

_WORDS = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf", "True": "1", "False": "0"}
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Format(Enum):
    """A text format."""

    TEXT = "text"
    OPENMETRICS = "openmetrics"


def written(number: Number, divisor: int = 1) -> str:
    """Write ``number / divisor`` as the shortest text that reads back as the same float.

    An integer that is not divided is written as one.
    """
    text = repr(number if divisor == 1 else number / divisor)
    return _WORDS.get(text, text)


def _pattern(names: Iterable[str]) -> str:
    return ",".join([f'{name}="%s"' for name in names])


def _filled(pattern: str, values: tuple[str, ...]) -> str:
    """Write labels by their pattern. Most values need no escaping: one look at all of them."""
    text = "".join(values)
    if '"' in text or "\\" in text or "\n" in text or not text.isascii():
        values = tuple(map(escaped, values))
    return pattern % values


def escaped(value: str) -> str:
    """Escape a label's value, as both formats require.

    A half surrogate (an invalid byte of a path) becomes its escape in ASCII, so that values that
    differ stay different.
    """
    text = value if value.isascii() else value.encode(errors="backslashreplace").decode()
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def head(name: str, kind: str, about: str, form: Format) -> str:
    """Write a family's HELP and TYPE."""
    about = about.translate(_ESCAPES)
    if form is Format.OPENMETRICS and kind == "counter":
        name = name.removesuffix("_total")
    if form is Format.TEXT:  # in this format a quotation mark in HELP stands for itself
        about = about.replace(r"\"", '"')
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


Series = tuple[str, Number, Any]
"""The text of a series' labels, its number, and the fact that it was read from."""


def _series_of(family: Family, facts: Iterable[tuple[str, Any]]) -> Iterator[Series]:
    """The series of a family; ``facts`` are those of its level with the texts of their labels."""
    pattern, further, each = _pattern(family.labels), family.further, family.each
    for text, fact in facts:
        if each is None:
            yield from ((text, number, fact) for _, number in family.samples(fact))
            continue
        begin = f"{text[:-1]}," if text else "{"
        more = further(fact) if further is not None else {}
        end = f",{_filled(_pattern(more), tuple(more.values()))}}}" if more else "}"
        for own, number in each(fact):
            yield f"{begin}{_filled(pattern, own)}{end}", number, fact


class StartTimes:
    """When each counter on the pages began, as text in Unix seconds. Not thread-safe.

    A series that stood on the page before keeps its start. One that did not is new: it began no
    earlier than that page, and where its fact says since when it is observed, then. On the first
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

    def of(self, family: Family, series: Iterable[Series]) -> list[tuple[str, Number, str]]:
        """The texts of labels, the numbers and the starts of a counter's series."""
        known, starts = self._known.get(family.full_name, {}), dict[str, str]()
        found: list[tuple[str, Number, str]] = []
        for text, number, fact in series:
            start = known.get(text)
            if start is None:
                # The account of an owner says since when it counts. A series with labels of its own
                # may have begun later than its owner's account.
                is_owners = isinstance(fact, Holding) and not family.labels
                since_ns = (fact.since_unix_ns or 0) if is_owners else 0
                # Prometheus keeps no more than milliseconds. Rounded down, no start is later than
                # the first sample.
                start_ms = max(self._earliest_ns, since_ns) // (SECOND_NS // 1000)
                start = f"{start_ms // 1000}.{start_ms % 1000:03}"
            starts[text] = start
            found.append((text, number, start))
        self._known[family.full_name] = starts
        return found


class Renderer:
    """Writes pages. With ``created``, OpenMetrics pages have the start time of each counter.

    Not thread-safe.
    """

    def __init__(self, families: Sequence[Family] = FAMILIES, *, created: bool = False) -> None:
        self.families = families
        self.created = created
        self._starts = StartTimes()
        self._heads = {
            form: [head(f.full_name, f.type, f.help, form) for f in families] for form in Format
        }

    def follow(self, before: "Renderer") -> None:
        """Take over the start times of counters from another renderer, and share them with it."""
        self._starts = before._starts  # noqa: SLF001 - of the same class

    def render(
        self, snapshot: Snapshot, form: Format, levels: Collection[str] = tuple(LEVELS)
    ) -> bytes:
        """Write the families of these levels in the table's order; one without samples is left out.

        OpenMetrics' closing ``# EOF`` is not written: the caller may have more to add.
        """
        # A fact's labels are written once, and stand in the lines of all families of its level.
        facts: dict[str, list[tuple[str, Any]]] = {}
        for level in levels:
            names = LEVELS[level]
            pattern = f"{{{_pattern(names)}}}" if names else ""
            facts[level] = [
                (_filled(pattern, labels), fact) for labels, fact in labelled_facts(snapshot, level)
            ]
        dated = self.created and form is Format.OPENMETRICS
        if dated:
            self._starts.begin(snapshot)
        page: list[bytes] = []
        for family, about in zip(self.families, self._heads[form], strict=True):
            of_level = facts.get(family.level, ())
            if dated and family.type == "counter":
                # Prometheus looks for a counter's start in the lines after it, and finds the next
                # line soonest.
                name, divisor = family.full_name, family.divisor
                created = f"{name.removesuffix('_total')}_created"
                series = self._starts.of(family, _series_of(family, of_level))
                lines = [
                    f"{name}{text} {written(number, divisor)}\n{created}{text} {start}\n"
                    for text, number, start in series
                ]
            else:
                lines = _lines(family, of_level)
            if lines:
                page.append("".join([about, *lines]).encode())
        return b"".join(page)


def _lines(family: Family, facts: Iterable[tuple[str, Any]]) -> list[str]:
    """A line for each series; nine in ten are of families without labels of their own."""
    name, divisor, read = family.full_name, family.divisor, family.read
    if read is None:
        series = _series_of(family, facts)
        return [f"{name}{text} {written(number, divisor)}\n" for text, number, _ in series]
    if divisor > 1:  # of the ledger's integers: no not-a-number can be among them
        return [
            f"{name}{text} {number / divisor!r}\n"
            for text, fact in facts
            if (number := read(fact)) is not None
        ]
    return [
        f"{name}{text} {_WORDS.get(as_text := repr(number), as_text)}\n"
        for text, fact in facts
        if (number := read(fact)) is not None
    ]
