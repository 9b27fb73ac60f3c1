"""Grants and claims of devices under pseudonyms. Pure.

``name`` gives the pseudonym of a name. Only what decoders read of GPUs is kept: devices of other
drivers, and attributes that no decoder asks for, are left out.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from exporter.allocations.dra import ATTRIBUTES, DRIVERS
from exporter.model import ClaimedDevice, ClaimRef, Grant, OfferedDevice

Naming = Callable[[str], str]

# Ids of devices by their place in the node: nothing is given away by them.
PLACE = re.compile(
    r"nvidia\d+(/gi\d+)?(/vgpu\d+)?|card\d+-\d+|amdgpu_xcp_\d+"
    r"|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    re.IGNORECASE | re.ASCII,
)


def disguised_ref(ref: ClaimRef, name: Naming) -> ClaimRef:
    """What a container takes of a claim; the resource is a sharing system's."""
    return ClaimRef(name(ref.claim), _request(ref.request, name), ref.resource)


def disguised_grants(
    grants: Mapping[str, tuple[Grant, ...]], name: Naming, resources: tuple[str, ...]
) -> dict[str, tuple[Grant, ...]]:
    """The grants of resources whose names begin so, by pod."""
    return {
        name(uid): tuple(
            Grant(name(g.container), g.resource, tuple(_device_id(i, name) for i in g.device_ids))
            for g in held
            if g.resource.startswith(resources)
        )
        for uid, held in grants.items()
    }


def _device_id(text: str, name: Naming) -> str:
    device, replica, number = text.partition("::")
    return f"{device if PLACE.fullmatch(device) else name(device)}{replica}{number}"


def disguised_claims(
    claims: Mapping[tuple[str, str], tuple[ClaimedDevice, ...]], name: Naming
) -> dict[tuple[str, str], tuple[ClaimedDevice, ...]]:
    """The claims with the GPUs that they have."""
    return {
        (name(namespace), name(claim)): tuple(
            replace(
                device,
                request=_request(device.request, name),
                pool=name(device.pool),
                share_id=name(device.share_id),
            )
            for device in devices
            if device.driver in DRIVERS
        )
        for (namespace, claim), devices in claims.items()
    }


def disguised_offers(
    offered: Mapping[tuple[str, str, str], OfferedDevice], name: Naming
) -> dict[tuple[str, str, str], OfferedDevice]:
    """The GPUs that are offered, with what decoders read of them."""
    return {
        (driver, name(pool), device): replace(
            own,
            attributes={
                key: name(text) if key.endswith("uuid") else text
                for key, text in own.attributes.items()
                if key.removeprefix(f"{driver}/") in ATTRIBUTES
            },
        )
        for (driver, pool, device), own in offered.items()
        if driver in DRIVERS
    }


def _request(text: str, name: Naming) -> str:
    return "/".join(map(name, text.split("/")))
