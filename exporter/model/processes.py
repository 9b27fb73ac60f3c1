"""Who a process is: what cgroup paths and ``/proc`` say.

What groups are called: names for people, beside the keys that counters stand under.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple


class PodSlot(NamedTuple):
    """A pod directory in a cgroup path and the container below it, if any."""

    pod_uid: str
    container_id: str | None


class Unit(NamedTuple):
    """Where processes off Kubernetes belong.

    ``kind`` is one of slurm, systemd, user, lxc, nspawn, libvirt, host; ``name`` what that kind
    calls it: a job's id, a unit, a user's id, a machine. ``step`` is a Slurm job's. ``uid`` is
    its user's, None where the path does not say. A ``name`` of "" is the way to a unit, not one.
    """

    kind: str
    name: str
    step: str = ""
    uid: int | None = None


class CgroupIdentity(NamedTuple):
    """What a cgroup path says of the processes in it.

    ``pod_uid`` is the kubelet's own: for a static pod the 32-hex config hash. ``enclosing`` holds
    further pod directories of the same path, from the inside out (a kind node inside a pod).
    A container outside any pod has a ``container_id``, and the ``unit`` that holds it where that
    is a user's or a machine's own. A host process has a ``unit`` only, or nothing.
    """

    pod_uid: str | None = None
    container_id: str | None = None
    runtime: str | None = None
    qos: str | None = None
    enclosing: tuple[PodSlot, ...] = ()
    unit: Unit | None = None


class ProcessInfo(NamedTuple):
    """What ``/proc`` says of a process for people. ``name``: its short one (comm), never arguments.

    Its owner chooses the name: it may hold anything.
    """

    name: str
    start_unix_ns: int | None = None


class Tree(NamedTuple):
    """One walk of the cgroup file system.

    ``pods``: pod uid → container id → pids; the container id "" holds the pids of the pod's own
    directory (sandbox, conmon). ``containers``: id of a container outside any pod → pids.
    ``skipped``: what the walk could not use, by reason (vanished, unreadable, foreign_pid, …).
    """

    pods: Mapping[str, Mapping[str, tuple[int, ...]]]
    containers: Mapping[str, tuple[int, ...]]
    skipped: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What is known of a group; "" is not known.

    ``name``: what people call it. ``user``: whose it is. ``account``: what Slurm charges.
    """

    name: str = ""
    user: str = ""
    account: str = ""
    slurm_job: str = ""
    slurm_step: str = ""


class GroupMember(NamedTuple):
    """One process of a group, by which the group can be looked up."""

    pid: int
    identity: CgroupIdentity
