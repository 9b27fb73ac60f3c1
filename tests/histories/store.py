"""A store in this process that answers what our readers ask, as a Prometheus or a Thanos would."""

import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from exporter.answers.reading.jsonclient import HttpClient
from exporter.httpclient import NoAnswerError
from tests.histories.promql import Ask, Labels, Matcher, parsed
from tests.store import STALE, Store, sent

AVERAGED_S = 300.0
_FOUND = {"query": "vector", "query_range": "matrix"}


class Samples:
    """The samples of one series; None is a stale marker."""

    __slots__ = ("times", "values")

    def __init__(self) -> None:
        self.times: list[float] = []
        self.values: list[float | None] = []


class MemoryStore:
    """Takes scrapes in the order of their time, and answers the query API.

    ``opens``: ranges are those of Prometheus 3. ``averages``: it has five-minute blocks, which it
    answers from unless raw samples are asked for (Thanos, ``max_source_resolution``).
    """

    def __init__(self, *, opens: bool = False, averages: bool = False) -> None:
        self._known: dict[Labels, Samples] = {}
        self._series: dict[str, dict[Labels, Samples]] = {}
        self._shown: dict[object, set[Labels]] = {}
        self._opens, self._averages = opens, averages
        self._selected: dict[tuple[Matcher, ...], Sequence[tuple[Labels, Samples]]] = {}
        self._downsampled: MemoryStore | None = None
        self.now_s = math.inf
        """When a question without a time is asked."""
        self.asked: list[tuple[str, Mapping[str, str]]] = []
        """The questions, by path."""

    def show(self, writer: object, values: Mapping[Labels, float], at_s: float) -> None:
        """Takes values, and marks as stale what the same writer had before."""
        before, self._shown[writer] = self._shown.get(writer, set()), set(values)
        for labels, value in values.items():
            self._take(labels, at_s, value)
        for labels in before - values.keys():
            self._take(labels, at_s, None)

    def _take(self, labels: Labels, at_s: float, value: float | None) -> None:
        if (samples := self._known.get(labels)) is None:
            samples = self._known[labels] = Samples()
            self._series.setdefault(dict(labels)["__name__"], {})[labels] = samples
            self._selected.clear()
        samples.times.append(at_s)
        samples.values.append(value)

    def select(self, matchers: tuple[Matcher, ...]) -> Sequence[tuple[Labels, Samples]]:
        """The series that all matchers fit."""
        if matchers not in self._selected:
            of_name = [one for one in matchers if one.name == "__name__"]
            others = [one for one in matchers if one.name != "__name__"]
            self._selected[matchers] = [
                (labels, samples)
                for name, family in self._series.items()
                if all(one.fits({"__name__": name}) for one in of_name)
                for labels, samples in family.items()
                if all(one.fits(dict(labels)) for one in others)
            ]
        return self._selected[matchers]

    def series(self) -> Iterator[tuple[Labels, Samples]]:
        """All series."""
        for family in self._series.values():
            yield from family.items()

    def json(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The answer of the query API."""
        given = dict(query or {})
        kind = path.rpartition("/")[2]
        if kind not in _FOUND:
            raise NoAnswerError(f"{path} answers 404", status=404)
        self.asked.append((kind, given))
        # Thanos takes the finest data only if the greatest resolution that is wanted says so.
        is_raw = given.get("max_source_resolution", "") in {"0", "0s"}
        source = self._averaged() if self._averages and not is_raw else self
        node = parsed(given["query"])
        if kind == "query":
            at_s = float(given.get("time", self.now_s))
            value = node(Ask(source, at_s, self._opens))
            result = list(_vector(value, at_s if at_s < math.inf else 0.0))
        else:
            begin_s, end_s = float(given["start"]), float(given["end"])
            result = list(source._over(node, begin_s, end_s, float(given["step"])))
        return {"status": "success", "data": {"resultType": _FOUND[kind], "result": result}}

    def _over(
        self, node: Any, begin_s: float, end_s: float, step_s: float
    ) -> Iterator[dict[str, Any]]:
        found: dict[Labels, list[list[object]]] = {}
        at_s = begin_s
        while at_s <= end_s:
            for labels, value in node(Ask(self, at_s, self._opens)):
                found.setdefault(labels, []).append([at_s, repr(value)])
            at_s += step_s
        for labels, values in found.items():
            yield {"metric": dict(labels), "values": values}

    def _averaged(self) -> "MemoryStore":
        """The same in blocks of five minutes: averages of gauges, and counters without resets."""
        if self._downsampled is None:
            self._downsampled = MemoryStore(opens=self._opens)
            for name, family in self._series.items():
                self._downsampled._series[name] = {
                    labels: _averages(samples, is_counter=name.endswith("_total"))
                    for labels, samples in family.items()
                }
        return self._downsampled


def _averages(samples: Samples, *, is_counter: bool) -> Samples:
    """One sample for each five minutes.

    What Thanos says of a downsampled counter is its growth, without resets; of a gauge the average,
    whatever is asked.
    """
    found = Samples()
    window: list[tuple[float, float]] = []
    total, last = 0.0, None
    for at_s, value in zip(samples.times, samples.values, strict=True):
        if value is None:
            continue
        if window and at_s // AVERAGED_S != window[0][0] // AVERAGED_S:
            _close(found, window, is_counter=is_counter)
            window = []
        total += value if last is None or value < last else value - last
        last = value
        window.append((at_s, total if is_counter else value))
    if window:
        _close(found, window, is_counter=is_counter)
    return found


def _close(found: Samples, window: Sequence[tuple[float, float]], *, is_counter: bool) -> None:
    mean = math.fsum(value for _, value in window) / len(window)
    found.times.append(window[-1][0])
    found.values.append(window[-1][1] if is_counter else mean)


def _vector(value: Any, at_s: float) -> Iterator[dict[str, Any]]:
    """The elements of an instant answer; a range has all its samples."""
    found: list[Any] = [((), value)] if isinstance(value, float) else value
    for each in found:
        if len(each) == 2:
            yield {"metric": dict(each[0]), "value": [at_s, repr(each[1])]}
        else:
            pairs = zip(each[1], each[2], strict=True)
            yield {"metric": dict(each[0]), "values": [[t, repr(v)] for t, v in pairs]}


def written(store: MemoryStore, real: Store) -> None:
    """Gives a real Prometheus all samples of a store, stale markers too."""
    for labels, samples in store.series():
        both = zip(samples.times, samples.values, strict=True)
        points = [
            (round(at_s * 1000), STALE if value is None else struct.pack("<d", value))
            for at_s, value in both
        ]
        for begin in range(0, len(points), 20_000):
            real.write([sent(labels, points[begin : begin + 20_000])])


@contextmanager
def answering(store: MemoryStore) -> Iterator[str]:
    """An address at which our readers find the store: their HTTP client asks it directly."""
    with patch.object(HttpClient, "json", lambda _, path, query=None: store.json(path, query)):
        yield "http://history:9090"


def filled(
    scrapes: Iterable[tuple[object, Mapping[Labels, float], float]], **how: bool
) -> MemoryStore:
    """A store that has taken all scrapes."""
    store = MemoryStore(**how)
    for writer, values, at_s in scrapes:
        store.show(writer, values, at_s)
    return store
