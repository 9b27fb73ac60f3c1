"""What the owners of GPUs are called: pods, or jobs, containers, units and users. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from exporter.model import Unattributed

NOUNS = {  # by the kind of a group, in the order in which they are listed
    **dict.fromkeys(("slurm", "pbs", "lsf", "torque", "htcondor", "flux", "oar", "spur"), "job"),
    "nomad": "task",
    "buildkit": "build",
    "yarn": "container",
    "mesos": "container",
    "docker": "container",
    "podman": "container",
    "containerd": "container",
    "crio": "container",
    "lxc": "container",
    "nspawn": "container",
    "libvirt": "virtual machine",
    "qemu": "virtual machine",
    "systemd": "unit",
    "user": "user",
}
OTHERWISE = "group"
NOBODY: Mapping[Unattributed, str] = {  # what use without an owner is called, by its reason
    Unattributed.HOST_PROCESS: "processes of the host",
    Unattributed.UNKNOWN_CGROUP: "processes of unknown cgroups",
    Unattributed.EXITED: "processes that have ended",
    Unattributed.NO_PID: "no process named",
    Unattributed.IDLE: "idle",
    Unattributed.UNOBSERVED: "not observed",
    Unattributed.OVERLAP: "memory counted twice",
    Unattributed.MIG: "shared MIG instance",
    Unattributed.PARTITIONED: "all partitions together",
    Unattributed.MODULE: "all dies of the module together",
    Unattributed.MPS: "MPS server",
}
_WATCHING = frozenset({"pods_api", "pods_kubelet", "pods_files"})


def is_off_kubernetes(sources: Collection[str], *, has_pods: bool, has_groups: bool) -> bool:
    """Whether a node is none of Kubernetes: nothing looks for pods, or it has groups only."""
    if has_pods or not _WATCHING.isdisjoint(sources):
        return False
    return "pods_none" in sources or has_groups


def noun(kind: str) -> str:
    """What a group of this kind is called."""
    return NOUNS.get(kind, OTHERWISE)


def count_nouns(kinds: Iterable[str]) -> dict[str, int]:
    """The number of owners by what they are called, from the kind of each."""
    counts = Counter(map(noun, kinds))
    order = dict.fromkeys([*NOUNS.values(), OTHERWISE])
    return {name: counts[name] for name in order if counts[name]}
