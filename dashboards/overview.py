"""Clusters and namespaces: who uses what of what share, what is idle, what is wrong."""

from functools import partial

from grafana_foundation_sdk.builders import dashboard as build

from dashboards import fleet
from dashboards.boards import alerts, firing
from dashboards.cost import PRICE_GPU_HOUR, price
from dashboards.fleet import (
    BUSY,
    BY_CARD,
    BY_NODE,
    FEW_POINTS,
    LOST,
    OF_SILENT,
    TO_NODE,
    UNSEEN,
    of,
)
from dashboards.frame import (
    NAMESPACE,
    NODE,
    SILENT,
    WAITS,
    WORKLOAD,
    board,
    events,
    hit,
    in_range,
    largest,
    to,
)
from dashboards.lines import group_figure
from dashboards.panels import (
    ALLOCATED,
    ANY,
    BAD,
    IDLE,
    LOOK,
    NO_SHARE,
    OF_CLUSTER,
    Panel,
    Words,
    folded,
    series,
    stat,
)
from dashboards.sizing import by_what_is_freed, freed, largest_of, to_ask_for
from dashboards.tables import (
    FILLED,
    OWN_CLUSTER,
    SHARE_USE,
    USE,
    Column,
    bar,
    colored,
    ranked,
    table,
)
from exporter.answers.advise.amounts import Resource

EVENTS = events()
BY_NAMESPACE = "cluster, $namespace_label"
BY_POD = "cluster, instance, $namespace_label, $pod_label"
RAW = "${__value.raw}"
TO_NAMESPACE = to("overview", "overview", cluster=OWN_CLUSTER, namespace=RAW)
TO_OWNER = to(
    "overview",
    "overview",
    cluster=OWN_CLUSTER,
    namespace="${__data.fields.Namespace}",
    owner=RAW,
)
TO_POD = to(
    "overview",
    "pod",
    cluster=OWN_CLUSTER,
    node="${__data.fields.Node}",
    namespace="${__data.fields.Namespace}",
    pod="${__value.raw}",
)
LINKS = {"Pod": TO_POD, "Node": TO_NODE}

HOURS = f"increase(namespace_pod:mgpu_allocated_core_seconds:sum{{{NAMESPACE}}}[$__range]) / 3600"
IDLE_HOURS = (
    f"increase(namespace_pod:mgpu_allocated_idle_core_seconds:sum{{{NAMESPACE}}}[$__range]) / 3600"
)
ON_NODE = {"namespace": "Namespace", "pod": "Pod", "instance": "Node", "cluster": "Cluster"}
BY_OWNER = "cluster, $namespace_label, owner_kind, owner_name"
INTERVAL = "[$__rate_interval]"
LOOKED_UP_OVER = "[5m]"  # Grafana knows no $__rate_interval where a variable is looked up
# Of each pod, the container that waits most, as a part of the time.
WAITS_NOW = f"rate(mgpu_container_core_waiting_seconds_total{{{NAMESPACE}}}{INTERVAL})"
WAITING = f"max by ({BY_POD}) ({WAITS_NOW})"
TROUBLE: Words = {
    "0": ("GPU lost", BAD),
    "1": ("node silent", BAD),
    "2": ("waits", LOOK),
}
# Of many pods and workloads the largest alone are asked for.
OF_LARGEST_PODS = f'{NAMESPACE},$pod_label=~"$largest_pods"'
OF_LARGEST_OWNERS = f'{NAMESPACE},owner_name=~"$largest_owners"'
NOT_RECORDED = "No pod has a GPU here, or the recording rules are not loaded"
IDLE_BAR = bar(((None, IDLE),), top=None)


def dashboard() -> build.Dashboard:
    """First, without scrolling: how many cards, who waits, what is wrong; then who uses what."""
    found = board(
        "overview",
        "Who uses the GPUs of the clusters, against what was allocated; who waits, what is idle, "
        "and what is wrong.",
        ["namespace", "owner"],
        labels=WORKLOAD,
    )
    found.with_variable(price("price_gpu_hour", "Price of a GPU-hour", "2.00"))
    owners = ranked(_by_use_of_workloads(NAMESPACE))
    pods = ranked(_by_use_of_pods(NAMESPACE, LOOKED_UP_OVER))
    found.with_variable(largest("largest_owners", "owner", owners))
    found.with_variable(largest("largest_pods", "pod", pods))
    for resource in Resource:
        advice = ranked(by_what_is_freed(resource))
        found.with_variable(largest(largest_of(resource), "owner", advice))
    for panel in (*_totals(), fleet.cards(), _in_trouble(), alerts("overview", _firing)):
        found.with_panel(panel)
    found.with_row(build.Row("Who uses what, of what share"))
    found.with_panel(_namespaces()).with_panel(_workloads()).with_panel(_pods())
    found.with_panel(_used()).with_panel(_groups())
    found.with_row(build.Row("Nodes, with all namespaces"))
    for panel in (fleet.memory(), fleet.power(), fleet.nodes(), fleet.bands(), fleet.lost()):
        found.with_panel(panel)
    found.with_row(build.Row("What is idle, and what is short"))
    for panel in (_idle_pods(), fleet.idle_cards(), _over_share(), _over_memory()):
        found.with_panel(panel)
    sizing = [
        freed(Resource.CORE, "short"),
        freed(Resource.MEMORY, "bytes"),
        to_ask_for(Resource.CORE, "percentunit", "short"),
        to_ask_for(Resource.MEMORY, "bytes", "bytes"),
    ]
    return found.with_row(folded("What workloads should ask for", sizing))


