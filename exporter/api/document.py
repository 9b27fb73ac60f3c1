"""The documents: a whole Snapshot, its devices, one of its pods, its history."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporter import __version__
from exporter.api.figures import RATIOS, Figures, Json, words
from exporter.facts.history import Past
from exporter.facts.processes import processes_of, unattributed_core
from exporter.metrics.families import FAMILIES, OWN_LEVEL, Family
from exporter.metrics.reading import labelled
from exporter.model import (
    ContainerHolding,
    ContainerKey,
    DeviceFacts,
    GroupHolding,
    GroupKey,
    Owner,
    PodFacts,
    Process,
    Snapshot,
    SourceStatus,
    Unattributed,
    Unmeasured,
)


def process_object(process: Process) -> Json:
    """A process as a JSON object, without what is not known."""
    ratios = {name: getattr(process, quantity) for quantity, name in RATIOS.items()}
    known = {
        "pid": process.pid,
        "name": process.name or None,
        "type": process_type(process.kinds) if process.kinds else None,
        "memory_used_bytes": process.memory_bytes,
        **ratios,
        "start_timestamp_seconds": process.start_unix_ns and process.start_unix_ns / 1e9,
    }
    return {name: value for name, value in known.items() if value is not None}


def process_type(kinds: frozenset[str]) -> str:
    """The type as nvidia-smi shows it: C computes, G draws, C+G both, M+C is a client of MPS."""
    computes = "M+C" if "mps" in kinds else "C" if kinds & {"compute", "mps_server"} else ""
    draws = "G" if "graphics" in kinds else ""
    return "+".join(filter(None, (computes, draws)))


_DRIVER = (
    "The driver's library was not found, the kernel module is not loaded, or every device hangs. "
    "In a container, the driver's libraries and device files must be mounted (NVIDIA container "
    "toolkit, or --nvml.library). The exporter keeps looking for it; no restart is needed."
)
_AMD = (
    "No amdgpu or KFD module is loaded, the host's sysfs is not where --path.sysfs says, or every "
    "board hangs: see the kernel log for amdgpu. The exporter keeps looking for it; no restart is "
    "needed."
)
_CGROUPS = (
    "hostPID: true is missing in the pod, or the node's /sys/fs/cgroup is not mounted. Devices go "
    "on meanwhile; containers, pods and namespaces are withheld."
)
_API = (
    "The API server does not answer, or the ServiceAccount may not get, list and watch pods: give "
    "it the ClusterRole. Names are the last known ones meanwhile, and new pods are groups."
)
_BY_NAME = {
    "nvml": _DRIVER,
    "amd": _AMD,
    "cgroups": _CGROUPS,
    "pods_api": _API,
    "simulated": "The scenario's driver was released by SIGUSR2; another SIGUSR2 opens it again.",
}
_BY_REASON = {
    Unmeasured.RELEASED: "The driver was released on request. SIGUSR2 opens it again.",
    Unmeasured.NO_HOSTPID: "Set hostPID: true in the exporter's pod.",
    Unmeasured.NO_CGROUPS: "Mount the node's /sys/fs/cgroup read-only, or set --path.cgroup.",
}
_OTHERWISE = "See the exporter's log; the source is polled again in each cycle."


def what_to_do(source: SourceStatus) -> str:
    """Advice for a source that is down, as in docs/troubleshooting.md; "" if it is up."""
    if source.up:
        return ""
    by_reason = _BY_REASON.get(source.reason) if source.reason else None
    return by_reason or _BY_NAME.get(source.name, _OTHERWISE)


Document = dict[str, Any]
MINUTE_NS = 60 * 10**9

_Processes = Mapping[tuple[Owner, str], Sequence[Json]]


@dataclass(frozen=True, slots=True)
class About:
    """The facts of a document that are not in the Snapshot. ``node`` is "" if it is not known.

    Of a stale Snapshot, a document has only the sources and the exporter.
    """

    node: str = ""
    window_ns: int = 0
    families: Sequence[Family] = FAMILIES


def snapshot(of: Snapshot, about: About, age_ns: int) -> Document:
    """The answer to ``GET /api/v1/snapshot``: everything."""
    made = _head(of, about, age_ns)
    figures = Figures(about.families)
    own = figures.of(OWN_LEVEL, of.exporter) if of.exporter else {}
    made["exporter"] = {"version": __version__, **own}
    shown = Snapshot() if made["snapshot"]["stale"] else of
    processes = _processes(shown)
    made["devices"] = _devices(shown, figures, processes)
    made["pods"] = _pods(shown, figures, processes)
    made["groups"] = _groups(shown, figures, processes)
    made["words"] = words()
    made["namespaces"] = _sums(shown, figures, "namespace", "namespace")
    made["group_kinds"] = _sums(shown, figures, "group_kind", "kind")
    return made


def _sums(of: Snapshot, figures: Figures, level: str, name: str) -> list[Json]:
    """The use of each device by all owners of a namespace or of a kind."""
    return [
        {name: owner, "uuid": uuid, **figures.of(level, fact)}
        for (owner, uuid), fact in labelled(of.facts, level)
    ]


def devices(of: Snapshot, about: About, age_ns: int) -> Document:
    """The answer to ``GET /api/v1/devices``."""
    made = _head(of, about, age_ns)
    shown = Snapshot() if made["snapshot"]["stale"] else of
    return {**made, "devices": _devices(shown, Figures(about.families), _processes(shown))}


def pod(of: Snapshot, about: About, age_ns: int, name: tuple[str, str]) -> Document | None:
    """The answer to ``GET /api/v1/pods/{namespace}/{pod}``; None if there is no such pod."""
    made = _head(of, about, age_ns)
    if made["snapshot"]["stale"]:
        return None
    found = _pods(of, Figures(about.families), _processes(of), name)
    return {**made, "pod": found[0]} if found else None


HISTORY_MINUTES = 10


def history(of: Snapshot, about: About, age_ns: int, minutes: int = HISTORY_MINUTES) -> Document:
    """The answer to ``GET /api/v1/history``: the last minutes, null where nothing was measured."""
    past = of.history
    series = []
    for key, points in Past(past, minutes * MINUTE_NS // past.step_ns).items():
        memory = points["memory_used_bytes"]
        series.append(
            {
                "level": _level(key.owner),
                "labels": [*(key.owner or ()), _label(key.gpu), key.uuid],
                "core_utilization_ratio": points["core_utilization_ratio"],
                "memory_used_bytes": [None if v is None else int(v) for v in memory],
            }
        )
    return {
        **_head(of, about, age_ns),
        "end_timestamp_seconds": past.end_unix_ns / 1e9,
        "step_seconds": past.step_ns / 1e9,
        "series": series,
    }


def _level(owner: ContainerKey | GroupKey | None) -> str:
    if owner is None:
        return "device"
    return "container" if isinstance(owner, ContainerKey) else "group"


def _label(index: int | None) -> str:
    return "" if index is None else str(index)


def _head(of: Snapshot, about: About, age_ns: int) -> Document:
    return {
        "api_version": "v1",
        "node": about.node,
        "simulated": of.simulated,
        "snapshot": {
            "number": of.version,
            "timestamp_seconds": of.unix_ns / 1e9,
            "age_seconds": round(max(age_ns, 0) / 1e9, 3),
            "stale": age_ns > of.stale_after_ns,
            "window_seconds": about.window_ns / 1e9,
        },
        "sources": [_source(source) for source in of.sources],
    }


def _source(source: SourceStatus) -> Json:
    made: Json = {"name": source.name, "up": source.up, "detail": source.detail}
    made["duration_seconds"] = source.duration_ns / 1e9
    if source.last_success_unix_ns is not None:
        made["last_success_timestamp_seconds"] = source.last_success_unix_ns / 1e9
    if source.reason is not None:
        made["reason"] = str(source.reason)
    if advice := what_to_do(source):
        made["what_to_do"] = advice
    return made


def _processes(of: Snapshot) -> _Processes:
    """Processes by owner and device."""
    found: dict[tuple[Owner, str], list[Json]] = defaultdict(list)
    for process in processes_of(of):
        found[process.owner, process.device_uuid].append(process_object(process))
    return found


def _devices(of: Snapshot, figures: Figures, processes: _Processes) -> list[Json]:
    nobody = {tenants.device_uuid: unattributed_core(tenants) for tenants in of.tenants}
    made = []
    for device in sorted(of.facts.devices, key=lambda device: (device.index, device.uuid)):
        own = {"index": device.index, "uuid": device.uuid, **figures.of("device", device)}
        if device.device.parent_uuid:
            own["core_share"] = device.device.core_share
        own["unattributed"] = _unattributed(device, nobody.get(device.uuid, {}), processes)
        made.append(own)
    return made


def _unattributed(
    device: DeviceFacts, core: Mapping[Unattributed, float], processes: _Processes
) -> list[Json]:
    """The device's unattributed use by reason, with the processes behind it."""
    is_known, memory = device.average.core is not None, device.memory.unattributed_bytes
    made = []
    for reason in Unattributed:
        part: Json = {"reason": str(reason)}
        if is_known:
            part["core_utilization_ratio"] = core.get(reason, 0.0)
        if reason in memory:
            part["memory_used_bytes"] = memory[reason]
        if listed := processes.get((reason, device.uuid)):
            part["process_list"] = listed
        if listed or (is_known and reason in core) or memory.get(reason):
            made.append(part)
    return made


