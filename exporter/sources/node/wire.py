"""Decodes answers of the kubelet's PodResources v1 (Protocol Buffers). Pure.

Field numbers: kubelet, ``pkg/apis/podresources/v1/api.proto``. Other fields (cpus, memory, and what
later versions add) are skipped.

The reader of the wire format (protobuf.dev, "Encoding") replaces the protobuf runtime, which has
no bounds, needs generated code, and is larger.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from exporter.model import ClaimedDevice, Grant

MAX_FIELDS = 16_384  # of one message
MAX_VARINT_BYTES = 10
MAX_FIELD_NUMBER = (1 << 29) - 1
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}


class WireError(ValueError):
    """The bytes are no message, or not of the type that is expected here."""


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Field number and value of each field, in their order.

    A varint is an int, all else are the value's bytes.

    Raises:
        WireError: cut off, longer than the message, of an unknown wire type, or too many fields.

    """
    at = count = 0
    while at < len(message):
        count += 1
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if count > MAX_FIELDS or not 0 < number <= MAX_FIELD_NUMBER:
            raise WireError(f"field {count} has the number {number}")
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == BYTES:
            length, at = _varint(message, at)
        elif kind in _FIXED:
            length = _FIXED[kind]
        else:
            raise WireError(f"field {number} has the wire type {kind}")
        if length > len(message) - at:
            raise WireError(f"field {number} is cut off")
        yield number, message[at : at + length]
        at += length


def parts(message: memoryview, number: int) -> Iterator[memoryview]:
    """The values of one field that are messages or texts; raises as ``fields`` does."""
    return (_as_bytes(value) for own, value in fields(message) if own == number)


def text(value: memoryview, limit: int) -> str:
    """A string of at most so many bytes.

    Raises:
        WireError: it is longer, or no UTF-8.

    """
    if len(value) > limit:
        raise WireError(f"a text of {len(value)} bytes")
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"a text that is no UTF-8: {error.reason}") from error


def one_text(message: memoryview, number: int, limit: int) -> str:
    """The string of a field that stands once, "" if it is absent; of several, the last counts."""
    found = ""
    for value in parts(message, number):
        found = text(value, limit)
    return found


def text_field(number: int, value: str) -> bytes:
    """A string as a field of a message."""
    content = value.encode()
    return _as_varint(number << 3 | BYTES) + _as_varint(len(content)) + content


def _as_bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise WireError("a number in place of a message or text")
    return value


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number that begins at a place, and where it ends."""
    value = 0
    for place, byte in enumerate(message[at : at + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return value, at + place + 1
    raise WireError("a number that is cut off or too long")


def _as_varint(value: int) -> bytes:
    encoded = bytearray()
    while more := value >> 7:
        encoded.append(value & 0x7F | 0x80)
        value = more
    return bytes((*encoded, value))


MAX_PODS = 4096
MAX_CONTAINERS = 512  # of one pod
MAX_IDS = 8192  # of one container and resource; virtual-id plugins hand out one for each unit
MAX_CLAIMED = 256  # devices of one container's claims
MAX_TEXT = 512

Claims = Mapping[tuple[str, str], tuple[ClaimedDevice, ...]]


class PodEntry(NamedTuple):
    """What the kubelet says of one pod. Its uid is not among it.

    ``claims``: by namespace and name, the devices of the ResourceClaims that its containers have;
    the request of the claim that each one is for is not reported.
    """

    namespace: str
    name: str
    grants: tuple[Grant, ...]
    claims: Claims


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
    for part in parts(memoryview(message), 1):
        if len(entries) >= MAX_PODS:
            rejected[OVER_LIMIT] += 1
            continue
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
    entry = None
    for part in parts(memoryview(message), 1):
        entry = _entry(part)
    return entry


def _entry(message: memoryview) -> PodEntry:
    name, namespace = (one_text(message, number, MAX_TEXT) for number in (1, 2))
    if not name or not namespace:
        raise WireError("a pod without a name")
    grants: list[Grant] = []
    claims: dict[tuple[str, str], tuple[ClaimedDevice, ...]] = {}
    seen: set[str] = set()
    for container in parts(message, 3):
        own = one_text(container, 1, MAX_TEXT)
        if not own or own in seen or len(seen) >= MAX_CONTAINERS:
            raise WireError("a container without a name of its own")
        seen.add(own)
        grants += _grants(own, container)
        claims |= _claims(container)
    return PodEntry(namespace, name, tuple(grants), claims)


def _grants(container: str, message: memoryview) -> list[Grant]:
    """One for each resource: the kubelet lists every device id separately, in no order."""
    ids: dict[str, set[str]] = {}
    for device in parts(message, 2):
        own = ids.setdefault(one_text(device, 1, MAX_TEXT), set())
        own.update(text(part, MAX_TEXT) for part in parts(device, 2))
        if len(own) > MAX_IDS:
            raise WireError(f"more than {MAX_IDS} devices")
    return [Grant(container, name, tuple(sorted(own))) for name, own in sorted(ids.items()) if name]


def _claims(message: memoryview) -> Claims:
    claims: dict[tuple[str, str], set[tuple[str, str, str, str]]] = {}
    for claim in parts(message, 5):
        name, namespace = (one_text(claim, number, MAX_TEXT) for number in (2, 3))
        devices = claims.setdefault((namespace, name), set())
        devices.update(_claimed(part) for part in parts(claim, 4))
        if len(devices) > MAX_CLAIMED:
            raise WireError(f"more than {MAX_CLAIMED} claimed devices")
    return {
        key: tuple(ClaimedDevice("", *device) for device in sorted(devices))
        for key, devices in claims.items()
        if all(key)
    }


def _claimed(message: memoryview) -> tuple[str, str, str, str]:
    driver, pool, device, share = (one_text(message, n, MAX_TEXT) for n in (2, 3, 4, 5))
    return driver, pool, device, share
