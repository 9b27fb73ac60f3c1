"""The families about the exporter itself."""

from collections.abc import Callable, Iterable
from functools import partial

from exporter.metrics.families.family import OWN_LEVEL, FamilyOf, Sample, flag, keyed
from exporter.model import ExporterFacts, Number, SourceStatus

_exporter = partial(FamilyOf[ExporterFacts], OWN_LEVEL)


def _of_sources(
    exporter: ExporterFacts, read: Callable[[SourceStatus], Number | None]
) -> Iterable[Sample]:
    for source in exporter.sources:
        number = read(source)
        if number is not None:
            yield (source.name,), number


EXPORTER: tuple[FamilyOf[ExporterFacts], ...] = (
    _exporter(
        "build_info",
        "Version of the exporter.",
        labels=("version", "python"),
        each=lambda e: [((e.version, e.python), 1)],
    ),
    _exporter(
        "config_info",
        "Settings that decide what the values mean: who is charged for idle energy.",
        labels=("energy_idle",),
        each=lambda e: [((e.idle,), 1)],
    ),
    _exporter(
        "config_last_reload_successful",
        "1 if the settings could be used when they were last read, else 0; the old ones then "
        "stay in force.",
        lambda e: flag(e.reload.successful) if e.reload else None,
    ),
    _exporter(
        "config_last_reload_success_timestamp_seconds",
        "When usable settings were last read.",
        lambda e: e.reload.success_unix_ns if e.reload else None,
    ),
    _exporter(
        "simulated", "1 if the node is simulated: no value is real.", lambda e: int(e.simulated)
    ),
    _exporter(
        "source_up",
        "1 if the source answered in the last cycle. Of the pod sources, those that were asked.",
        labels=("source",),
        each=lambda e: _of_sources(e, lambda s: int(s.up)),
    ),
    _exporter(
        "source_duration_seconds",
        "How long the source took in the last cycle.",
        labels=("source",),
        each=lambda e: _of_sources(e, lambda s: s.duration_ns),
    ),
    _exporter(
        "source_last_success_timestamp_seconds",
        "When the source last answered.",
        labels=("source",),
        each=lambda e: _of_sources(e, lambda s: s.last_success_unix_ns or None),
    ),
    _exporter(
        "unreadable_devices",
        "Devices that the driver counts and cannot open: they have no other series.",
        labels=("source",),
        each=lambda e: _of_sources(e, lambda s: s.unreadable),
    ),
    _exporter(
        "snapshot_timestamp_seconds", "When the served values were measured.", lambda e: e.unix_ns
    ),
    _exporter(
        "rejected_samples_total",
        "Rows and items from outside that were implausible or unreadable, by reason.",
        labels=("reason",),
        each=lambda e: keyed(e.rejected),
    ),
    _exporter(
        "access_reviews_total",
        "Questions to the API server about clients, by review (token: whose it is; right: what "
        "they may do) and outcome (allowed, denied; failed: without a usable answer; "
        "not_asked: too many waited). Absent without --web.kubernetes-access.",
        labels=("review", "outcome"),
        each=lambda e: (e.reviews or {}).items(),
    ),
    _exporter(
        "dropped_series_total",
        "Series that were left out because of --metrics.max-series-per-family, summed over the "
        "collection cycles.",
        labels=("family",),
        each=lambda e: keyed(e.dropped),
    ),
    _exporter(
        "collection_interval_seconds",
        "Current time from one collection cycle to the next.",
        lambda e: e.interval_ns,
    ),
    _exporter("cycles_total", "Collection cycles.", lambda e: e.cycles),
    _exporter(
        "cycle_overruns_total", "Cycles that took longer than the interval.", lambda e: e.overruns
    ),
    _exporter(
        "nvml_calls_total",
        "Calls of the driver library.",
        labels=("call",),
        each=lambda e: [((name,), call.calls) for name, call in e.calls.items()],
    ),
    _exporter(
        "nvml_call_seconds_total",
        "Time spent in the driver library. Time in nvmlEventSetWait_v2 is spent waiting for "
        "events.",
        labels=("call",),
        each=lambda e: [((name,), call.duration_ns) for name, call in e.calls.items()],
    ),
)
