"""What each object of the documents has: its members, with their meaning and their schema."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from exporter import __version__
from exporter.api.fields import (
    FLAG,
    NUMBER,
    TEXT,
    WHOLE,
    Field,
    Json,
    Many,
    Object,
    Part,
    maybe,
    object_of,
)
from exporter.api.figures import RATIOS, Figures, LevelFields, process_type, what_to_do, words
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
    PodFacts,
    Process,
    Snapshot,
    Unattributed,
    Unmeasured,
)

MINUTE_NS = 60 * 10**9
_WORDS = "What reasons mean."
_NAMES = {"type": "object", "additionalProperties": TEXT}


@dataclass(frozen=True, slots=True)
class About:
    """The facts of a document that are not in the Snapshot. ``node`` is "" if it is not known.

    Of a stale Snapshot, a document has only the sources and the exporter.
    """

    node: str = ""
    window_ns: int = 0
    families: Sequence[Family] = FAMILIES


class PodParts(NamedTuple):
    """A pod: what is known of it, and what its containers hold."""

    namespace: str
    pod: str
    facts: PodFacts | None
    holdings: Sequence[ContainerHolding]

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return (self.facts is None or self.facts.ended) and all(h.ended for h in self.holdings)

    @property
    def containers(self) -> Iterable[tuple[str, Sequence[ContainerHolding]]]:
        """The names of its containers with what they hold."""
        found: dict[str, list[ContainerHolding]] = defaultdict(list)
        for held in self.holdings:
            found[held.owner.container].append(held)
        return found.items()


class Unnamed(NamedTuple):
    """A device's use that nobody is named for, by one reason."""

    reason: Unattributed
    core: float | None
    memory: int | None
    processes: Sequence[Process] | None


class Points(NamedTuple):
    """The past of a device, or of a container or a group on it; the newest point is the last."""

    level: str
    labels: Sequence[str]
    core: Sequence[float | None]
    memory: Sequence[float | None]


