"""What an exporter shows at any moment of a history: counters by the rules of the accounts.

It is a model of the exporter and no part of it. All rates are constant between two changes, so each
counter is exact, whenever it is scraped.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache

from tests.histories.values import History, Labels, Pod, Run, at

Own = tuple[tuple[str, str], ...]
"""A series of a page: its name as ``__name__``, and its own labels."""

KEPT_S = 300.0  # for which an account is shown after its pod
_MEMORY = float(80 << 30)
WITHHELD_S = 3.0  # after which a card that gives no reading is shown no more
HOST = "host_process"  # uses a part of each card of this model, beside all pods


@cache
def own(name: str, *labels: tuple[str, str]) -> Own:
    """A series by the name that follows the prefix."""
    return (("__name__", f"mgpu_{name}"), *labels)


_CYCLES = own("exporter_cycles_total")


def changes(history: History, run: Run) -> list[float]:
    """When the rates of a run's counters change, and its ends."""
    machine = history.machine(run.machine)
    found = {*run.there}
    instances = ((one.uuid, one.there) for one in machine.instances)
    for _, there in (*machine.cards, *machine.lost, *instances):
        found |= {*there}
    for pod in history.bearers:
        if pod.machine == machine.id:
            found |= {*pod.there, pod.there.end_s + KEPT_S}
            found |= {since_s for hold in pod.holds for since_s, _ in hold.used}
    return sorted(one for one in found if run.there.begin_s <= one <= run.there.end_s)


def is_at(there: tuple[float, float], unix_s: float) -> bool:
    """Whether something was there at a time; its end is no part of it."""
    return there[0] <= unix_s < there[1]


class Exporter:
    """One run, whose pages are asked for in the order of time.

    With ``gauges``, its pages have what holds at a moment too: bills read none of it.
    """

    def __init__(self, history: History, run: Run, *, gauges: bool = False) -> None:
        self._has_gauges = gauges
        self._run = run
        self._models = history.models
        self._machine = history.machine(run.machine)
        self._pods = [pod for pod in history.bearers if pod.machine == run.machine]
        self._changes = iter(changes(history, run))
        self._at_s = next(self._changes)
        self._next_s = next(self._changes, run.there.end_s)
        self._counted: dict[Own, float] = defaultdict(float)
        self._rates: Mapping[Own, float] = self._now()

    def page(self, unix_s: float) -> dict[Own, float]:
        """Its page at a time, no earlier than that of the page before."""
        while unix_s >= self._next_s > self._at_s:
            self._advance(self._next_s)
            self._next_s = next(self._changes, self._run.there.end_s)
            self._drop()
            self._rates = self._now()
        self._advance(unix_s)
        return self._shown()

    def _advance(self, unix_s: float) -> None:
        for key, rate in self._rates.items():
            self._counted[key] += rate * (unix_s - self._at_s)
        self._at_s = unix_s

    def _drop(self) -> None:
        """Drops the accounts of pods that ended a while ago, and those of cards that went."""
        kept = {
            (pod.namespace, pod.name)
            for pod in self._pods
            if pod.there.begin_s <= self._at_s < pod.there.end_s + KEPT_S
        }
        cards = {uuid for uuid, there in self._machine.cards if is_at(there, self._at_s)}
        cards |= {one.uuid for one in self._machine.instances_at(self._at_s)}
        for key in list(self._counted):
            labels = dict(key)
            name = labels.get("pod", labels.get("group"))
            is_ended = name is not None and (labels.get("namespace", ""), name) not in kept
            if is_ended or ("uuid" in labels and labels["uuid"] not in cards):
                del self._counted[key]

    def _now(self) -> dict[Own, float]:
        """By how much each counter grows in a second, from now on."""
        rates: dict[Own, float] = {_CYCLES: 1.0}
        for uuid, there in self._machine.cards:
            if is_at(there, self._at_s):
                self._card(uuid, rates)
        return rates

    def _card(self, uuid: str, rates: dict[Own, float]) -> None:
        card = ("uuid", uuid)
        allocated = used = 0.0
        is_read = not any(
            lost == uuid and is_at(there, self._at_s) for lost, there in self._machine.lost
        )
        for pod in self._pods:
            for hold in pod.holds if is_at(pod.there, self._at_s) else ():
                if self._machine.card_of(hold.uuid) != uuid:
                    continue
                uses = at(hold.used, self._at_s) if is_read else 0.0
                allocated, used = allocated + hold.allocated, used + uses
                _owner(rates, pod, ("uuid", hold.uuid), hold.allocated, uses)
        nobody = min(0.05, max(0.0, 1 - used)) if HOST in self._models[uuid] and is_read else 0.0
        rates[own("device_busy_seconds_total", card)] = used + nobody
        rates[own("device_unallocated_gpu_seconds_total", card)] = max(0.0, 1 - allocated)
        rates[own("device_overcommitted_gpu_seconds_total", card)] = max(0.0, allocated - 1)
        rates[own("device_unattributed_core_seconds_total", ("reason", HOST), card)] = nobody
        instances = [one for one in self._machine.instances_at(self._at_s) if one.card == uuid]
        for which in (uuid, *(one.uuid for one in instances)):
            rates[own("device_unobserved_seconds_total", ("uuid", which))] = float(not is_read)

    def _shown(self) -> dict[Own, float]:
        """What the page has: of a card that gives no reading, not even its counters."""
        # The process reads once when its node was started by the clock: later steps change nothing.
        begin_s = self._run.there.begin_s
        started_s = begin_s + at(self._run.says_s, begin_s)
        page: dict[Own, float] = {(("__name__", "process_start_time_seconds"),): started_s}
        hidden = {
            uuid
            for uuid, (begin_s, end_s) in self._machine.lost
            if begin_s + WITHHELD_S <= self._at_s < end_s
        }
        instances = self._machine.instances_at(self._at_s)
        hidden |= {one.uuid for one in instances if one.card in hidden}
        page |= {
            key: value
            for key, value in self._counted.items()
            if not hidden or dict(key).get("uuid") not in hidden
        }
        page[_CYCLES] = float(int(page[_CYCLES]))  # a cycle is done or not
        cards = [uuid for uuid, there in self._machine.cards if is_at(there, self._at_s)]
        for number, uuid in enumerate(cards):
            labels = ("gpu", str(number)), ("uuid", uuid), ("model", self._models[uuid])
            page[own("device_info", *labels)] = 1.0
            page[own("device_up", ("gpu", str(number)), ("uuid", uuid))] = float(uuid not in hidden)
        for number, one in enumerate(instances):
            labels = ("gpu", f"mig{number}"), ("uuid", one.uuid), ("model", self._models[one.card])
            part = ("parent_uuid", one.card), ("profile", f"{one.slices}g.{one.slices * 10}gb")
            page[own("device_info", *labels, *part)] = 1.0
            page[own("device_up", *labels[:2])] = float(one.uuid not in hidden)
        for pod in self._pods:
            if is_at(pod.there, self._at_s):
                infos = _group_infos(pod, hidden) if pod.group else [_info(pod, self._at_s)]
                page |= dict.fromkeys(infos, 1.0)
                for number, uuid in enumerate(cards if self._has_gauges else ()):
                    if uuid not in hidden and not pod.group:
                        page |= _gauges(pod, number, uuid, self._at_s)
        if self._has_gauges:
            page[own("exporter_snapshot_timestamp_seconds")] = self._at_s
            page[own("exporter_simulated")] = 0.0
        return page


