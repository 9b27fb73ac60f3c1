"""The ledger: the accounts of each device, and those of pods across devices."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import NamedTuple, Protocol, TypeVar

from exporter.agent.ledger.accounts import Account, Moment, Shares, opened, set_allocations
from exporter.agent.ledger.device_ledger import DeviceLedger, OwnerKey
from exporter.model import (
    Allocation,
    ContainerKey,
    DeviceReading,
    DeviceState,
    DeviceUsage,
    GroupKey,
    MemoryHeld,
    Owner,
    PodName,
    Unmeasured,
)

K = TypeVar("K")
_ContainerPlace = tuple[ContainerKey, str]  # and the device
_NamespacePlace = tuple[str, str]  # a namespace, and the device
_AllocationsBy = dict[K, list[Allocation]]


class Allocated(NamedTuple):
    """An allocation under the labels of its container."""

    key: ContainerKey
    allocation: Allocation


class Tenure(NamedTuple):
    """Since when a pod has its allocations."""

    pod_uid: str
    since_mono_ns: int


class LedgerRules(Protocol):
    """The rules of the ledger that may change between two cycles."""

    @property
    def window_ns(self) -> int:
        """The time over which gauges are averaged."""
        ...

    @property
    def retention_ns(self) -> int:
        """How long an account stays after its owner's last sign of life."""
        ...


