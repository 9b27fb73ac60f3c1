"""Decodes a pod's or node's JSON document into ``model`` values. Pure.

Only what this exporter uses is kept, so that a pod of 13 KB costs about 1 KB. Every list, map and
text is bounded: what is too many or too long is dropped and counted, and is not an error.

Source: core/v1 of the Kubernetes API. ResourceClaims of containers come from
``spec.resourceClaims``, ``status.resourceClaimStatuses`` (claims made from templates),
``containers[].resources.claims``, and ``status.extendedResourceClaimStatus`` (KEP-5004, the claim
for extended resources). ``status.containerStatuses[].allocatedResourcesStatus`` is KEP-4680's.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from exporter.agent.sources.pods.toplevelowner import resolve
from exporter.model import MEMORY_LIMIT, MEMORY_REQUEST, ClaimRef, Container, NodeFacts, Pod

MAX_ENTRIES = 1024  # of one map: annotations, labels, limits
MAX_NAME = 253  # DNS subdomain, the longest name that the API server accepts

Json = Mapping[str, object]
NONE: Json = {}


def mapping(parent: Json, key: str) -> Json:
    """The object under a key, or an empty one."""
    value = parent.get(key)
    return value if isinstance(value, dict) else NONE


def mappings(parent: Json, key: str) -> Iterator[Json]:
    """The objects of the list under a key; other items are left out."""
    value = parent.get(key)
    return (
        (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
    )


def text(value: object, limit: int = MAX_NAME) -> str:
    """The text; "" if it is not a text, too long, or not Unicode (half a surrogate pair)."""
    if not isinstance(value, str) or len(value) > limit:
        return ""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return ""
    return value


def texts(source: Json, limit: int = MAX_NAME) -> Mapping[str, str]:
    """The entries whose key and value are usable texts; quantities may be JSON integers."""
    found: dict[str, str] = {}
    for key, value in source.items():
        number = isinstance(value, int) and not isinstance(value, bool)
        own = str(value) if number else text(value, limit)
        if text(key) and (own or value == "") and len(found) < MAX_ENTRIES:
            found[key] = own
    return found


MAX_REFERENCES = 256  # of one container
MAX_POD_REFERENCES = 1024
_OF_STATUS = ("resourceClaimStatuses", "extendedResourceClaimStatus")


def claim_references(
    spec: Json, status: Json, dropped: Counter[str]
) -> Mapping[str, tuple[ClaimRef, ...]]:
    """The claim references of each container that has any, by container name.

    A claim that is not yet made from its template is missing.
    """
    if "resourceClaims" not in spec and status.keys().isdisjoint(_OF_STATUS):
        return {}
    found: dict[str, dict[ClaimRef, None]] = {}
    left = MAX_POD_REFERENCES
    for container, reference in _references(spec, status):
        own = found.setdefault(container, {})
        if container and reference.claim and reference not in own:
            if len(own) < MAX_REFERENCES and left:
                own[reference] = None
                left -= 1
            else:
                dropped["claim_over_limit"] += 1
    return {container: tuple(own) for container, own in found.items() if own}


def _references(spec: Json, status: Json) -> Iterator[tuple[str, ClaimRef]]:
    """Each container with each claim that it refers to; "" for a claim that is not made yet."""
    claims = {
        text(claim.get("name")): text(claim.get("resourceClaimName"))
        for claim in (*mappings(spec, "resourceClaims"), *mappings(status, "resourceClaimStatuses"))
        if text(claim.get("resourceClaimName"))
    }
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for container in mappings(spec, kind):
            for taken in mappings(mapping(container, "resources"), "claims"):
                claim = claims.get(text(taken.get("name")), "")
                yield text(container.get("name")), ClaimRef(claim, text(taken.get("request")))
    # A claim that the scheduler made for an extended resource stands in no spec.
    made = mapping(status, "extendedResourceClaimStatus")
    claim = text(made.get("resourceClaimName"))
    for use in mappings(made, "requestMappings"):
        request, resource = text(use.get("requestName")), text(use.get("resourceName"))
        yield text(use.get("containerName")), ClaimRef(claim, request, resource)


MAX_CONTAINERS, MANY_CONTAINERS = 512, 16
MAX_RESOURCES, MAX_POD_RESOURCES = 64, 2048  # extended ones; a sharing system has five at most
MAX_UNHEALTHY = 64  # whose ids are kept
MAX_ANNOTATIONS = 64 * 1024  # characters of all that are kept of one pod; a scheduler writes 1,000
UNREADABLE = "…"  # in place of a value that is not a text or too long

CONFIG_MIRROR = "kubernetes.io/config.mirror"
CONFIG_HASH = "kubernetes.io/config.hash"

HOOKED_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
PRELOADED = "/etc/ld.so.preload"
DISABLE_CONTROL = "CUDA_DISABLE_CONTROL"
TRUE_OF_GO = ("1", "t", "T", "true", "TRUE", "True")  # strconv.ParseBool

CONTAINER_ID = re.compile(r"[a-z][a-z0-9.-]*://([0-9A-Za-z][0-9A-Za-z_.-]{0,127})", re.ASCII)


class PodError(ValueError):
    """A document that is not a usable pod. The message names the missing or wrong field."""


class KeyPrefixes(NamedTuple):
    """Prefixes of the annotation and label keys to keep. A whole key is a prefix too."""

    annotations: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    node_annotations: tuple[str, ...] = ()


KEEP_NOTHING = KeyPrefixes()


class DecodedPod(NamedTuple):
    """A pod, and the number of its dropped items by reason."""

    pod: Pod
    dropped: Mapping[str, int]


def decode_pod(document: object, keep: KeyPrefixes = KEEP_NOTHING) -> DecodedPod:
    """Decode one item of a PodList, or the object of a watch event.

    ``containers`` holds init and sidecar containers in the order of ``spec.initContainers``, then
    the app containers in the order of ``spec.containers``, then the ephemeral ones: sharing
    systems number containers by their place in these lists.

    Raises:
        PodError: it has no usable uid, namespace or name.

    """
    if not isinstance(document, dict):
        raise PodError("document is not an object")
    metadata, spec, status = (mapping(document, key) for key in ("metadata", "spec", "status"))
    dropped: Counter[str] = Counter()
    annotations = mapping(metadata, "annotations")
    owner_kind, owner_name = _owner(metadata)
    health = {
        text(device.get("resourceID")): device.get("health")
        for state in mappings(status, "containerStatuses")
        for resource in mappings(state, "allocatedResourcesStatus")
        for device in mappings(resource, "resources")
    }
    unhealthy = tuple(own for own, state in health.items() if state == "Unhealthy")
    pod = Pod(
        uid=_required(metadata, "uid"),
        namespace=_required(metadata, "namespace"),
        name=_required(metadata, "name"),
        phase=text(status.get("phase")),
        qos=text(status.get("qosClass")),
        static_hash=text(annotations.get(CONFIG_MIRROR)) or text(annotations.get(CONFIG_HASH)),
        owner_kind=owner_kind,
        owner_name=owner_name,
        containers=_containers(spec, status, dropped),
        annotations=_kept(annotations, keep.annotations, dropped),
        labels=_kept(mapping(metadata, "labels"), keep.labels, dropped),
        acknowledged=bool(text(status.get("startTime"))),
        # A kubelet that says nothing of any device's health has not said that all are well.
        unhealthy_devices=len(unhealthy) if health else None,
        unhealthy=unhealthy[:MAX_UNHEALTHY],
    )
    return DecodedPod(ended(pod) if pod.terminal else pod, dropped)


def ended(pod: Pod) -> Pod:
    """The pod without the containers that never ran, if it has many.

    The kubelet bounds the pods that run, and nobody those that it refuses or that are deleted. Two
    of the others stay, so that no container is taken for the only one.
    """
    if len(pod.containers) <= MANY_CONTAINERS:
        return pod
    ran = tuple(container for container in pod.containers if container.container_ids)
    others = (container for container in pod.containers if not container.container_ids)
    return replace(pod, containers=(*ran, *islice(others, 2)))


def decode_node(document: object, keep: KeyPrefixes = KEEP_NOTHING) -> NodeFacts:
    """Labels, annotations and resources that a core/v1 Node offers; empty if it has none."""
    if not isinstance(document, dict):
        return NodeFacts()
    metadata, status = mapping(document, "metadata"), mapping(document, "status")
    # What is unhealthy is in the capacity alone. It goes on being one of the replicas of a device.
    capacity = texts(mapping(status, "capacity"))
    offered = {name: text for name, text in capacity.items() if "/" in name and text != "0"}
    return NodeFacts(
        labels=texts(mapping(metadata, "labels")),
        annotations=_kept(mapping(metadata, "annotations"), keep.node_annotations, Counter()),
        allocatable={**texts(mapping(status, "allocatable")), **offered},
    )


# --- parts of a pod -------------------------------------------------------------------------------


def _owner(metadata: Json) -> tuple[str, str]:
    """Kind and name of the pod's top-level owner; "" if it has no controller."""
    for reference in mappings(metadata, "ownerReferences"):
        if reference.get("controller") is True:
            version, kind, name = (text(reference.get(k)) for k in ("apiVersion", "kind", "name"))
            labels, created = mapping(metadata, "labels"), text(metadata.get("creationTimestamp"))
            owner = resolve(version, kind, name, labels, created)
            return text(owner.kind), text(owner.name)
    return "", ""


