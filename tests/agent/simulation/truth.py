"""What really happened: the exact sums that a measurement is to be compared with."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.agent.simulation.board import idle_and_active_uj
from exporter.agent.simulation.description import DeviceSpec
from exporter.agent.simulation.node import Node
from exporter.agent.simulation.population import Population, ProcessLife, pod_name, segments
from exporter.model import ContainerKey, GroupKey, Owner, Unattributed

CHUNK_NS = 10 * 10**9
GROUPS = (  # what the paths outside pods are of; the first that is found
    ("slurm", re.compile(r"slurm.*/job_([0-9]+)(?:/|$)", re.ASCII)),
    ("docker", re.compile(r"/docker-([0-9a-f]{64})\.scope(?:/|$)")),
    ("podman", re.compile(r"/libpod-([0-9a-f]{64})\.scope(?:/|$)")),
    ("user", re.compile(r"^/user\.slice/user-([0-9]+)\.slice(?:/|$)", re.ASCII)),
    ("lxc", re.compile(r"^/lxc\.payload\.([^/]+)(?:/|$)")),
    ("systemd", re.compile(r"^(?:/[^/]+\.slice)*/([^/]+\.service)(?:/|$)")),
)


@dataclass(frozen=True, slots=True)
class Truth:
    """Sums over a range of time, in nanoseconds and microjoules; keys without any are missing.

    For each device the owners' core time adds up to the device's exactly. The active energy of
    an owner is that of its core time: ``active_energy_uj`` adds up to what the board used above
    its idle power, but for less than a microjoule for each owner. A board that is divided has the
    energy of its instances, who use no core time of its own. ``memory_bytes`` is what is held at
    the end.
    """

    length_ns: int
    core_ns: Mapping[tuple[Owner, str], int]
    device_core_ns: Mapping[str, int]
    namespace_core_ns: Mapping[tuple[str, str], int]
    active_energy_uj: Mapping[tuple[Owner, str], int]
    device_energy_uj: Mapping[str, int]
    idle_energy_uj: Mapping[str, int]
    memory_bytes: Mapping[tuple[Owner, str], int]


def owner_of(population: Population, life: ProcessLife) -> Owner:
    """Who a process belongs to, as the exporter is to find out."""
    pod, container = life.resident.pod, life.resident.container
    if pod is None or container is None:
        path = population.cgroup(life)
        named = (GroupKey(kind, m[1]) for kind, shape in GROUPS if (m := shape.search(path)))
        return next(named, Unattributed.HOST_PROCESS)
    name = pod_name(population.seed, pod, life.number).name
    return ContainerKey(pod.namespace, name, container.name)


def truth_of(node: Node, start_unix_ns: int, end_unix_ns: int) -> Truth:
    """The exact use of a simulated node in a range of time, past or to come."""
    begin_ns, end_ns = start_unix_ns - node.start_unix_ns, end_unix_ns - node.start_unix_ns
    return truth_between(node.population, node.scenario.devices, begin_ns, end_ns)


def truth_between(
    population: Population, devices: tuple[DeviceSpec, ...], begin_ns: int, end_ns: int
) -> Truth:
    """The truth of [begin, end), in ns since the scenario's start; costs its length."""
    begin_ns = max(begin_ns, 0)
    length = max(end_ns - begin_ns, 0)
    core = {
        (owner, device.shown.uuid): int(ns * device.shown.core_share)
        for device in devices
        for owner, ns in _core_ns(population, device.number, begin_ns, end_ns).items()
    }
    in_namespace: Counter[tuple[str, str]] = Counter()
    on_device: Counter[str] = Counter({device.shown.uuid: 0 for device in devices})
    for (owner, uuid), ns in core.items():
        on_device[uuid] += ns
        if isinstance(owner, ContainerKey):
            in_namespace[owner.namespace, uuid] += ns
    boards = {each.shown.uuid: each for each in devices if each.parent is None}
    on_board = on_device + Counter()
    for device in devices:
        on_board[device.shown.parent_uuid] += on_device[device.shown.uuid]
    energy = {uuid: idle_and_active_uj(boards[uuid], length, on_board[uuid]) for uuid in boards}
    return Truth(
        length_ns=length,
        core_ns=core,
        device_core_ns=dict(on_device),
        namespace_core_ns=dict(in_namespace),
        active_energy_uj={
            key: idle_and_active_uj(boards[key[1]], length, ns)[1]
            for key, ns in core.items()
            if key[1] in boards
        },
        device_energy_uj={uuid: sum(both) for uuid, both in energy.items()},
        idle_energy_uj={uuid: idle for uuid, (idle, _) in energy.items()},
        memory_bytes=_held(population, devices, end_ns),
    )


def _held(
    population: Population, devices: tuple[DeviceSpec, ...], at_ns: int
) -> Mapping[tuple[Owner, str], int]:
    held: Counter[tuple[Owner, str]] = Counter()
    for device in devices:
        for life in population.lives(at_ns, at_ns + 1, device.number):
            size = int(life.resident.process.memory.at(at_ns - life.start_ns))
            held[owner_of(population, life), device.shown.uuid] += size
    return held


def _core_ns(
    population: Population, device: int, begin_ns: int, end_ns: int
) -> Mapping[Owner, int]:
    spent: Counter[Owner] = Counter()
    for chunk in range(begin_ns, end_ns, CHUNK_NS):
        bursts = population.bursts(device, chunk, min(chunk + CHUNK_NS, end_ns))
        for segment in segments(bursts):
            for life, ns in segment.parts():
                spent[owner_of(population, life)] += ns
    return spent