def _firing(more: str) -> str:
    """The alerts about the chosen namespaces, and about no namespace."""
    return firing(f',$namespace_label=~"$namespace|"{more}')


def _totals() -> list[Panel]:
    idle = f"sum(rate(mgpu_namespace_allocated_idle_core_seconds_total{{{NAMESPACE}}}{INTERVAL}))"
    kept = f"rate(mgpu_namespace_allocated_gpu_seconds_total{{{NAMESPACE}}}{INTERVAL})"
    return [
        stat(
            "GPUs, all",
            "Cards that are read now, of all namespaces. Partitions of a card are not counted.",
            f"count(count by ({BY_CARD}) ({of('up')} == 1))",
            "short",
            unknown=UNSEEN,
            width=3,
        ),
        stat(
            "Not read, all",
            "Cards that are lost, and those of silent nodes: nodes whose exporter was read in the "
            "time range and is not now. A card of which a partition cannot be read is one.",
            f"count({LOST} or {OF_SILENT}) or 0 * count({of('up')})",
            "short",
            ANY,
            unknown=UNSEEN,
            width=3,
        ),
        stat(
            "In use, all",
            "GPUs' worth of core in use, of all namespaces and outside of pods. A partitioned card "
            "counts as one, with the sum of its partitions.",
            f"sum({BUSY})",
            "short",
            unknown=UNSEEN,
            width=3,
        ),
        stat(
            "Unallocated",
            "GPUs that are kept for nobody, of all namespaces. What is outside of pods may use "
            "them.",
            f"sum(rate({of('unallocated_gpu_seconds_total')}{INTERVAL}))",
            "short",
            unknown=UNSEEN,
            width=3,
        ),
        stat(
            "GPUs allocated",
            "GPUs that are kept for the chosen namespaces: of each card the larger of core and "
            "memory share. Over the number of cards, more was promised than there is.",
            f"sum({kept})",
            "short",
            nothing="No pod has a GPU here",
            unknown=UNSEEN,
        ),
        stat(
            "GPUs idle",
            "GPUs' worth of core that the chosen namespaces were promised and do not use now.",
            idle,
            "short",
            nothing=NO_SHARE,
            unknown=UNSEEN,
        ),
        stat(
            "Idle, price an hour",
            "What an hour of that costs, at the price of a GPU-hour above and in its currency.",
            f"{idle} * {PRICE_GPU_HOUR}",
            "short",
            nothing=NO_SHARE,
            unknown=UNSEEN,
        ),
    ]


def _in_trouble() -> Panel:
    waits = f"topk(20, {WAITING} > {WAITS})"
    was = in_range(f"mgpu_container_allocation_info{{{NAMESPACE}}}")
    lost = f"group by ({BY_POD}) ({hit(NAMESPACE)})"
    of_silent = f"group by ({BY_POD}) ({was} and on ({BY_NODE}) {SILENT})"
    trouble = f"0 * {lost} or 1 + 0 * {of_silent} or 2 + 0 * {waits}"
    return table(
        "Pods affected",
        "Pods whose GPU is lost or whose node is silent, and the twenty of which a container may "
        "have waited most for others, as a part of the time now. Their pages show who ran instead.",
        ON_NODE,
        [
            Column("Trouble", trouble, "short", colored(words=TROUBLE)),
            Column("Waiting", waits, "percentunit"),
        ],
        links=LINKS,
        nothing="No pod waits, and none is on a lost GPU or a silent node",
        known=trouble,
        lowest_of="Trouble",
        widest="Pod",
        width=12,
    )


def _workload(figure: str, selector: str, how: str = "sum") -> str:
    """A figure of each workload over its nodes, as the rules record it."""
    return f"{how} by ({BY_OWNER}) (namespace_workload:mgpu_{figure}{{{selector}}})"


