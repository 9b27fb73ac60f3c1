"""The query API of a Prometheus, or of what speaks it: Thanos, Mimir, VictoriaMetrics."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from itertools import product
from math import inf, isfinite
from operator import lt
from threading import Event
from typing import Any, NamedTuple, TypeGuard

from exporter.answers.reading.answer import Absent, Answer, Cut, Failed, Refused, Whole
from exporter.answers.reading.cutting import Cutter, is_too_much
from exporter.answers.reading.jsonclient import HttpClient
from exporter.httpclient import NoAnswerError, TooLongError
from exporter.metrics.families import FAMILIES, LEVELS
from exporter.shown.printable import clean

Labels = Mapping[str, str]

QUERY, RANGE = "/api/v1/query", "/api/v1/query_range"
SNAPSHOT = "/api/v1/snapshot"  # of an exporter
MAX_POINTS = 10_000  # of a series in one answer; Prometheus allows 11,000
MAX_SAMPLES = 400_000  # of an answer, about 12 MB: longer ranges are asked in pieces
MAX_SERIES = 50_000  # of an answer
LONGEST_S = 30 * 86_400  # of a question's times: services refuse 32 days, with what each looks back
MAX_NUMBER = 1e18  # in base units, such as bytes: what is larger is no figure of a node
MAX_JOINED = 4_000_000  # samples of several answers that are kept together
AGAIN_S = (1.0, 2.0, 4.0, 8.0)  # until a store that its users keep busy is asked again

_LABELS = 16  # a series' labels are as long as so many of its samples
_LONGEST_LABEL = 8192
_LONGEST_VALUE = 40  # digits of a float, and more
_STALE_S = 300  # the last sample of an instant may be so old
_NEVER_S = 1e11  # beyond all times of a clock
_ROUNDED_S = 1  # a question says its time in milliseconds
_NO_PAGE = {HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}

_RANGE = re.compile(r"\[(\d+)s\]$")  # at the end of an expression that selects samples
_NAMED = re.compile(r'(?:last_over_time\()?\{__name__=~"([^"\\]*)"')  # whose series keep names
_NO_PATTERNS = "matchtype for the __name__ label"  # Google's Managed Prometheus
_OF_PROMQL = "PromQL "  # how a warning begins that is of the question, not of the stores
_RAW = {"max_source_resolution": "0s"}  # Thanos: no averages
_ALL_STORES = {"partial_response": "false", "deny_partial_response": "1"}  # Thanos, VictoriaMetrics
_CONFLICTING = "exported_"  # what Prometheus puts before a label that its target has as well
OWN = {f.full_name: frozenset((*LEVELS[f.level], *f.labels)) for f in FAMILIES}
"""The labels that the exporter gives each family. All others are of the target."""

OF_SCRAPES = {
    *("__name__", "job", "instance", "namespace", "pod", "container", "service", "endpoint"),
    *("prometheus", "prometheus_replica", "replica", "node", "uid"),
}
"""Labels in which the targets of one place differ."""

NODE_LABELS = ("node", "kubernetes_node", "nodename", "instance")
"""Labels that name a target's node, the best first."""


class Series(NamedTuple):
    """A series with its samples, oldest first: their times in Unix seconds, and their values."""

    labels: Labels
    times: Sequence[float]
    values: Sequence[float]

    @property
    def samples(self) -> tuple[tuple[float, float], ...]:
        """Each time with its value."""
        return tuple(zip(self.times, self.values, strict=True))


class Grid(NamedTuple):
    """The times of a range, ``step_s`` apart, in Unix seconds. The first is its beginning."""

    begin_s: int
    end_s: int
    step_s: int

    @property
    def times(self) -> range:
        """All times; the end is one of them."""
        return range(self.begin_s, self.end_s + 1, self.step_s)


