"""The owner of a process: a pod's container, a group, or a reason why it has none. Pure."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import NamedTuple

from exporter.model import (
    CgroupIdentity,
    ContainerKey,
    GroupKey,
    Owner,
    Pod,
    PodTable,
    Unattributed,
)


class Member(NamedTuple):
    """A container of a pod in the table, by the pod's API uid; "" while only the pod is known."""

    pod_uid: str
    container: str


def owner_of(
    identity: CgroupIdentity | Unattributed, table: PodTable, *, by_step: bool = False
) -> Owner:
    """The owner of a process: a known pod's container, else a group, else a reason.

    A Slurm job is one group. With ``by_step`` each of its steps is one, as sacct writes it:
    ``211.0``.
    """
    known = member_of(identity, table) if isinstance(identity, CgroupIdentity) else None
    return owner_as(identity, known, table, by_step=by_step)


def owner_as(
    identity: CgroupIdentity | Unattributed,
    member: Member | None,
    table: PodTable,
    *,
    by_step: bool = False,
) -> Owner:
    """As ``owner_of``, for a process whose container is already known."""
    if isinstance(identity, Unattributed):
        return identity
    if member is not None:
        pod = table.pods[member.pod_uid]
        return ContainerKey(pod.namespace, pod.name, member.container)
    if identity.pod_uid:
        return GroupKey("pod", f"{identity.pod_uid}/{identity.container_id or ''}")
    unit = identity.unit
    if identity.container_id:
        within = f"{unit.name}/" if unit and unit.name else ""
        return GroupKey(identity.runtime or "container", within + identity.container_id)
    if unit is not None and unit.name:
        step = f".{unit.step}" if by_step and unit.step else ""
        return GroupKey(unit.kind, unit.name + step)
    return Unattributed.HOST_PROCESS


class Sandboxes(NamedTuple):
    """What is known of pods whose processes are in a container that no status names, by API uid.

    A container's id comes into the status a second after its start. A sandboxed runtime (gVisor,
    Kata) runs all of a pod in one process, whose container is in no status ever.

    ``allocated``: the only container that has an allocation. ``lasting``: the pods that have such
    processes for so long that they are in a sandbox.
    """

    allocated: Mapping[str, str] = MappingProxyType({})
    lasting: Collection[str] = ()


NO_SANDBOXES = Sandboxes()


def member_of(
    identity: CgroupIdentity, table: PodTable, sandboxes: Sandboxes = NO_SANDBOXES
) -> Member | None:
    """The container of a known pod that a process is in; None if no pod here is known."""
    # A user, or a machine in a unit of its own, may make cgroups of any name: also such as have the
    # path of somebody's pod.
    if identity.unit is not None:
        return None
    # So may a tenant in its container, and a nested kubelet does. The outermost pod that is known
    # here is the one that this node's kubelet has made.
    inside_out = ((identity.pod_uid or "", identity.container_id), *identity.enclosing)
    for pod_uid, container_id in reversed(inside_out):
        named = table.by_container_id.get(container_id or "")
        if named:
            return Member(*named)
        uid = table.by_kubelet_uid.get(pod_uid)
        if uid:
            return Member(uid, _unnamed_container(table.pods[uid], sandboxes))
    nested = table.by_container_id.get(identity.nested or "")
    return Member(*nested) if nested else None


def is_unnamed(identity: CgroupIdentity, member: Member, table: PodTable) -> bool:
    """Whether no status names the container that a process of this pod is in."""
    named = table.by_container_id.get
    if named(identity.container_id or "") == member:  # as nearly always
        return False
    return not any(named(slot.container_id or "") == member for slot in identity.enclosing)


def _unnamed_container(pod: Pod, sandboxes: Sandboxes) -> str:
    """The container of a process under an id that is in no status, else "".

    It is never a guess by order.
    """
    if pod.uid in sandboxes.allocated:
        return sandboxes.allocated[pod.uid]
    if len(pod.containers) == 1:
        return pod.containers[0].name
    # The only one without an id yet has this one, as soon as the status says so. In a sandbox no
    # status ever will, and the one without an id may not have begun.
    waiting = [c.name for c in pod.containers if not c.container_ids]
    return waiting[0] if len(waiting) == 1 and pod.uid not in sandboxes.lasting else ""
