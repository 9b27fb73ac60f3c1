"""What each object of the documents has: its members, with their meaning and their schema.

A client who may see some namespaces only is shown what is listed as ``open``.
"""

from collections.abc import Iterable, Sequence

from exporter import __version__
from exporter.agent.api.fields import (
    FLAG,
    INTEGER,
    NUMBER,
    TEXT,
    Field,
    FieldPart,
    Json,
    Many,
    Object,
    maybe,
    object_of,
)
from exporter.agent.api.figures import RATIOS, LevelFields
from exporter.metrics.families import FAMILIES, OWN_LEVEL
from exporter.model import DeviceFacts, Unattributed, Unmeasured
from exporter.shown.marks import device_marks
from exporter.shown.reasonwords import process_type, what_to_do, words

_WORDS = "What reasons mean."
_NAMES = {"type": "object", "additionalProperties": TEXT}


def _enum(names: Iterable[object]) -> Json:
    return {"enum": [str(name) for name in names]}


def _seconds(ns: int | None) -> float | None:
    return None if ns is None else ns / 1e9


_ENDED = "It has ended; its counters are shown for a while."
_COMM = "Its short name (comm); command lines are never shown."
_JOB = "The job of a batch system inside of the container, such as slurm/31."
_PROCESS = Object(
    "process",
    (
        Field("pid", INTEGER),
        maybe("name", TEXT, lambda p, _: p.name or None, _COMM),
        maybe(
            *("type", TEXT, lambda p, _: process_type(p.kinds or frozenset()) or None),
            "C, G, C+G or M+C, as nvidia-smi shows it.",
        ),
        maybe("memory_used_bytes", NUMBER, "memory_bytes"),
        *(maybe(name, NUMBER, of, "Its part of its container's.") for of, name in RATIOS.items()),
        maybe("start_timestamp_seconds", NUMBER, lambda p, _: _seconds(p.start_unix_ns or None)),
        maybe("job", TEXT, lambda p, _: p.job or None, _JOB),
    ),
    open=None,
)
_OTHERS = Object(
    "others",
    (
        maybe("core_utilization_ratio", NUMBER, lambda sums, _: sums.get("core_utilization_ratio")),
        maybe("memory_used_bytes", NUMBER, lambda sums, _: sums.get("memory_used_bytes")),
    ),
    "What all owners use that the client may not see.",
    open=None,
)
_UNATTRIBUTED = Object(
    "unattributed",
    (
        Field("reason", _enum(Unattributed), lambda part, _: str(part.reason)),
        maybe("core_utilization_ratio", NUMBER, "core"),
        maybe("memory_used_bytes", NUMBER, "memory_bytes"),
        maybe("process_list", Many(_PROCESS), lambda part, _: part.processes or None),
    ),
    "Unattributed use, by reason; see docs/troubleshooting.md.",
    # Without the processes behind it: they may be another tenant's.
    open=("reason", "core_utilization_ratio", "memory_used_bytes"),
)


def _remedy(device: DeviceFacts, unix_ns: int) -> str | None:
    """What is to be done for a device, by its severe marks."""
    marks = device_marks(device, unix_ns)
    return "; ".join(mark.detail for mark in marks if mark.is_severe) or None


_DEVICE = Object(
    "device",
    (
        Field("index", INTEGER, about="The vendor's number of the device."),
        Field("uuid", TEXT),
        LevelFields("device"),
        maybe(
            *("core_share", NUMBER),
            lambda each, _: each.device.core_share if each.device.parent_uuid else None,
            "What part of its GPU's core a partition has; absent of a whole GPU.",
        ),
        maybe(
            *("ended_core_utilization_ratio", NUMBER, lambda each, of: of.ended(each)),
            "The part of core_utilization_ratio by what has ended.",
        ),
        maybe(
            *("what_to_do", TEXT, lambda each, of: _remedy(each, of.snapshot.unix_ns)),
            "Of a device that is lost or had a hardware fault: what happened, and what to do.",
        ),
        Field("unattributed", Many(_UNATTRIBUTED), lambda each, of: of.unattributed(each)),
        maybe("others", _OTHERS, lambda each, of: of.others(each)),
    ),
    open=(
        # Whoever may see one namespace sees all of the card: how busy it is, and whether it is
        # broken. He sees nobody's name there.
        *("index", "uuid", "ended_core_utilization_ratio", "what_to_do"),
        *("unattributed", "others"),
        *(family.name for family in FAMILIES if family.level == "device"),
    ),
)


