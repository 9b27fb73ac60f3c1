"""The query API of a Prometheus, or of what speaks it: Thanos, Mimir, VictoriaMetrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from exporter.httpclient import HttpClient, NoAnswerError

Labels = Mapping[str, str]

QUERY, RANGE = "/api/v1/query", "/api/v1/query_range"
MAX_POINTS = 10_000  # of a series in one answer; Prometheus allows 11,000
MAX_SAMPLES = 400_000  # of an answer, about 12 MB: longer ranges are asked in pieces

_WHOLE = {"partial_response": "false", "deny_partial_response": "1"}  # Thanos, VictoriaMetrics
_CONFLICTING = "exported_"  # what Prometheus puts before a label that its target has as well
_NODE_LABELS = ("node", "kubernetes_node", "nodename", "instance")


class Series(NamedTuple):
    """A series with its samples: Unix seconds and values, oldest first."""

    labels: Labels
    samples: tuple[tuple[float, float], ...]


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
    """Asks one address. ``asked`` receives how much of a long question is answered, 0 to 1.

    ``namespace``: proxies that restrict tenants (prom-label-proxy) need it as a parameter. With
    ``whole``, a server of several stores answers only if all of them do.
    """

    def __init__(
        self,
        http: HttpClient,
        asked: Callable[[float], None] = lambda _: None,
        namespace: str = "",
        *,
        whole: bool = False,
    ) -> None:
        self._http = http
        self._asked = asked
        self._always = {"namespace": namespace} if namespace else {}
        self._always |= _WHOLE if whole else {}

    @property
    def address(self) -> str:
        """The address, without credentials."""
        return self._http.address

    def at(self, expression: str, unix_s: float | None = None) -> list[Series]:
        """The series of an instant query, with one sample each or, of a range, with all of them.

        Without a time it is of now.
        """
        when = {} if unix_s is None else {"time": _seconds(unix_s)}
        return self._series(QUERY, {"query": expression, **when})

    def over(self, expression: str, grid: Grid) -> list[Series]:
        """The series of a range query. It is asked in pieces if the answer would be large."""
        found: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        for piece in self.pieces(expression, grid):
            for one in piece:
                found.setdefault(tuple(sorted(one.labels.items())), []).extend(one.samples)
        return [Series(dict(labels), tuple(samples)) for labels, samples in found.items()]

    def pieces(self, expression: str, grid: Grid) -> Iterator[list[Series]]:
        """The same answer in pieces: some times of the grid after the others."""
        times, begin, points = grid.times, 0, 16
        while begin < len(times):
            part = times[begin : begin + points]
            query = {
                "query": expression,
                "start": str(part[0]),
                "end": str(part[-1]),
                "step": str(grid.step_s),
            }
            answer = self._series(RANGE, query)
            yield answer
            begin += len(part)
            self._asked(begin / len(times))
            points = max(1, min(MAX_POINTS, MAX_SAMPLES // max(1, len(answer))))

    def _series(self, path: str, query: Mapping[str, str]) -> list[Series]:
        answer = self._http.json(path, {**query, **self._always})
        data = answer.get("data")
        if answer.get("status") != "success" or not isinstance(data, dict):
            raise NoAnswerError(f"{self.address} does not answer as a Prometheus does")
        result = data.get("result")
        return list(_parsed(result if isinstance(result, list) else ()))


def _parsed(result: Iterable[Any]) -> Iterator[Series]:
    """The series of an answer. What is no number is left out, and a series without any."""
    for one in result:
        try:
            labels = {str(k): str(v) for k, v in one["metric"].items()}
            pairs = one["values"] if "values" in one else [one["value"]]
            samples = [(float(at), float(value)) for at, value in pairs]
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        if numbers := tuple(each for each in samples if isfinite(each[1])):
            yield Series(labels, numbers)


def node_of(labels: Labels) -> str:
    """The target's node by its labels; "" if they do not name it."""
    return next((labels[name] for name in _NODE_LABELS if labels.get(name)), "")


def place_of(labels: Labels) -> str:
    """The target's node, behind its cluster if it names one: two clusters may have one name."""
    return "/".join(filter(None, (labels.get("cluster"), node_of(labels))))


def label(labels: Labels, name: str) -> str:
    """The exporter's own label, whether or not Prometheus had to rename it."""
    return labels.get(_CONFLICTING + name, labels.get(name, ""))


def selector(names: Sequence[str], **labels: str) -> str:
    """A selector of families by their full names, and of label values."""
    equal = "".join(f",{name}={quoted(value)}" for name, value in labels.items())
    return f"{{{named(names)}{equal}}}"


def named(names: Iterable[str]) -> str:
    """The matcher of families by their full names."""
    return f"__name__=~{quoted('|'.join(names))}"


def quoted(value: str) -> str:
    """A PromQL string literal with its special characters escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _seconds(unix_s: float) -> str:
    return f"{unix_s:.3f}".rstrip("0").rstrip(".")
