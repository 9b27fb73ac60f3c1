"""What really happened: the exact sums that a measurement is to be compared with."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from exporter.model import ContainerKey, Owner
from exporter.scenario.board import energy_uj
from exporter.scenario.description import DeviceSpec
from exporter.scenario.population import Population
from exporter.scenario.sharing import segments

CHUNK_NS = 10 * 10**9


@dataclass(frozen=True, slots=True)
class Truth:
    """Sums over a range of time, in nanoseconds and microjoules; keys without any are missing.

    For each device the owners' core time adds up to the device's exactly. The active energy of
    an owner is that of its core time: ``active_energy_uj`` adds up to what the board used above
    its idle power, but for less than a microjoule for each owner.
    """

    core_ns: Mapping[tuple[Owner, str], int]
    device_core_ns: Mapping[str, int]
    namespace_core_ns: Mapping[tuple[str, str], int]
    active_energy_uj: Mapping[tuple[Owner, str], int]
    device_energy_uj: Mapping[str, int]
    idle_energy_uj: Mapping[str, int]


def truth_between(
    population: Population, devices: tuple[DeviceSpec, ...], begin_ns: int, end_ns: int
) -> Truth:
    """The truth of [begin, end), in ns since the scenario's start; costs its length."""
    begin_ns = max(begin_ns, 0)
    length = max(end_ns - begin_ns, 0)
    core: Counter[tuple[Owner, str]] = Counter()
    for device in devices:
        for owner, ns in _core_ns(population, device.index, begin_ns, end_ns).items():
            core[owner, device.uuid] += ns
    in_namespace: Counter[tuple[str, str]] = Counter()
    on_device: Counter[str] = Counter({device.uuid: 0 for device in devices})
    for (owner, uuid), ns in core.items():
        on_device[uuid] += ns
        if isinstance(owner, ContainerKey):
            in_namespace[owner.namespace, uuid] += ns
    by_uuid = {device.uuid: device for device in devices}
    energy = {uuid: energy_uj(by_uuid[uuid], length, busy) for uuid, busy in on_device.items()}
    return Truth(
        core_ns=dict(core),
        device_core_ns=dict(on_device),
        namespace_core_ns=dict(in_namespace),
        active_energy_uj={
            key: energy_uj(by_uuid[key[1]], length, ns)[1] for key, ns in core.items()
        },
        device_energy_uj={uuid: sum(both) for uuid, both in energy.items()},
        idle_energy_uj={uuid: idle for uuid, (idle, _) in energy.items()},
    )


def _core_ns(
    population: Population, device: int, begin_ns: int, end_ns: int
) -> Mapping[Owner, int]:
    spent: Counter[Owner] = Counter()
    for chunk in range(begin_ns, end_ns, CHUNK_NS):
        bursts = population.bursts(device, chunk, min(chunk + CHUNK_NS, end_ns))
        for segment in segments(bursts):
            for life, ns in segment.parts():
                spent[population.owner(life)] += ns
    return spent