class Prometheus:
    """Asks one address. ``less`` is what a command can be asked for where an answer is too long.

    ``namespace``: proxies that restrict tenants (prom-label-proxy) need it as a parameter. With
    ``all_stores``, a server of several stores answers only if all of them do. ``targets``: which
    targets are trusted as exporters, by patterns of their labels; without any, all with our series.
    """

    def __init__(
        self,
        http: HttpClient,
        namespace: str = "",
        *,
        all_stores: bool = False,
        targets: Mapping[str, str] | None = None,
        less: str = "",
    ) -> None:
        self._http = http
        self._less = f"ask of less, such as {less}" if less else "ask of less"
        self._places = [(name, f"{name}=~{quoted(text)}") for name, text in (targets or {}).items()]
        self.targets = [matcher for _, matcher in self._places]
        self._always = _RAW | ({"namespace": namespace} if namespace else {})
        self._always |= _ALL_STORES if all_stores else {}
        self._needs_all = all_stores
        self._missing = ""
        self._interrupted = Event()

    @property
    def address(self) -> str:
        """The address, without credentials."""
        return self._http.address

    @property
    def trouble(self) -> str:
        """What the server said of stores that did not answer; "" if all did."""
        return f"not all stores of {self.address} answer: {self._missing}" if self._missing else ""

    def interrupt(self) -> None:
        """End the questions that other threads ask, and refuse all later ones."""
        self._interrupted.set()
        self._http.interrupt()

    def now(self) -> float | None:
        """The time by the server's clock, which may be another than this machine's."""
        return next((one.samples[-1][1] for one in self.at("vector(time())")), None)

    def selector(self, names: Iterable[str], *matchers: str, **labels: str) -> str:
        """A selector of exporters' families by their full names, matchers and label values."""
        equal = [f"{name}={quoted(value)}" for name, value in labels.items()]
        return f"{{{','.join([named(names), *matchers, *equal, *self.targets])}}}"

    def selector_of_others(self, names: Iterable[str], *matchers: str) -> str:
        """The same of others' families: of the trusted targets' places, not of their jobs."""
        places = [one for name, one in self._places if name not in OF_SCRAPES]
        return f"{{{','.join([named(names), *matchers, *places])}}}"

    def either(self, names: Collection[str], *matchers: str, **own: str) -> str:
        """The same by own labels, whether or not some of them were renamed."""
        return " or ".join(self.selector(names, *matchers, **chosen) for chosen in renamings(**own))

    def at(self, expression: str, unix_s: float | None = None) -> list[Series]:
        """The series of an instant query, with one sample each or, of a range, with all of them.

        Without a time it is of now. A range is written in seconds, at the end: ``up[300s]``.
        """
        if unix_s is None:  # of the server's clock, which may be another than this machine's
            return self._series(QUERY, {"query": expression}, 0, _NEVER_S)
        selected = _RANGE.search(expression)
        if selected is None:
            return self._lately(expression, unix_s, _STALE_S)
        chosen, length_s = expression[: selected.start()], int(selected[1])

        def ask(seconds: Sequence[int]) -> list[Series]:
            end_s = unix_s - length_s + seconds[-1]
            return self._lately(f"{chosen}[{len(seconds)}s]", end_s, len(seconds))

        # Nobody knows beforehand how often an exporter is scraped.
        parts = list(Cutter[int](length_s).ask(range(1, length_s + 1), ask))
        return parts[0] if len(parts) == 1 else self._joined(parts)

    def _lately(self, expression: str, unix_s: float, length_s: int) -> list[Series]:
        query = {"query": expression, "time": f"{unix_s:.3f}".rstrip("0").rstrip(".")}
        return self._series(QUERY, query, unix_s - length_s - _ROUNDED_S, unix_s + _ROUNDED_S)

    def over(self, expression: str, grid: Grid, points: int = 16) -> list[Series]:
        """The series of a range query. It is asked in pieces if the answer would be large."""
        return self._joined(self.pieces(expression, grid, points))

    def pieces(self, expression: str, grid: Grid, points: int = 16) -> Iterator[list[Series]]:
        """The same answer in pieces: some times of the grid after the others.

        ``points``: how many times the first piece has, which shows how many series there are.
        """

        def ask(part: Sequence[int]) -> list[Series]:
            query = {
                "query": expression,
                "start": str(part[0]),
                "end": str(part[-1]),
                "step": str(grid.step_s),
            }
            moved_s = grid.step_s - 1  # VictoriaMetrics, Thanos: ends are multiples of the step
            return self._series(RANGE, query, part[0] - moved_s, part[-1] + moved_s)

        most = max(1, min(MAX_POINTS, LONGEST_S // grid.step_s))
        cutter = Cutter[int](min(points, most), is_too_much)
        for answer in cutter.ask(grid.times, ask):
            yield answer
            # The others have as many times as one answer has room for.
            cutter.most = max(1, min(most, MAX_SAMPLES // max(1, len(answer)) - _LABELS))

    def _joined(self, pieces: Iterable[list[Series]]) -> list[Series]:
        """The series of several answers, each of later times than the one before."""
        found: dict[tuple[tuple[str, str], ...], tuple[list[float], list[float]]] = {}
        read = 0
        for one in (one for piece in pieces for one in piece):
            # JSON's objects have no order: another answer may have the same labels in another one.
            times, values = found.setdefault(tuple(sorted(one.labels.items())), ([], []))
            # Where a store moves the ends of a range, pieces overlap.
            new = bisect_right(one.times, times[-1]) if times else 0
            times += one.times[new:]
            values += one.values[new:]
            read += len(one.times) + _LABELS
            if read > MAX_JOINED:
                said = f"{self.address} answers with more than {MAX_JOINED:,} samples"
                raise TooLongError(f"{said}: {self._less}")
        return [
            Series(dict(labels), tuple(times), tuple(values))
            for labels, (times, values) in found.items()
        ]

    def _series(
        self, path: str, query: Mapping[str, str], first_s: float, last_s: float
    ) -> list[Series]:
        """What a question is answered with, of these times alone.

        Raises:
            TooLongError: the answer is cut, because it is too long.
            NoAnswerError: it is refused, has failed, or is cut where all stores have to answer.

        """
        answer = self.ask(path, query, first_s, last_s)
        match answer:
            case Whole(series):
                return list(series)
            case Absent():
                return []
            case Cut(why, None):
                raise TooLongError(why)
            case Cut(why, series):
                self._missing = why
                if self._needs_all:
                    raise NoAnswerError(f"{self.trouble}: a part is no answer")
                return list(series or ())
            case Refused(why, status):
                raise NoAnswerError(why, status)
            case Failed(why, is_nobody):
                raise NoAnswerError(why, absent=is_nobody)

    def ask(
        self, path: str, query: Mapping[str, str], first_s: float, last_s: float
    ) -> Answer[Series]:
        """The answer to a question, of these times alone."""
        try:
            answer = self._patiently(path, {**query, **self._always})
        except TooLongError as error:
            return Cut(f"{error}: {self._less}")
        except NoAnswerError as error:
            why = str(error)
            # Both have a port and metrics: the address of an exporter is easily given for a
            # Prometheus'.
            if is_answered(self._http, error, SNAPSHOT, "api_version"):
                why = (
                    f"{self.address} is an exporter, no Prometheus: give it with --url, or with "
                    "--prometheus the address of a Prometheus that scrapes it"
                )
            elif _NO_PATTERNS in why:
                why += "; all questions here have patterns of names: ask another Prometheus"
            elif error.status == HTTPStatus.UNPROCESSABLE_ENTITY:
                why += f"; {self._less}"
            return Refused(why, error.status) if error.status else Failed(why, error.absent)
        data = answer.get("data")
        result = data.get("result") if isinstance(data, dict) else None
        if answer.get("status") != "success" or not isinstance(result, list):
            return Failed(f"{self.address} does not answer as a Prometheus does")
        if len(result) > MAX_SERIES:
            said = f"{self.address} answers with more than {MAX_SERIES:,} series"
            return Cut(f"{said}: {self._less}")
        named_ones = _NAMED.match(query["query"])
        names = named_ones[1].split("|") if named_ones else ()
        series = list(_parsed(result, first_s, last_s, names))
        if missing := _missing(answer):
            return Cut(missing, series)
        return Whole(series) if series else Absent()

    def _patiently(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        """What the server says, which may have too many questions of all its users at once."""
        for wait_s in AGAIN_S:
            try:
                return self._http.json(path, query)
            except NoAnswerError as error:
                if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                    raise
            # Not a sleep: an interrupt ends the wait, too.
            self._interrupted.wait(wait_s)
        return self._http.json(path, query)


def _missing(answer: Mapping[str, Any]) -> str:
    """What an answer says of stores that it is without: of Thanos, or of VictoriaMetrics."""
    warnings = answer.get("warnings")
    said = [str(one) for one in warnings if one] if isinstance(warnings, list) else []
    of_stores = (clean(one) for one in said if not one.startswith(_OF_PROMQL))
    return next(of_stores, "the answer is partial" if answer.get("isPartial") is True else "")


def is_answered(http: HttpClient, error: NoAnswerError, path: str, key: str) -> bool:
    """Whether a server that has not what it was asked for is one that has another page."""
    with suppress(NoAnswerError):
        return error.status in _NO_PAGE and key in http.json(path)
    return False


def _parsed(
    result: Iterable[Any], first_s: float, last_s: float, names: Collection[str]
) -> Iterator[Series]:
    """The series of an answer, which is trusted no further than that of an exporter.

    Left out are: a series whose labels are no texts, or whose name is none of ``names``, where the
    question has any; a sample of another time than asked for or whose value is no number that a
    node can have; and a series without a sample.
    """
    known: _Times = ((), ())  # the series of an answer mostly have the same times
    for one in result:
        labels = one.get("metric") if isinstance(one, dict) else None
        if not _are_labels(labels) or (names and labels.get("__name__") not in names):
            continue
        pairs = one["values"] if "values" in one else [one.get("value")]
        if not isinstance(pairs, list):
            continue
        if len(pairs) > 1 and {*map(type, pairs)} == {list} and {*map(len, pairs)} == {2}:
            said, texts = zip(*pairs, strict=True)
            if said != known[0]:
                known = said, _times(said, first_s, last_s)
            if known[1] and (values := _values(texts)):
                yield Series(labels, known[1], values)
                continue
        if columns := _sifted(pairs, first_s, last_s):
            yield Series(labels, *columns)


_Floats = tuple[float, ...]
_Times = tuple[Sequence[Any], _Floats]  # as they are written, and as they are used


def _times(said: Sequence[Any], first_s: float, last_s: float) -> _Floats:
    """The times of samples that are all right, as nearly all are; none if one is not."""
    is_right = {*map(type, said)} <= {int, float} and first_s <= said[0] and said[-1] <= last_s
    return tuple(map(float, said)) if is_right and all(map(lt, said, said[1:])) else ()


def _values(texts: Sequence[Any]) -> _Floats:
    """The values of samples that are all right; none if one is not."""
    if texts.count(texts[0]) == len(texts):  # most counters stand still
        at, value = _sample([0, texts[0]])
        return () if at else (value,) * len(texts)
    if {*map(type, texts)} != {str} or max(map(len, texts)) > _LONGEST_VALUE:
        return ()
    try:
        values = tuple(map(float, texts))
    except ValueError:
        return ()
    # With infinity or NaN among them the sum is one of these, too.
    is_right = isfinite(sum(values)) and -MAX_NUMBER <= min(values) <= max(values) <= MAX_NUMBER
    return values if is_right else ()


def _sifted(pairs: Sequence[Any], first_s: float, last_s: float) -> tuple[_Floats, _Floats] | None:
    """Those that are right, in the order of their time; None if none is."""
    samples = {float(at): value for at, value in map(_sample, pairs) if first_s <= at <= last_s}
    if not samples:
        return None
    times = sorted(samples)
    return tuple(times), tuple(samples[at] for at in times)


def _are_labels(metric: object) -> TypeGuard[Labels]:
    """Whether these are texts by name, which can be asked for again and written to a file."""
    if not isinstance(metric, dict):
        return False
    try:
        text = "".join([*metric, *metric.values()]).encode()
    except (TypeError, UnicodeEncodeError):  # one is no text, or half of a character
        return False
    # All labels together are mostly shorter than one may be, so that none is looked at alone.
    return len(text) <= _LONGEST_LABEL or max(map(len, metric.values())) <= _LONGEST_LABEL


_NO_SAMPLE = (inf, 0.0)


def _sample(pair: object) -> tuple[float, float]:
    """The time and the value; infinitely late if it is no sample."""
    if not (isinstance(pair, list) and len(pair) == 2):  # noqa: PLR2004 - a time and a value
        return _NO_SAMPLE
    at, text = pair
    if type(at) not in {int, float} or not isinstance(text, str) or len(text) > _LONGEST_VALUE:
        return _NO_SAMPLE
    try:
        value = float(text)
    except ValueError:
        return _NO_SAMPLE
    return (at, value) if abs(value) <= MAX_NUMBER else _NO_SAMPLE  # NaN is not


def node_of(labels: Labels) -> str:
    """The target's node by its labels; "" if they do not name it."""
    return next((labels[name] for name in NODE_LABELS if labels.get(name)), "")


def place_of(labels: Labels) -> str:
    """The target's node, behind its cluster if it names one: two clusters may have one name."""
    return "/".join(filter(None, (labels.get("cluster"), node_of(labels))))


def label(labels: Labels, name: str) -> str:
    """The exporter's own label, whether or not Prometheus had to rename it.

    "" if the family has none of this name: there the plain name is that of the target.
    """
    own = OWN.get(labels.get("__name__", ""))
    if own is not None and name not in own:
        return ""
    return labels.get(_CONFLICTING + name, labels.get(name, ""))


def renamings(**own: str) -> Iterator[dict[str, str]]:
    """The labels that select series by own labels, in each way in which some may be renamed.

    Each is renamed or not by itself. Where it is, the plain name is the target's; where it is not,
    there is no other.
    """
    for prefixes in product(("", _CONFLICTING), repeat=len(own)):
        chosen: dict[str, str] = {}
        for prefix, (name, value) in zip(prefixes, own.items(), strict=True):
            chosen |= {_CONFLICTING + name: value if prefix else ""}
            chosen |= {} if prefix else {name: value}
        yield chosen


def named(names: Iterable[str]) -> str:
    """The matcher of families by their full names."""
    return f"__name__=~{quoted('|'.join(names))}"


def quoted(value: str) -> str:
    """A PromQL string literal with its special characters escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
