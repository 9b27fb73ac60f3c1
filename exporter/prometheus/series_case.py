"""A pod's case by the series of a Prometheus."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.metrics.families import PREFIX
from exporter.prometheus.client import (
    Labels,
    Prometheus,
    Series,
    label,
    node_of,
    quoted,
    selector,
)
from exporter.prometheus.why import Card, Case, Part

_LIMITS = ("core_limit_ratio", "memory_limit_bytes")
_HELD = ("memory_used_bytes", "core_utilization_ratio", "allocation_info")
_STATE = ("last_active_timestamp_seconds", "unmeasured", *_LIMITS, *_HELD)
_HOLDERS = tuple(f"{PREFIX}_{level}_{name}" for level in ("container", "group") for name in _HELD)
_CONTAINER, _DEVICE = f"{PREFIX}_container_", f"{PREFIX}_device_"
_POD_INFO = f"{PREFIX}_pod_info"
_CONTENTION = f"{_CONTAINER}core_waiting_on_seconds_total"
_OTHERS = "others"


class _Key(NamedTuple):
    """A container on a device of a node."""

    container: str
    gpu: str
    uuid: str
    node: str


class SeriesCase:
    """Reads what a Prometheus knows of a pod in the ``window_s`` seconds before ``unix_s``.

    With ``seen``, the viewer's namespace, the pods of other namespaces are "others".
    """

    def __init__(
        self, prometheus: Prometheus, unix_s: float, window_s: int, seen: str = ""
    ) -> None:
        self._prometheus = prometheus
        self._unix_s = unix_s
        self._window_s = window_s
        self._seen = seen
        self._prefix = ""  # of the label of the namespace, as Prometheus may have renamed it

    def pods(self) -> list[str]:
        """The pods that are known, as ``namespace/pod``."""
        found = self._at(selector([_POD_INFO, f"{_CONTAINER}allocation_info"]))
        return sorted({_pod(one.labels) for one in found})

    def read(self, namespace: str, pod: str) -> Case:
        """The case. It has no parts if the pod is not known."""
        state = self._state(namespace, pod)
        chosen = {f"{self._prefix}namespace": namespace, f"{self._prefix}pod": pod}
        core = self._rates("core_seconds_total", chosen)
        waiting = self._rates("core_waiting_seconds_total", chosen)
        others = self._others(chosen)
        cards = self._cards(state, f"{namespace}/{pod}")
        parts = tuple(
            _part(key, state[key], cards[key], core.get(key), waiting.get(key), others.get(key))
            for key in sorted(state)
        )
        return Case(
            namespace=namespace,
            pod=pod,
            unix_s=self._unix_s,
            window_s=self._window_s,
            parts=parts,
        )

    def _state(self, namespace: str, pod: str) -> dict[_Key, list[Series]]:
        names = [f"{_CONTAINER}{name}" for name in _STATE]
        found: dict[_Key, list[Series]] = defaultdict(list)
        for prefix in ("", "exported_"):
            chosen = {f"{prefix}namespace": namespace, f"{prefix}pod": pod}
            for one in self._at(selector(names, **chosen)):
                found[_key(one.labels)].append(one)
            if found:
                self._prefix = prefix
                break
        return _placed(found)

    def _rates(self, name: str, chosen: Mapping[str, str]) -> dict[_Key, float]:
        found = self._at(self._rate(selector([f"{_CONTAINER}{name}"], **chosen)))
        return {_key(one.labels): one.samples[-1][1] for one in found}

    def _others(self, chosen: Mapping[str, str]) -> dict[_Key, dict[str, float]]:
        found: dict[_Key, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for one in self._at(self._rate(selector([_CONTENTION], **chosen))):
            namespace, pod = one.labels.get("by_namespace", ""), one.labels.get("by_pod", "")
            name = f"{namespace}/{pod}" if namespace else pod
            if self._seen and namespace != self._seen:
                name = _OTHERS
            found[_key(one.labels)][name] += one.samples[-1][1]
        return {key: dict(by_name) for key, by_name in found.items()}

    def _cards(self, keys: Iterable[_Key], pod: str) -> dict[_Key, Card]:
        known = list(keys)
        uuids = sorted({key.uuid for key in known if key.uuid})
        if not uuids:
            return {key: Card() for key in known}
        of_these = f"uuid=~{quoted('|'.join(map(_escaped, uuids)))}"
        models = {
            label(one.labels, "uuid"): label(one.labels, "model")
            for one in self._at(f"{_DEVICE}info{{{of_these}}}")
        }
        busy = {
            label(one.labels, "uuid"): one.samples[-1][1]
            for one in self._at(self._rate(f"{_DEVICE}busy_seconds_total{{{of_these}}}"))
        }
        throttled: dict[str, dict[str, float]] = defaultdict(dict)
        for one in self._at(self._rate(f"{_DEVICE}throttle_seconds_total{{{of_these}}}")):
            throttled[label(one.labels, "uuid")][one.labels.get("reason", "")] = one.samples[-1][1]
        on = self._holders(of_these)
        return {
            key: Card(
                uuid=key.uuid,
                gpu=key.gpu,
                node=key.node,
                model=models.get(key.uuid, ""),
                busy=busy.get(key.uuid),
                throttled=throttled[key.uuid],
                others=tuple(sorted(on[key.uuid] - {pod})),
            )
            for key in known
        }

    def _holders(self, of_these: str) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        names = quoted("|".join(_HOLDERS))
        for one in self._at(f"{{__name__=~{names},{of_these}}}"):
            name = _pod(one.labels) if label(one.labels, "namespace") else _group(one.labels)
            if self._seen and label(one.labels, "namespace") != self._seen:
                name = _OTHERS
            found[label(one.labels, "uuid")].add(name)
        return found

    def _rate(self, chosen: str) -> str:
        return f"rate({chosen}[{self._window_s}s])"

    def _at(self, expression: str) -> list[Series]:
        return self._prometheus.at(expression, self._unix_s)


def _part(
    key: _Key,
    state: Sequence[Series],
    card: Card,
    core: float | None,
    waiting: float | None,
    waiting_on: Mapping[str, float] | None,
) -> Part:
    value = {one.labels["__name__"].removeprefix(_CONTAINER): one.samples[-1][1] for one in state}
    unmeasured = {
        one.labels.get("quantity", ""): one.labels.get("reason", "")
        for one in state
        if one.labels["__name__"] == f"{_CONTAINER}unmeasured"
    }
    schemes = {one.labels["scheme"] for one in state if "scheme" in one.labels}
    return Part(
        container=key.container,
        card=card,
        core=None if "core" in unmeasured else core,
        share=value.get("core_limit_ratio"),
        waiting=waiting,
        waiting_on=waiting_on,
        memory_bytes=value.get("memory_used_bytes"),
        memory_limit_bytes=value.get("memory_limit_bytes"),
        last_active_unix_s=value.get("last_active_timestamp_seconds"),
        scheme=", ".join(sorted(schemes)),
        unmeasured=unmeasured,
    )


def _placed(found: dict[_Key, list[Series]]) -> dict[_Key, list[Series]]:
    """Without what is said of a container before its device is known, where that is known now."""
    placed = {key.container for key in found if key.uuid}
    return {key: many for key, many in found.items() if key.uuid or key.container not in placed}


def _key(labels: Labels) -> _Key:
    container, gpu, uuid = (label(labels, name) for name in ("container", "gpu", "uuid"))
    return _Key(container, gpu, uuid, node_of(labels))


def _pod(labels: Labels) -> str:
    return f"{label(labels, 'namespace')}/{label(labels, 'pod')}"


def _group(labels: Labels) -> str:
    return f"{label(labels, 'kind')} {label(labels, 'group')}"


def _escaped(uuid: str) -> str:
    return "".join(char if char.isalnum() or char in "-_/" else f"\\{char}" for char in uuid)
