"""How long the driver is waited for, and how often it is asked for what is dear to answer."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, all of them."""

    deadline_s: float = 0.8
    """No read takes longer, whatever the driver does."""

    look_every_s: float = 30.0
    """Devices are enumerated again: MIG instances come and go, and their handles are reused."""

    look_again_s: float = 5.0
    """Sooner, when a device that could be read cannot any more."""

    memory_every_s: float = 5.0
    """Process lists lock the whole driver while it walks all clients of all tenants."""

    memory_at_most_every_s: float = 1.0
    """They are read at once when an unknown process is active, but no sooner than this."""

    sensors_every_s: float = 5.0
    """Power, temperature, clocks, throttling."""

    counters_every_s: float = 10.0
    """Memory errors and NVLink traffic: the driver asks the board's firmware."""

    profiling_every_s: float = 5.0
    """GPM. A figure is the average of the time in between."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What devices are asked for, and how often. ``disabled``: groups of metric families."""

    timing: Timing = field(default_factory=Timing)
    disabled: frozenset[str] = frozenset()