def _owner(
    rates: dict[Own, float], pod: Pod, card: tuple[str, str], allocated: float, used: float
) -> None:
    if pod.group:
        kind = ("kind", pod.group.kind)
        mine = own("group_core_seconds_total", kind, ("group", pod.name), ("gpu", "0"), card)
        for key in (mine, own("group_kind_core_seconds_total", kind, card)):
            rates[key] = rates.get(key, 0.0) + used
        return
    whose = ("namespace", pod.namespace)
    which = (whose, ("pod", pod.name), ("container", "main"), ("gpu", "0"), card)
    for name, rate in (
        ("allocated_gpu_seconds_total", allocated),
        ("core_seconds_total", used),
        ("borrowed_core_seconds_total", max(0.0, used - allocated)),
    ):
        for key in (own(f"namespace_{name}", whose, card), own(f"container_{name}", *which)):
            rates[key] = rates.get(key, 0.0) + rate


def _gauges(pod: Pod, number: int, uuid: str, unix_s: float) -> dict[Own, float]:
    """What a pod has of a card at a moment."""
    labels = (
        *(("namespace", pod.namespace), ("pod", pod.name), ("container", "main")),
        *(("gpu", str(number)), ("uuid", uuid)),
    )
    page: dict[Own, float] = {}
    for hold in pod.holds:
        if hold.uuid == uuid:
            uses = at(hold.used, unix_s)
            scheme = ("scheme", "hami"), ("policy", "")
            page[own("container_allocation_info", *labels, *scheme)] = 1.0
            page[own("container_core_limit_ratio", *labels)] = min(1.0, hold.allocated)
            page[own("container_core_utilization_ratio", *labels)] = uses
            page[own("container_memory_used_bytes", *labels)] = uses * _MEMORY
            page[own("container_memory_limit_bytes", *labels)] = hold.allocated * _MEMORY
    return page


def _info(pod: Pod, unix_s: float) -> Own:
    kind, name = at(pod.owner, unix_s)
    labels = at(pod.labels, unix_s)
    return own(
        "pod_info",
        ("namespace", pod.namespace),
        ("pod", pod.name),
        ("uid", pod.uid),
        ("owner_kind", kind),
        ("owner_name", name),
        *((f"label_{key}", value) for key, value in labels.items()),
    )


def _group_infos(pod: Pod, hidden: Collection[str]) -> list[Own]:
    """What is said of a group, for each card that it uses."""
    shown = [hold.uuid for hold in pod.holds if pod.group and hold.uuid not in hidden]
    names = pod.group._asdict().items() if pod.group else ()
    return [own("group_info", ("group", pod.name), ("uuid", uuid), *names) for uuid in shown]


def told(history: History, unix_s: float) -> Iterator[tuple[Labels, Own]]:
    """What kube-state-metrics says about nodes at a time, with the labels of their cluster."""
    for machine in history.machines:
        begin_s, end_s = machine.there
        if machine.told_s is not None and begin_s + machine.told_s <= unix_s < end_s:
            for labels in filter(None, (at(machine.labels, unix_s), machine.also)):
                series = (
                    ("__name__", "kube_node_labels"),
                    ("node", machine.node),
                    *((f"label_{key}", value) for key, value in labels.items()),
                )
                yield machine.cluster, series