class Context:
    """What a document is made from; ``shown`` is empty if the Snapshot is stale."""

    def __init__(self, of: Snapshot, about: About, age_ns: int) -> None:
        self.snapshot = of
        self.about = about
        self.age_s = round(max(age_ns, 0) / 1e9, 3)
        self.stale = age_ns > of.stale_after_ns
        self.shown = Snapshot() if self.stale else of
        self.figures = Figures(about.families)
        self.wanted: tuple[str, str] | None = None  # the one pod of a document, if it has one
        self.minutes = 0

    @cached_property
    def processes(self) -> Mapping[tuple[object, str], Sequence[Process]]:
        """The processes by owner, or by why they have none, and device."""
        found: dict[tuple[object, str], list[Process]] = defaultdict(list)
        for process in processes_of(self.shown):
            found[process.owner, process.device_uuid].append(process)
        return found

    @property
    def devices(self) -> Sequence[DeviceFacts]:
        """All devices, by their number."""
        return sorted(self.shown.facts.devices, key=lambda device: (device.index, device.uuid))

    @cached_property
    def pods(self) -> Sequence[PodParts]:
        """The pods by name, or the one that is wanted."""
        holdings: dict[tuple[str, str], list[ContainerHolding]] = defaultdict(list)
        for _, held in labelled(self.shown.facts, "container"):
            holdings[held.owner.namespace, held.owner.pod].append(held)
        facts = {(pod.namespace, pod.name): pod for pod in self.shown.facts.pods}
        names = facts.keys() | holdings.keys()
        wanted = sorted(names if self.wanted is None else names & {self.wanted})
        return [PodParts(*name, facts.get(name), holdings[name]) for name in wanted]

    @property
    def groups(self) -> Iterable[Sequence[GroupHolding]]:
        """What each group holds."""
        found: dict[GroupKey, list[GroupHolding]] = defaultdict(list)
        for _, held in labelled(self.shown.facts, "group"):
            found[held.owner].append(held)
        return found.values()

    @property
    def series(self) -> Iterable[Points]:
        """The last minutes of all series."""
        past = self.snapshot.history
        for key, points in Past(past, self.minutes * MINUTE_NS // past.step_ns).items():
            level = "container" if isinstance(key.owner, ContainerKey) else "group"
            labels = [*(key.owner or ()), "" if key.gpu is None else str(key.gpu), key.uuid]
            yield Points("device" if key.owner is None else level, labels, *points.values())

    @cached_property
    def _nobody(self) -> Mapping[str, Mapping[Unattributed, float]]:
        return {each.device_uuid: unattributed_core(each) for each in self.shown.tenants}

    def unattributed(self, device: DeviceFacts) -> Sequence[Unnamed]:
        """A device's unattributed use by reason, with the processes behind it."""
        core, memory = self._nobody.get(device.uuid, {}), device.memory.unattributed_bytes
        is_known = device.average.core is not None
        made = []
        for reason in Unattributed:
            used = core.get(reason, 0.0) if is_known else None
            listed = self.processes.get((reason, device.uuid))
            if listed or (is_known and reason in core) or memory.get(reason):
                made.append(Unnamed(reason, used, memory.get(reason), listed))
        return made


def _enum(names: Iterable[object]) -> Json:
    return {"enum": [str(name) for name in names]}


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


_ENDED = "It has ended; its counters are shown for a while."
_COMM = "Its short name (comm); command lines are never shown."
_PROCESS = Object(
    "process",
    (
        Field("pid", WHOLE),
        maybe("name", TEXT, lambda p, _: p.name or None, _COMM),
        maybe(
            *("type", TEXT, lambda p, _: process_type(p.kinds or frozenset()) or None),
            "C, G, C+G or M+C, as nvidia-smi shows it.",
        ),
        maybe("memory_used_bytes", NUMBER, "memory_bytes"),
        *(maybe(name, NUMBER, of, "Its part of its container's.") for of, name in RATIOS.items()),
        maybe("start_timestamp_seconds", NUMBER, lambda p, _: _seconds(p.start_unix_ns or None)),
    ),
)
_OTHERS = Object(
    "others",
    (maybe("core_utilization_ratio", NUMBER), maybe("memory_used_bytes", NUMBER)),
    "What all owners use that the client may not see.",
)
_UNATTRIBUTED = Object(
    "unattributed",
    (
        Field("reason", _enum(Unattributed), lambda part, _: str(part.reason)),
        maybe("core_utilization_ratio", NUMBER, "core"),
        maybe("memory_used_bytes", NUMBER, "memory"),
        maybe("process_list", Many(_PROCESS), "processes"),
    ),
    "Unattributed use, by reason; see docs/troubleshooting.md.",
)
_DEVICE = Object(
    "device",
    (
        Field("index", WHOLE, about="The vendor's number of the device."),
        Field("uuid", TEXT),
        LevelFields("device"),
        maybe(
            *("core_share", NUMBER),
            lambda each, _: each.device.core_share if each.device.parent_uuid else None,
            "What part of its GPU's core a partition has; absent of a whole GPU.",
        ),
        Field("unattributed", Many(_UNATTRIBUTED), lambda each, of: of.unattributed(each)),
        maybe("others", _OTHERS, lambda _, __: None),  # of ``restricted``
    ),
)


def _on_device(level: str) -> Object:
    """What a container or group holds of one device."""
    parts: Sequence[Part] = (
        maybe(
            *("index", WHOLE, "index"),
            "Absent, as uuid, if the device of an allocation is not known.",
        ),
        maybe("uuid", TEXT, lambda held, _: held.uuid or None),
        LevelFields(level, without="info"),
        Field("ended", FLAG, about=_ENDED),
        maybe(
            *("process_list", Many(_PROCESS)),
            lambda held, of: of.processes.get((held.owner, held.uuid)),
        ),
    )
    return Object(f"{level}_on_device", parts)


_CONTAINER = Object(
    "container",
    (
        Field("container", TEXT, lambda each, _: each[0], "Empty while only the pod is known."),
        Field("devices", Many(_on_device("container")), lambda each, _: each[1]),
    ),
)
_POD = Object(
    "pod_object",
    (
        Field("namespace", TEXT),
        Field("pod", TEXT),
        LevelFields("pod", lambda pod: pod.facts),
        Field("ended", FLAG, about=_ENDED),
        Field("containers", Many(_CONTAINER)),
    ),
)
_GROUP = Object(
    "group",
    (
        Field("kind", TEXT, lambda held, _: held[0].owner.kind),
        Field("group", TEXT, lambda held, _: held[0].owner.group),
        LevelFields("group", lambda held: held[0], only="info"),
        Field("devices", Many(_on_device("group")), lambda held, _: held),
    ),
)


def _sums(level: str, owner: str) -> Field:
    """The use of each device by all owners of a namespace or of a kind."""
    parts = (
        Field(owner, TEXT, lambda each, _: each[0][0]),
        Field("uuid", TEXT, lambda each, _: each[0][1]),
        LevelFields(level, lambda each: each[1]),
    )
    kind = Many(Object(level, parts))
    return Field(f"{level}s", kind, lambda of, _: labelled(of.shown.facts, level))


_SOURCE = Object(
    "source",
    (
        Field("name", TEXT),
        Field("up", FLAG),
        Field("detail", TEXT, about="What is wrong, in words."),
        Field("duration_seconds", NUMBER, lambda each, _: _seconds(each.duration_ns)),
        maybe(
            *("last_success_timestamp_seconds", NUMBER),
            lambda each, _: _seconds(each.last_success_unix_ns),
        ),
        maybe("reason", _enum(Unmeasured), lambda each, _: each.reason and str(each.reason)),
        maybe("what_to_do", TEXT, lambda each, _: what_to_do(each) or None),
    ),
)
_SNAPSHOT_HEAD = Object(
    "snapshot_head",
    (
        Field(
            *("number", WHOLE, "snapshot.version"),
            "Of the cycle, since the exporter's start; 0 before the first.",
        ),
        Field(
            *("timestamp_seconds", NUMBER, lambda of, _: _seconds(of.snapshot.unix_ns)),
            "When it was measured.",
        ),
        Field(
            *("age_seconds", NUMBER, "age_s"),
            "How old it was when this answer was made; the header Age says what to add.",
        ),
        Field(
            *("stale", FLAG, "stale"),
            "Too old to be shown: devices, pods and groups are left out then.",
        ),
        Field(
            *("window_seconds", NUMBER, lambda of, _: _seconds(of.about.window_ns)),
            "What the _ratio and _gpus figures are averaged over.",
        ),
    ),
)
_HEAD = (
    Field("api_version", {"const": "v1"}, lambda _, __: "v1"),
    Field("node", TEXT, "about.node", "The node's name, empty if it is not known."),
    Field("simulated", FLAG, "snapshot.simulated", "Nothing in the answer is measured."),
    Field("snapshot", _SNAPSHOT_HEAD, lambda of, _: of),
    Field("sources", Many(_SOURCE), "snapshot.sources"),
    maybe(
        *("namespaces_shown", Many(TEXT), lambda _, __: None),  # of ``restricted``
        "There if the client may see these namespaces only, by Kubernetes' verdict.",
    ),
)
_EXPORTER = Object(
    "",
    (
        Field("version", TEXT, lambda _, __: __version__),
        LevelFields(OWN_LEVEL, lambda of: of.snapshot.exporter or None),
    ),
)

SNAPSHOT = Object(
    "snapshot",
    (
        *_HEAD,
        Field("exporter", _EXPORTER, lambda of, _: of),
        Field("devices", Many(_DEVICE)),
        Field("pods", Many(_POD)),
        Field("groups", Many(_GROUP)),
        Field("words", object_of(dict.fromkeys(words(), _NAMES)), lambda *_: words(), _WORDS),
        _sums("namespace", "namespace"),
        _sums("group_kind", "kind"),
    ),
    "GET /api/v1/snapshot: everything that the newest collection cycle found.",
)
DEVICES = Object("devices", (*_HEAD, Field("devices", Many(_DEVICE))), "GET /api/v1/devices.")
POD = Object(
    "pod",
    (*_HEAD, Field("pod", _POD, lambda of, _: of.pods[0])),
    "GET /api/v1/pods/{namespace}/{pod}.",
)
_SERIES = Object(
    "series",
    (
        Field("level", _enum(("device", "container", "group"))),
        Field("labels", Many(TEXT), about="Those of the level's metrics, in their order."),
        Field("core_utilization_ratio", Many({"type": ["number", "null"]}), "core"),
        Field(
            *("memory_used_bytes", Many({"type": ["integer", "null"]})),
            lambda points, _: [None if value is None else int(value) for value in points.memory],
        ),
    ),
)
HISTORY = Object(
    "history",
    (
        *_HEAD,
        Field(
            *("end_timestamp_seconds", NUMBER),
            lambda of, _: _seconds(of.snapshot.history.end_unix_ns),
        ),
        Field("step_seconds", NUMBER, lambda of, _: _seconds(of.snapshot.history.step_ns)),
        Field("series", Many(_SERIES)),
    ),
    "GET /api/v1/history: a point each step, the newest last and at the end; null where nothing "
    "was measured. A shorter series began later.",
)
ERROR = Object(
    "error", (Field("error", TEXT, lambda words, _: words),), "Any answer that is not 200."
)
