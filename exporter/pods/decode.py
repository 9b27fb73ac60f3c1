"""A pod's JSON document → ``model.Pod``. Pure; stands on the core/v1 Pod of the Kubernetes API.

Only what this exporter uses is kept, so that a pod of 13 KB costs about 1 KB. Every list, map and
text is bounded: what is too many or too long is dropped and counted, never an error of its own.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from exporter.model import Container, NodeFacts, Pod
from exporter.pods.claim_refs import claim_references
from exporter.pods.owners import resolve
from exporter.pods.shapes import MAX_ENTRIES, NONE, Json
from exporter.pods.shapes import mapping as _map
from exporter.pods.shapes import mappings as _maps
from exporter.pods.shapes import text as _text
from exporter.pods.shapes import texts as _texts

MAX_CONTAINERS = 512
MAX_ANNOTATIONS = 64 * 1024  # characters of all that are kept of one pod; a scheduler writes 1,000
UNREADABLE = "…"  # stands for one that is none, or too long

CONFIG_MIRROR = "kubernetes.io/config.mirror"
CONFIG_HASH = "kubernetes.io/config.hash"

CONTAINER_ID = re.compile(r"[a-z][a-z0-9.-]*://([0-9A-Za-z][0-9A-Za-z_.-]{0,127})", re.ASCII)


class PodError(ValueError):
    """The document cannot be kept as a pod; the text says which field is missing or wrong."""


class Keep(NamedTuple):
    """Prefixes of the keys to keep, of a pod and of the node; a whole key is one of itself."""

    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    node_annotations: tuple[str, ...] = ()


KEEP_NOTHING = Keep()


class Decoded(NamedTuple):
    """A pod and how many of its items were dropped, by reason."""

    pod: Pod
    dropped: Mapping[str, int]


def decode_pod(document: object, keep: Keep = KEEP_NOTHING) -> Decoded:
    """Decode one item of a PodList, or the object of a watch event.

    ``containers`` holds init and sidecar containers in the order of ``spec.initContainers``, then
    the app containers in the order of ``spec.containers``, then the ephemeral ones: sharing
    systems number containers by their place in these lists.

    Raises:
        PodError: it has no usable uid, namespace or name.

    """
    if not isinstance(document, dict):
        raise PodError("document is not an object")
    metadata, spec, status = (_map(document, key) for key in ("metadata", "spec", "status"))
    dropped: Counter[str] = Counter()
    annotations = _map(metadata, "annotations")
    owner_kind, owner_name = _owner(metadata)
    mirror, config_hash = (_text(annotations.get(key)) for key in (CONFIG_MIRROR, CONFIG_HASH))
    pod = Pod(
        uid=_required(metadata, "uid"),
        namespace=_required(metadata, "namespace"),
        name=_required(metadata, "name"),
        phase=_text(status.get("phase")),
        qos=_text(status.get("qosClass")),
        static_hash=mirror or config_hash,
        owner_kind=owner_kind,
        owner_name=owner_name,
        containers=_containers(spec, status, dropped),
        annotations=_kept(annotations, keep.annotations, dropped),
        labels=_kept(_map(metadata, "labels"), keep.labels, dropped),
        mirror=bool(mirror) and mirror == (config_hash or mirror),  # the kubelet writes both alike
        acknowledged=bool(_text(status.get("startTime"))),
    )
    return Decoded(pod, dropped)


def decode_node(document: object, keep: Keep = KEEP_NOTHING) -> NodeFacts:
    """Labels, annotations and allocatable quantities of a core/v1 Node; empty where it has none."""
    if not isinstance(document, dict):
        return NodeFacts()
    metadata = _map(document, "metadata")
    allocatable = _map(_map(document, "status"), "allocatable")
    return NodeFacts(
        labels=_texts(_map(metadata, "labels")),
        annotations=_kept(_map(metadata, "annotations"), keep.node_annotations, Counter()),
        allocatable=_texts(allocatable),
    )


# --- parts of a pod -------------------------------------------------------------------------------


def _owner(metadata: Json) -> tuple[str, str]:
    """Kind and name of what the pod's controller belongs to; "" if it has none."""
    for reference in _maps(metadata, "ownerReferences"):
        if reference.get("controller") is True:
            version, kind, name = (_text(reference.get(k)) for k in ("apiVersion", "kind", "name"))
            labels, created = _map(metadata, "labels"), _text(metadata.get("creationTimestamp"))
            owner = resolve(version, kind, name, labels, created)
            return _text(owner.kind), _text(owner.name)
    return "", ""


