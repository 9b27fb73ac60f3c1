"""Who uses what off Kubernetes: containers, Slurm jobs, units and users."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.frame import GROUP, NODE, board, events, to, usable_memory
from dashboards.lines import SAME_GROUP, group_figure, lines, most_of_groups
from dashboards.panels import Panel, series, stat
from dashboards.tables import Column, bar, table

EVENTS = events()

JOULES_PER_KWH = "3.6e6"
CORE = f"mgpu_group_core_utilization_ratio{{{GROUP}}}"
MEMORY = f"mgpu_group_memory_used_bytes{{{GROUP}}}"
POWER = f"rate(mgpu_group_energy_joules_total{{{GROUP}}}[$__rate_interval])"
# All groups together: counters that outlive a group. A group's own counters begin above 0 with the
# group, and rate() and increase() leave out what a counter begins with.
ALL_POWER = f"rate(mgpu_group_kind_energy_joules_total{{{GROUP}}}[$__rate_interval])"
ALL_HOURS = f"increase(mgpu_group_kind_core_seconds_total{{{GROUP}}}[$__range]) / 3600"
ALL_KWH = f"increase(mgpu_group_kind_energy_joules_total{{{GROUP}}}[$__range]) / {JOULES_PER_KWH}"
INFO = f"mgpu_group_info{{{GROUP}}}"
# Of the names that a group has had in the time range, one: a join takes no more.
INFO_OF_RANGE = f"topk by ({SAME_GROUP}) (1, max_over_time({INFO}[$__range]))"
PEOPLE = {"kind": "Kind", "name": "Name", "user": "User", "instance": "Node"}
JOB = {"slurm_job": "Job", "user": "User", "account": "Account"}


def _spent(family: str, chosen: str = GROUP) -> str:
    """What each group used in the time range; one that began in it has used all of its counter."""
    counter = f"{family}{{{chosen}}}"
    began = f"max_over_time({counter}[$__range]) unless {counter} offset $__range"
    return f"({began} or increase({counter}[$__range]))"


HOURS = f"{_spent('mgpu_group_core_seconds_total')} / 3600"
KWH = f"{_spent('mgpu_group_energy_joules_total')} / {JOULES_PER_KWH}"


def dashboard() -> build.Dashboard:
    """Top row: all groups together; then who they are; then users, accounts and jobs."""
    found = board(
        "groups",
        "Containers of Docker and Podman, Slurm jobs, systemd units, users and machines that use "
        "GPUs outside of pods. Energy is an estimate whose parts add up to the board's counter.",
        ["kind"],
    )
    for panel in _totals():
        found.with_panel(panel)
    found.with_row(build.Row("Who uses what"))
    for panel in (_who(), _cores(), _memory()):
        found.with_panel(panel)
    found.with_row(build.Row("Users and Slurm jobs"))
    return found.with_panel(_users()).with_panel(_accounts()).with_panel(_jobs())


def _named(expr: str, by: str, info: str = INFO) -> str:
    """The sum of a group's figure by what it is called."""
    return f"sum by ({by}) ({group_figure(expr, by, info)})"


def _lines(figure: str, by: str, others: str, named: str = "") -> dict[str, str]:
    """Lines of those that used or held most in the time range, and of the others together."""
    info = INFO.replace("}", f"{named}}}")
    legend = " ".join(f"{{{{{label}}}}}" for label in by.split(", "))
    most = most_of_groups(by, GROUP, named)
    return lines(group_figure(figure, by, info), by, most, legend, others)


def _totals() -> list[Panel]:
    there = f"count by (cluster, instance, kind, group) (mgpu_group_processes{{{GROUP}}} > 0)"
    return [
        stat("Groups on GPUs", "That have a process on a GPU now.", f"count({there})", "short"),
        stat("GPUs in use", "GPUs' worth of core, by groups.", f"sum({CORE})", "short"),
        stat("Memory held", "Device memory, by groups.", f"sum({MEMORY})", "bytes"),
        stat("Power", "Drawn for groups.", f"sum({ALL_POWER})", "watt"),
        stat("GPU-hours", "Used by groups in the time range.", f"sum({ALL_HOURS})", "short"),
        stat("Energy", "Used by groups in the time range.", f"sum({ALL_KWH})", "kwatth"),
    ]


def _who() -> Panel:
    by, node = ", ".join(("cluster", *PEOPLE)), "cluster, instance"
    of_node = f"on ({node}) group_left () sum by ({node}) ({usable_memory(NODE)})"
    cards = f"count by ({node}) (count by ({node}, gpu) (mgpu_device_up{{{NODE}}}))"
    of_cards = f"on ({node}) group_left () {cards}"
    return table(
        "Groups",
        "A container is called as its engine calls it, or by its short id where that is not known. "
        "A dash is what has ended, or what its devices do not measure.",
        PEOPLE,
        [
            Column("GPUs in use", _named(CORE, by), "short"),
            Column("Of the node", f"{_named(CORE, by)} / {of_cards}", "percentunit", bar()),
            Column("Memory", _named(MEMORY, by), "bytes"),
            Column("Of its memory", f"{_named(MEMORY, by)} / {of_node}", "percentunit", bar()),
            Column("GPU-hours", _named(HOURS, by), "short"),
            Column("Energy", _named(KWH, by), "kwatth"),
        ],
        links={"Node": to("groups", "node", node="${__value.raw}")},
    )


def _cores() -> Panel:
    return series(
        "GPUs in use, by group",
        "GPUs' worth of core: of the groups that used or held most in the time range, and of the "
        "others together.",
        _lines(CORE, "kind, name", "other groups"),
        "short",
        stacked=True,
    )


def _memory() -> Panel:
    return series(
        "Memory held, by group",
        "Device memory, on all GPUs: of the groups that used or held most in the time range, and "
        "of the others together.",
        _lines(MEMORY, "kind, name", "other groups"),
        "bytes",
        stacked=True,
    )


def _users() -> Panel:
    return series(
        "Power, by user",
        "Of groups whose user is known: jobs, sessions, services, containers without root.",
        _lines(POWER, "user", "other users", ',user!=""'),
        "watt",
        stacked=True,
        nothing="No group's user is known here",
    )


def _accounts() -> Panel:
    return series(
        "GPUs in use, by Slurm account",
        "Where accounts are read (--groups.slurm-account).",
        _lines(CORE, "account", "other accounts", ',account!=""'),
        "short",
        stacked=True,
        nothing="No account is known: --groups.slurm-account reads them",
    )


def _jobs() -> Panel:
    by, jobs = ", ".join(JOB), GROUP + ',kind="slurm"'
    info = INFO_OF_RANGE.replace(GROUP, jobs)

    def total(family: str, per: str) -> str:
        return _named(f"{_spent(family, jobs)} / {per}", by, info)

    return table(
        "Slurm jobs of the time range",
        "What each job has used in the time range, those that have ended with it.",
        JOB,
        [
            Column(
                "GPU-hours",
                total("mgpu_group_core_seconds_total", "3600"),
                "short",
                bar(top=None),
            ),
            Column(
                "Energy",
                total("mgpu_group_energy_joules_total", JOULES_PER_KWH),
                "kwatth",
            ),
        ],
        nothing="No Slurm job in the time range",
    )
