"""Details of a line, in words. Pure."""

from collections.abc import Iterable
from datetime import UTC, datetime

from exporter.terminal.reading import Json, flag, inner, items, number, text

Facts = tuple[tuple[str, str], ...]

_KJ, _KWH = 1e3, 3.6e6
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


def moment(unix_s: float) -> str:
    """A time of the day in UTC; far ones with the date."""
    try:
        when = datetime.fromtimestamp(unix_s, UTC)
    except (ValueError, OverflowError, OSError):
        return "?"
    return when.strftime("%Y-%m-%d %H:%M:%S UTC")


def of_device(device: Json) -> Facts:
    """Board, driver, sensors, and how it is measured."""
    info, method = inner(device, "info"), inner(device, "method_info")
    watts, limit = number(device, "power_watts"), number(device, "power_limit_watts")
    power = "" if watts is None else f"{watts:.0f} W" + (f" of {limit:.0f} W" if limit else "")
    degrees = {
        text(one, "sensor"): number(one, "value") for one in items(device, "temperature_celsius")
    }
    clocks = {text(one, "clock"): number(one, "value") for one in items(device, "clock_hertz")}
    clock = clocks.get("sm")
    return _known(
        ("power", power),
        ("temperature", ", ".join(f"{v:.0f} °C {k}" for k, v in degrees.items() if v is not None)),
        ("SM clock", "" if clock is None else f"{clock / 1e6:.0f} MHz"),
        ("driver", text(info, "driver_version")),
        ("PCI", text(info, "pci_bus_id")),
        ("measured by", ", ".join(filter(None, (text(method, "busy"), text(method, "shares"))))),
        ("allocated", _allocated(device)),
        ("energy", _energy(device)),
        ("uuid", text(device, "uuid")),
    )


def warmth(device: Json) -> float | None:
    """The GPU's temperature, or that of its hottest spot if only that is known."""
    degrees = {
        text(one, "sensor"): number(one, "value") for one in items(device, "temperature_celsius")
    }
    return degrees.get("gpu", degrees.get("hotspot"))


def of_part(part: Json) -> Facts:
    """A container's or group's allocation on one device, and its counters."""
    allocations = (_allocation(one) for one in items(part, "allocation_info"))
    replicas, processes = number(part, "allocated_replicas"), number(part, "processes")
    since = number(part, "observed_since_timestamp_seconds")
    mismatch = "its processes are on a device that its allocation does not name"
    peak = number(part, "memory_used_peak_bytes")
    return _known(
        ("allocated by", ", ".join(filter(None, allocations))),
        ("replicas", "" if replicas is None else f"{replicas:.0f}"),
        ("PLACEMENT", mismatch if flag(part, "placement_mismatch") else ""),
        ("processes", "" if processes is None else f"{processes:.0f}"),
        ("peak memory", "" if peak is None else amount(peak)),
        ("GPU time", _seconds(number(part, "core_seconds_total"))),
        ("energy", _energy(part)),
        ("since", "" if since is None else moment(since)),
    )


def of_pod(pod: Json) -> Facts:
    """A pod's owner, and its counters on all devices of the node."""
    info = inner(pod, "info")
    owner = "/".join(filter(None, (text(info, "owner_kind"), text(info, "owner_name"))))
    usage, limit = number(pod, "core_usage_gpus"), number(pod, "core_limit_gpus")
    ratio = number(pod, "core_limit_utilization_ratio")
    gpus = "" if usage is None else f"{usage:.2f}" + (f" of {limit:.2f}" if limit else "")
    return _known(
        ("owner", owner),
        ("QoS", text(info, "qos")),
        ("GPUs in all", gpus),
        ("use of its share", "" if ratio is None else percent(ratio)),
        ("GPU time", _seconds(number(pod, "core_seconds_total"))),
        ("energy", _energy(pod)),
    )


def of_process(process: Json) -> Facts:
    """A process's user and command if they are known, its type in words, and its start."""
    kinds = {"C": "computes", "G": "draws", "C+G": "computes and draws", "M+C": "a client of MPS"}
    began = number(process, "start_timestamp_seconds")
    letters = text(process, "type")
    return _known(
        ("user", text(process, "user")),
        ("command", text(process, "command")),
        ("type", f"{letters} ({kinds[letters]})" if letters in kinds else letters),
        ("began", "" if began is None else moment(began)),
    )


def unmeasured(of: Json, words: Json) -> Facts:
    """The unknown quantities, with the reasons."""
    return _known(
        *(
            (f"{text(one, 'quantity')} is unknown", _why(text(one, "reason"), words))
            for one in items(of, "unmeasured")
        )
    )


def _why(reason: str, words: Json) -> str:
    said = text(words, reason)
    return f"{reason}: {said}" if said else reason


def _allocation(one: Json) -> str:
    more = filter(None, (text(one, "policy"), text(one, "priority")))
    said = ", ".join(more)
    return text(one, "scheme") + (f" ({said})" if said else "")


def _allocated(device: Json) -> str:
    core, memory = number(device, "allocated_core_ratio"), number(device, "allocated_memory_bytes")
    parts = (
        "" if core is None else f"{percent(core)} of the core",
        "" if memory is None else f"{amount(memory)} of memory",
    )
    return ", ".join(filter(None, parts))


def _energy(of: Json) -> str:
    joules = number(of, "energy_joules_total")
    if joules is None:
        return ""
    if joules >= _KWH:
        return f"{joules / _KWH:.2f} kWh"
    return f"{joules / _KJ:.1f} kJ" if joules >= _KJ else f"{joules:.0f} J"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds / 3600:.2f} h" if seconds >= 3600 else f"{seconds:.1f} s"  # noqa: PLR2004


def _known(*pairs: tuple[str, str]) -> Facts:
    return tuple((name, words) for name, words in pairs if words)


def joined(facts: Iterable[tuple[str, str]]) -> str:
    """Facts as one text."""
    return " · ".join(f"{name} {words}" for name, words in facts)
