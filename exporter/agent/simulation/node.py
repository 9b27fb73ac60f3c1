"""A scenario with a clock: what the simulated sources read."""

from collections import Counter
from collections.abc import Mapping
from functools import partial

from exporter.agent.simulation import identity
from exporter.agent.simulation.board import BoardMeter, has_gpm, sensors
from exporter.agent.simulation.description import DeviceSpec, EndedRows, Scenario
from exporter.agent.simulation.lifecycle import Lifecycle
from exporter.agent.simulation.population import Population, ProcessLife, busy_ns, segments
from exporter.agent.simulation.ring import SECOND_US, Ring
from exporter.model import (
    QUANTITIES,
    Clock,
    Device,
    DeviceMemory,
    DeviceState,
    GroupFacts,
    NodeFacts,
    PodTable,
    ProcessInfo,
    ProcessMemory,
    ProcessSample,
    Sample,
    Sensors,
)

COMM_LENGTH = 15  # of a process's name: the kernel's TASK_COMM_LEN without the end
ENGINES = (*QUANTITIES, "copy")
REMEMBERED_NS = 15 * 10**9  # an ended process stays listed so long: the ring still names it


class Node:
    """A node in memory. Every answer is a function of the scenario, the start and the clock.

    Devices are addressed by their number in the scenario. Different threads may ask about
    different devices, and one about pods and processes. Nothing happened before the start, which
    defaults to now.
    """

    def __init__(self, scenario: Scenario, clock: Clock, start_unix_ns: int | None = None) -> None:
        self.scenario = scenario
        self._clock = clock
        start = clock.time_ns() if start_unix_ns is None else start_unix_ns
        self.start_unix_ns = start // 1000 * 1000  # sample times are whole microseconds
        self.population = Population(scenario)
        self.lifecycle = Lifecycle(scenario, self.population)
        self._meters = [BoardMeter(self.population, d, self._parts(d)) for d in scenario.devices]
        self._rings = [
            Ring(
                *(self.population, device.number),
                identity.number(scenario.seed, "ring", device.shown.uuid),
                *(scenario.sample_rule, scenario.sample_period_ns),
            )
            for device in scenario.devices
        ]

    def _parts(self, board: DeviceSpec) -> list[DeviceSpec]:
        """The instances or partitions of a board that is divided, otherwise the board itself."""
        return [d for d in self.scenario.devices if d.parent == board.number] or [board]

    def devices(self) -> tuple[Device, ...]:
        """The devices, in the order of their numbers in the scenario."""
        return tuple(spec.shown for spec in self.scenario.devices)

    def facts(self) -> NodeFacts:
        """What the node's API object, its kubelet and its own files say now, with the devices."""
        scenario = self.scenario
        return NodeFacts(
            devices=self.devices(),
            labels=scenario.node_labels,
            annotations=scenario.node_annotations,
            allocatable=scenario.allocatable,
            grants=self.lifecycle.cluster(self._now_ns()).grants,
            card_policies={d.shown.index: d.policy for d in scenario.devices if d.policy},
        )

    def state(self, device: int) -> DeviceState:
        """Whether a device can be read now, or what is wrong with it."""
        now = self._now_ns()
        card = self.scenario.devices[device].parent
        for fault in self.scenario.faults:
            # With a card all of its instances are lost.
            if fault.device in {device, card} and fault.from_ns <= now < fault.to_ns:
                return fault.state
        return DeviceState.UP

    def busy_samples(self, device: int, engine: str, newer_than_us: int) -> list[Sample]:
        """The ring's samples that ended after a time (epoch, µs), oldest first.

        As ``nvmlDeviceGetSamples``; the percentage is rounded.
        """
        place = QUANTITIES.index(engine)
        start_us = self.start_unix_ns // 1000
        return [
            Sample(start_us + sample.end_us, (sample.hundredths(place) + 50) // 100)
            for sample in self._rings[device].samples(self._now_us(), newer_than_us - start_us)
        ]

    def process_samples(self, device: int, newer_than_us: int) -> list[ProcessSample]:
        """A row for each process named in those samples, in whole percent, cut off.

        As ``nvmlDeviceGetProcessUtilization``: an average over all of the samples.
        """
        start_us = self.start_unix_ns // 1000
        rows = self._rings[device].rows(self._now_us(), newer_than_us - start_us)
        if self.scenario.ended_rows is EndedRows.FORGOTTEN:
            now = self._now_ns()
            live = {life.pid for life in self.population.lives(now, now + 1, device)}
            rows = [row for row in rows if row.pid in live]
        return [row._replace(timestamp_us=start_us + row.timestamp_us) for row in rows]

    def memory(self, device: int) -> DeviceMemory:
        """Device memory and who holds it now."""
        spec = self.scenario.devices[device]
        now = self._now_ns()
        lives = self.population.lives(now, now + 1, device)
        processes = tuple(
            ProcessMemory(
                life.pid,
                int(life.resident.process.memory.at(now - life.start_ns)),
                frozenset({life.resident.process.kind}),
            )
            for life in lives
        )
        used = sum(process.used_bytes or 0 for process in processes)
        total = spec.shown.memory_bytes or 0
        # A scenario may have processes hold more than there is. A driver never shows that.
        most = max(total - spec.reserved_bytes, 0)
        return DeviceMemory(total, min(used, most), spec.reserved_bytes, processes)

    def has_gpm(self, device: int) -> bool:
        """Whether a device's board has hardware counters of activity (GPM)."""
        return has_gpm(self.scenario.devices[device])

    def active_ns(self, device: int, begin_unix_ns: int, end_unix_ns: int) -> int:
        """For how long anything ran on a device in a range of time, by hardware counters."""
        begin_ns, end_ns = begin_unix_ns - self.start_unix_ns, end_unix_ns - self.start_unix_ns
        return busy_ns(self.population.bursts(device, begin_ns, end_ns))

    def busy_percent(self, device: int, engine: str) -> float:
        """How busy an engine was over the last second."""
        second_ago_us = self._clock.time_ns() // 1000 - SECOND_US
        samples = self.busy_samples(device, engine, second_ago_us)
        return sum(sample.percent for sample in samples) / len(samples) if samples else 0.0

    def occupants(self, device: int) -> list[int]:
        """Processes with work on a device at this instant."""
        now = self._now_ns()
        return [burst.life.pid for burst in self.population.bursts(device, now, now + 1)]

    def spent_ns(
        self, device: int, begin_unix_ns: int, end_unix_ns: int
    ) -> Mapping[int, Mapping[str, int]]:
        """How long each process kept each kind of engine busy, as the kernel counts it."""
        begin_ns, end_ns = begin_unix_ns - self.start_unix_ns, end_unix_ns - self.start_unix_ns
        core: Counter[ProcessLife] = Counter()
        for segment in segments(self.population.bursts(device, begin_ns, end_ns)):
            core.update(dict(segment.parts()))
        return {
            life.pid: {each: int(ns * life.resident.ratio(each)) for each in ENGINES}
            for life, ns in core.items()
        }

    def energy_uj(self, device: int) -> int:
        """The board's energy counter, in microjoules that step by whole millijoules."""
        return self._meters[device].energy_uj(self._now_ns())

    def sensors(self, device: int) -> Sensors:
        """The board's sensors."""
        return sensors(
            self.scenario.devices[device],
            partial(self._load, device),
            self._now_us(),
            self._meters[device].counts(self._now_ns()),
        )

    def _load(self, device: int, now_us: int, span_us: int) -> float:
        """How busy a board was; each of its parts counts with its share of the core."""
        return sum(
            part.shown.core_share * self._rings[part.number].busy_ratio(now_us, span_us)
            for part in self._parts(self.scenario.devices[device])
        )

    def fallen_off_unix_ns(self, device: int) -> list[int]:
        """When the device fell off the bus, as far as it has."""
        now = self._now_ns()
        return [
            self.start_unix_ns + fault.from_ns
            for fault in self.scenario.faults
            if (fault.device, fault.state) == (device, DeviceState.LOST) and fault.from_ns <= now
        ]

    def pod_table(self) -> PodTable:
        """The pods that the API server has on this node now."""
        return self.lifecycle.cluster(self._now_ns()).table

    def cgroup_paths(self) -> Mapping[int, str]:
        """Process id → cgroup path, of those that live or ended at most 15 s ago."""
        now = self._now_ns()
        lives = self.population.lives(now - REMEMBERED_NS, now + 1)
        return {life.pid: self.lifecycle.cgroup_path(life) for life in lives}

    def places(self) -> list[str]:
        """A cgroup path of each process of the file, whether it has begun yet or not."""
        return list(map(self.lifecycle.cgroup_path, self.population.first_lives()))

    def process_infos(self) -> Mapping[int, ProcessInfo]:
        """Process id → name and start, of those that live: named as their container or group."""
        now = self._now_ns()
        return {
            life.pid: ProcessInfo(self._process_name(life), self.start_unix_ns + life.start_ns)
            for life in self.population.lives(now, now + 1)
        }

    def group_facts(self) -> Mapping[int, GroupFacts]:
        """Process id → what its group is called, of those that live outside pods."""
        now = self._now_ns()
        lives = self.population.lives(now - REMEMBERED_NS, now + 1)
        outside = ((life.pid, life.resident.process) for life in lives if not life.in_pod)
        return {pid: GroupFacts(own.called, own.user, own.account) for pid, own in outside}

    def _now_ns(self) -> int:
        return self._clock.time_ns() - self.start_unix_ns

    def _process_name(self, life: ProcessLife) -> str:
        process, container = life.resident.process, life.resident.container
        if container is not None:
            return container.name[:COMM_LENGTH]
        unit = self.population.cgroup(life).rpartition("/")[2].removesuffix(".service")
        return (process.called or unit)[:COMM_LENGTH]

    def _now_us(self) -> int:
        return self._now_ns() // 1000
