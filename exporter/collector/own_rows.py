"""The exporter's own rows: its sources, its cycle, what it had to reject."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from exporter import __version__
from exporter.metrics.families import OWN_LEVEL
from exporter.model import CallCount, Labelled, Row, SourceStatus, Value
from exporter.rows.lazy import LazyRows, table_of


class LastReload(NamedTuple):
    """The result of the last reload of the settings, and when one last succeeded."""

    successful: bool
    success_unix_ns: int


@dataclass(frozen=True, slots=True)
class Own:
    """The exporter's own state in one cycle.

    ``rejected`` is summed over all parts; each driver's calls have its own names. ``reviews`` are
    counted by kind and outcome; None if clients are not reviewed.
    """

    unix_ns: int
    cycles: int
    overruns: int
    interval_ns: int
    simulated: bool
    idle: str
    sources: tuple[SourceStatus, ...]
    rejected: Sequence[Mapping[str, int]]
    calls: Sequence[Mapping[str, CallCount]]
    dropped: Mapping[str, int] = field(default_factory=dict)
    reload: LastReload | None = None
    reviews: Labelled | None = None


def with_own(rows: Mapping[str, tuple[Row, ...]], own: Own) -> LazyRows:
    """The rows of all levels, built lazily."""
    levels = {level: partial(table_of, rows, level) for level in rows}
    return LazyRows({**levels, OWN_LEVEL: lambda: (own_row(own),)})


def own_row(own: Own) -> Row:
    """The one row of the level ``exporter``."""
    sources = own.sources
    rejected: dict[str, int] = {}
    for counts in own.rejected:
        for reason, count in counts.items():
            if count:
                rejected[reason] = rejected.get(reason, 0) + count
    calls = {name: count for many in own.calls for name, count in many.items()}
    values: dict[str, Value] = {
        "build_info": {(__version__, platform.python_version()): 1},
        "simulated": int(own.simulated),
        "config_info": {(own.idle,): 1},
        "source_up": {(s.name,): int(s.up) for s in sources},
        "source_duration_seconds": {(s.name,): s.duration_ns for s in sources},
        "source_last_success_timestamp_seconds": {
            (s.name,): s.last_success_unix_ns for s in sources if s.last_success_unix_ns
        },
        "snapshot_timestamp_seconds": own.unix_ns,
        "rejected_samples_total": {(reason,): count for reason, count in rejected.items()},
        "cycles_total": own.cycles,
        "cycle_overruns_total": own.overruns,
        "collection_interval_seconds": own.interval_ns,
        "nvml_calls_total": {(name,): c.calls for name, c in calls.items()},
        "nvml_call_seconds_total": {(name,): c.duration_ns for name, c in calls.items()},
        "dropped_series_total": {(family,): count for family, count in own.dropped.items()},
    }
    if own.reviews is not None:
        values["access_reviews_total"] = own.reviews
    if own.reload is not None:
        values["config_last_reload_successful"] = int(own.reload.successful)
        values["config_last_reload_success_timestamp_seconds"] = own.reload.success_unix_ns
    return Row((), values)
