"""What comes of it all: whose the processes on the GPUs are."""

from collections import Counter
from collections.abc import Iterator

from exporter.doctor.evidence import Evidence
from exporter.doctor.finding import Finding, note, ok
from exporter.model import ContainerKey, GroupKey, Owner, Unattributed
from exporter.ownership import owner_of

_KINDS = {
    "container": "of named containers",
    "pod": "of pods whose names are not known",
    "group": "of containers outside of pods",
    "unit": "of jobs, units, machines and users outside of pods",
    "host": "of the host, in no unit",
    "lost": "that nobody is found for",
}


def together(evidence: Evidence) -> Iterator[Finding]:
    """Count them by the kind of their owner."""
    if not evidence.identities:
        yield note("processes on GPUs", "there is none now; ask again while one works")
        return
    owners = {pid: owner_of(found, evidence.table) for pid, found in evidence.identities.items()}
    kinds = Counter(_kind(owner) for owner in owners.values())
    words = ", ".join(f"{kinds[kind]} {_KINDS[kind]}" for kind in _KINDS if kinds[kind])
    if kinds["lost"] or kinds["pod"]:
        remedy = "see cgroups for those nobody is found for, pods for those without a name"
        yield note("processes on GPUs", words, remedy)
    else:
        yield ok("processes on GPUs", words)


def _kind(owner: Owner) -> str:
    if isinstance(owner, ContainerKey):
        return "container"
    if isinstance(owner, GroupKey):
        units = {"slurm", "systemd", "user", "lxc", "nspawn", "libvirt", "host"}
        return "pod" if owner.kind == "pod" else "unit" if owner.kind in units else "group"
    return "host" if owner is Unattributed.HOST_PROCESS else "lost"
