"""A pod's case by the typed facts of one node, at two moments."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from exporter.answers.prometheus.case import Card, Case, OnCard
from exporter.model import (
    NO_WAITING,
    OTHERS,
    SECOND_NS,
    ContainerHolding,
    ContainerKey,
    DeviceState,
    Facts,
    GroupKey,
    PodName,
)
from exporter.model.alerts import lost
from exporter.shown.marks import last_fault


@dataclass(frozen=True, slots=True)
class Moment:
    """What was known at a time: a Snapshot's facts. Moments are compared by ``at_ns`` of one clock.

    ``hidden``: the UUIDs of devices that are also used by owners that the reader may not see.
    ``window_s``: the time of the averages. ``is_stale``: nothing is measured now.
    """

    facts: Facts
    unix_ns: int
    at_ns: int
    hidden: Collection[str] = ()
    window_s: float = 0.0
    is_stale: bool = False


def pods_of(facts: Facts, view: str = "") -> list[str]:
    """The pods that a viewer of this namespace ("": of all) has, as ``namespace/pod``."""
    live = (pod for pod in facts.pods if not pod.ended and view in {"", pod.namespace})
    return sorted({f"{pod.namespace}/{pod.name}" for pod in live})


def case_of(
    before: Moment, now: Moment, namespace: str, pod: str, window_s: float, view: str = ""
) -> Case:
    """The case of a pod. Use and waiting are the averages over ``window_s``, as the page has them.

    Who ran while it waited, and what held clocks down, was counted between the two moments. With
    ``view``, the viewer's only namespace, the pods of all other namespaces are "others".
    """
    name = namespace, pod
    mine = sorted(
        (c for c in now.facts.containers if c.owner[:2] == name and not c.ended),
        key=lambda one: (one.owner.container, one.index or 0),
    )
    earlier = {(one.owner, one.uuid): one for one in before.facts.containers}
    cards = _Cards(before, now, view)
    parts = tuple(
        OnCard(
            container=one.owner.container,
            card=cards.of(one, (namespace, pod)),
            core=one.average.core,
            share=one.allocation.core,
            waiting=one.average.waiting,
            waiting_on=_waiting_on(one, earlier.get((one.owner, one.uuid)), view),
            memory_bytes=one.memory.used_bytes,
            memory_limit_bytes=one.allocation.memory_bytes,
            last_active_unix_s=None if (at := one.last_active_unix_ns) is None else at / SECOND_NS,
            scheme=", ".join(sorted({granted.scheme for granted in one.allocation.granted})),
            unmeasured={quantity: str(reason) for quantity, reason in one.unmeasured.items()},
            misplaced=one.misplaced,
            may_borrow=one.allocation.may_borrow,
        )
        for one in mine
    )
    return Case(
        namespace=namespace, pod=pod, unix_s=now.unix_ns / SECOND_NS, window_s=window_s, parts=parts
    )


def _waiting_on(
    now: ContainerHolding, before: ContainerHolding | None, view: str
) -> Mapping[str, float] | None:
    """Its waiting by who ran: the pressure, divided by what was counted between the moments.

    None if somebody does not say who ran.
    """
    if now.waiting.waited_ns and not now.waiting.by_owner:
        return None
    old, new = before.waiting if before is not None else NO_WAITING, now.waiting
    if view:
        old, new = old.visible_to((view,)), new.visible_to((view,))
    grown: dict[str, int] = {}
    for pod, ns in new.by_pod.items():
        name = "/".join(pod) if pod[0] else pod[1].replace("/", " ", 1)
        grown[name] = ns - old.by_pod.get(pod, 0)
    waited = (new.waited_ns or 0) - (old.waited_ns or 0)
    pressure = now.average.waiting or 0.0
    return {name: ns / waited * pressure for name, ns in grown.items() if waited > 0}


class _Cards:
    """The devices between two moments."""

    def __init__(self, before: Moment, now: Moment, view: str) -> None:
        self._length_ns = now.at_ns - before.at_ns
        self._now = {device.uuid: device for device in now.facts.devices}
        self._before = {device.uuid: device for device in before.facts.devices}
        self._view = view
        self._on: dict[str, set[ContainerKey | GroupKey]] = defaultdict(set)
        for held in now.facts.holdings:
            if not held.ended:
                self._on[held.uuid].add(held.owner)
        for uuid in now.hidden:
            self._on[uuid].add(OTHERS)

    def of(self, held: ContainerHolding, pod: PodName) -> Card:
        """The card of a holding of a pod, with the others that are on it."""
        device = self._now.get(held.uuid)
        if device is None:
            return Card()
        others: set[str] = set()
        for owner in self._on[device.uuid]:
            if isinstance(owner, ContainerKey):
                if owner.pod_name != pod:
                    is_visible = self._view in {"", owner.namespace}
                    others.add("/".join(owner.pod_name) if is_visible else OTHERS.kind)
            else:
                others.add(OTHERS.kind if self._view else " ".join(filter(None, owner)))
        # A reason that is new has no time before, and none between the two moments.
        throttled: Mapping[str, float] = {}
        before = self._before.get(device.uuid)
        if before is not None and self._length_ns > 0:
            old = before.sensors.by_label("throttle_seconds_total")
            now = device.sensors.by_label("throttle_seconds_total")
            throttled = {why: (ns - old.get(why, ns)) / self._length_ns for why, ns in now.items()}
        return Card(
            uuid=device.uuid,
            gpu=device.device.number,
            is_part=bool(device.device.parent_uuid),
            model=device.device.model,
            busy=device.average.core,
            throttled=throttled,
            others=tuple(sorted(others)),
            lost=lost(device.device.vendor, last_fault(device.xids or {}))
            if device.state is DeviceState.LOST
            else "",
        )
