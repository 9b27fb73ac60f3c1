"""Facts of devices: state, sensors, counters, and the use without an owner."""

from collections.abc import Iterator, Mapping
from functools import partial

from exporter.agent.facts.factsview import DeviceView, FactsView, used
from exporter.agent.ledger.accounts import ENERGY, NOTHING
from exporter.agent.ledger.device_ledger import DeviceLedger
from exporter.agent.ledger.device_status import IDLE_ENERGY
from exporter.model import (
    COUNTED,
    QUANTITIES,
    DeviceAllocation,
    DeviceFacts,
    DeviceMemoryFacts,
    DeviceReading,
    DeviceState,
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


def device_facts(view: FactsView) -> Iterator[DeviceFacts]:
    """Each device. Of one that cannot be read there are the reason, its faults and its costs."""
    # Which devices are unhealthy by the status of pods, the numbers of replicas cut off. NVIDIA's
    # device plugin has UUIDs, AMD's PCI addresses and names in sysfs. Those of DRA name nothing
    # that is known. The kubelet no longer says how a device is once its pod has ended.
    running = [pod for pod in view.facts.pods.values() if not (pod.terminal or pod.deleted)]
    named = frozenset(own.lower().partition("::")[0] for pod in running for own in pod.unhealthy)
    unhealthy = named - {""}
    for device in view.devices.values():
        device_ledger, itself = device.device_ledger, device.device_ledger.device
        reading = view.facts.readings.get(device.uuid, DeviceReading(itself))
        ids = {itself.uuid.lower(), itself.pci_bus_id.lower(), itself.sysfs_name}
        found = partial(
            DeviceFacts,
            device=itself,
            state=device_ledger.state,
            unmeasured=_unmeasured(device_ledger),
            xids=reading.xids,
            costs=reading.costs,
            is_unhealthy=not unhealthy.isdisjoint(ids),
        )
        if device.stale:
            yield found()
            continue
        # A reading or two may fail before a device is stale. Its counters stay until then, because
        # a series that goes and comes breaks each rate; its gauges are of this moment, and go.
        is_up, measured = device_ledger.state is DeviceState.UP, device_ledger.measured
        known, core_known = device.known, "core" in device.known
        yield found(
            memory=_memory(reading, device_ledger) if is_up else _NO_MEMORY,
            sensors=reading.sensors if is_up else _NO_SENSORS,
            used=used(device_ledger.total.counters, known),
            average=device.average_of(None, device_ledger.total, known),
            idle_energy_uj=device_ledger.idle_energy_uj if IDLE_ENERGY in measured else None,
            unobserved_ns=device_ledger.unobserved_ns if measured else None,
            unattributed=_unattributed(device),
            unexplained_ns=device_ledger.unexplained if core_known else {},
            normalization=device.lately.normalization if core_known else None,
            methods=device_ledger.methods if measured else None,
            sampling=device_ledger.sampling,
            allocated=_allocated(view, device_ledger),
        )


def _unmeasured(device_ledger: DeviceLedger) -> Mapping[str, Unmeasured]:
    """What is not known of the device itself, and why."""
    measured = device_ledger.measured
    reasons = {q: Unmeasured(r) for q, r in device_ledger.unmeasured.items() if q not in measured}
    if device_ledger.state is not DeviceState.UP:
        reasons["device"] = Unmeasured(device_ledger.state)
    reasons |= dict.fromkeys(sorted(device_ledger.lower_bounds), Unmeasured.READ_FAILED)
    # Until the board was idle once, its idle power is not known, and all its energy is active.
    if ENERGY in measured and IDLE_ENERGY not in measured:
        reasons[IDLE_ENERGY] = Unmeasured.NEVER_IDLE
    return reasons


def _memory(reading: DeviceReading, device_ledger: DeviceLedger) -> DeviceMemoryFacts:
    """The device's memory, with what nobody holds, by each reason from 0 on."""
    memory, held = reading.memory, device_ledger.held
    if memory is None:  # the driver need not be asked for its size
        return DeviceMemoryFacts(total_bytes=device_ledger.device.memory_bytes)
    nobody: dict[Unattributed, int | None] = {}
    if memory.used_bytes is not None and held is None:
        # Where the driver lists no processes, no part of the memory has a holder.
        nobody = {Unattributed.NO_PID: memory.used_bytes}
    elif memory.used_bytes is not None and held is not None:
        nobody = dict.fromkeys(MEMORY_REASONS, 0)
        for owner, part in held.items():
            if isinstance(owner, Unattributed):
                nobody[owner] = part.used_bytes
    return DeviceMemoryFacts(
        memory.total_bytes,
        memory.used_bytes,
        memory.reserved_bytes,
        {reason: bytes_ for reason, bytes_ in nobody.items() if bytes_ is not None},
    )


def _unattributed(device: DeviceView) -> Mapping[Unattributed, Used]:
    """The time and energy without an owner, by each reason that can apply, from 0 on."""
    # A series that begins with its first use loses that use: Prometheus sees no growth in it. So
    # each reason that can come is there from the start.
    itself, nobody = device.device_ledger.device, device.device_ledger.unattributed
    instance = itself.parent_uuid and itself.vendor == "nvidia"
    sharing = "mig" if instance else itself.sharing
    attributable = (r for r in SHARING_REASONS if r == sharing or r in nobody)
    energy = device.known - BUSY
    made = {}
    for reason in (*BUSY_REASONS, *NOBODYS_ENERGY, *attributable):
        account = nobody.get(reason)
        known = energy if reason in ENERGY_ONLY else device.known
        made[reason] = used(account.counters if account else NOTHING, known)
    return made


def _allocated(view: FactsView, device_ledger: DeviceLedger) -> DeviceAllocation:
    """Sums over the allocations that name the device; 0 where none can be of it."""
    itself, until_ns = device_ledger.device, view.until_mono_ns(device_ledger.device.uuid)
    is_part = bool(itself.parent_uuid)
    here = view.limits.of_device(itself.uuid)
    parted = itself.sharing in PARTED
    # 0 is said only where no allocation can be of this device. One of unknown place may be.
    some = here.allocations or view.limits.has_unplaced or view.facts.undecoded or parted
    none = 0 if view.facts.pods and not some else None
    return DeviceAllocation(
        none if here.sum.core is None else here.sum.core,
        none if here.sum.memory_bytes is None else here.sum.memory_bytes,
        view.facts.replicas.get(itself.uuid),
        None if is_part else device_ledger.unallocated.at(until_ns),
        None if is_part else device_ledger.overcommitted.at(until_ns),
    )
