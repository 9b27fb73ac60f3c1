"""The feed from a Prometheus that scrapes exporters, for users without access to the nodes.

Series are turned back into Snapshots, the reverse of ``exporter.metrics.text``. Values are in base
units, so ``FAMILIES`` here have the divisor 1.
"""

import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from exporter import api
from exporter.metrics import families
from exporter.model import Clock, Row, Snapshot, SourceStatus, Value
from exporter.terminal.feeds.feed import FeedError, FeedResult
from exporter.terminal.feeds.http import Http
from exporter.terminal.reading import Json

FAMILIES = tuple(replace(family, divisor=1) for family in families.FAMILIES)

_BY_NAME = {family.full_name: family for family in FAMILIES}
_CONFLICTING = "exported_"  # what Prometheus puts before a label that its target has as well
_NODE_LABELS = ("node", "kubernetes_node", "nodename", "instance")

Sample = tuple[Mapping[str, str], float]


def samples(answer: Mapping[str, Any]) -> Iterator[Sample]:
    """The labels and value of each series of an instant query. Malformed series are left out."""
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) else None
    for one in result if isinstance(result, list) else ():
        try:
            labels = {str(k): str(v) for k, v in one["metric"].items()}
            yield labels, float(one["value"][1])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError):
            continue


def node_of(labels: Mapping[str, str]) -> str:
    """The target's node by its labels; "" if they do not name it."""
    return next((labels[name] for name in _NODE_LABELS if labels.get(name)), "")


def label(labels: Mapping[str, str], name: str) -> str:
    """The exporter's own label, whether or not Prometheus had to rename it."""
    return labels.get(_CONFLICTING + name, labels.get(name, ""))


def snapshots(found: Iterable[Sample], unix_ns: int) -> dict[str, Snapshot]:
    """A Snapshot for each node, at the time of the samples."""
    rows: dict[str, dict[tuple[str, tuple[str, ...]], dict[str, Value]]] = defaultdict(dict)
    for labels, value in found:
        family = _BY_NAME.get(labels.get("__name__", ""))
        if family is None:
            continue
        of_level = families.LEVELS[family.level]
        key = (family.level, tuple(label(labels, name) for name in of_level))
        values = rows[node_of(labels)].setdefault(key, {})
        if not family.labels:
            values[family.name] = value
            continue
        own = tuple(label(labels, name) for name in family.labels)
        before = values.get(family.name, {})
        values[family.name] = {**(before if isinstance(before, Mapping) else {}), own: value}
    return {node: _snapshot(levels, unix_ns) for node, levels in rows.items()}


def _snapshot(
    found: Mapping[tuple[str, tuple[str, ...]], Mapping[str, Value]], unix_ns: int
) -> Snapshot:
    rows: dict[str, list[Row]] = defaultdict(list)
    for (level, labels), values in found.items():
        rows[level].append(Row(labels, values))
    own = [row.values for row in rows.get("exporter", ())]
    simulated = any(values.get("simulated") == 1 for values in own)
    sources = tuple(status for values in own for status in _sources(values))
    by_level = {level: tuple(of_level) for level, of_level in rows.items()}
    return Snapshot(1, unix_ns, 0, simulated, rows=by_level, sources=sources)


def _sources(values: Mapping[str, Value]) -> Iterator[SourceStatus]:
    up = values.get("source_up", {})
    for (name,), value in up.items() if isinstance(up, Mapping) else ():
        yield SourceStatus(name, up=value == 1)


QUERY, RANGE = "/api/v1/query", "/api/v1/query_range"
HISTORY_NS = 30 * 10**9
HISTORY_S, STEP_S = 600, 15
MOST_UUIDS = 64  # in one selector; for more, all devices are queried

_POD_LEVELS = ("container", "pod")
_DEVICE = (
    *("info", "up", "unmeasured", "utilization_ratio", "memory_total_bytes", "memory_used_bytes"),
    *("allocated_core_ratio", "allocated_memory_bytes", "power_watts", "power_limit_watts"),
    *("temperature_celsius", "memory_active_ratio", "encoder_utilization_ratio"),
    *("decoder_utilization_ratio", "method_info"),
)
_EXPORTER = ("simulated", "source_up")
_CORE = "mgpu_container_core_utilization_ratio"


