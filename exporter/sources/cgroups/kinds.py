"""Which kinds of groups a node can have, as the directories of its cgroup tree show. Pure.

A counter that begins at its first use loses that use to ``rate()``, so the counters of a kind begin
at 0 before. All kinds on every node would be some sixty series a device, most of them for nothing.
"""

import re
from collections.abc import Iterable

from exporter.model import CgroupIdentity

CONTAINER = "container"  # of an unknown runtime
SYSTEMD = frozenset({"systemd", "user"})  # with systemd, whoever logs in has a slice
BARE = frozenset({"host"})  # without systemd, a process may be in no unit at all

_SERVICES = (  # programs whose unit is there before their first group is
    ("slurm", re.compile(r"slurmd(?:@.+)?\.service|(?:.+_)?slurmstepd\.scope")),
    ("docker", re.compile(r"docker\.service|snap\.docker\.dockerd\.service")),
    ("podman", re.compile(r"podman(?:-.+)?\.service")),
    ("libvirt", re.compile(r"(?:libvirt|virtqemu|virtlxc)d\.service")),
    ("lxc", re.compile(r"(?:lxc(?:fs)?|lxd|incus|snap\.lxd\.daemon)\.service")),
)


def kind_of(identity: CgroupIdentity) -> str:
    """The kind of the group that a directory is, if no pod of that name is known; "" if of none."""
    if identity.pod_uid:
        return "pod"
    if identity.container_id:
        return identity.runtime or CONTAINER
    return identity.unit.kind if identity.unit and identity.unit.name else ""


def kinds_of(identities: Iterable[CgroupIdentity]) -> frozenset[str]:
    """The kinds that a node with these directories has or can have.

    Those of its directories, those of the services that run there, and those that systemd makes,
    or where there is no systemd, those of bare processes.
    """
    distinct = set(identities)
    kinds = {kind_of(identity) for identity in distinct} - {""}
    units = [one.unit.name for one in distinct if one.unit and one.unit.kind == "systemd"]
    kinds |= {kind for kind, shape in _SERVICES for name in units if shape.fullmatch(name)}
    return frozenset(kinds | (BARE if kinds.isdisjoint(SYSTEMD) else SYSTEMD))
