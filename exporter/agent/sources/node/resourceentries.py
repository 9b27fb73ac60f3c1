"""Decodes answers of the kubelet's PodResources v1. Pure; the only importer of protobuf.

Source: kubelet, ``pkg/apis/podresources/v1/api.proto``. Other fields (cpus, memory, and what later
versions add) are skipped. protobuf is an optional extra, imported with the first answer.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from exporter.model import ClaimedDevice, Grant

# What is longer costs itself alone, but for the number of pods. The length of an answer bounds
# neither memory nor time: an empty part of two bytes becomes an object of thirty.
MAX_PODS = 65_536  # of an answer: a kubelet keeps those that have ended, too
MAX_POD = 2 << 20  # bytes of one pod
MAX_DEVICES = 65_536  # entries of one container: the kubelet makes one of each id
MAX_CONTAINERS = 512  # of one pod
MAX_IDS = 10_000  # of one container and resource: as many replicas as a device may have
MAX_CLAIMED = 256  # devices of one claim
MAX_TEXT = 512

# Field → number and type, * for several. Pods and containers are bytes, so that each is read alone.
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Request": {"name": (1, "string"), "namespace": (2, "string")},
    "Pod": {"name": (1, "string"), "namespace": (2, "string"), "containers": (3, "bytes*")},
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


def _pods(answer: bytes) -> list[bytes]:
    """The bytes of each pod of an answer, which is a message whose field 1 has them."""
    found: list[bytes] = []
    at = 0
    while at < len(answer):
        tag, at = _varint(answer, at)
        if tag & 7 == 0:
            _, at = _varint(answer, at)
        elif tag & 7 in _FIXED:
            at += _FIXED[tag & 7]
        elif tag & 7 == _OF_A_LENGTH:
            length, at = _varint(answer, at)
            found += [answer[at : at + length]] if tag >> 3 == 1 else []
            at += length
        else:
            raise WireError("no list of pods")
        if len(found) > MAX_PODS:
            raise WireError(f"it has more than {MAX_PODS} pods")
    if at > len(answer):
        raise WireError("it is cut off")
    return found


_OF_A_LENGTH, _FIXED = 2, {1: 8, 5: 4}  # types of fields, and how many bytes some have
_MORE = 0x80  # the bit of a byte that is not the last of its number


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at ``at``, and where it ends."""
    number = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        number |= (data[at] % _MORE) << shift
        at += 1
        if data[at - 1] < _MORE:
            return number, at
    raise WireError("it is cut off")


def request(namespace: str, name: str) -> bytes:
    """A GetPodResourcesRequest."""
    encoded: bytes = _classes()["Request"](name=name, namespace=namespace).SerializeToString()
    return encoded


PodKey = tuple[str, str]  # namespace and name


class ResourcePod(NamedTuple):
    """What the kubelet says of one pod. Its uid is not among it.

    ``claims``: by namespace and name, the devices of the ResourceClaims that its containers have;
    the request of the claim that each one is for is not reported.
    """

    namespace: str
    name: str
    grants: tuple[Grant, ...]
    claims: Mapping[PodKey, tuple[ClaimedDevice, ...]]


class PodResourcesList(NamedTuple):
    """The entries by namespace and name, and how many could not be used, by reason."""

    entries: Mapping[PodKey, ResourcePod]
    rejected: Mapping[str, int]


MALFORMED, AMBIGUOUS, OVER_LIMIT = (
    "podresources_malformed",
    "podresources_ambiguous",
    "podresources_over_limit",
)


def decode_list(message: bytes, wanted: Collection[PodKey] | None = None) -> PodResourcesList:
    """Decode a ListPodResourcesResponse; of all pods, or of those that are ``wanted``.

    An entry that cannot be read costs only itself. Entries with one name that differ are all
    rejected: an older kubelet also lists pods that have ended (kubernetes#119423), 12,500 of them.

    Raises:
        WireError: the answer itself is cut off or none.

    """
    entries: dict[PodKey, ResourcePod] = {}
    ambiguous: set[PodKey] = set()
    rejected: Counter[str] = Counter()
    # Each pod's bytes are read alone, so that a text of one which is no Unicode costs only its pod.
    for part in _pods(message):
        try:
            entry = _entry(part, wanted, rejected)
        except WireError:
            rejected[MALFORMED] += 1
            continue
        if entry is None:
            continue
        key = entry.namespace, entry.name
        if entries.setdefault(key, entry) != entry:
            ambiguous.add(key)
            rejected[AMBIGUOUS] += 1
    return PodResourcesList(
        {key: one for key, one in entries.items() if key not in ambiguous}, rejected
    )


