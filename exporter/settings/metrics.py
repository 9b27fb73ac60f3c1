"""Settings: what is served."""

from dataclasses import dataclass
from typing import Annotated

from exporter.families import FAMILIES, OPTIONAL_GROUPS, OWN_LEVEL
from exporter.settings.setting import Setting
from exporter.settings.values import choice, count, many

_FAMILIES = tuple(family.full_name for family in FAMILIES if family.level != OWN_LEVEL)


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """What is served."""

    __slots__ = ()

    metrics_disable: Annotated[
        tuple[str, ...],
        Setting(
            "metrics.disable",
            many(
                choice(
                    *(*OPTIONAL_GROUPS, *_FAMILIES),
                    allowed=f"a group ({', '.join(OPTIONAL_GROUPS)}) or the name of a family such "
                    "as mgpu_container_processes",
                )
            ),
            "",
            "Groups of device metrics, and single families, to leave out.",
            "A group that is off costs no call of the driver. What the accounts need is measured "
            "all the same. What the exporter says of itself stays.",
            live=True,
        ),
    ]
    metrics_max_series_per_family: Annotated[
        int,
        Setting(
            "metrics.max-series-per-family",
            count(1, 1_000_000),
            "10000",
            "Series of one family that are served at most.",
            "What is shown stays, so that no series comes and goes; what is new and beyond the "
            "limit is left out and counted in mgpu_exporter_dropped_series_total. The accounts go "
            "on.",
            live=True,
        ),
    ]
    compat: Annotated[
        tuple[str, ...],
        Setting(
            "compat",
            many(choice("dcgm", "hami", "hami-legacy", "elastic-gpu", "gpu-manager")),
            "",
            "Other exporters whose names, labels and units are served as well.",
            "For dashboards, rules and autoscalers that still ask for them: see compatibility.md.",
            live=True,
        ),
    ]