def _by_use_of_workloads(selector: str) -> str:
    """Each workload and what it uses; one whose use is not known is a row too."""
    used = _workload("core_seconds:sum_rate5m", selector)
    return f"({used} or 0 * {_workload('pods:count', selector)})"


def _workloads() -> Panel:
    of = partial(_workload, selector=OF_LARGEST_OWNERS)
    share = of("allocated_core_seconds:sum_rate5m")
    within, pods = of("limited_core_seconds:sum_rate5m"), of("pods:count")
    return table(
        "Workloads now",
        "The pods of each Deployment, Job and so on together, of the last five minutes, as the "
        "recording rules have them. A click on a workload shows its pods below.",
        {
            "namespace": "Namespace",
            "owner_kind": "Kind",
            "owner_name": "Owner",
            "cluster": "Cluster",
        },
        [
            Column("GPUs used", of("core_seconds:sum_rate5m"), "short"),
            Column("Promised", share, "short"),
            Column("Use of share", f"{within} / ({share} > 0)", "percentunit", SHARE_USE),
            Column("Waiting", of("core_waiting_seconds:max_rate5m", how="max"), "percentunit"),
            Column("Memory", of("memory_used_bytes:sum"), "bytes"),
            Column("Pods", pods, "short"),
        ],
        links={
            "Namespace": TO_NAMESPACE,
            "Owner": TO_OWNER,
        },
        nothing=NOT_RECORDED,
        known=pods,
        largest=_by_use_of_workloads(NAMESPACE),
        among=_by_use_of_workloads(OF_LARGEST_OWNERS),
        widest="Owner",
    )


def _namespaces() -> Panel:
    def of(figure: str) -> str:
        return f"sum by ({BY_NAMESPACE}) (namespace_instance:mgpu_{figure}{{{NAMESPACE}}})"

    used, limit = of("core_seconds:sum_rate5m"), of("memory_limit_bytes:sum")
    within, share = (
        of(f"{figure}_core_seconds:sum_rate5m") for figure in ("limited", "pods_allocated")
    )
    full = f"{of('memory_of_limit_bytes:sum')} / ({limit} > 0)"
    return table(
        "Namespaces now",
        "Use and allocation of each namespace, of the last five minutes, as the recording rules "
        "have them, pods that were too short for a scrape included; power is estimated, and a dash "
        "where it cannot be, as on partitions. A click on a namespace shows its pods alone.",
        {"namespace": "Namespace", "cluster": "Cluster"},
        [
            Column("GPUs used", used, "short"),
            Column("Promised", of("allocated_core_seconds:sum_rate5m"), "short"),
            Column("Use of share", f"{within} / ({share} > 0)", "percentunit", SHARE_USE),
            Column("Memory", of("memory_used_bytes:sum"), "bytes"),
            Column("Allocated", limit, "bytes"),
            Column("Memory full", full, "percentunit", FILLED),
            Column("Power", of("energy_joules:sum_rate5m"), "watt"),
            Column("Pods", of("pods:count"), "short"),
        ],
        links={"Namespace": TO_NAMESPACE},
        nothing=NOT_RECORDED,
        known=f"namespace_instance:mgpu_core_seconds:sum_rate5m{{{NAMESPACE}}}",
    )


def _by_use_of_pods(selector: str, over: str = INTERVAL) -> str:
    """Each pod of the chosen workloads and what it uses, or 0 where that is not known."""
    used = f"sum by ({BY_POD}) (rate(mgpu_pod_core_seconds_total{{{selector}}}{over}))"
    infos = f"group by ({BY_POD}) (mgpu_pod_info{{{selector}}})"
    # Not "and": without pods' infos, as where a site drops them, all pods are shown.
    others = f'mgpu_pod_info{{{selector},owner_name!~"$owner"}}'
    return f"(({used} or 0 * {infos}) unless on ({BY_POD}) {others})"


def _pods() -> Panel:
    selector = OF_LARGEST_PODS

    def rate(family: str) -> str:
        return f"sum by ({BY_POD}) (rate(mgpu_pod_{family}_total{{{selector}}}{INTERVAL}))"

    def held(family: str) -> str:
        return f"sum by ({BY_POD}) (mgpu_pod_{family}{{{selector}}})"

    # What the containers use that have a share is compared with it.
    within, share = rate("limited_core_seconds"), rate("allocated_core_seconds")
    full = f"max by ({BY_POD}) (mgpu_pod_memory_limit_utilization_ratio{{{selector}}})"
    return table(
        "Pods now",
        "Use and allocation of each pod. Over 100 % it takes what others leave, or what others "
        "were promised: its page shows its neighbours. How full its memory is, is of the device "
        "where that is most.",
        ON_NODE,
        [
            Column("GPUs used", rate("core_seconds"), "short"),
            Column("Promised", share, "short"),
            Column("Use of share", f"{within} / ({share} > 0)", "percentunit", SHARE_USE),
            Column("Memory", held("memory_used_bytes"), "bytes"),
            Column("Allocated", held("memory_limit_bytes"), "bytes"),
            Column("Memory full", full, "percentunit", FILLED),
        ],
        links=LINKS,
        known=f"mgpu_pod_core_seconds_total{{{NAMESPACE}}}",
        largest=_by_use_of_pods(NAMESPACE),
        among=_by_use_of_pods(selector),
        widest="Pod",
        height=10,
    )


