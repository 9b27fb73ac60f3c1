"""Who is on a device."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from exporter.web.page.entries import Entry, Json, Part, units


class Tenant(NamedTuple):
    """A container, or what stands for one, on a device."""

    entry: Entry
    part: Part
    colour: int

    @property
    def name(self) -> str:
        """Pod and container; one that is named as its pod is said once."""
        return f"{self.entry.space}/{self.entry.name}"

    def figure(self, name: str) -> float | None:
        """A figure of it, None where it is not known."""
        value: float | None = self.part.figures.get(name)
        return value


def tenants_of(
    device: Json, listed: Sequence[Entry], colours: Mapping[tuple[str, str, str], int]
) -> list[Tenant]:
    """Those with something to do with the device: most core first, then most memory."""
    uuid = device["uuid"]
    here = [
        Tenant(entry, part, colours[entry.key, part.name, uuid])
        for entry in listed
        for part in entry.parts
        if part.uuid == uuid and entry.kind != "nobody"
    ]
    return sorted(here, key=_weight)


def _weight(tenant: Tenant) -> tuple[float, float, list[int]]:
    core = tenant.figure("core_utilization_ratio")
    memory = tenant.figure("memory_used_bytes")
    return (-(core or 0.0), -(memory or 0.0), units(tenant.entry.key))
