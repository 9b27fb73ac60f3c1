"""Details of a line, in words. Pure."""

from collections.abc import Iterable

from exporter.model import (
    ContainerHolding,
    DeviceAllocation,
    DeviceFacts,
    GroupHolding,
    Process,
    Reasons,
    Sensors,
)
from exporter.shown.marks import Mark
from exporter.shown.printable import clean, utc
from exporter.shown.reasons import UNMEASURED, process_type
from exporter.shown.tree import PodEntry

Details = tuple[tuple[str, str], ...]

_J, _KJ, _KWH = 1e6, 1e9, 3.6e12  # in microjoules
_ROUNDED = 0.9995  # what is shown as 1.0 of the next unit
_HUNDRED = 99.95  # what is shown as 100
_UNITS = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "k"))


def amount(count: float) -> str:
    """Bytes in at most five characters: 512M, 27.0G."""
    for unit, letter in _UNITS:
        if abs(count) >= _ROUNDED * unit:
            part = count / unit
            digits = 1 if letter in "TG" and abs(part) < _HUNDRED else 0
            return f"{part:.{digits}f}{letter}"
    return f"{count:.0f}"


def percent(ratio: float) -> str:
    """A ratio in at most four characters up to 999 %."""
    small = 0 < abs(ratio) < 0.0995  # noqa: PLR2004 - what rounds to 10 %
    return f"{100 * ratio:.1f}%" if small else f"{100 * ratio:.0f}%"


def of_device(device: DeviceFacts) -> Details:
    """Board, driver, sensors, and how it is measured."""
    methods, sm = device.methods, device.sensors.by_label("clock_hertz").get("sm")
    degrees = device.sensors.by_label("temperature_celsius")
    return _known(
        ("power", _power(device.sensors)),
        ("temperature", ", ".join(f"{v:.0f} °C {k}" for k, v in degrees.items())),
        ("SM clock", "" if sm is None else f"{sm / 1e6:.0f} MHz"),
        ("driver", device.device.driver_version),
        ("PCI", device.device.pci_bus_id),
        ("measured by", f"{methods.busy}, {methods.shares}" if methods else ""),
        ("allocated", _allocated(device.allocated)),
        ("energy", _energy(device.used.energy_uj)),
        ("uuid", device.uuid),
    )


def _power(sensors: Sensors) -> str:
    watts, limit = sensors.number("power_watts"), sensors.number("power_limit_watts")
    if watts is None:
        return ""
    return f"{watts:.0f} W" + (f" of {limit:.0f} W" if limit else "")


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
        ("peak memory", "" if peak is None else amount(peak)),
        ("GPU time", _seconds(held.used.core_ns)),
        ("energy", _energy(held.used.energy_uj)),
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
        ("use of its share", "" if pod.core_of_limit is None else percent(pod.core_of_limit)),
        ("GPU time", _seconds(pod.used.core_ns)),
        ("energy", _energy(pod.used.energy_uj)),
    )


def of_process(process: Process, user: str, command: str) -> Details:
    """A process's user and command if they are known, its type in words, and its start."""
    kinds = {"C": "computes", "G": "draws", "C+G": "computes and draws", "M+C": "a client of MPS"}
    letters, began = process_type(process.kinds or frozenset()), process.start_unix_ns
    return _known(
        ("user", user),
        ("command", command),
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


def _allocated(device: DeviceAllocation) -> str:
    core, memory = device.core, device.memory_bytes
    parts = (
        "" if core is None else f"{percent(core)} of the core",
        "" if memory is None else f"{amount(memory)} of memory",
    )
    return ", ".join(filter(None, parts))


def _energy(uj: int | None) -> str:
    if uj is None:
        return ""
    if uj >= _KWH:
        return f"{uj / _KWH:.2f} kWh"
    return f"{uj / _KJ:.1f} kJ" if uj >= _KJ else f"{uj / _J:.0f} J"


def _seconds(ns: int | None) -> str:
    if ns is None:
        return ""
    seconds = ns / 1e9
    return f"{seconds / 3600:.2f} h" if seconds >= 3600 else f"{seconds:.1f} s"  # noqa: PLR2004


def _known(*pairs: tuple[str, str]) -> Details:
    return tuple((name, clean(words)) for name, words in pairs if words)


def joined(details: Iterable[tuple[str, str]]) -> str:
    """Details as one text."""
    return " · ".join(f"{name} {words}" for name, words in details)