def _containers(spec: Json, status: Json, dropped: Counter[str]) -> tuple[Container, ...]:
    found: dict[str, Container] = {}
    claims = claim_references(spec, status)
    for kind, container, state in _with_status(spec, status):
        name = _text(container.get("name"))
        if not name or name in found:
            dropped["container_unusable"] += 1
        elif len(found) >= MAX_CONTAINERS:
            dropped["container_over_limit"] += 1
        else:
            found[name] = Container(
                name=name,
                kind=kind,
                container_ids=_container_ids(state),
                limits=_extended_resources(container),
                claims=claims.get(name, ()),
            )
    return tuple(found.values())


def _with_status(spec: Json, status: Json) -> Iterator[tuple[str, Json, Json]]:
    """(kind, container, its status) of the three lists; the status is empty until it is posted."""
    for spec_key, status_key, listed_kind in (
        ("initContainers", "initContainerStatuses", "init"),
        ("containers", "containerStatuses", "app"),
        ("ephemeralContainers", "ephemeralContainerStatuses", "ephemeral"),
    ):
        states = {_text(state.get("name")): state for state in _maps(status, status_key)}
        for container in _maps(spec, spec_key):
            # An init container that restarts for ever is a sidecar (KEP-753).
            sidecar = listed_kind == "init" and container.get("restartPolicy") == "Always"
            kind = "sidecar" if sidecar else listed_kind
            yield kind, container, states.get(_text(container.get("name")), NONE)


def _container_ids(state: Json) -> tuple[str, ...]:
    """The current id, then the one before the last restart, without their ``<type>://``."""
    last = _map(_map(state, "lastState"), "terminated")
    matches = (CONTAINER_ID.fullmatch(_text(source.get("containerID"))) for source in (state, last))
    return tuple(dict.fromkeys(match[1] for match in matches if match))


def _extended_resources(container: Json) -> Mapping[str, str]:
    """Limits of extended resources: the keys with a domain. The API server makes requests equal."""
    resources = _map(container, "resources")
    merged = {**_map(resources, "requests"), **_map(resources, "limits")}
    return _texts({key: value for key, value in merged.items() if "/" in key})


def _kept(source: Json, prefixes: tuple[str, ...], dropped: Counter[str]) -> Mapping[str, str]:
    """The entries whose keys begin so; of those that are not usable, only that they are there.

    No sharing system's format allows what stands for them: whoever reads the pod sees that it has
    an annotation which cannot be read, and does not take it for a pod without. The shortest come
    first, so that one long text costs only itself.
    """
    wanted = [key for key in source if key.startswith(prefixes)]
    usable = _texts({key: source[key] for key in wanted}, MAX_ANNOTATIONS)
    left, found = MAX_ANNOTATIONS, {}
    for key in sorted(usable, key=lambda key: len(usable[key])):
        left -= len(usable[key])
        if left >= 0:
            found[key] = usable[key]
    if lost := len(wanted) - len(found):
        dropped["annotation_unusable"] += lost
    there = [key for key in wanted if _text(key)][:MAX_ENTRIES]
    return {key: found.get(key, UNREADABLE) for key in there}


def _required(metadata: Json, key: str) -> str:
    if text := _text(metadata.get(key)):
        return text
    raise PodError(f"metadata.{key} is missing or unusable")
