"""Settings: measuring and accounting."""

from dataclasses import dataclass
from typing import Annotated

from exporter.settings.setting import Setting
from exporter.settings.values import SHARE, choice, duration


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Measuring and accounting."""

    __slots__ = ()

    collection_interval_ns: Annotated[
        int,
        Setting(
            "collection.interval",
            duration("100ms", "5s"),
            "1s",
            "Time from one collection cycle to the next.",
            "The driver keeps samples for a few seconds only; what falls out is unobserved.",
            live=True,
        ),
    ]
    collection_window_ns: Annotated[
        int,
        Setting(
            "collection.window",
            duration("1s", "10m"),
            "15s",
            "Time that the _ratio and _gpus gauges are averaged over.",
            "The counters do not depend on it.",
            live=True,
        ),
    ]
    collection_processes_interval_ns: Annotated[
        int,
        Setting(
            "collection.processes-interval",
            duration("1s", "60s"),
            "5s",
            "Time from one list of a device's processes and their memory to the next.",
            "A list locks the driver for all its users while it is made. A new process that is at "
            "work is looked for at once.",
            live=True,
        ),
    ]
    collection_sensors_interval_ns: Annotated[
        int,
        Setting(
            "collection.sensors-interval",
            duration("1s", "60s"),
            "5s",
            "Time from one reading of power, temperature, clocks and throttling to the next.",
            live=True,
        ),
    ]
    collection_budget_ppm: Annotated[
        int,
        Setting(
            "collection.budget",
            SHARE,
            "none",
            "Share of one CPU that the exporter may use, averaged over 30 s.",
            "While it uses more, the intervals above are widened: that between cycles to 5 s at "
            "most, which the driver's samples bridge, the others to 60 s.",
            live=True,
        ),
    ]
    energy_idle: Annotated[
        str,
        Setting(
            "energy.idle",
            choice("unattributed", "equal", "allotment"),
            "unattributed",
            "Whom the energy is charged to that a board uses without work: nobody; those who hold "
            "memory on it, in equal parts; or those who were allotted its core, by their share.",
            "What nobody was allotted stays unattributed. The parts always add up to the board's "
            "counter.",
        ),
    ]
    ledger_retention_ns: Annotated[
        int,
        Setting(
            "ledger.retention",
            duration("0s", "24h"),
            "5m",
            "Time that a container's counters are served after it ended.",
            "Longer than a scrape interval, so that its last seconds are scraped.",
            live=True,
        ),
    ]
