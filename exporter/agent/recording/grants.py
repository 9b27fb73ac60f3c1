"""Names of what containers were given: resources, amounts, grants, claims, offered devices. Pure.

Only what decoders read is kept: attributes that no decoder reads are left out, and drivers that are
not known are replaced.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from exporter.agent.allocations.claimed import ATTRIBUTES
from exporter.agent.allocations.registry import SCHEMES
from exporter.agent.allocations.schemes.dra import CAPACITIES, DRIVERS
from exporter.agent.allocations.schemes.hami import OTHER_RESOURCES
from exporter.model import ClaimedDevice, ClaimRef, Grant, OfferedDevice

Pseudonymise = Callable[[str], str]
_LIMIT = "memory/"  # begins the name of MPS's limit of one device
_OPEN = ("/", "-", "_")  # ends of a name that is the beginning of some
RESOURCES = OTHER_RESOURCES | {name for scheme in SCHEMES for name in scheme.resources}
RESOURCE_PREFIXES = tuple(sorted(name for name in RESOURCES if name.endswith(_OPEN)))
PROFILE = r"(\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb([.+-](me|gfx|all))*"
RESOURCE_ENDS = re.compile(  # a MIG profile, nos' size, Baidu's card
    rf"{PROFILE}(\.shared)?|\d{{1,4}}gb"
    r"|[a-z]{1,2}\d{1,4}(_\d{1,3}g)?_cgpu(_core|_memory(_percent)?)?",
    re.ASCII,
)
ALLOWED_TERMS = frozenset(  # in annotations: fixed terms of sharing systems
    {
        *("fixed-share", "guaranteed-burst-share", "native-burst-share"),
        *("best-effort", "burst-share", "be", "fs", "bs"),
        *("online", "offline", "true", "false", "null"),
        *("MPS", "TimeSlicing", "time-slicing", "sm-sharing"),  # strategies of claims, NvFractions
        *("hami-core", "mig", "mps", "containerIndex", "deviceIndex", "gpuUUID", "migUUID"),
        *("gpu", "id", "devmem", "minor", "resources", "koordinator.sh"),
        *("gpu-core", "gpu-memory", "gpu-memory-ratio"),
    }
)
AMOUNT = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]{1,2}|[A-Za-z]{0,2})", re.ASCII)
OFFERED_WORDS = re.compile(  # types of devices, and their places on the bus
    r"gpu|mig|vfio|amdgpu(-partition)?|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    re.IGNORECASE | re.ASCII,
)

# Ids of devices by their place in the node. They give nothing away.
PLACE = re.compile(
    r"nvidia\d+(/gi\d+)?(/vgpu\d+)?|card\d+-\d+|amdgpu_xcp_\d+"
    r"|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    re.IGNORECASE | re.ASCII,
)


def disguised_ref(ref: ClaimRef, name: Pseudonymise) -> ClaimRef:
    """Returns a container's use of a claim; the resource is a sharing system's."""
    return ClaimRef(name(ref.claim), _request(ref.request, name), _resource(ref.resource, name))


def _resource(key: str, name: Pseudonymise) -> str:
    """Returns a resource that is on the list, else with a pseudonym behind its known beginning."""
    prefix = prefix_of(key, RESOURCE_PREFIXES)
    rest = key.removeprefix(prefix)
    if not key or key in RESOURCES or (prefix and RESOURCE_ENDS.fullmatch(rest)):
        return key
    return prefix + name(rest)


def disguised_amounts(amounts: Mapping[str, str], name: Pseudonymise) -> dict[str, str]:
    """Returns the amounts of the resources of sharing systems."""
    return {
        _resource(key, name): disguised_amount(text, name)
        for key, text in amounts.items()
        if key in RESOURCES or key.startswith(RESOURCE_PREFIXES)
    }


def disguised_amount(text: str, name: Pseudonymise) -> str:
    """Returns an amount as it is, and any other text as a pseudonym."""
    return text if AMOUNT.fullmatch(text) else name(text)


def disguised_grants(
    grants: Mapping[str, tuple[Grant, ...]], name: Pseudonymise
) -> dict[str, tuple[Grant, ...]]:
    """Returns the grants, by pod, of the resources of sharing systems."""
    return {
        name(uid): tuple(
            Grant(
                name(g.container),
                _resource(g.resource, name),
                tuple(_device_id(i, name) for i in g.device_ids),
            )
            for g in held
            if g.resource in RESOURCES or g.resource.startswith(RESOURCE_PREFIXES)
        )
        for uid, held in grants.items()
    }


def _device_id(text: str, name: Pseudonymise) -> str:
    # NVIDIA's plugin names a replica by its device's UUID, two colons and a number.
    device, replica, number = text.partition("::")
    return f"{device if PLACE.fullmatch(device) else name(device)}{replica}{number}"


def disguised_claims(
    claims: Mapping[tuple[str, str], tuple[ClaimedDevice, ...]],
    offered: Mapping[tuple[str, str, str], OfferedDevice],
    name: Pseudonymise,
) -> dict[tuple[str, str], tuple[ClaimedDevice, ...]]:
    """Returns the claims with their GPUs."""
    return {
        (name(namespace), name(claim)): tuple(
            replace(
                device,
                request=_request(device.request, name),
                pool=name(device.pool),
                share_id=name(device.share_id),
                driver=_driver(device.driver, name),
                device=_offered_name(device.driver, device.device, name),
                consumed={
                    bare
                    if (bare := key.removeprefix(f"{device.driver}/")) in CAPACITIES
                    else name(key): disguised_amount(text, name)
                    for key, text in device.consumed.items()
                },
                sharing={
                    "/".join((part, *(one if one.isdecimal() else name(one) for one in rest))): (
                        text if text in ALLOWED_TERMS else disguised_amount(text, name)
                    )
                    for key, text in _by_uuid(device, devices, offered).items()
                    for part, *rest in (key.split("/", 1),)
                },
            )
            for device in devices
        )
        for (namespace, claim), devices in claims.items()
    }


def _by_uuid(
    device: ClaimedDevice,
    devices: tuple[ClaimedDevice, ...],
    offered: Mapping[tuple[str, str, str], OfferedDevice],
) -> dict[str, str]:
    """Returns how a device is shared, with UUIDs in place of the numbers of devices.

    Numbers count UUIDs in their order, which is not that of their pseudonyms.
    """
    alike = [d for d in devices if (d.driver, d.sharing) == (device.driver, device.sharing)]
    offers = [offered.get((d.driver, d.pool, d.device), OfferedDevice()).attributes for d in alike]
    uuids = sorted({own.get("uuid") or own.get(f"{device.driver}/uuid", "") for own in offers})
    known = {} if "" in uuids else {f"{_LIMIT}{n}": f"{_LIMIT}{u}" for n, u in enumerate(uuids)}
    numbered = {known[key]: text for key, text in device.sharing.items() if key in known}
    return {**numbered, **{key: t for key, t in device.sharing.items() if key not in known}}


def disguised_offers(
    offered: Mapping[tuple[str, str, str], OfferedDevice], name: Pseudonymise
) -> dict[tuple[str, str, str], OfferedDevice]:
    """Returns the offered devices with the attributes and capacities that decoders read."""
    return {
        (_driver(driver, name), name(pool), _offered_name(driver, device, name)): OfferedDevice(
            attributes={
                key: text if OFFERED_WORDS.fullmatch(text) else name(text)
                for whole, text in own.attributes.items()
                if (key := whole.removeprefix(f"{driver}/")) in ATTRIBUTES
            },
            capacity={
                key: disguised_amount(text, name)
                for whole, text in own.capacity.items()
                if (key := whole.removeprefix(f"{driver}/")) in CAPACITIES
            },
        )
        for (driver, pool, device), own in offered.items()
    }


def _driver(driver: str, name: Pseudonymise) -> str:
    return driver if driver in DRIVERS else name(driver)


def _offered_name(driver: str, device: str, name: Pseudonymise) -> str:
    """A known driver names a device by its place in the node; another may say more."""
    return device if driver in DRIVERS else name(device)


def _request(text: str, name: Pseudonymise) -> str:
    return "/".join(map(name, text.split("/")))


def prefix_of(key: str, prefixes: tuple[str, ...]) -> str:
    """The longest prefix that a key begins with, or the empty text."""
    return max((p for p in prefixes if key.startswith(p)), key=len, default="")