class Ledger:
    """Accounts of devices, containers, pods, namespaces and groups.

    One cycle is: ``observe`` every device that was reported, ``record`` its window and
    ``set_memory``, then ``set_allocations``, then ``settle``. ``unidentified`` is the reason why no
    process can be given to its container in this cycle, None if processes can.

    ``pods`` hold their allocations, and the counters of their containers' closed accounts; the rest
    is in the open ones. ``unplaced`` are allocations that do not belong to one container on a known
    device, by container ("": the pod as a whole) and device ("": unknown). Use is not entered
    there; what is idle or borrowed of a pod's share as a whole is.
    ``namespaces`` hold what is allocated to all pods of a namespace on a device ("": unknown). They
    stay as long as the device, so that they lose nothing of pods that live for a moment. What the
    pods of a namespace used is summed by each ``DeviceLedger``.
    ``limited_core_ns`` is the core time of those of a pod's containers that have a share of the
    core: what its allocation is compared with.

    ``group_kinds`` are those that the node can have; each has an account on every device.
    """

    def __init__(self, retention_ns: int, window_ns: int) -> None:
        self.retention_ns = retention_ns
        self.window_ns = window_ns
        self.devices: dict[str, DeviceLedger] = {}
        self._departed: dict[str, DeviceLedger] = {}  # a device that comes back goes on counting
        self.pods: dict[PodName, Account] = {}
        self.unplaced: dict[_ContainerPlace, Account] = {}
        self.namespaces: dict[_NamespacePlace, Account] = {}
        self.limited_core_ns: dict[PodName, int] = {}
        self.tenures: Mapping[PodName, Tenure] = {}
        self.unidentified: Unmeasured | None = None
        self.group_kinds: Collection[str] = ()
        self._last_set: tuple[Sequence[Allocated], tuple[DeviceLedger, ...]] | None = None
        self._limited: frozenset[ContainerKey] = frozenset()  # with a share; "": the whole pod's
        self._limited_pods: frozenset[PodName] = frozenset()
        self._somewhere: frozenset[PodName] = frozenset()  # with a share on no known device
        self._settled_mono_ns = 0

    def follow(self, rules: LedgerRules) -> None:
        """Applies these rules from the next cycle on."""
        self.window_ns, self.retention_ns = rules.window_ns, rules.retention_ns

    def observe(self, reading: DeviceReading, now: Moment) -> None:
        """Records a device's state in this cycle.

        Raises:
            ValueError: a reason is not in the closed list.

        """
        uuid = reading.device.uuid
        if uuid not in self.devices:
            known = self._departed.pop(uuid, None)
            self.devices[uuid] = known or DeviceLedger(reading.device, now)
        self.devices[uuid].observe(reading, now)

    def look(self, readings: Iterable[DeviceReading], now: Moment) -> None:
        """Records a cycle in which nothing was read: the states of the devices alone."""
        for reading in readings:
            self.observe(reading, now)
        self._settled_mono_ns = now.mono_ns

    def record(self, usage: DeviceUsage, now: Moment) -> None:
        """Enters one window of a device. Without identities nobody's use in it is known."""
        is_owned = self.unidentified is None
        if not is_owned:
            usage = usage._replace(unmeasured=None)
        uuid = usage.device.uuid
        # Use is held against a share even where the share is elsewhere: it is then borrowed. But a
        # pod with a share on no known device may have it on this one, so its use is not compared.
        compared = set[Owner]()
        as_whole = {key.pod_name for key, place in self.unplaced if place == uuid}
        for owner, spent in usage.shares.items():
            if not isinstance(owner, ContainerKey) or not spent.busy.core:
                continue
            name = owner.pod_name
            if owner.container:
                is_limited = owner in self._limited or owner.whole in self._limited
            else:
                is_limited = name in self._limited_pods
            if is_limited:
                self.limited_core_ns[name] = self.limited_core_ns.get(name, 0) + spent.busy.core
                if name not in self._somewhere and name not in as_whole:
                    compared.add(owner)
        for key in self.devices[uuid].record(usage, now, compared, is_owned=is_owned):
            opened(self.pods, key.pod_name, now)
        self._hold_pods_against(usage, now)

    def _hold_pods_against(self, usage: DeviceUsage, now: Moment) -> None:
        """Enters what pods left idle or borrowed of the shares that they have as a whole."""
        device_ledger = self.devices[usage.device.uuid]
        known = device_ledger.divides_core and usage.unmeasured is not None
        unmeasured = usage.unmeasured or ()
        unknown = {one.pod_name for one in unmeasured if isinstance(one, ContainerKey)}
        # A share of the pod as a whole is for the containers without one of their own.
        used: Counter[PodName] = Counter()
        for owner, spent in usage.shares.items():
            if isinstance(owner, ContainerKey):
                is_alone = not any(device_ledger.owners[owner].cores.shares)
                used[owner.pod_name] += is_alone * (spent.busy.core or 0)
        for (key, uuid), before in list(self.unplaced.items()):
            if uuid != usage.device.uuid:
                continue
            span, name = device_ledger.span, key.pod_name
            due_ns = before.due_ns(span)
            # What is not known is neither idle nor borrowed. The share of this window is passed all
            # the same, so that no later window is held against it.
            if not known or name in unknown or not (due_ns or key in self._limited):
                self.unplaced[key, uuid] = before._replace(compared_ns=before.compared_at(span))
                continue
            observed_ns = due_ns * usage.observed_ns // (usage.length_ns or 1)
            over_ns, compared_ns = used[name] - observed_ns, before.compared_at(span)
            self.unplaced[key, uuid] = before.with_window(None, now, over_ns, compared_ns)

    def set_memory(
        self, uuid: str, held: Mapping[Owner, MemoryHeld], now: Moment, *, is_complete: bool = True
    ) -> None:
        """Sets the owners that hold memory on a device now.

        All others hold 0, if these are all (``is_complete``); else what they hold is not known.
        """
        self.devices[uuid].set_memory(held, now, is_complete=is_complete)

    def set_allocations(self, allocated: Sequence[Allocated], now: Moment) -> None:
        """Sets the allocations from now on; the same sequence again changes nothing.

        A container is shown at 0 from the moment its pod is bound, if the device is known.
        Otherwise its pod is, and its namespace on every device. An allocation to no container in
        particular is the pod's.
        """
        # An allocation began, changed or ended at some moment since the cycle before: no source
        # says it more exactly than a cycle. It counts from the cycle that sees it begin to the one
        # that sees it gone. Both are late by as much on the average, so that their time is right.
        # It was there before its first process and until its last: what is missed at its beginning
        # and counted after its end are both idle, and cancel each other. Early at both ends, its
        # last use would be without a share.
        before_mono_ns = self._settled_mono_ns
        # A device that was not observed in this cycle is not there: one that cannot be read is
        # observed as such. Its accounts are closed before what they were allocated goes elsewhere.
        for uuid, device_ledger in list(self.devices.items()):
            if device_ledger.observed_mono_ns != now.mono_ns:
                self._close(device_ledger, tuple(device_ledger.owners), now)
                device_ledger.depart(now)
                self._departed[uuid] = self.devices.pop(uuid)
        if (tuple(allocated), tuple(self.devices.values())) == self._last_set:
            return
        self._last_set = tuple(allocated), tuple(self.devices.values())
        self.tenures = self._tenures_of(allocated, now)
        self._set_limited(allocated)
        namespaces: _AllocationsBy[_NamespacePlace] = {}
        unplaced: _AllocationsBy[_ContainerPlace] = {}
        owners: dict[str, _AllocationsBy[OwnerKey]] = {uuid: {} for uuid in self.devices}
        for key, allocation in allocated:
            uuid = allocation.device or ""
            if uuid not in self.devices:
                uuid = ""
            for each in [uuid] if uuid else self.devices:
                self.devices[each].open_sums(ContainerKey, key.namespace)
            _add(namespaces, (key.namespace, uuid), allocation)
            if uuid and key.container:
                _add(owners[uuid], key, allocation)
            else:
                _add(unplaced, (key, uuid), allocation)
        # A pod's time is the sum of its parts': it has an allocation, which counts nothing itself.
        pods = dict.fromkeys([key.pod_name for key, _ in allocated], Shares((0.0,)))
        set_allocations(self.pods, pods, before_mono_ns, now)
        set_allocations(self.namespaces, _shares(namespaces), before_mono_ns, now)
        set_allocations(self.unplaced, _shares(unplaced), before_mono_ns, now)
        gpus = self._allocated_gpus(allocated)
        free = self._unallocated_gpus(allocated, gpus)
        for uuid, device_ledger in self.devices.items():
            beyond = max(0.0, gpus.get(uuid, 0.0) - 1)
            rest = (free[uuid], beyond) if uuid in free else None
            device_ledger.set_allocations(_shares(owners[uuid]), rest, before_mono_ns, now)

    def _set_limited(self, allocated: Collection[Allocated]) -> None:
        """Sets whose core time is compared with a share."""
        # After a share has ended, the last use is still to come: it was read before, or its process
        # goes on for a moment. Other allocations without a share end the comparison at once.
        shared = [each for each in allocated if each.allocation.core is not None]
        present = {key for key, _ in allocated}
        ended = {key for key in self._limited - present if key.pod_name in self.pods}
        self._limited = frozenset(ended.union(key for key, _ in shared))
        self._limited_pods = frozenset(key.pod_name for key in self._limited)
        self._somewhere = frozenset(
            key.pod_name for key, a in shared if a.device not in self.devices
        )
        for key, _ in shared:
            self.limited_core_ns.setdefault(key.pod_name, 0)

    def _boards(self) -> dict[str, str]:
        """The board of each device: itself, or that of which it is a part."""
        return {uuid: seen.device.parent_uuid or uuid for uuid, seen in self.devices.items()}

    def _allocated_gpus(self, allocated: Iterable[Allocated]) -> dict[str, float]:
        """The part of each board that is allocated, above 1 where it is overcommitted."""
        # What is allocated of an instance is allocated of its board: it has no part of its own.
        boards = self._boards()
        gpus = dict.fromkeys(boards.values(), 0.0)
        for _, allocation in allocated:
            board = boards.get(allocation.device or "")
            if board is not None:
                gpus[board] += allocation.gpus or 0.0
        return gpus

    def _unallocated_gpus(
        self, allocated: Iterable[Allocated], gpus: Mapping[str, float]
    ) -> dict[str, float]:
        """The part of each board that is known to be nobody's."""
        free = {board: max(0.0, 1 - taken) for board, taken in gpus.items()}
        boards = self._boards()
        for _, allocation in allocated:
            # An allocation of unknown place is on one of some boards. So of what they have left so
            # much less is nobody's, all together. Nothing is, if it is not known how much it takes.
            if allocation.device is None or allocation.gpus is None:
                places = (allocation.device,) if allocation.device else allocation.among or ()
                found = {boards[uuid] for uuid in places if uuid in boards}
                left = sum(free[board] for board in found)
                taken = left if allocation.gpus is None else min(allocation.gpus, left)
                for board in found if left else ():
                    free[board] *= 1 - taken / left
        return free

    def _tenures_of(self, allocated: Iterable[Allocated], now: Moment) -> dict[PodName, Tenure]:
        tenures: dict[PodName, Tenure] = {}
        for key, allocation in allocated:
            # A StatefulSet's pod that was created again keeps its name, but is another pod.
            tenure = tenures.get(key.pod_name) or self.tenures.get(key.pod_name)
            if tenure is None or tenure.pod_uid != allocation.pod_uid:
                tenure = Tenure(allocation.pod_uid, now.mono_ns)
            tenures[key.pod_name] = tenure
        return tenures

    def settle(self, now: Moment) -> None:
        """Ends the cycle: keeps residents alive, and closes old accounts."""
        oldest_ns = now.mono_ns - self.retention_ns
        for device_ledger in self.devices.values():
            device_ledger.settle(self._settled_mono_ns, now.mono_ns - self.window_ns)
        self._settled_mono_ns = now.mono_ns
        # A device that comes back soon goes on counting: a reset takes some seconds.
        old = {u for u, one in self._departed.items() if one.observed_mono_ns < oldest_ns}
        for uuid in old:
            del self._departed[uuid]
        for place in [place for place in self.namespaces if place[1] in old]:
            del self.namespaces[place]
        # A kind of group that was seen on one device can come to the others too. Its sum begins at
        # 0 there, before its first use if possible.
        ledgers = self.devices.values()
        kinds = frozenset(self.group_kinds).union(*(each.closed[GroupKey] for each in ledgers))
        for device_ledger in ledgers:
            device_ledger.open_sums(GroupKey, *sorted(kinds))
        for device_ledger in self.devices.values():
            self._close(device_ledger, _gone(device_ledger.owners, oldest_ns, now), now)
        # The sums of pods and of namespaces are public counters, which must not fall. They get what
        # a closed account had.
        for key, uuid in _gone(self.unplaced, oldest_ns, now):
            account = self.unplaced.pop((key, uuid))
            if key.pod_name in self.pods:
                pod = self.pods[key.pod_name]
                self.pods[key.pod_name] = pod.merged(account, now.mono_ns, now.mono_ns)
            card = self.devices.get(uuid) or self._departed.get(uuid)
            if card is not None:
                card.keep(ContainerKey, key.namespace, account.counters)
        self._close_pods(oldest_ns, now)

    def _close_pods(self, oldest_ns: int, now: Moment) -> None:
        # A pod's account stays as long as any of its containers': its counter is the sum of both.
        if ended := _gone(self.pods, oldest_ns, now):
            owners = self._owners()
            have_containers = {key.pod_name for key in owners if isinstance(key, ContainerKey)}
            for name in [name for name in ended if name not in have_containers]:
                del self.pods[name]
                self.limited_core_ns.pop(name, None)

    def _close(self, device_ledger: DeviceLedger, gone: Collection[OwnerKey], now: Moment) -> None:
        """Closes accounts of owners; the counters of containers stay with their pods."""
        for key in gone:
            if isinstance(key, ContainerKey) and key.pod_name in self.pods:
                pod, account = self.pods[key.pod_name], device_ledger.owners[key]
                merged = pod.merged(account, self._settled_mono_ns, now.mono_ns)
                self.pods[key.pod_name] = merged
        device_ledger.close(gone)

    def _owners(self) -> Iterator[OwnerKey]:
        """The owners that have an account on any device, once for each device."""
        return chain.from_iterable(device_ledger.owners for device_ledger in self.devices.values())

    def frozen(self) -> "Ledger":
        """A copy for readers, which no later cycle changes."""
        # Accounts are immutable, so that the mappings alone are copied.
        frozen = copy(self)
        frozen.devices = {
            uuid: device_ledger.frozen() for uuid, device_ledger in self.devices.items()
        }
        frozen.pods, frozen.unplaced = self.pods.copy(), self.unplaced.copy()
        frozen.namespaces = self.namespaces.copy()
        frozen.limited_core_ns = self.limited_core_ns.copy()
        return frozen

    def figures_age_ns(self, now: Moment) -> int:
        """How long ago the windows of any device that is up were entered last, at most."""
        times = [
            one.recorded_mono_ns
            for one in self.devices.values()
            if one.recorded_mono_ns is not None and one.state is DeviceState.UP
        ]
        return max(now.mono_ns - min(times, default=now.mono_ns), 0)

    def groups(self) -> set[GroupKey]:
        """The groups that have an account on any device."""
        return {key for key in self._owners() if isinstance(key, GroupKey)}


def _add(allocations: _AllocationsBy[K], key: K, allocation: Allocation) -> None:
    allocations.setdefault(key, []).append(allocation)


def _shares(allocations: _AllocationsBy[K]) -> dict[K, Shares]:
    """The shares by key. An allocation that promises none, or of an unknown part, adds 0."""
    return {
        key: Shares(tuple(a.core or 0.0 for a in many), tuple(a.gpus or 0.0 for a in many))
        for key, many in allocations.items()
    }


def _gone(accounts: Mapping[K, Account], oldest_ns: int, now: Moment) -> list[K]:
    # Use alone keeps an account open: processes that start and end between two process lists are in
    # neither, and still use the device. It costs the least to find out, so it is asked first.
    return [
        k
        for k, a in accounts.items()
        if a.used_mono_ns < oldest_ns and a.last_live_ns(now.mono_ns) < oldest_ns
    ]
