"""Identities of processes, from cgroup paths and ``/proc``, and facts about groups for people."""

from dataclasses import dataclass, field
from typing import NamedTuple

from exporter.model.reasons import Unattributed


class PodSlot(NamedTuple):
    """A pod directory in a cgroup path and the container below it, if any."""

    pod_uid: str
    container_id: str | None


class Unit(NamedTuple):
    """The place of processes off Kubernetes.

    ``kind`` is one of slurm, systemd, user, lxc, nspawn, libvirt, host, or a pattern's; ``name`` is
    that kind's: a job's id, a unit, a user's id, a machine. A ``name`` of "" is the way to a unit,
    not one. ``step`` is a Slurm job's. ``uid`` is its user's, None where the path does not hold it.
    """

    kind: str
    name: str
    step: str = ""
    uid: int | None = None


class CgroupIdentity(NamedTuple):
    """The identity of processes in a cgroup path.

    ``pod_uid`` is the kubelet's own: for a static pod the 32-hex config hash. ``enclosing`` holds
    further pod directories of the same path, from the inside out (a kind node inside a pod). A
    container outside any pod has a ``container_id``, and the ``unit`` that holds it where that is a
    user's or a machine's own. A host process has a ``unit`` only, or nothing. ``job`` is that of a
    batch system inside of the container (slurmd in a pod); whose the process is, it does not say.
    ``nested`` is the id of a container inside of one outside of pods: a node in a container may
    keep those of its pods in no pod's directory.
    """

    pod_uid: str | None = None
    container_id: str | None = None
    runtime: str | None = None
    qos: str | None = None
    enclosing: tuple[PodSlot, ...] = ()
    unit: Unit | None = None
    job: Unit | None = None
    nested: str | None = None


class ProcessInfo(NamedTuple):
    """A process's short name (comm, never its arguments) and start, from ``/proc``.

    Its owner chooses the name: it may hold anything. ``job``: kind and id of the job inside of the
    container that it is in, as ``slurm/31``; the container's owner may choose it.
    """

    name: str
    start_unix_ns: int | None = None
    job: str = ""


def job_of(identity: CgroupIdentity | Unattributed) -> str:
    """The job of a process with this identity, as ``ProcessInfo`` has it."""
    job = identity.job if isinstance(identity, CgroupIdentity) else None
    return f"{job.kind}/{job.name}" if job else ""


SEVERAL = -1  # in place of a user's number


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The facts known of a group; "" is unknown.

    ``name``: for people. ``user``: who owns all of it, by ``uid``; nobody is named where that is
    ``SEVERAL``. ``account``: what Slurm charges. ``slurm_job`` is the job's id, ``slurm_step`` the
    step where a step is the group.
    """

    name: str = ""
    user: str = ""
    account: str = ""
    slurm_job: str = ""
    slurm_step: str = ""
    uid: int | None = field(default=None, kw_only=True)

    @property
    def labels(self) -> tuple[str, ...]:
        """The values of the labels of ``mgpu_group_info``."""
        return self.name, self.user, self.account, self.slurm_job, self.slurm_step


class GroupMembers(NamedTuple):
    """The processes of a group, and the identity of one: what names the group is the same in all.

    There are none where only its cgroup is seen, because the kernel charges it for device memory.
    What is a process's own, such as its user, is a group's only where all agree.
    """

    pids: tuple[int, ...]
    identity: CgroupIdentity