def _containers(spec: Json, status: Json, dropped: Counter[str]) -> tuple[Container, ...]:
    found: dict[str, Container] = {}
    claims = claim_references(spec, status, dropped)
    volumes = mappings(spec, "volumes")
    of_host = frozenset(text(one.get("name")) for one in volumes if mapping(one, "hostPath"))
    left = MAX_POD_RESOURCES
    for kind, container, state in _with_status(spec, status):
        name = text(container.get("name"))
        if not name or name in found:
            dropped["container_unusable"] += 1
        elif len(found) >= MAX_CONTAINERS:
            dropped["container_over_limit"] += 1
        else:
            # Extended resources are those with a domain in their name. The API server makes the
            # requests of them equal to the limits.
            asked = mapping(container, "resources")
            resources = {**mapping(asked, "requests"), **mapping(asked, "limits")}
            limits = texts({key: value for key, value in resources.items() if "/" in key})
            # A container with more is no sharing system's. Some of its resources would be a wrong
            # answer, none is an absent one.
            if len(limits) > min(left, MAX_RESOURCES):
                dropped["resource_over_limit"] += len(limits)
                limits = {}
            left -= len(limits)
            variables = list(mappings(container, "env"))
            # The current id, then the one before the last restart, without their ``<type>://``.
            last = mapping(mapping(state, "lastState"), "terminated")
            ids = (text(source.get("containerID")) for source in (state, last))
            matches = map(CONTAINER_ID.fullmatch, ids)
            found[name] = Container(
                name=name,
                kind=kind,
                container_ids=tuple(dict.fromkeys(match[1] for match in matches if match)),
                limits=limits,
                claims=claims.get(name, ()),
                memory_hook=_has_memory_hook(container, of_host),
                # The device plugins of HAMi and Volcano then load no HAMi-core. Source: HAMi's
                # pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go (Allocate).
                uncontrolled=any(
                    variable.get("name") == DISABLE_CONTROL and variable.get("value") in TRUE_OF_GO
                    for variable in variables
                ),
                # Of two with one name the kubelet sets the last. One that comes from elsewhere
                # (valueFrom) has no value here.
                environment=texts(
                    {
                        variable_name: variable.get("value")
                        for variable in variables
                        if (variable_name := text(variable.get("name")))
                        in {MEMORY_REQUEST, MEMORY_LIMIT}
                    }
                ),
            )
    return tuple(found.values())


