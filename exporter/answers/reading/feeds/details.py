"""Details of a line, in words. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from exporter.model import (
    ContainerHolding,
    DeviceFacts,
    GroupHolding,
    Process,
    Reasons,
    Sensors,
    Used,
)
from exporter.shown.marks import Mark
from exporter.shown.printable import clean, utc
from exporter.shown.reasonwords import UNMEASURED, process_type
from exporter.shown.tree import PodEntry
from exporter.shown.words import energy, gpu_time, narrow_memory, narrow_percent

Details = tuple[tuple[str, str], ...]


class ProcessCommand(NamedTuple):
    """The user and command line of a process, "" if unknown, and what it uses of its host.

    That is CPUs since the reading before, and resident bytes; None is unknown.
    """

    user: str = ""
    command: str = ""
    host_cpus: float | None = None
    host_bytes: int | None = None


def of_device(device: DeviceFacts) -> Details:
    """Board, driver, sensors, and how it is measured."""
    methods, sm = device.methods, device.sensors.by_label("clock_hertz").get("sm")
    degrees = device.sensors.by_label("temperature_celsius")
    watts, most = device.sensors.value("power_watts"), device.sensors.value("power_limit_watts")
    power = "" if watts is None else f"{watts:.0f} W" + (f" of {most:.0f} W" if most else "")
    core, memory = device.allocated.core, device.allocated.memory_bytes
    allocated = (
        "" if core is None else f"{narrow_percent(core)} of the core",
        "" if memory is None else f"{narrow_memory(memory)} of memory",
    )
    return _known(
        ("power", power),
        ("temperature", ", ".join(f"{v:.0f} °C {k}" for k, v in degrees.items())),
        ("SM clock", "" if sm is None else f"{sm / 1e6:.0f} MHz"),
        ("driver", device.device.driver_version),
        ("PCI", device.device.pci_bus_id),
        ("measured by", f"{methods.busy}, {methods.shares}" if methods else ""),
        ("allocated", ", ".join(filter(None, allocated))),
        ("energy", _energy(device.used)),
        ("uuid", device.uuid),
    )


def warmth(sensors: Sensors) -> float | None:
    """The GPU's temperature, or that of its hottest spot if only that is known."""
    degrees = sensors.by_label("temperature_celsius")
    return degrees.get("gpu", degrees.get("hotspot"))


def of_holding(held: ContainerHolding | GroupHolding) -> Details:
    """What a container or a group was allocated on one device, and its counters."""
    peak, processes = held.memory.peak_bytes, held.memory.processes
    since = held.since_unix_ns
    return _known(
        *(of_allocation(held) if isinstance(held, ContainerHolding) else ()),
        ("processes", "" if processes is None else str(processes)),
        ("peak memory", "" if peak is None else narrow_memory(peak)),
        ("GPU time", _gpu_time(held.used)),
        ("energy", _energy(held.used)),
        ("since", "" if since is None else utc(since / 1e9)),
    )


def of_allocation(held: ContainerHolding) -> Details:
    """The sharing systems that allocated it, and its replicas."""
    replicas, where = held.allocation.replicas, "" if held.uuid else " (GPU not known)"
    granted = []
    for one in held.allocation.granted:
        more = ", ".join(filter(None, (one.policy, one.priority)))
        granted.append(f"{one.scheme} ({more})" if more else one.scheme)
    return _known(
        ("allocated by", ", ".join(granted) + where if granted else ""),
        ("replicas", "" if replicas is None else f"{replicas:.0f}"),
    )


def of_pod(entry: PodEntry) -> Details:
    """A pod's owner, and its counters on all devices of the node."""
    pod = entry.facts
    if pod is None:
        return ()
    owner = "/".join(filter(None, pod.info[2:4])) if pod.info else ""
    limit = f" of {pod.core_limit:.2f}" if pod.core_limit else ""
    return _known(
        ("owner", owner),
        ("QoS", pod.info.qos if pod.info else ""),
        ("GPUs in all", "" if pod.core is None else f"{pod.core:.2f}{limit}"),
        (
            "use of its share",
            "" if pod.core_of_limit is None else narrow_percent(pod.core_of_limit),
        ),
        ("GPU time", _gpu_time(pod.used)),
        ("energy", _energy(pod.used)),
    )


def of_process(process: Process, known: ProcessCommand) -> Details:
    """A process's user, command and use of its host if known, its type in words, its start."""
    kinds = {"C": "computes", "G": "draws", "C+G": "computes and draws", "M+C": "a client of MPS"}
    letters, began = process_type(process.kinds or frozenset()), process.start_unix_ns
    cpus, held = known.host_cpus, known.host_bytes
    return _known(
        ("user", known.user),
        ("host CPUs", "" if cpus is None else f"{cpus:.2f}"),
        ("host memory", "" if held is None else narrow_memory(held)),
        ("command", known.command),
        ("type", f"{letters} ({kinds[letters]})" if letters in kinds else letters),
        ("job", clean(process.job)),
        ("began", "" if began is None else utc(began / 1e9)),
    )


def unmeasured(reasons: Reasons) -> Details:
    """The unknown quantities, with the reasons."""
    return tuple(
        (f"{clean(quantity)} is unknown", f"{reason}: {UNMEASURED[reason]}")
        for quantity, reason in reasons.items()
    )


def marked(marks: Iterable[Mark]) -> Details:
    """The marks, each with its sentence."""
    return tuple((str(mark.kind).upper(), mark.detail) for mark in marks)


def _gpu_time(used: Used) -> str:
    return "" if used.busy.core is None else gpu_time(used.busy.core / 1e9)


def _energy(used: Used) -> str:
    return "" if used.energy_uj is None else energy(used.energy_uj)


def _known(*pairs: tuple[str, str]) -> Details:
    return tuple((name, clean(words)) for name, words in pairs if words)


def joined(details: Iterable[tuple[str, str]]) -> str:
    """Details as one text."""
    return " · ".join(f"{name} {words}" for name, words in details)
