"""What a cycle makes of what it read: a value in, an outcome out.

``Accounting`` owns the ledger and all that is kept from one cycle to the next about owners and
allocations. Nothing else writes to it, and the order of the steps is that of ``Accounting.of``.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from exporter.agent.attribution.ownership import Sandboxes
from exporter.agent.attribution.tenancy import account_for, without_tenants_servers
from exporter.agent.collector.cyclerules import CycleRules, IdlePolicy, idle_weights
from exporter.agent.collector.group_names import GroupNames
from exporter.agent.collector.podallocations import Allocations
from exporter.agent.collector.polling import SourcePoller
from exporter.agent.collector.processowners import (
    Holders,
    Moves,
    ProcessOwners,
    Residency,
    SandboxWatch,
    owners_of,
)
from exporter.agent.facts import CycleFacts, at_most
from exporter.agent.facts.shownlimits import Limits
from exporter.agent.ledger import Allocated, Ledger, Moment
from exporter.agent.sources.pods.labels import PodLabels
from exporter.model import (
    CgroupIdentity,
    Clock,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    NodeFacts,
    PodTable,
    ProcessInfo,
    Tenants,
    Unattributed,
    Unmeasured,
)

LONGEST_LOOK_NS = 5 * 10**9  # for so long accounts stay as they are, unless something changes


class CycleInput(NamedTuple):
    """What one cycle read.

    ``unidentified``: why no process can be given to its container, None if processes can.
    """

    now: Moment
    rules: CycleRules
    devices: Mapping[str, DeviceReading]
    table: PodTable
    node: NodeFacts
    identities: Mapping[int, CgroupIdentity | Unattributed]
    unidentified: Unmeasured | None
    group_kinds: frozenset[str]


class Basis(NamedTuple):
    """What accounts depend on, beside the devices. ``pods`` is the version of their table."""

    rules: CycleRules
    pods: int
    node: NodeFacts
    unidentified: Unmeasured | None
    identities: Mapping[int, CgroupIdentity | Unattributed]
    group_kinds: frozenset[str]
    sandboxes: Sandboxes


class Outcome(NamedTuple):
    """What a cycle made of what was read, for readers. ``ledger`` is a copy that stays.

    ``memories`` are those of the devices, as they were read. No family has more than
    ``most_series``. Accounts that are old are closed from ``until_mono_ns`` on.
    """

    basis: Basis
    memories: Mapping[str, DeviceMemory | None]
    holders: Mapping[str, Holders]
    found: ProcessOwners
    ledger: Ledger
    facts: CycleFacts
    described: Mapping[int, ProcessInfo]
    most_series: int
    until_mono_ns: int


class Accounting:
    """Enters what each cycle read into the ledger. Only the cycle's thread may call it."""

    def __init__(
        self,
        ledger: Ledger,
        rules: CycleRules,
        idle: IdlePolicy,
        poller: SourcePoller,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._idle = idle
        self._poller = poller
        self._allocations = Allocations(rules.allocations, clock)
        self._allocated: list[Allocated] = []
        self._sandboxes = SandboxWatch()
        self._moves = Moves()
        self._shown = PodLabels()
        self._group_names = GroupNames()
        self._residency = Residency()
        self._last: Outcome | None = None

    def beside(self) -> AbstractContextManager[None]:
        """Decodes allocations in a thread of its own meanwhile."""
        return self._allocations.beside()

    def of(self, read: CycleInput) -> Outcome:
        """The accounts after this cycle.

        Mostly a cycle only looks whether anything has come, gone or changed. Then no account
        changes either, and readers get those of the last cycle that read.
        """
        self._ledger.follow(read.rules)
        self._allocations.rules = read.rules.allocations
        basis = Basis(
            read.rules,
            read.table.version,
            read.node,
            read.unidentified,
            read.identities,
            read.group_kinds,
            self._sandboxes.now,
        )
        last, self._last = self._last, None  # what fails half-way is done again
        if last is not None and self._is_as_before(last, basis, read):
            outcome = self._looked(last, read)
        else:
            outcome = self._accounted(last, basis, read)
        self._last = outcome
        return outcome

    def seeks(self, now: Moment) -> bool:
        """Whether an allocation names a device that is not known yet, and may still come."""
        return self._allocations.seeks(now.mono_ns)

    def tenants(self, devices: Iterable[DeviceReading], since_mono_ns: int) -> tuple[Tenants, ...]:
        """Who used each device since then."""
        return self._residency.tenants(devices, since_mono_ns)

    def figures_age_ns(self, now: Moment) -> int:
        """How old the oldest figure of use is."""
        return self._ledger.figures_age_ns(now)

    def rejected(self) -> tuple[Mapping[str, int], ...]:
        """How often what pods ask for, or a label of theirs, could not be used, by reason."""
        return self._allocations.problems, self._shown.rejected

    def _is_as_before(self, last: Outcome, basis: Basis, read: CycleInput) -> bool:
        """Whether nothing was read, and nothing has changed that accounts depend on."""
        before = last.facts.readings
        return (
            basis == last.basis
            and read.devices.keys() == before.keys()
            and self._allocations.is_current
            and not self._changes_with_time(last, read)
            and not any(
                each.windows
                or not (each.state is before[uuid].state is DeviceState.UP)
                or each.memory != last.memories[uuid]
                or each.unmeasured != before[uuid].unmeasured
                or each.device != before[uuid].device
                or not each.seen <= before[uuid].seen
                for uuid, each in read.devices.items()
            )
        )

    def _changes_with_time(self, last: Outcome, read: CycleInput) -> bool:
        """Whether accounts change although nothing happens: all state that time alone changes.

        Whoever adds such state adds it here; otherwise a cycle that only looks forgets it.
        """
        ledgers = last.ledger.devices
        return (
            # These may be some seconds late: accounts that are closed when they are old, names of
            # groups and processes that are let go with them, and the minute after which a process
            # in a pod's sandbox counts as lasting.
            read.now.mono_ns >= last.until_mono_ns
            # These may not, for they decide who is charged: an owner is uncertain for a time, and a
            # list of processes that does not come again is accepted for a time.
            or any(
                ledgers[uuid].uncertain or (each.memory is None and ledgers[uuid].held is not None)
                for uuid, each in read.devices.items()
            )
        )

    def _looked(self, last: Outcome, read: CycleInput) -> Outcome:
        """The last cycle's accounts, now, with the sensors, XIDs and costs of these readings."""
        self._ledger.look(read.devices.values(), read.now)
        readings = {
            uuid: last.facts.readings[uuid]._replace(
                detail=each.detail, sensors=each.sensors, xids=each.xids, costs=each.costs
            )
            for uuid, each in read.devices.items()
        }
        return last._replace(facts=replace(last.facts, now=read.now, readings=readings))

    def _accounted(self, last: Outcome | None, basis: Basis, read: CycleInput) -> Outcome:
        """Enters what was read into the ledger, and returns what readers get of it."""
        now, rules, ledger = read.now, read.rules, self._ledger
        ledger.group_kinds, ledger.unidentified = read.group_kinds, read.unidentified
        memories = {uuid: each.memory for uuid, each in read.devices.items()}
        # What the kernel charges to owners is nobody's while processes cannot be identified.
        known = [] if read.unidentified else [each for each in memories.values() if each]
        cgroups = [charge.identity for memory in known for charge in memory.charges]
        found = owners_of(
            read.identities, read.table, basis.sandboxes, by_step=rules.by_step, cgroups=cgroups
        )
        devices = {
            uuid: without_tenants_servers(each, found.owners, rules.mps_servers)
            for uuid, each in read.devices.items()
        }
        # A list of processes stays the same for seconds, and with it who holds how much.
        before = last.facts.readings if last is not None and last.found == found else {}
        holders = {
            uuid: last.holders[uuid]
            if last is not None and uuid in before and before[uuid].memory is each.memory
            else found.holders(each.memory)
            for uuid, each in devices.items()
        }
        described = self._poller.described(found.owners)
        self._moves.follow(read.identities, found.owners, described, now.mono_ns)
        self._enter(devices, holders, now)
        # Allocations are set after the windows were entered. The windows are from before now, and
        # what is allocated from now on is not compared with them.
        seen_on = partial(found.seen_on, devices.values())
        allocated = self._allocated = self._allocations.of(read.table, read.node, seen_on)
        ledger.set_allocations(allocated, now)
        ledger.settle(now)
        version = self._allocations.version
        of = allocated, ledger.devices.keys()
        is_same = last is not None and of == (last.facts.allocated, last.ledger.devices.keys())
        facts = CycleFacts(
            now,
            devices,
            allocated,
            self._allocations.ended,
            self._allocations.pods_by_name,
            self._allocations.replicas,
            undecoded=self._allocations.undecoded,
            shown=self._shown.of(read.table, rules.allowed),
            sandboxed=self._sandboxes.follow(found, allocated, version, now.mono_ns).lasting,
            groups=self._group_names.of(found, read.identities, ledger.groups, self._poller.groups),
            limits=last.facts.limits if last and is_same else Limits(allocated, ledger.devices),
            jobs=found.jobs_on(devices.values()),
        )
        frozen, until_ns = ledger.frozen(), now.mono_ns + LONGEST_LOOK_NS
        most = at_most(ledger, facts, rules.left_out)
        return Outcome(basis, memories, holders, found, frozen, facts, described, most, until_ns)

    def _enter(
        self,
        devices: Mapping[str, DeviceReading],
        holders: Mapping[str, Holders],
        now: Moment,
    ) -> None:
        """Enters the states, memory and windows of all devices into the ledger."""
        ledger = self._ledger
        for uuid, reading in devices.items():
            # A device that cannot be read is observed too: one that is not has left the node.
            ledger.observe(reading, now)
            if reading.state is not DeviceState.UP:
                continue
            held, residents = holders[uuid]
            if residents is not None or held:
                ledger.set_memory(uuid, held, now, is_complete=residents is not None)
            # Idle energy is divided by the allocations of the cycle before, which were there while
            # the windows were.
            weights = None
            # The newest window has ended now. Each earlier one ended before those that follow it.
            later_ns = sum([window.length_ns for window in reading.windows])
            for window in reading.windows:
                if weights is None:
                    weights = idle_weights(self._idle, uuid, held, self._allocated)
                later_ns -= window.length_ns
                ended = now.earlier(later_ns)
                owners = self._moves.owners(ended.mono_ns - window.length_ns)
                usage = account_for(reading.device, window, owners, residents, weights)
                ledger.record(usage, ended)
                self._residency.enter(usage, window.processes, owners, ended.mono_ns)
