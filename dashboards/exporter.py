"""The exporters themselves: are they there, do they see, do they keep their pace."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.fleet import FEW_POINTS
from dashboards.frame import NODE, board, events
from dashboards.panels import (
    ANY,
    BAD,
    GOOD,
    IDLE,
    LOOK,
    NO_EXPORTER,
    UP,
    YES,
    Panel,
    series,
    stat,
    timeline,
)
from dashboards.tables import Column, bar, colored, table

EVENTS = events()

NODES = "{{instance}}"
MOST_CARDS = 20  # lines of a chart


def _of(family: str) -> str:
    return f"mgpu_exporter_{family}{{{NODE}}}"


def _rate(name: str) -> str:
    return f"rate({name}[$__rate_interval])"


def dashboard() -> build.Dashboard:
    """Top row: is all well; then what they see; then their pace and what they cost."""
    found = board(
        "exporter",
        "Whether the exporters are there, what they can see, and what they cost.",
    )
    for panel in _totals():
        found.with_panel(panel)
    found.with_row(build.Row("What they see"))
    for panel in (*_states(), *_seen()):
        found.with_panel(panel)
    found.with_row(build.Row("Pace"))
    for panel in _pace():
        found.with_panel(panel)
    found.with_row(build.Row("What they cost, and their settings"))
    for panel in _cost():
        found.with_panel(panel)
    return found


def _totals() -> list[Panel]:
    return [
        stat(
            "Exporters",
            "Exporters that were scraped.",
            f"count({_of('build_info')})",
            "short",
        ),
        stat(
            "Down",
            "Exporters that Prometheus knows and cannot scrape.",
            f"count(up{{{NODE}}} == 0) or 0 * count(up{{{NODE}}})",
            "short",
            ANY,
        ),
        stat(
            "Sources down",
            "Of all exporters: drivers, cgroups, lists of pods. See the table below.",
            f"count({_of('source_up')} == 0) or 0 * count({_of('source_up')})",
            "short",
            ANY,
        ),
        stat(
            "Oldest measurement",
            "When the slowest exporter's figures were measured. Over 10 s an exporter serves none.",
            f"max(time() - {_of('snapshot_timestamp_seconds')})",
            "s",
            ((None, GOOD), (60, BAD)),
        ),
        stat(
            "Not measured",
            "Containers whose core use is not known; their pods' pages say why.",
            f'count(mgpu_container_unmeasured{{{NODE},quantity="core"}}) or '
            f"0 * count({_of('build_info')})",
            "short",
            ((None, GOOD), (1, LOOK)),
            nothing=NO_EXPORTER,
        ),
        stat(
            "Simulated",
            "Exporters whose node is a simulation: nothing of them is real.",
            f"sum({_of('simulated')})",
            "short",
            ((None, "text"), (1, IDLE)),
        ),
    ]


def _states() -> list[Panel]:
    return [
        timeline(
            "Can be scraped",
            "Whether Prometheus reaches each exporter.",
            {NODES: f"up{{{NODE}}}"},
            UP,
            known=f"up{{{NODE}}}",
        ),
        timeline(
            "Sources that were down",
            "Calls of an exporter that got no answer. Those that always got one are left out.",
            {"{{instance}} {{source}}": f"{_of('source_up')} == 0"},
            UP,
            known=_of("source_up"),
            none="no source",
        ),
    ]


def _seen() -> list[Panel]:
    core = f"reason_instance:mgpu_unattributed_core_seconds:sum_rate5m{{{NODE}}}"
    busy = f"uuid:mgpu_busy_seconds:rate5m{{{NODE}}}"
    unobserved = f"mgpu_device_unobserved_seconds_total{{{NODE}}}"
    of_cards = f"max by (cluster, instance, gpu) ({_rate(unobserved)})"
    # By two looks: all samples of all cards would be read for each point.
    # A counter that began again has grown by what it has now, at least.
    grown = f"{unobserved} @ end() - {unobserved} @ start() >= 0 or {unobserved} @ end()"
    most = f"topk({MOST_CARDS}, max by (cluster, instance, gpu) ({grown}))"
    of_node = f"on (cluster, instance) group_left () sum by (cluster, instance) ({busy})"
    return [
        table(
            "Sources",
            "What each exporter asks. docs/troubleshooting.md has a line for each that is down.",
            {"instance": "Node", "source": "Source", "cluster": "Cluster"},
            [
                Column(name, f"sum by (cluster, instance, source) ({expr})", unit, cell)
                for name, expr, unit, cell in (
                    ("Takes", _of("source_duration_seconds"), "s", None),
                    ("Up", _of("source_up"), "short", colored(words=UP)),
                    (
                        "Answered",
                        f"time() - {_of('source_last_success_timestamp_seconds')}",
                        "s",
                        None,
                    ),
                )
            ],
            width=12,
        ),
        table(
            "Versions and settings",
            "The version of each exporter, and whom it charges idle energy to.",
            {
                "instance": "Node",
                "version": "Version",
                "python": "Python",
                "energy_idle": "Idle energy",
            },
            [
                Column(
                    "Exporters",
                    "sum by (cluster, instance, version, python, energy_idle) ("
                    f"{_of('build_info')} * on (job, cluster, instance) group_left (energy_idle) "
                    f"max by (job, cluster, instance, energy_idle) ({_of('config_info')}))",
                    "short",
                )
            ],
            width=12,
        ),
        series(
            "Core use that is nobody's",
            "Part of the busy time of a node's GPUs that no container or group is charged with, by "
            "reason.",
            {"{{instance}} {{reason}}": f"sum by (cluster, instance, reason) ({core}) / {of_node}"},
            "percentunit",
            nothing="None, or nothing is recorded",
            width=8,
        ).max_data_points(FEW_POINTS),
        series(
            "Rejected",
            "Rows and items from outside that could not be true or read, a second.",
            {"{{instance}} {{reason}}": _rate(_of("rejected_samples_total"))},
            "ops",
            nothing="Nothing was rejected",
            width=8,
        ),
        series(
            "Unobserved",
            "Share of the time whose samples the driver had dropped before they were read: of the "
            f"{MOST_CARDS} cards where it is highest, and of all. Of a divided card, that of its "
            "part where it is highest.",
            {
                "{{instance}} GPU {{gpu}}": f"{of_cards} and {most}",
                "all, on average": f"avg({of_cards})",
            },
            "percentunit",
            width=8,
        ).max_data_points(FEW_POINTS),
    ]


def _pace() -> list[Panel]:
    spent = _rate(_of("nvml_call_seconds_total"))
    parts = _rate(f"mgpu_device_driver_seconds_total{{{NODE}}}")
    return [
        series(
            "Interval",
            "From one collection cycle to the next.",
            {NODES: _of("collection_interval_seconds")},
            "s",
            width=8,
        ).max_data_points(FEW_POINTS),
        series(
            "Overruns",
            "Share of the cycles that took longer than their interval.",
            {NODES: f"{_rate(_of('cycle_overruns_total'))} / {_rate(_of('cycles_total'))}"},
            "percentunit",
            width=8,
        ).max_data_points(FEW_POINTS),
        table(
            "Time in the driver, by call",
            "Seconds a second that all exporters spend now in each call of the driver's library.",
            {"call": "Call"},
            [Column("Time", f"sum by (call) ({spent})", "percentunit", bar(top=None))],
            nothing="No exporter here calls a driver's library",
            width=8,
        ),
        table(
            "Time in the driver, by GPU",
            "Seconds a second that an exporter spends now in calls for a GPU; the ten dearest.",
            {"instance": "Node", "gpu": "GPU", "part": "Part"},
            [
                Column(
                    "Time",
                    f"topk(10, sum by (cluster, instance, gpu, part) ({parts}))",
                    "percentunit",
                    bar(top=None),
                )
            ],
            nothing="No exporter here calls a driver's library",
            width=8,
        ),
        series(
            "Scrapes take",
            "As Prometheus sees it.",
            {NODES: f"scrape_duration_seconds{{{NODE}}}"},
            "s",
            width=8,
        ).max_data_points(FEW_POINTS),
        series(
            "Samples a scrape",
            "Series that each exporter serves.",
            {NODES: f"scrape_samples_scraped{{{NODE}}}"},
            "short",
            width=8,
        ).max_data_points(FEW_POINTS),
    ]


def _cost() -> list[Panel]:
    return [
        series(
            "CPU",
            "CPUs that each exporter uses.",
            {NODES: _rate(f"process_cpu_seconds_total{{{NODE}}}")},
            "percentunit",
            width=8,
        ).max_data_points(FEW_POINTS),
        series(
            "Memory",
            "Resident memory of each exporter.",
            {NODES: f"process_resident_memory_bytes{{{NODE}}}"},
            "bytes",
            width=8,
        ).max_data_points(FEW_POINTS),
        timeline(
            "Settings could be used",
            "No, if the settings file changed and the new one cannot be used; the old ones stay.",
            {NODES: _of("config_last_reload_successful")},
            YES,
            known=_of("config_last_reload_successful"),
            width=8,
        ),
    ]
