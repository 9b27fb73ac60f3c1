"""The documents: a whole Snapshot, its devices, one of its pods, its history."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporter import __version__
from exporter.api.figures import Figures, Json, is_ended, words
from exporter.facts.history import Past
from exporter.facts.processes import processes_of, unattributed_core
from exporter.metrics.families import FAMILIES, Family
from exporter.model import (
    ContainerKey,
    GroupKey,
    Owner,
    Process,
    Row,
    Snapshot,
    SourceStatus,
    Unattributed,
    Unmeasured,
)
from exporter.rows.rows import CORE_SHARE, RATIOS


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
LEVEL_OF = {2: "device", 4: "group", 5: "container"}  # by the number of labels

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
    made["exporter"] = {"version": __version__}
    for row in of.rows.get("exporter", ()):
        made["exporter"] |= figures.of("exporter", row)
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
        {name: row.labels[0], "uuid": row.labels[1], **figures.of(level, row)}
        for row in _sorted(of, level)
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
    for labels, points in Past(past, minutes * MINUTE_NS // past.step_ns).items():
        memory = points["memory_used_bytes"]
        series.append(
            {
                "level": LEVEL_OF[len(labels)],
                "labels": list(labels),
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


def _sorted(of: Snapshot, level: str) -> list[Row]:
    return sorted(of.rows.get(level, ()), key=lambda row: row.labels)


def _processes(of: Snapshot) -> _Processes:
    """Processes by owner and device."""
    found: dict[tuple[Owner, str], list[Json]] = defaultdict(list)
    for process in processes_of(of):
        found[process.owner, process.device_uuid].append(process_object(process))
    return found


def _devices(of: Snapshot, figures: Figures, processes: _Processes) -> list[Json]:
    nobody = {tenants.device_uuid: unattributed_core(tenants) for tenants in of.tenants}
    made = []
    for row in sorted(of.rows.get("device", ()), key=_place):
        index, uuid = row.labels
        own = {"index": _index(index), "uuid": uuid, **figures.of("device", row)}
        if (share := row.values.get(CORE_SHARE)) is not None:
            own["core_share"] = share
        core = nobody.get(uuid, {}) if "utilization_ratio" in own else {}
        own["unattributed"] = _unattributed(row, own, core, processes)
        made.append(own)
    return made


def _unattributed(
    row: Row, own: Json, core: Mapping[Unattributed, float], processes: _Processes
) -> list[Json]:
    """The device's unattributed use by reason, with the processes behind it."""
    memory = {m["reason"]: m["value"] for m in own.get("unattributed_memory_bytes", ())}
    made = []
    for reason in Unattributed:
        part: Json = {"reason": str(reason)}
        if "utilization_ratio" in own:
            part["core_utilization_ratio"] = core.get(reason, 0.0)
        if str(reason) in memory:
            part["memory_used_bytes"] = memory[str(reason)]
        if listed := processes.get((reason, row.labels[1])):
            part["process_list"] = listed
        if listed or reason in core or memory.get(str(reason)):
            made.append(part)
    return made


def _pods(
    of: Snapshot,
    figures: Figures,
    processes: _Processes,
    only: tuple[str, str] | None = None,
) -> list[Json]:
    """Pods with their containers, each with its devices."""
    pods: dict[tuple[str, ...], Json] = {}
    for row in _sorted(of, "pod"):
        if only in {None, row.labels}:
            pods[row.labels] = _pod(row.labels, figures.of("pod", row), ended=is_ended(row))
    for row in _sorted(of, "container"):
        *name, container, index, uuid = row.labels
        if only not in {None, tuple(name)}:
            continue
        own = pods.setdefault(tuple(name), _pod(name, {}, ended=True))
        if not own["containers"] or own["containers"][-1]["container"] != container:
            own["containers"].append({"container": container, "devices": []})
        listed = processes.get((ContainerKey(name[0], name[1], container), uuid), ())
        part = _part(figures, "container", row, (index, uuid), listed)
        own["containers"][-1]["devices"].append(part)
        own["ended"] = own["ended"] and part["ended"]
    return [pods[name] for name in sorted(pods)]


def _pod(name: Sequence[str], known: Json, *, ended: bool) -> Json:
    return {"namespace": name[0], "pod": name[1], **known, "ended": ended, "containers": []}


def _groups(of: Snapshot, figures: Figures, processes: _Processes) -> list[Json]:
    made: dict[GroupKey, Json] = {}
    for row in _sorted(of, "group"):
        kind, group, index, uuid = row.labels
        key = GroupKey(kind, group)
        own = made.setdefault(key, {"kind": kind, "group": group, "devices": []})
        listed = processes.get((key, uuid), ())
        part = _part(figures, "group", row, (index, uuid), listed)
        own |= {"info": part.pop("info")} if "info" in part else {}
        own["devices"].append(part)
    return list(made.values())


def _part(
    figures: Figures, level: str, row: Row, device: tuple[str, str], processes: Iterable[Json]
) -> Json:
    """One container or group on one device. The device of an allocation may not be known."""
    known: Json = {"index": _index(device[0]), "uuid": device[1]} if device[1] else {}
    listed = list(processes)
    return {
        **known,
        **figures.of(level, row),
        "ended": is_ended(row, ("info",) if level == "group" else ()),
        **({"process_list": listed} if listed else {}),
    }


def _place(row: Row) -> tuple[int, tuple[str, ...]]:
    return _index(row.labels[0]), row.labels


def _index(label: str) -> int:
    return int(label) if label.isdecimal() else -1