def decode_get(message: bytes) -> PodResourcesList:
    """Decode a GetPodResourcesResponse: a list of one pod, or none.

    Raises:
        WireError: it cannot be read.

    """
    rejected: Counter[str] = Counter()
    entry = next((_entry(part, None, rejected) for part in _pods(message)), None)
    found = {} if entry is None else {(entry.namespace, entry.name): entry}
    return PodResourcesList(found, rejected)


def _entry(
    message: bytes, wanted: Collection[PodKey] | None, rejected: Counter[str]
) -> ResourcePod | None:
    """The entry of one pod; None if it is not wanted. Parts that are too long are counted."""
    if len(message) > MAX_POD:
        raise WireError("a pod that is too long")
    pod = _read("Pod", message)
    if not (pod.name and pod.namespace):
        raise WireError("a pod without a name")
    key = _text(pod.namespace), _text(pod.name)
    if wanted is not None and key not in wanted:
        return None
    # Those beyond are not read from the pod's own document either (``pods.decode``).
    containers = [_read("Container", part) for part in pod.containers[:MAX_CONTAINERS]]
    beyond = len(pod.containers) - len(containers)
    if beyond:
        rejected[OVER_LIMIT] += beyond
    names = {_text(container.name) for container in containers}
    if len(names) < len(containers) or "" in names:
        raise WireError("a container without a name, or two of one name")
    grants: list[Grant] = []
    claims: dict[PodKey, tuple[ClaimedDevice, ...]] = {}
    for container in containers:
        grants += _grants(container, rejected)
        claims |= _claims(container, rejected)
    return ResourcePod(*key, tuple(grants), claims)


def _grants(container: Any, rejected: Counter[str]) -> Iterator[Grant]:  # noqa: ANN401 - see _read
    """One for each resource: the kubelet lists every device id separately, in no order.

    Plugins of virtual ids hand out one for each unit, such as 30,000 for the memory of a card. Of
    more than can be devices none is kept: then only the resource is known.
    """
    ids: dict[str, set[str]] = {}
    too_long: set[str] = set()
    beyond = len(container.devices) - MAX_DEVICES
    if beyond > 0:
        rejected[OVER_LIMIT] += beyond
    for devices in islice(container.devices, MAX_DEVICES):
        resource = _text(devices.resource)
        own = ids.setdefault(resource, set())
        if resource not in too_long:
            own.update(devices.ids)
            if len(own) > MAX_IDS or any(len(device_id) > MAX_TEXT for device_id in devices.ids):
                too_long.add(resource)
                own.clear()
    if too_long:
        rejected[OVER_LIMIT] += len(too_long)
    for resource, own in sorted(ids.items()):
        if resource:
            yield Grant(container.name, resource, tuple(sorted(own)))


def _claims(
    container: Any,  # noqa: ANN401 - see _read
    rejected: Counter[str],
) -> Mapping[PodKey, tuple[ClaimedDevice, ...]]:
    found: dict[PodKey, set[tuple[str, str, str, str]]] = {}
    for claim in container.claims:
        devices = found.setdefault((_text(claim.namespace), _text(claim.name)), set())
        for one in claim.devices[: MAX_CLAIMED + 1]:
            driver, pool = _text(one.driver), _text(one.pool)
            devices.add((driver, pool, _text(one.device), _text(one.share)))
    long = {key for key, devices in found.items() if len(devices) > MAX_CLAIMED}
    if long:
        rejected[OVER_LIMIT] += len(long)
    return {
        key: tuple(ClaimedDevice("", *device) for device in sorted(devices))
        for key, devices in found.items()
        if all(key) and key not in long
    }


def _text(value: str) -> str:
    if len(value) > MAX_TEXT:
        raise WireError(f"a text of {len(value)} characters")
    return value