def _has_memory_hook(container: Json, of_host: frozenset[str]) -> bool:
    """Whether HAMi-core is loaded from the host, and a ConfigMap sets its memory limit."""
    limited = any(
        variable.get("name") == HOOKED_LIMIT
        and mapping(mapping(variable, "valueFrom"), "configMapKeyRef")
        for variable in mappings(container, "env")
    )
    if not limited:
        return False
    mounted = {
        text(mount.get("name"))
        for mount in mappings(container, "volumeMounts")
        if mount.get("mountPath") == PRELOADED
    }
    return not mounted.isdisjoint(of_host)


def _with_status(spec: Json, status: Json) -> Iterator[tuple[str, Json, Json]]:
    """(kind, container, its status) of the three lists; the status is empty until it is posted."""
    for spec_key, status_key, listed_kind in (
        ("initContainers", "initContainerStatuses", "init"),
        ("containers", "containerStatuses", "app"),
        ("ephemeralContainers", "ephemeralContainerStatuses", "ephemeral"),
    ):
        states = {text(state.get("name")): state for state in mappings(status, status_key)}
        for container in mappings(spec, spec_key):
            # An init container that restarts for ever is a sidecar (KEP-753).
            sidecar = listed_kind == "init" and container.get("restartPolicy") == "Always"
            kind = "sidecar" if sidecar else listed_kind
            yield kind, container, states.get(text(container.get("name")), NONE)


def _kept(source: Json, prefixes: tuple[str, ...], dropped: Counter[str]) -> Mapping[str, str]:
    """The entries whose keys have one of the prefixes. An unusable value becomes ``UNREADABLE``.

    No sharing system's format allows that value, so a decoder sees that the annotation exists and
    cannot be read. The shortest values are kept first, so that one long text costs only itself.
    """
    wanted = [key for key in source if key.startswith(prefixes)]
    usable = texts({key: source[key] for key in wanted}, MAX_ANNOTATIONS)
    left, found = MAX_ANNOTATIONS, {}
    for key in sorted(usable, key=lambda key: len(usable[key])):
        left -= len(usable[key])
        if left >= 0:
            found[key] = usable[key]
    if lost := len(wanted) - len(found):
        dropped["annotation_unusable"] += lost
    there = [key for key in wanted if text(key)][:MAX_ENTRIES]
    return {key: found.get(key, UNREADABLE) for key in there}


def _required(metadata: Json, key: str) -> str:
    if value := text(metadata.get(key)):
        return value
    raise PodError(f"metadata.{key} is missing or unusable")