def _pods(
    of: Snapshot,
    figures: Figures,
    processes: _Processes,
    only: tuple[str, str] | None = None,
) -> list[Json]:
    """Pods with their containers, each with its devices."""
    holdings: dict[tuple[str, str], list[ContainerHolding]] = defaultdict(list)
    for _, held in labelled(of.facts, "container"):
        holdings[held.owner.namespace, held.owner.pod].append(held)
    facts = {(pod.namespace, pod.name): pod for pod in of.facts.pods}
    names = facts.keys() | holdings.keys()
    return [
        _pod(name, facts.get(name), holdings[name], figures, processes)
        for name in sorted(names if only is None else names & {only})
    ]


def _pod(
    name: tuple[str, str],
    pod: PodFacts | None,
    holdings: Sequence[ContainerHolding],
    figures: Figures,
    processes: _Processes,
) -> Json:
    containers: dict[str, list[Json]] = defaultdict(list)
    for held in holdings:
        containers[held.owner.container].append(_part(figures, "container", held, processes))
    return {
        "namespace": name[0],
        "pod": name[1],
        **(figures.of("pod", pod) if pod is not None else {}),
        "ended": (pod is None or pod.ended) and all(held.ended for held in holdings),
        "containers": [{"container": n, "devices": parts} for n, parts in containers.items()],
    }


def _groups(of: Snapshot, figures: Figures, processes: _Processes) -> list[Json]:
    made: dict[GroupKey, Json] = {}
    for _, held in labelled(of.facts, "group"):
        kind, group = held.owner
        own = made.setdefault(held.owner, {"kind": kind, "group": group, "devices": []})
        part = _part(figures, "group", held, processes)
        own |= {"info": part.pop("info")} if "info" in part else {}
        own["devices"].append(part)
    return list(made.values())


def _part(
    figures: Figures, level: str, held: ContainerHolding | GroupHolding, processes: _Processes
) -> Json:
    """One container or group on one device. The device of an allocation may not be known."""
    listed = processes.get((held.owner, held.uuid))
    return {
        **({"index": held.index} if held.index is not None else {}),
        **({"uuid": held.uuid} if held.uuid else {}),
        **figures.of(level, held),
        "ended": held.ended,
        **({"process_list": listed} if listed else {}),
    }
