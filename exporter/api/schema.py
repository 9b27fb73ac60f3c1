"""The JSON schema of the answers (draft 2020-12), made from the metric table."""

from collections.abc import Mapping, Sequence

from exporter.api.figures import FLAGS, LISTED, ONE, RATIOS, Json, words
from exporter.metrics.families import FAMILIES, Family
from exporter.model import Unattributed, Unmeasured

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer"}
RATIO = {"type": ["number", "null"]}
FLAG = {"type": "boolean"}
_WORDS = {"type": "object", "additionalProperties": TEXT}


def schema() -> Json:
    """The schema; ``$defs`` has one for the answer of each path."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:mgpu-exporter:api:v1",
        "title": "Answers of mgpu-exporter's /api/v1/",
        "description": "Unknown values are absent; unmeasured has the reasons. Base units: "
        "seconds, bytes, joules, watts; a ratio of 1 is a whole GPU. Times are Unix times.",
        "anyOf": [_ref(name) for name in ("snapshot", "devices", "pod", "history", "error")],
        "$defs": _answers() | _parts(),
    }


def _answers() -> Json:
    return {
        "snapshot": _answer(
            "GET /api/v1/snapshot: everything that the newest collection cycle found.",
            {
                "exporter": _object({"version": TEXT, **_figures("exporter")}, ["version"]),
                "devices": _list(_ref("device")),
                "pods": _list(_ref("pod_object")),
                "groups": _list(_ref("group")),
                "namespaces": _list(_ref("namespace")),
                "group_kinds": _list(_ref("group_kind")),
                "words": _described(_object(dict.fromkeys(words(), _WORDS)), "What reasons mean."),
            },
        ),
        "devices": _answer("GET /api/v1/devices.", {"devices": _list(_ref("device"))}),
        "pod": _answer("GET /api/v1/pods/{namespace}/{pod}.", {"pod": _ref("pod_object")}),
        "history": _answer(
            "GET /api/v1/history: a point each step, the newest last and at the end; null where "
            "nothing was measured. A shorter series began later.",
            {
                "end_timestamp_seconds": NUMBER,
                "step_seconds": NUMBER,
                "series": _list(_ref("series")),
            },
        ),
        "error": _object({"error": TEXT}, ["error"], "Any answer that is not 200."),
    }


def _answer(about: str, own: Json) -> Json:
    head = {
        "api_version": {"const": "v1"},
        "node": {**TEXT, "description": "The node's name, empty if it is not known."},
        "simulated": {**FLAG, "description": "Nothing in the answer is measured."},
        "snapshot": _ref("snapshot_head"),
        "sources": _list(_ref("source")),
    }
    shown = _described(
        _list(TEXT), "There if the client may see these namespaces only, by Kubernetes' verdict."
    )
    return _object({**head, "namespaces_shown": shown, **own}, [*head, *own], about)


def _parts() -> Json:
    return {
        "snapshot_head": _snapshot_head(),
        "source": _source(),
        "device": _device(),
        "unattributed": _unattributed(),
        "others": _object(
            {"core_utilization_ratio": NUMBER, "memory_used_bytes": NUMBER},
            (),
            "What all owners use that the client may not see.",
        ),
        "pod_object": _pod(),
        "container": _object(
            {
                "container": _described(TEXT, "Empty while only the pod is known."),
                "devices": _list(_ref("container_on_device")),
            },
            ["container", "devices"],
        ),
        "container_on_device": _on_device("container"),
        "group": _object(
            {
                "kind": TEXT,
                "group": TEXT,
                "info": _figures("group")["info"],
                "devices": _list(_ref("group_on_device")),
            },
            ["kind", "group", "devices"],
        ),
        "group_on_device": _on_device("group"),
        "namespace": _object(
            {"namespace": TEXT, "uuid": TEXT, **_figures("namespace")}, ["namespace", "uuid"]
        ),
        "group_kind": _object(
            {"kind": TEXT, "uuid": TEXT, **_figures("group_kind")}, ["kind", "uuid"]
        ),
        "process": _process(),
        "series": _series(),
    }


def _device() -> Json:
    return _object(
        {
            "index": _described(WHOLE, "The vendor's number of the device."),
            "uuid": TEXT,
            **_figures("device"),
            "core_share": _described(
                NUMBER, "What part of its GPU's core a partition has; absent of a whole GPU."
            ),
            "unattributed": _list(_ref("unattributed")),
            "others": _ref("others"),
        },
        ["index", "uuid", "unattributed"],
    )


def _unattributed() -> Json:
    return _object(
        {
            "reason": {"enum": [str(reason) for reason in Unattributed]},
            "core_utilization_ratio": NUMBER,
            "memory_used_bytes": NUMBER,
            "process_list": _list(_ref("process")),
        },
        ["reason"],
        "Unattributed use, by reason; see docs/troubleshooting.md.",
    )


def _snapshot_head() -> Json:
    fields: Json = {
        "number": _described(
            WHOLE, "Of the cycle, since the exporter's start; 0 before the first."
        ),
        "timestamp_seconds": _described(NUMBER, "When it was measured."),
        "age_seconds": _described(
            NUMBER, "How old it was when this answer was made; the header Age says what to add."
        ),
        "stale": _described(
            FLAG, "Too old to be shown: devices, pods and groups are left out then."
        ),
        "window_seconds": _described(
            NUMBER, "What the _ratio and _gpus figures are averaged over."
        ),
    }
    return _object(fields, [*fields])


def _source() -> Json:
    fields: Json = {
        "name": TEXT,
        "up": FLAG,
        "detail": _described(TEXT, "What is wrong, in words."),
        "duration_seconds": NUMBER,
        "last_success_timestamp_seconds": NUMBER,
        "reason": {"enum": [str(reason) for reason in Unmeasured]},
        "what_to_do": TEXT,
    }
    return _object(fields, ["name", "up", "detail", "duration_seconds"])


def _pod() -> Json:
    fields = {
        "namespace": TEXT,
        "pod": TEXT,
        **_figures("pod"),
        "ended": _described(FLAG, "It has ended; its counters are shown for a while."),
        "containers": _list(_ref("container")),
    }
    return _object(fields, ["namespace", "pod", "ended", "containers"])


def _on_device(level: str) -> Json:
    fields = {
        "index": _described(WHOLE, "Absent, as uuid, if the device of an allocation is not known."),
        "uuid": TEXT,
        **{name: own for name, own in _figures(level).items() if name != "info"},
        "ended": _described(FLAG, "It has ended; its counters are shown for a while."),
        "process_list": _list(_ref("process")),
    }
    return _object(fields, ["ended"])


def _process() -> Json:
    fields: Json = {
        "pid": WHOLE,
        "name": _described(TEXT, "Its short name (comm); command lines are never shown."),
        "type": _described(TEXT, "C, G, C+G or M+C, as nvidia-smi shows it."),
        "memory_used_bytes": NUMBER,
        **{name: _described(NUMBER, "Its part of its container's.") for name in RATIOS.values()},
        "start_timestamp_seconds": NUMBER,
    }
    return _object(fields, ["pid"])


def _series() -> Json:
    fields: Json = {
        "level": {"enum": ["device", "container", "group"]},
        "labels": _described(_list(TEXT), "Those of the level's metrics, in their order."),
        "core_utilization_ratio": _list(RATIO),
        "memory_used_bytes": _list({"type": ["integer", "null"]}),
    }
    return _object(fields, [*fields])


def _figures(level: str) -> Json:
    return {family.name: _figure(family) for family in FAMILIES if family.level == level}


def _figure(family: Family) -> Json:
    labels = dict.fromkeys(family.labels, TEXT)
    if family.name in FLAGS:
        return _described(FLAG, family.help)
    if not labels:
        return _described(NUMBER, family.help)
    if family.name in ONE:
        return _object(labels, [], family.help)
    if family.name in LISTED:
        return _described(_list(_object(labels)), family.help)
    return _described(_list(_object({**labels, "value": NUMBER}, [*labels, "value"])), family.help)


def _object(fields: Mapping[str, Json], required: Sequence[str] = (), about: str = "") -> Json:
    made: Json = {"type": "object", "additionalProperties": False, "properties": dict(fields)}
    made |= {"required": list(required)} if required else {}
    return _described(made, about) if about else made


def _list(of: Json) -> Json:
    return {"type": "array", "items": of}


def _ref(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def _described(kind: Json, about: str) -> Json:
    return {**kind, "description": about}
