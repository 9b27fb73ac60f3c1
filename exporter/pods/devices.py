"""ResourceClaims and ResourceSlices (resource.k8s.io) → what is kept of them. Pure.

Versions v1, v1beta2 and v1beta1 have the same shapes but for one: v1beta1 nests a slice's device in
``basic``. All are read by whatever is there, so that a document tells its own version.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.model import ClaimedDevice, OfferedDevice
from exporter.pods.shapes import Json, mapping, mappings, text, texts

MAX_RESULTS = 256  # devices of one claim; the API allows 32
MAX_DEVICES = 4096  # of one node; a slice has up to 128
MAX_ATTRIBUTES = 64  # of one device; the API allows 32 with its capacity

Place = tuple[str, str, str]  # driver, pool, device


class Slice(NamedTuple):
    """The devices that a driver offers in one ResourceSlice, and of which generation of a pool."""

    driver: str
    pool: str
    generation: int
    devices: Mapping[str, OfferedDevice]


def decode_claim(document: object) -> tuple[ClaimedDevice, ...]:
    """The devices that were allocated to a ResourceClaim; none while none are."""
    if not isinstance(document, dict):
        return ()
    allocation = mapping(mapping(document, "status"), "allocation")
    results = list(mappings(mapping(allocation, "devices"), "results"))
    return tuple(_claimed(result) for result in results[:MAX_RESULTS])


def _claimed(result: Json) -> ClaimedDevice:
    return ClaimedDevice(
        request=text(result.get("request")),
        driver=text(result.get("driver")),
        pool=text(result.get("pool")),
        device=text(result.get("device")),
        share_id=text(result.get("shareID")),
        admin_access=result.get("adminAccess") is True,
        consumed=texts(mapping(result, "consumedCapacity")),
    )


def decode_slice(document: object) -> Slice | None:
    """One ResourceSlice; None where it is none."""
    if not isinstance(document, dict):
        return None
    spec = mapping(document, "spec")
    pool = mapping(spec, "pool")
    driver, name = text(spec.get("driver")), text(pool.get("name"))
    generation = pool.get("generation", 0)
    if not driver or not name or not isinstance(generation, int):
        return None
    devices = {}
    for device in mappings(spec, "devices"):
        if own := text(device.get("name")):
            devices[own] = _offered(mapping(device, "basic") or device)
    return Slice(driver, name, generation, devices)


def _offered(device: Json) -> OfferedDevice:
    return OfferedDevice(
        attributes=dict(_attributes(mapping(device, "attributes"))),
        capacity=dict(_capacity(mapping(device, "capacity"))),
    )


def _attributes(source: Json) -> Iterator[tuple[str, str]]:
    """Each has one of ``string``, ``int``, ``bool`` and ``version``."""
    for key in list(source)[:MAX_ATTRIBUTES]:
        for kind, value in mapping(source, key).items():
            if kind == "bool" and isinstance(value, bool):
                yield key, str(value).lower()
            elif kind in {"string", "int", "version"}:
                yield from texts({key: value}).items()


def _capacity(source: Json) -> Iterator[tuple[str, str]]:
    for key in list(source)[:MAX_ATTRIBUTES]:
        yield from texts({key: mapping(source, key).get("value")}).items()


def offered(slices: Iterable[Slice]) -> dict[Place, OfferedDevice]:
    """The devices of all slices; of a pool only those of its newest generation."""
    known = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for one in known:
        key = one.driver, one.pool
        newest[key] = max(one.generation, newest.get(key, one.generation))
    devices = {
        (one.driver, one.pool, name): device
        for one in known
        if one.generation == newest[one.driver, one.pool]
        for name, device in one.devices.items()
    }
    return dict(list(devices.items())[:MAX_DEVICES])
