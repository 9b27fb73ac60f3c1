"""Nodes and devices: what each GPU does, for whom, and how it is."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.boards import GPU, engines, errors, of, power, rate
from dashboards.frame import DEVICE, WORKLOAD, board, to
from dashboards.panels import ANY, HIGH, NOBODY, Column, Panel, series, stat, table

BY_DEVICE = "cluster, instance, gpu, uuid"
HOLDER = "{{$namespace_label}}/{{$pod_label}} {{$container_label}}"
BY_HOLDER = "cluster, $namespace_label, $pod_label, $container_label"
GROUPS = "groups: {{kind}}"
COLORS = {"^nobody": NOBODY}


def _held(family: str) -> dict[str, str]:
    """A counter's parts: containers, kinds of groups, and what is nobody's."""
    rates = {
        level: f"rate(mgpu_{level}_{family}{{{DEVICE}}}[$__rate_interval])"
        for level in ("container", "group_kind", "device_unattributed")
    }
    return {
        HOLDER: f"sum by ({BY_HOLDER}) ({rates['container']})",
        GROUPS: f"sum by (kind) ({rates['group_kind']})",
        "nobody: {{reason}}": f"sum by (reason) ({rates['device_unattributed']})",
    }


def dashboard() -> build.Dashboard:
    """Top row: is all well; then the devices; then who is on them; then engines and health."""
    found = board(
        "node",
        "Node and devices",
        "What each GPU of the chosen nodes does, for whom, and how it is.",
        ["uuid"],
        labels=WORKLOAD,
    )
    for panel in _totals():
        found.with_panel(panel)
    found.with_row(build.Row("Devices")).with_panel(_devices())
    found.with_panel(_utilization()).with_panel(_memory())
    found.with_row(build.Row("For whom")).with_panel(_core_by()).with_panel(_memory_by())
    found.with_row(build.Row("Power and clocks"))
    for panel in power():
        found.with_panel(panel)
    found.with_row(build.Row("Engines and traffic"))
    for panel in engines():
        found.with_panel(panel)
    found.with_row(build.Row("Errors"))
    for panel in errors():
        found.with_panel(panel)
    return found


def _totals() -> list[Panel]:
    return [
        stat(
            "Devices that cannot be read",
            "GPUs and instances that are lost, stuck, or were let go of.",
            f"count({of('up')} == 0) or vector(0)",
            "short",
            ANY,
        ),
        stat(
            "Core in use",
            "Share of the time with work, over the chosen devices.",
            f"sum({rate('busy_seconds_total')}) / count({of('busy_seconds_total')})",
            "percentunit",
        ),
        stat(
            "Memory in use",
            "Of the chosen devices together.",
            f"sum({of('memory_used_bytes')}) / sum({of('memory_total_bytes')})",
            "percentunit",
            HIGH,
        ),
        stat(
            "Power of the limit",
            "What the boards draw, of what they may.",
            f"sum({of('power_watts')}) / sum({of('power_limit_watts')})",
            "percentunit",
        ),
        stat(
            "Hottest sensor",
            "The highest temperature of a GPU or its memory.",
            f"max({of('temperature_celsius')})",
            "celsius",
            ((None, "green"), (85, "yellow"), (95, "red")),
        ),
        stat(
            "XIDs in the time range",
            "Errors that the driver reported.",
            f"sum(increase({of('xid_errors_total')}[$__range])) or vector(0)",
            "short",
            ANY,
        ),
    ]


def _devices() -> Panel:
    names = f"{BY_DEVICE}, model, profile, sharing"
    info = f"group by ({names}) ({of('info')})"

    def with_names(expr: str) -> str:
        extra = f"on ({BY_DEVICE}) group_left (model, profile, sharing)"
        return f"sum by ({BY_DEVICE}) ({expr}) * {extra} {info}"

    return table(
        "Devices now",
        "Each GPU, and under MIG each of its instances: what it does and what of it is allocated.",
        {
            "cluster": "Cluster",
            "instance": "Node",
            "gpu": "GPU",
            "model": "Model",
            "profile": "MIG profile",
            "sharing": "Sharing",
            "uuid": "UUID",
        },
        [
            Column("Core in use", with_names(rate("busy_seconds_total")), "percentunit"),
            Column("Core allocated", with_names(of("allocated_core_ratio")), "percentunit"),
            Column("Memory in use", with_names(of("memory_used_bytes")), "bytes"),
            Column("Memory allocated", with_names(of("allocated_memory_bytes")), "bytes"),
            Column("Memory", with_names(of("memory_total_bytes")), "bytes"),
            Column("Replicas", with_names(of("sharing_replicas")), "short"),
            Column("Power", with_names(of("power_watts")), "watt"),
        ],
        links={"UUID": to("node", uuid="${__value.raw}")},
    )


def _utilization() -> Panel:
    return series(
        "Core in use, by device",
        "Share of the time in which the device had work. It says that the GPU was at work, not how "
        "well its units were used: see SM activity.",
        {GPU: f"sum by ({BY_DEVICE}) ({rate('busy_seconds_total')})"},
        "percentunit",
        most=1,
    )


def _memory() -> Panel:
    return series(
        "Memory in use, by device",
        "Share of the device's memory.",
        {GPU: f"{of('memory_used_bytes')} / {of('memory_total_bytes')}"},
        "percentunit",
        most=1,
    )


def _core_by() -> Panel:
    return series(
        "GPUs' worth of core, by who uses it",
        "Containers, kinds of groups (cgroups that are not a named pod's) and what nobody can be "
        "named for, with the reason. They add up to the busy time of the devices.",
        _held("core_seconds_total"),
        "short",
        stacked=True,
        colors=COLORS,
        nothing="Nobody uses a GPU here",
    )


def _memory_by() -> Panel:
    return series(
        "Memory, by who holds it",
        "Containers, kinds of groups and what nobody can be named for. They add up to the memory "
        "in use.",
        {
            HOLDER: f"sum by ({BY_HOLDER}) (mgpu_container_memory_used_bytes{{{DEVICE}}})",
            GROUPS: f"sum by (kind) (mgpu_group_memory_used_bytes{{{DEVICE}}})",
            "nobody: {{reason}}": f"sum by (reason) ({of('unattributed_memory_bytes')} > 0)",
        },
        "bytes",
        stacked=True,
        colors=COLORS,
        nothing="Nobody uses a GPU here",
    )