class PrometheusFeed:
    """Implements ``Feed``. ``namespace`` "" stands for all namespaces."""

    def __init__(self, http: Http, namespace: str = "", clock: Clock = time) -> None:
        self._http = http
        self._namespace = namespace
        self._clock = clock
        self._label = "namespace"  # or what Prometheus renamed it to
        self._history: dict[str, Json] = {}
        self._history_due_ns = clock.monotonic_ns()

    @property
    def name(self) -> str:
        """The namespace and the address."""
        return f"{self._namespace or 'all namespaces'} by {self._http.address}"

    def read(self) -> FeedResult:
        """The newest samples, and from time to time the last minutes."""
        found = self._pods()
        if not found:
            where = f"namespace {self._namespace}" if self._namespace else "any namespace"
            return FeedResult((), (f"there are no series of {where} now: has a pod of it a GPU?",))
        found += self._devices(label(labels, "uuid") for labels, _ in found)
        now_ns = self._clock.monotonic_ns()
        if now_ns >= self._history_due_ns:
            self._history_due_ns = now_ns + HISTORY_NS
            self._history = self._past()
        by_node = snapshots(found, self._clock.time_ns())
        return FeedResult([self._document(node, by_node[node]) for node in sorted(by_node)])

    def close(self) -> None:
        """Does nothing: no connection is kept."""

    def _document(self, node: str, snapshot: Any) -> tuple[Json, Json | None]:  # noqa: ANN401
        made = api.snapshot(snapshot, api.About(node, families=FAMILIES), 0)
        return made, self._history.get(node)

    def _pods(self) -> list[Sample]:
        """The pods' samples, by the exporter's own label or by its name after a label conflict."""
        names = _names(f.full_name for f in FAMILIES if f.level in _POD_LEVELS)
        found = self._ask(f"{{{names}{self._selected()}}}")
        if not found and self._namespace:
            other = "exported_namespace" if self._label == "namespace" else "namespace"
            before, self._label = self._label, other
            found = self._ask(f"{{{names}{self._selected()}}}")
            if not found:
                self._label = before
        return found

    def _selected(self) -> str:
        return f",{self._label}={_quoted(self._namespace)}" if self._namespace else ""

    def _devices(self, uuids: Iterable[str]) -> list[Sample]:
        """The samples of the pods' devices. With access to one namespace, there may be none."""
        known = sorted(set(filter(None, uuids)))
        names = _names(f"mgpu_device_{name}" for name in _DEVICE)
        some = "|".join(map(re.escape, known))
        chosen = f",uuid=~{_quoted(some)}" if len(known) <= MOST_UUIDS else ""
        own = _names(f"mgpu_exporter_{name}" for name in _EXPORTER)
        return self._ask(f"{{{names}{chosen}}}") + self._ask(f"{{{own}}}") if known else []

    def _ask(self, expression: str) -> list[Sample]:
        return list(samples(self._answer(QUERY, {"query": expression})))

    def _answer(self, path: str, query: Mapping[str, str]) -> dict[str, Any]:
        # Proxies that restrict tenants (prom-label-proxy) need the namespace as a parameter.
        tenant = {"namespace": self._namespace} if self._namespace else {}
        answer = self._http.json(path, {**query, **tenant})
        if answer.get("status") != "success":
            raise FeedError(f"{self._http.address} does not answer as a Prometheus does")
        return answer

    def _past(self) -> dict[str, Json]:
        """The last minutes by node, as in the history document."""
        end = self._clock.time_ns() // 10**9
        selector = f"{_CORE}{{{self._selected().removeprefix(',')}}}"
        window = {"start": str(end - HISTORY_S), "end": str(end), "step": str(STEP_S)}
        answer = self._answer(RANGE, {"query": selector, **window})
        found: dict[str, list[Json]] = {}
        data = answer.get("data")
        result = data.get("result") if isinstance(data, dict) else None
        for one in result if isinstance(result, list) else ():
            if (series := _series(one, end)) is not None:
                found.setdefault(node_of(one["metric"]), []).append(series)
        return {node: {"step_seconds": STEP_S, "series": series} for node, series in found.items()}


def _series(one: Any, end: int) -> Json | None:  # noqa: ANN401 - of a stranger's answer
    """One series of a range, a point each step; None where there was no sample."""
    names = ("namespace", "pod", "container", "gpu", "uuid")
    try:
        labels = [label(one["metric"], name) for name in names]
        values = {round(float(at)): float(value) for at, value in one["values"]}
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    begin = min(values, default=end)
    return {
        "labels": labels,
        "core_utilization_ratio": [values.get(at) for at in range(begin, end + 1, STEP_S)],
    }


def _names(names: Iterable[str]) -> str:
    return f"__name__=~{_quoted('|'.join(names))}"


def _quoted(value: str) -> str:
    """A PromQL string literal with its special characters escaped."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
