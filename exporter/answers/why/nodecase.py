"""The case of a pod or a group by the typed facts of one node, at two moments."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from exporter.answers.reading.moment import NodeMoment
from exporter.answers.why.case import Case, OnCard, SeenCard
from exporter.model import (
    NO_WAITING,
    OTHERS,
    SECOND_NS,
    ContainerHolding,
    ContainerKey,
    DeviceState,
    Facts,
    GroupHolding,
    GroupKey,
    PodName,
)
from exporter.model.alerts import OVER_SHARE, lost
from exporter.shown.kinds import noun
from exporter.shown.marks import last_fault

_SHORT_ID = 8  # digits of a container's id


def pods_of(facts: Facts, view: str = "") -> list[str]:
    """The pods that a viewer of this namespace ("": of all) has, as ``namespace/pod``."""
    live = (pod for pod in facts.pods if not pod.ended and view in {"", pod.namespace})
    return sorted({f"{pod.namespace}/{pod.name}" for pod in live})


def groups_of(facts: Facts, kind: str, name: str) -> list[GroupKey]:
    """The groups of a kind ("": of any; or what people call it, as "job") and of this name.

    A container is found by its name, or by the first digits of its id.
    """
    found = {
        held.owner: held.info.name if held.info else "" for held in facts.groups if not held.ended
    }
    return [
        owner
        for owner, called in found.items()
        if kind in {"", owner.kind, noun(owner.kind)} and is_called(name, owner.group, called)
    ]


def called(facts: Facts, view: str = "") -> dict[str, str]:
    """What people call each group, by its kind and id: ``docker llm-server``, ``user dave``."""
    groups = [held for held in facts.groups if not (held.ended or view)]
    names = {held.owner: held.info and held.info.name for held in groups}
    return {" ".join(of): f"{of.kind} {name or of.group}" for of, name in names.items()}


def is_called(wanted: str, group: str, name: str) -> bool:
    """Whether a group, with the name that is known of it, is the wanted one."""
    return wanted in {group, name} or (len(wanted) >= _SHORT_ID and group.startswith(wanted))


def members_of(facts: Facts, namespace: str, owner: str, view: str = "") -> list[PodName]:
    """The pods of a workload, in a namespace or ("") in all, that a viewer may see."""
    return sorted(
        (pod.namespace, pod.name)
        for pod in facts.pods
        if not pod.ended
        and pod.info is not None
        and pod.info.owner_name == owner
        and namespace in {"", pod.namespace}
        and view in {"", pod.namespace}
    )


def case_of(
    before: NodeMoment, now: NodeMoment, of: PodName | GroupKey, window_s: float, view: str = ""
) -> Case:
    """The case of a pod or a group. Use and waiting are the averages over ``window_s``.

    Who ran while it waited, and what held clocks down, was counted between the two moments. With
    ``view``, the viewer's only namespace, the pods of all other namespaces are "others".
    """
    earlier = {(one.owner, one.uuid): one for one in before.facts.containers}
    cards = _Cards(before, now, view)
    held: list[ContainerHolding | GroupHolding] = [
        one
        for one in now.facts.holdings
        if not one.ended
        and of == (one.owner.pod_name if isinstance(one.owner, ContainerKey) else one.owner)
    ]
    parts, names = [], called(now.facts)
    # By its text: keys of containers and of groups have no order between them.
    for one in sorted(held, key=lambda one: (str(one.owner), one.index or 0)):
        part = OnCard(
            container="",
            card=cards.of(one, of),
            core=one.average.core,
            waiting=one.average.waiting,
            memory_bytes=one.memory.used_bytes,
            memory_limit_bytes=one.memory.limit_bytes,
            last_active_unix_s=None if (at := one.last_active_unix_ns) is None else at / SECOND_NS,
            unmeasured={quantity: str(reason) for quantity, reason in one.unmeasured.items()},
        )
        if isinstance(one, ContainerHolding):
            part = replace(
                part,
                container=one.owner.container,
                share=one.allocation.core,
                waiting_on=_waiting_on(one, earlier.get((one.owner, one.uuid)), view, names),
                memory_limit_bytes=one.allocation.memory_bytes,
                scheme=", ".join(sorted({granted.scheme for granted in one.allocation.granted})),
                misplaced=one.misplaced,
                may_borrow=one.allocation.may_borrow,
            )
        parts.append(part)
    return Case(
        namespace=of[0],
        pod=of[1],
        unix_s=now.unix_ns / SECOND_NS,
        window_s=window_s,
        parts=tuple(parts),
    )


def _waiting_on(
    now: ContainerHolding, before: ContainerHolding | None, view: str, names: Mapping[str, str]
) -> Mapping[str, float] | None:
    """Its waiting by who ran: the pressure, divided by what was counted between the moments.

    None if somebody does not say who ran.
    """
    # It waited and no neighbour is named: the metric group contention is off on that node.
    if now.waiting.waited_ns and not now.waiting.by_owner:
        return None
    old, new = before.waiting if before is not None else NO_WAITING, now.waiting
    if view:
        old, new = old.visible_to((view,)), new.visible_to((view,))
    grown: dict[str, int] = {}
    for pod, ns in new.by_pod.items():
        # A group has no namespace. Its kind and name stand in the pod's place: slurm/31.
        group = pod[1].replace("/", " ", 1)
        name = "/".join(pod) if pod[0] else names.get(group, group)
        grown[name] = ns - old.by_pod.get(pod, 0)
    waited = (new.waited_ns or 0) - (old.waited_ns or 0)
    pressure = now.average.waiting or 0.0
    return {name: ns / waited * pressure for name, ns in grown.items() if waited > 0}


class _Cards:
    """The devices between two moments."""

    def __init__(self, before: NodeMoment, now: NodeMoment, view: str) -> None:
        self._length_ns = now.at_ns - before.at_ns
        self._now = {device.uuid: device for device in now.facts.devices}
        self._before = {device.uuid: device for device in before.facts.devices}
        self._view = view
        self._facts = now.facts
        self._called = called(now.facts)
        self._on: dict[str, set[ContainerKey | GroupKey]] = defaultdict(set)
        for held in now.facts.holdings:
            if not held.ended:
                self._on[held.uuid].add(held.owner)
        for uuid in now.hidden:
            self._on[uuid].add(OTHERS)

    def of(self, held: ContainerHolding | GroupHolding, own: PodName | GroupKey) -> SeenCard:
        """The card of a holding of this owner, with the others that are on it."""
        device = self._now.get(held.uuid)
        if device is None:
            return SeenCard()
        others: set[str] = set()
        for owner in self._on[device.uuid]:
            if isinstance(owner, ContainerKey):
                if owner.pod_name != own:
                    is_visible = self._view in {"", owner.namespace}
                    others.add("/".join(owner.pod_name) if is_visible else OTHERS.kind)
            elif owner != own:
                name = " ".join(filter(None, owner))
                others.add(OTHERS.kind if self._view else self._called.get(name, name))
        # A reason that is new has no time before, and none between the two moments.
        throttled: Mapping[str, float] = {}
        before = self._before.get(device.uuid)
        if before is not None and self._length_ns > 0:
            old = before.sensors.by_label("throttle_seconds_total")
            now = device.sensors.by_label("throttle_seconds_total")
            throttled = {why: (ns - old.get(why, ns)) / self._length_ns for why, ns in now.items()}
        # XIDs are of a board. An instance is lost with it, and has its remedy.
        board = self._now.get(device.device.parent_uuid, device)
        return SeenCard(
            uuid=device.uuid,
            gpu=device.device.number,
            is_part=bool(device.device.parent_uuid),
            model=device.device.model,
            busy=device.average.core,
            throttled=throttled,
            others=tuple(sorted(others)),
            over={name: ratio for name, ratio in self._over(device.uuid) if name in others},
            lost=lost(device.device.vendor, last_fault(board.xids or {}))
            if device.state is DeviceState.LOST
            else "",
        )

    def _over(self, uuid: str) -> Iterator[tuple[str, float]]:
        """The pods on a device that use more than their share of its core, by how many times."""
        used: dict[PodName, float] = defaultdict(float)
        shares: dict[PodName, float] = defaultdict(float)
        for held in self._facts.containers:
            # Only containers with a share: of the others there is nothing to be over.
            if held.uuid == uuid and not held.ended and held.core_of_limit is not None:
                used[held.owner.pod_name] += held.average.core or 0.0
                shares[held.owner.pod_name] += held.allocation.core or 0.0
        for pod, share in shares.items():
            if used[pod] > OVER_SHARE * share:
                yield "/".join(pod), used[pod] / share