def _on_device(level: str) -> Object:
    """What a container or group holds of one device."""
    parts: Sequence[FieldPart] = (
        maybe(
            *("index", INTEGER, "index"),
            "Absent, as uuid, if the device of an allocation is not known.",
        ),
        maybe("uuid", TEXT, lambda held, _: held.uuid or None),
        LevelFields(level, without="info"),
        Field("ended", FLAG, about=_ENDED),
        maybe(
            *("ended_core_utilization_ratio", NUMBER, "ended_core"),
            "What it used of the core, averaged as all is, before it ended.",
        ),
        maybe(
            *("process_list", Many(_PROCESS)),
            lambda held, of: of.processes.get((held.owner, held.uuid)),
        ),
    )
    return Object(f"{level}_on_device", parts, open=None)


_CONTAINER = Object(
    "container",
    (
        Field("container", TEXT, lambda each, _: each[0], "Empty while only the pod is known."),
        Field("devices", Many(_on_device("container")), lambda each, _: each[1]),
    ),
    open=None,
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
    open=None,
)
# Without ``open``: a group is of no namespace, so who sees some namespaces sees none.
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
    kind = Many(Object(level, parts, open=None))
    return Field(f"{level}s", kind, lambda of, _: of.sums(level))


_SOURCE = Object(
    "source",
    (
        Field("name", TEXT),
        Field("up", FLAG),
        Field(  # it may name servers, paths and pods
            *("detail", TEXT, lambda each, of: each.detail if of.namespaces is None else ""),
            "What is wrong, in words.",
        ),
        Field("duration_seconds", NUMBER, lambda each, _: _seconds(each.duration_ns)),
        maybe(
            *("last_success_timestamp_seconds", NUMBER),
            lambda each, _: _seconds(each.last_success_unix_ns),
        ),
        maybe("reason", _enum(Unmeasured), lambda each, _: each.reason and str(each.reason)),
        maybe("what_to_do", TEXT, lambda each, _: what_to_do(each) or None),
    ),
    open=("name", "up", "detail", "duration_seconds", "last_success_timestamp_seconds"),
)
_SNAPSHOT_HEAD = Object(
    "snapshot_head",
    (
        Field(
            *("number", INTEGER, "snapshot.version"),
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
    open=None,
)
_HEAD = (
    Field("api_version", {"const": "v1"}, lambda _, __: "v1"),
    Field("node", TEXT, "about.node", "The node's name, empty if it is not known."),
    Field("simulated", FLAG, "snapshot.simulated", "Nothing in the answer is measured."),
    Field("snapshot", _SNAPSHOT_HEAD, lambda of, _: of),
    Field("sources", Many(_SOURCE), "snapshot.sources"),
    maybe(
        *("namespaces_shown", Many(TEXT)),
        lambda of, _: None if of.namespaces is None else sorted(of.namespaces),
        "There if the client may see these namespaces only, by Kubernetes' verdict.",
    ),
)
_EXPORTER = Object(
    "",
    (
        Field("version", TEXT, lambda _, __: __version__),
        LevelFields(OWN_LEVEL, lambda of: of.snapshot.exporter or None),
    ),
    open=("version",),
)
_OPEN = ("api_version", "node", "simulated", "snapshot", "sources", "namespaces_shown")

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
    (*_OPEN, "exporter", "devices", "pods", "groups", "words", "namespaces", "group_kinds"),
)
DEVICES = Object(
    "devices",
    (*_HEAD, Field("devices", Many(_DEVICE))),
    "GET /api/v1/devices.",
    (*_OPEN, "devices"),
)
POD = Object(
    "pod",
    # There is one: ``document.pod`` makes no document of a pod that is not there.
    (*_HEAD, Field("pod", _POD, lambda of, _: of.pods[0])),
    "GET /api/v1/pods/{namespace}/{pod}.",
    (*_OPEN, "pod"),
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
    open=None,
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
    (*_OPEN, "end_timestamp_seconds", "step_seconds", "series"),
)
ERROR = Object(
    "error", (Field("error", TEXT, lambda words, _: words),), "Any answer that is not 200."
)
