"""Facts of devices: state, sensors, counters, and the use without an owner."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from exporter.agent.facts.view import DeviceView, View, used
from exporter.agent.ledger.accounts import ENERGY, NOTHING
from exporter.agent.ledger.device_ledger import DeviceLedger
from exporter.agent.ledger.device_status import IDLE_ENERGY
from exporter.model import (
    COUNTED,
    QUANTITIES,
    Device,
    DeviceAllocation,
    DeviceFacts,
    DeviceMemory,
    DeviceMemoryFacts,
    DeviceReading,
    DeviceState,
    MemoryHeld,
    Owner,
    Pod,
    Sensors,
    Unattributed,
    Unmeasured,
    Used,
)

# of time and energy that is nobody's, in the order of the page
BUSY_REASONS = (
    Unattributed.HOST_PROCESS,
    Unattributed.UNKNOWN_CGROUP,
    Unattributed.EXITED,
    Unattributed.NO_PID,
)
MEMORY_REASONS = (*BUSY_REASONS, Unattributed.OVERLAP)
NOBODYS_ENERGY = (Unattributed.IDLE, Unattributed.UNOBSERVED)
ENERGY_ONLY = {*NOBODYS_ENERGY, Unattributed.MODULE}
SHARING_REASONS = (
    Unattributed.MIG,
    Unattributed.PARTITIONED,
    Unattributed.MODULE,
    Unattributed.MPS,
)
PARTED = (Unattributed.MIG, Unattributed.PARTITIONED)  # its parts are allocated, not the board
BUSY = frozenset({*QUANTITIES, *COUNTED})
_NO_MEMORY, _NO_SENSORS = DeviceMemoryFacts(), Sensors()


def device_facts(view: View) -> Iterator[DeviceFacts]:
    """Each device. Of one that cannot be read there are the reason, its faults and its costs."""
    unhealthy = _unhealthy(view.facts.pods.values())
    for seen in view.devices.values():
        device = seen.device_ledger.device
        ids = {device.uuid.lower(), device.pci_bus_id.lower(), device.sysfs_name}
        yield _device(view, seen, is_unhealthy=not unhealthy.isdisjoint(ids))


def _device(view: View, seen: DeviceView, *, is_unhealthy: bool) -> DeviceFacts:
    device_ledger, known = seen.device_ledger, seen.known
    device, measured = device_ledger.device, device_ledger.measured
    reading = view.facts.readings.get(seen.uuid, DeviceReading(device))
    found = partial(
        DeviceFacts,
        device=device,
        state=device_ledger.state,
        unmeasured=_unmeasured(device_ledger),
        xids=reading.xids,
        costs=reading.costs,
        is_unhealthy=is_unhealthy,
    )
    if seen.stale:
        return found()
    is_up, core_known = device_ledger.state is DeviceState.UP, "core" in known
    return found(
        memory=_memory(reading.memory, device_ledger.held, device) if is_up else _NO_MEMORY,
        sensors=reading.sensors if is_up else _NO_SENSORS,
        used=used(device_ledger.whole.counters, known),
        average=seen.average_of(None, device_ledger.whole, known),
        idle_energy_uj=device_ledger.idle_energy_uj if IDLE_ENERGY in measured else None,
        unobserved_ns=device_ledger.unobserved_ns if measured else None,
        unattributed=_unattributed(seen),
        unexplained_ns=device_ledger.unexplained if core_known else {},
        normalization=device_ledger.normalization if core_known else None,
        methods=device_ledger.methods if measured else None,
        sampling=device_ledger.sampling,
        allocated=_allocated(view, device_ledger),
    )


def _unhealthy(pods: Iterable[Pod]) -> frozenset[str]:
    """The ids of devices that are unhealthy by the status of these pods, those of replicas cut.

    NVIDIA's device plugin has UUIDs, AMD's PCI addresses and names in sysfs. Those of DRA name
    nothing that is known. The kubelet no longer says how a device of a pod that has ended is.
    """
    there = [pod for pod in pods if not (pod.terminal or pod.deleted)]
    named = frozenset(own.lower().partition("::")[0] for pod in there for own in pod.unhealthy)
    return named - {""}


def _unmeasured(device_ledger: DeviceLedger) -> Mapping[str, Unmeasured]:
    measured = device_ledger.measured
    reasons = {q: Unmeasured(r) for q, r in device_ledger.unmeasured.items() if q not in measured}
    if device_ledger.state is not DeviceState.UP:
        reasons["device"] = Unmeasured(device_ledger.state)
    reasons |= dict.fromkeys(sorted(device_ledger.lower_bounds), Unmeasured.READ_FAILED)
    if ENERGY in measured and IDLE_ENERGY not in measured:  # all its energy counts as active
        reasons[IDLE_ENERGY] = Unmeasured.NEVER_IDLE
    return reasons


def _memory(
    memory: DeviceMemory | None, held: Mapping[Owner, MemoryHeld] | None, device: Device
) -> DeviceMemoryFacts:
    """The device's memory; its size is known without asking the driver."""
    if memory is None:
        return DeviceMemoryFacts(total_bytes=device.memory_bytes)
    return DeviceMemoryFacts(
        memory.total_bytes,
        memory.used_bytes,
        memory.reserved_bytes,
        _unattributed_memory(memory.used_bytes, held),
    )


def _unattributed_memory(
    used_bytes: int | None, held: Mapping[Owner, MemoryHeld] | None
) -> Mapping[Unattributed, int]:
    """Memory without an owner, by reason, from 0 on.

    All of it is ``NO_PID`` where the device's processes are not listed.
    """
    if used_bytes is None:
        return {}
    if held is None:
        return {Unattributed.NO_PID: used_bytes}
    nobody: dict[Unattributed, int | None] = dict.fromkeys(MEMORY_REASONS, 0)
    for owner, holds in held.items():
        if isinstance(owner, Unattributed):
            nobody[owner] = holds.used_bytes
    return {reason: bytes_ for reason, bytes_ in nobody.items() if bytes_ is not None}


def _unattributed(seen: DeviceView) -> Mapping[Unattributed, Used]:
    """The time and energy without an owner, by each reason that can apply, from 0 on.

    A series that begins at its first use loses that use.
    """
    device, nobody = seen.device_ledger.device, seen.device_ledger.unattributed
    instance = device.parent_uuid and device.vendor == "nvidia"
    sharing = "mig" if instance else device.sharing
    attributable = (r for r in SHARING_REASONS if r == sharing or r in nobody)
    energy = seen.known - BUSY
    made = {}
    for reason in (*BUSY_REASONS, *NOBODYS_ENERGY, *attributable):
        account = nobody.get(reason)
        known = energy if reason in ENERGY_ONLY else seen.known
        made[reason] = used(account.counters if account else NOTHING, known)
    return made


def _allocated(view: View, device_ledger: DeviceLedger) -> DeviceAllocation:
    """Sums over the allocations that name the device; 0 where none can be of it."""
    device, now_ns = device_ledger.device, view.facts.now.mono_ns
    is_part = bool(device.parent_uuid)
    here = view.limits.of_device(device.uuid)
    parted = device.sharing in PARTED
    some = here.allocations or view.limits.has_unplaced or view.facts.undecoded or parted
    none = 0 if view.facts.pods and not some else None
    return DeviceAllocation(
        none if here.sum.core is None else here.sum.core,
        none if here.sum.memory_bytes is None else here.sum.memory_bytes,
        view.facts.replicas.get(device.uuid),
        None if is_part else device_ledger.unallocated.at(now_ns),
        None if is_part else device_ledger.overcommitted.at(now_ns),
    )
