"""Nodes and devices: what each GPU does, for whom, and how it is."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards import hardware
from dashboards.boards import (
    GPU,
    STATE,
    alerts,
    engines,
    errors,
    health,
    of,
    of_each,
    of_silent,
    placed,
    power,
    rate,
    with_place,
)
from dashboards.frame import DEVICE, WORKLOAD, board, events, to, usable_memory
from dashboards.lines import group_figure, lines, most_of_containers, most_of_groups
from dashboards.panels import (
    ANY,
    BAD,
    GOOD,
    HIGH,
    LOOK,
    NOBODY,
    Panel,
    Words,
    folded,
    series,
    stat,
)
from dashboards.tables import (
    FILLED,
    GIVEN,
    OWN_CLUSTER,
    SHARE_USE,
    USE,
    Cell,
    Column,
    colored,
    table,
    tinted,
)

EVENTS = events(DEVICE, starts=False)

BY_DEVICE = "cluster, instance, gpu, uuid"
HOLDER = "{{$namespace_label}}/{{$pod_label}} {{$container_label}}"
BY_HOLDER = "cluster, $namespace_label, $pod_label, $container_label"
GROUP = "{{kind}} {{name}}"
OF_BOARD = -1  # in the place of a figure that only the whole card has
ITS_BOARDS: Words = {str(OF_BOARD): ("card's", "text")}
HOT = ((None, GOOD), (85, LOOK), (95, BAD))
MOST = most_of_containers(BY_HOLDER, DEVICE)
BY_GROUP = "kind, name"
MAX_GROUPS = most_of_groups(BY_GROUP, DEVICE)
COLORS = {"^nobody": NOBODY}


def _holders_of(containers: str, groups: str) -> dict[str, str]:
    """Lines of containers, and of groups by what they are called."""
    named = group_figure(groups, BY_GROUP, f"mgpu_group_info{{{DEVICE}}}")
    return {
        **lines(containers, BY_HOLDER, MOST, HOLDER, "other containers"),
        **lines(named, BY_GROUP, MAX_GROUPS, GROUP, "other groups"),
    }


def dashboard() -> build.Dashboard:
    """Top row: is all well; the devices; who is on them; their health; what they do in detail."""
    found = board(
        "node",
        "What each GPU of the chosen nodes does, for whom, and how it is.",
        ["uuid"],
        labels=WORKLOAD,
    )
    for panel in _totals():
        found.with_panel(panel)
    found.with_row(build.Row("Devices")).with_panel(_devices())
    found.with_row(build.Row("For whom")).with_panel(_holders())
    found.with_panel(_core_by()).with_panel(_memory_by())
    found.with_row(build.Row("Health")).with_panel(hardware.wrong())
    for panel in health():
        found.with_panel(panel)
    found.with_panel(alerts("node"))
    for panel in errors():
        found.with_panel(panel)
    found.with_row(build.Row("Use, power and clocks"))
    for panel in (_utilization(), _memory(), *power()):
        found.with_panel(panel)
    found.with_row(build.Row("Engines and traffic"))
    for panel in engines():
        found.with_panel(panel)
    return found.with_row(folded("Board and links", hardware.details()))


def _totals() -> list[Panel]:
    busy = rate("busy_seconds_total")
    return [
        stat(
            "Not read",
            "GPUs and instances that are lost, stuck or let go of, and those of silent nodes.",
            f"count({of('up')} == 0 or {of_silent('up')}) or 0 * count({of('up')})",
            "short",
            ANY,
        ),
        stat(
            "Core in use",
            "Share of the time with work, over the chosen cards; of a partitioned one the sum "
            "of its partitions.",
            f"avg(clamp_max(sum by (cluster, instance, gpu) ({busy}), 1))",
            "percentunit",
        ),
        stat(
            "Memory in use",
            "Of the chosen devices together whose use is known. A partitioned card counts by its "
            "partitions.",
            f"sum({of('memory_used_bytes')}) / sum({usable_memory(DEVICE)})",
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
            HOT,
        ),
        stat(
            "XIDs reported",
            "Errors that the driver reported.",
            f"round(sum(increase({of('xid_errors_total')}[$__range])))",
            "short",
            ANY,
            nothing="No GPU here reports XIDs",
        ),
    ]


def _devices() -> Panel:
    names = f"{BY_DEVICE}, model, profile, sharing"
    shown = "cluster, instance, card, model, profile, sharing, uuid"
    info = f"group by ({names}) ({of('info')})"

    def with_names(expr: str) -> str:
        extra = f"on ({BY_DEVICE}) group_left (model, profile, sharing)"
        whole = placed(f"sum by ({BY_DEVICE}) ({expr}) * {extra} {info}")
        return f"sum by ({shown}) ({whole})"

    silent = f"-1 * group by ({shown}) ({with_place(of_silent('info'))})"
    total = of("memory_total_bytes")
    allocated = f"{of('allocated_memory_bytes')} / {total}"
    hottest = f"max by ({BY_DEVICE}) ({of('temperature_celsius')})"
    parts = of("info", ',parent_uuid!=""')
    part = f"{OF_BOARD} + 0 * group by ({BY_DEVICE}) ({parts})"

    def or_of_board(expr: str) -> str:
        return with_names(f"{expr} or on ({BY_DEVICE}) {part}")

    return table(
        "Devices now",
        "Each GPU, and each partition of a card: what it does, what of it is promised, how it "
        "is. The use of a divided card is that of its parts; power and heat are the card's. A "
        "click on a UUID shows that device alone.",
        {
            "card": "GPU",
            "instance": "Node",
            "model": "Model",
            "profile": "Profile",
            "sharing": "Sharing",
            "uuid": "UUID",
        },
        [
            Column("State", f"{with_names(of('up'))} or {silent}", "short", colored(words=STATE)),
            Column(
                "Core use",
                with_names(f"clamp_max({rate('busy_seconds_total')}, 1)"),
                "percentunit",
                USE,
            ),
            Column("Core share", with_names(of("allocated_core_ratio")), "percentunit", GIVEN),
            Column(
                "Mem. use",
                with_names(f"{of('memory_used_bytes')} / {total}"),
                "percentunit",
                FILLED,
            ),
            Column("Mem. share", with_names(allocated), "percentunit", GIVEN),
            Column("Memory", with_names(total), "bytes"),
            Column("Power", or_of_board(of("power_watts")), "watt", Cell("auto", words=ITS_BOARDS)),
            Column("Hottest", or_of_board(hottest), "celsius", tinted(HOT, ITS_BOARDS)),
        ],
        links={"UUID": to("node", "node", node="${__data.fields.Node}", uuid="${__value.raw}")},
        lowest_of="State",
        widest="Model",
        height=10,
    )


def _holders() -> Panel:
    by = "cluster, instance, gpu, uuid, $namespace_label, $pod_label, $container_label"
    shown = "cluster, instance, card, $namespace_label, $pod_label, $container_label"

    def at(expr: str) -> str:
        return f"sum by ({shown}) ({placed(expr)})"

    def own(family: str) -> str:
        return f"mgpu_container_{family}{{{DEVICE}}}"

    core, share = f"rate({own('core_seconds_total')}[$__rate_interval])", own("core_limit_ratio")
    held, limit = own("memory_used_bytes"), own("memory_limit_bytes")
    used = f"sum by ({by}) ({core})"
    # The counters of one that has ended stay for minutes, and stand still.
    here = f"{used} > 0 or {used} and sum by ({by}) ({own('processes')})"
    return table(
        "Containers now",
        "Each container on each GPU: what it uses, against what it was allocated there.",
        {
            "card": "GPU",
            "namespace": "Namespace",
            "pod": "Pod",
            "container": "Container",
            "instance": "Node",
            "cluster": "Cluster",
        },
        [
            Column("Core", at(here), "percentunit", USE),
            Column("Share", at(f"sum by ({by}) ({share})"), "percentunit"),
            Column(
                "Use of share",
                at(f"{used} / sum by ({by}) ({share} > 0)"),
                "percentunit",
                SHARE_USE,
            ),
            Column("Memory", at(f"sum by ({by}) ({held})"), "bytes"),
            Column("Allocated", at(f"sum by ({by}) ({limit})"), "bytes"),
            Column(
                "Memory full",
                at(f"sum by ({by}) ({held}) / sum by ({by}) ({limit} > 0)"),
                "percentunit",
                FILLED,
            ),
        ],
        links={
            "Pod": to(
                "node",
                "pod",
                cluster=OWN_CLUSTER,
                node="${__data.fields.Node}",
                namespace="${__data.fields.Namespace}",
                pod="${__value.raw}",
            )
        },
        nothing="No pod uses a GPU here now, or the node is silent",
        widest="Pod",
    )


def _utilization() -> Panel:
    return series(
        "Core in use, by device",
        "Share of the time in which the device had work. It says that the GPU was at work, not how "
        "well its units were used: see SM activity.",
        of_each({GPU: f"sum by ({BY_DEVICE}) ({rate('busy_seconds_total')})"}),
        "percentunit",
        most=1,
    )


def _memory() -> Panel:
    return series(
        "Memory in use, by device",
        "Share of the device's memory.",
        of_each({GPU: f"{of('memory_used_bytes')} / {of('memory_total_bytes')}"}),
        "percentunit",
        most=1,
    )


def _core_by() -> Panel:
    core = f"rate(mgpu_container_core_seconds_total{{{DEVICE}}}[$__rate_interval])"
    nobody = f"rate({of('unattributed_core_seconds_total')}[$__rate_interval])"
    return series(
        "GPUs' worth of core, by who uses it",
        "The containers and the groups (jobs, units and users that are no pod's) that used or "
        "held most in the time range, the others together, and what nobody can be named for, with "
        "the reason. They add up to the busy time of the devices.",
        {
            **_holders_of(core, f"mgpu_group_core_utilization_ratio{{{DEVICE}}}"),
            "nobody: {{reason}}": f"sum by (reason) ({nobody}) > 0",
        },
        "short",
        stacked=True,
        colors=COLORS,
        nothing="Nobody uses a GPU here",
    )


def _memory_by() -> Panel:
    return series(
        "Memory, by who holds it",
        "The containers and the groups that used or held most in the time range, the others "
        "together, and what nobody can be named for. They add up to the memory in use.",
        {
            **_holders_of(
                f"mgpu_container_memory_used_bytes{{{DEVICE}}}",
                f"mgpu_group_memory_used_bytes{{{DEVICE}}}",
            ),
            "nobody: {{reason}}": f"sum by (reason) ({of('unattributed_memory_bytes')}) > 0",
        },
        "bytes",
        stacked=True,
        colors=COLORS,
        nothing="Nobody uses a GPU here",
    )
