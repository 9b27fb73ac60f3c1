"""Decodes answers of the kubelet's PodResources v1. Pure; the only importer of protobuf.

Source: kubelet, ``pkg/apis/podresources/v1/api.proto``. Other fields (cpus, memory, and what later
versions add) are skipped. protobuf is an optional extra, imported with the first answer.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from exporter.model import ClaimedDevice, Grant

MAX_PODS = 16_384  # an older kubelet lists ended pods too; a cluster keeps 12,500 of them
MAX_ENTRY = 1 << 20  # bytes of one pod
MAX_CONTAINERS = 512  # of one pod
MAX_IDS = 8192  # of one container and resource; virtual-id plugins hand out one for each unit
MAX_CLAIMED = 256  # devices of one container's claims
MAX_TEXT = 512

# Field → number and type, * for several. An answer's pods are bytes, so that each is read alone.
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Answer": {"pods": (1, "bytes*")},
    "Request": {"name": (1, "string"), "namespace": (2, "string")},
    "Pod": {"name": (1, "string"), "namespace": (2, "string"), "containers": (3, "Container*")},
    "Container": {"name": (1, "string"), "devices": (2, "Devices*"), "claims": (5, "Claim*")},
    "Devices": {"resource": (1, "string"), "ids": (2, "string*")},
    "Claim": {"name": (2, "string"), "namespace": (3, "string"), "devices": (4, "Claimed*")},
    "Claimed": {
        "driver": (2, "string"),
        "pool": (3, "string"),
        "device": (4, "string"),
        "share": (5, "string"),
    },
}


class WireError(ValueError):
    """The bytes are no message, or not of the type that is expected here."""


@cache
def _classes() -> Mapping[str, Any]:
    """The messages' classes by name; raises WireError if protobuf is not installed."""
    try:
        from google.protobuf import (  # noqa: PLC0415 - see the module's docstring
            descriptor_pb2,
            descriptor_pool,
            message_factory,
        )
    except ImportError as error:
        raise WireError("the package protobuf is not installed: pip install protobuf") from error
    file = descriptor_pb2.FileDescriptorProto(name="podresources", syntax="proto3")
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for name, (number, kind) in fields.items():
            one = described.field.add(name=name, number=number)
            one.label = one.LABEL_REPEATED if kind.endswith("*") else one.LABEL_OPTIONAL
            if (plain := kind.removesuffix("*")) in _MESSAGES:
                one.type, one.type_name = one.TYPE_MESSAGE, plain
            else:
                one.type = one.TYPE_BYTES if plain == "bytes" else one.TYPE_STRING
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes: Mapping[str, Any] = message_factory.GetMessageClassesForFiles([file.name], pool)
    return classes


def _read(message: str, data: bytes) -> Any:  # noqa: ANN401 - the class is made at run time
    kind = _classes()[message]
    try:
        return kind.FromString(data)
    except Exception as error:  # protobuf's own, which is imported as late as it
        raise WireError(f"no {message}: {error}") from error


def request(namespace: str, name: str) -> bytes:
    """A GetPodResourcesRequest."""
    encoded: bytes = _classes()["Request"](name=name, namespace=namespace).SerializeToString()
    return encoded


class PodEntry(NamedTuple):
    """What the kubelet says of one pod. Its uid is not among it.

    ``claims``: by namespace and name, the devices of the ResourceClaims that its containers have;
    the request of the claim that each one is for is not reported.
    """

    namespace: str
    name: str
    grants: tuple[Grant, ...]
    claims: Mapping[tuple[str, str], tuple[ClaimedDevice, ...]]


class PodResourcesList(NamedTuple):
    """The entries by namespace and name, and how many could not be used, by reason."""

    entries: Mapping[tuple[str, str], PodEntry]
    rejected: Mapping[str, int]


MALFORMED, AMBIGUOUS, OVER_LIMIT = (
    "podresources_malformed",
    "podresources_ambiguous",
    "podresources_over_limit",
)


def decode_list(message: bytes) -> PodResourcesList:
    """Decode a ListPodResourcesResponse.

    An entry that cannot be read costs only itself. Entries with one name that differ are all
    rejected: an older kubelet also lists pods that have ended (kubernetes#119423).

    Raises:
        WireError: the answer itself is cut off or none.

    """
    entries: dict[tuple[str, str], PodEntry] = {}
    ambiguous: set[tuple[str, str]] = set()
    rejected: Counter[str] = Counter()
    pods = _read("Answer", message).pods
    if len(pods) > MAX_PODS:
        rejected[OVER_LIMIT] = len(pods) - MAX_PODS
    for part in pods[:MAX_PODS]:
        try:
            entry = _entry(part)
        except WireError:
            rejected[MALFORMED] += 1
            continue
        key = entry.namespace, entry.name
        if entries.setdefault(key, entry) != entry:
            ambiguous.add(key)
            rejected[AMBIGUOUS] += 1
    return PodResourcesList(
        {key: one for key, one in entries.items() if key not in ambiguous}, rejected
    )


def decode_get(message: bytes) -> PodEntry | None:
    """Decode a GetPodResourcesResponse; None where it names no pod.

    Raises:
        WireError: it cannot be read.

    """
    pods = _read("Answer", message).pods
    return _entry(pods[-1]) if pods else None


def _entry(message: bytes) -> PodEntry:
    if len(message) > MAX_ENTRY:
        raise WireError(f"a pod of {len(message)} bytes")
    pod = _read("Pod", message)
    names = [container.name for container in pod.containers]
    if not (pod.name and pod.namespace and all(names)):
        raise WireError("a pod or container without a name")
    if len(names) > MAX_CONTAINERS or len(set(names)) < len(names):
        raise WireError("too many containers, or two of one name")
    grants: list[Grant] = []
    claims: dict[tuple[str, str], tuple[ClaimedDevice, ...]] = {}
    for container in pod.containers:
        grants += _grants(container)
        claims |= _claims(container)
    return PodEntry(_text(pod.namespace), _text(pod.name), tuple(grants), claims)


def _grants(container: Any) -> list[Grant]:  # noqa: ANN401 - see _read
    """One for each resource: the kubelet lists every device id separately, in no order."""
    ids: dict[str, set[str]] = {}
    for devices in container.devices:
        own = ids.setdefault(_text(devices.resource), set())
        own.update(map(_text, devices.ids))
        if len(own) > MAX_IDS:
            raise WireError(f"more than {MAX_IDS} devices")
    name = _text(container.name)
    return [Grant(name, key, tuple(sorted(own))) for key, own in sorted(ids.items()) if key]


def _claims(container: Any) -> Mapping[tuple[str, str], tuple[ClaimedDevice, ...]]:  # noqa: ANN401 - see _read
    found: dict[tuple[str, str], set[tuple[str, str, str, str]]] = {}
    for claim in container.claims:
        devices = found.setdefault((_text(claim.namespace), _text(claim.name)), set())
        for one in claim.devices:
            driver, pool = _text(one.driver), _text(one.pool)
            devices.add((driver, pool, _text(one.device), _text(one.share)))
        if len(devices) > MAX_CLAIMED:
            raise WireError(f"more than {MAX_CLAIMED} claimed devices")
    return {
        key: tuple(ClaimedDevice("", *device) for device in sorted(devices))
        for key, devices in found.items()
        if all(key)
    }


def _text(value: str) -> str:
    if len(value) > MAX_TEXT:
        raise WireError(f"a text of {len(value)} characters")
    return value