def _used() -> Panel:
    used, promised = (
        f"namespace_instance:mgpu_{figure}core_seconds:sum_rate5m{{{NAMESPACE}}}"
        for figure in ("", "allocated_")
    )
    return series(
        "GPUs used by namespaces, and allocated in all",
        "GPUs' worth of core in use. Pods without a promised share (time-slicing) use and are "
        "allocated nothing.",
        {
            f"{{{{$namespace_label}}}} {OF_CLUSTER}": f"sum by ({BY_NAMESPACE}) ({used})",
            "allocated in all": f"sum({promised})",
        },
        "short",
        stacked=True,
        colors={"^allocated in all$": ALLOCATED},
        dashed="^allocated in all$",
        width=9,
    ).max_data_points(FEW_POINTS)


def _groups() -> Panel:
    by = f"{BY_NODE}, kind, name, user"

    def named(family: str) -> str:
        figure, info = f"mgpu_group_{family}{{{NODE}}}", f"mgpu_group_info{{{NODE}}}"
        return f"sum by ({by}) ({group_figure(figure, by, info)})"

    used = named("core_utilization_ratio")
    cards = f"count by ({BY_NODE}) (count by ({BY_CARD}) ({of('up')}))"
    return table(
        "Outside of pods now",
        "Slurm jobs, units, users and containers that are no pod's. The board Groups has more of "
        "them.",
        {
            "kind": "Kind",
            "name": "Name",
            "user": "User",
            "instance": "Node",
            "cluster": "Cluster",
        },
        [
            Column("GPUs", used, "short"),
            Column(
                "Of the node",
                f"{used} / on ({BY_NODE}) group_left () {cards}",
                "percentunit",
                USE,
            ),
            Column("Memory", named("memory_used_bytes"), "bytes"),
        ],
        links={
            "Kind": to("overview", "groups", cluster=OWN_CLUSTER, kind=RAW),
            "Node": TO_NODE,
        },
        known=f"mgpu_group_info{{{NODE}}}",
        widest="Name",
        width=15,
    )


def _idle_pods() -> Panel:
    idle = f"topk(20, sum by ({BY_POD}) ({IDLE_HOURS}) > 0)"
    return table(
        "Pods that idle most",
        "The twenty pods with the most unused allocated GPU-hours in the time range, recorded each "
        "five minutes: a shorter pod has no row, and of what began or ended as much may be left "
        "out or added.",
        ON_NODE,
        [
            Column(
                "Idle GPU-h",
                idle,
                "short",
                IDLE_BAR,
            ),
            Column("Given GPU-h", f"sum by ({BY_POD}) ({HOURS}) and {idle}", "short"),
        ],
        links=LINKS,
        known=f"namespace_pod:mgpu_allocated_core_seconds:sum{{{NAMESPACE}}}",
        nothing=f"{NO_SHARE}, or the recording rules are not loaded",
        widest="Pod",
        width=14,
    )


def _over_share() -> Panel:
    ratio = f"namespace_pod:mgpu_core_limit_utilization:ratio_rate5m{{{NAMESPACE}}}"
    average = f"max by ({BY_POD}) (avg_over_time({ratio}[$__range]))"
    return table(
        "Highest use of the share",
        "The ten pods that used most of their core share in the time range, as the recording rules "
        "have it. Over 100 % they took what others left, or what others were promised.",
        ON_NODE,
        [Column("Use of share", f"topk(10, {average})", "percentunit", SHARE_USE)],
        links=LINKS,
        nothing=f"{NO_SHARE}, or the recording rules are not loaded",
        widest="Pod",
        width=12,
    )


def _over_memory() -> Panel:
    full = f"mgpu_pod_memory_limit_utilization_ratio{{{NAMESPACE}}}"
    return table(
        "Fullest memory allocations",
        "The ten pods that held most of their device memory at any moment of the time range, on "
        "the device where that was most.",
        ON_NODE,
        [
            Column(
                "Memory full",
                f"topk(10, max by ({BY_POD}) (max_over_time({full}[$__range])))",
                "percentunit",
                FILLED,
            )
        ],
        links=LINKS,
        nothing="No pod's device memory is limited here",
        widest="Pod",
        width=12,
    )
