"""Clusters and namespaces: who uses GPUs, who wastes them."""

from grafana_foundation_sdk.builders import dashboard as build

from dashboards.frame import NAMESPACE, NODE, board, to
from dashboards.panels import HIGH, Column, Panel, series, stat, table

BY_NAMESPACE = "cluster, $namespace_label"
BY_POD = "cluster, instance, $namespace_label, $pod_label"
TO_NAMESPACE = to("pod", namespace="${__value.raw}")
TO_POD = to("pod", namespace="${__data.fields.Namespace}", pod="${__value.raw}")

USE = f"rate(mgpu_namespace_core_seconds_total{{{NAMESPACE}}}[$__rate_interval])"
POD_USE = f"rate(mgpu_pod_core_seconds_total{{{NAMESPACE}}}[$__rate_interval])"
SHARE = f"rate(mgpu_pod_allocated_core_seconds_total{{{NAMESPACE}}}[$__rate_interval])"
USED_HOURS = f"increase(mgpu_pod_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
HOURS = f"increase(mgpu_pod_allocated_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
ALL_HOURS = f"increase(mgpu_namespace_core_seconds_total{{{NAMESPACE}}}[$__range]) / 3600"
ON_NODE = {"cluster": "Cluster", "instance": "Node", "namespace": "Namespace", "pod": "Pod"}
NO_SHARE = "No pod was promised a share here"


def _of(family: str) -> str:
    return f"mgpu_device_{family}{{{NODE}}}"


def dashboard() -> build.Dashboard:
    """Top row: the whole; then namespaces; then what is wasted and what is short."""
    found = board(
        "overview",
        "Overview",
        "Who uses the GPUs of the clusters, against what was allocated; who wastes them, and who "
        "is over what it was allocated.",
        ["namespace"],
        labels=("namespace", "pod"),
    )
    for panel in _totals():
        found.with_panel(panel)
    found.with_row(build.Row("Namespaces")).with_panel(_namespaces())
    found.with_panel(_used()).with_panel(_allocated())
    found.with_row(build.Row("Waste, and what is short")).with_panel(_hours())
    return found.with_panel(_idle()).with_panel(_over_share()).with_panel(_over_memory())


def _totals() -> list[Panel]:
    allocated = f"sum({SHARE})"
    idle = f"sum(clamp_min({SHARE} - {POD_USE}, 0))"
    return [
        stat(
            "GPUs",
            "Physical GPUs that can be read. Instances of MIG are not counted.",
            f"count(mgpu_device_up{{{NODE}}} == 1 unless on (cluster, instance, uuid) "
            f'mgpu_device_info{{{NODE},parent_uuid!=""}})',
            "short",
        ),
        stat(
            "Core in use",
            "Share of the time in which the GPUs had work, over all that can be measured.",
            f"sum(rate({_of('busy_seconds_total')}[$__rate_interval]))"
            f" / count({_of('busy_seconds_total')})",
            "percentunit",
        ),
        stat(
            "Core allocated",
            "Shares that were promised to pods, of all GPUs. Over 100 % more was promised than "
            "there is.",
            f"sum({_of('allocated_core_ratio')}) / count({_of('allocated_core_ratio')})",
            "percentunit",
            ((None, "text"), (1.001, "red")),
            nothing=NO_SHARE,
        ),
        stat(
            "Allocated and idle",
            "GPUs' worth of core that pods were promised and do not use now.",
            f"{idle} / {allocated}",
            "percentunit",
            ((None, "green"), (0.5, "yellow"), (0.8, "red")),
            nothing=NO_SHARE,
        ),
        stat(
            "Memory in use",
            "Device memory in use, of all GPUs.",
            f"sum({_of('memory_used_bytes')}) / sum({_of('memory_total_bytes')})",
            "percentunit",
            HIGH,
        ),
        stat(
            "Power",
            "What the boards draw now.",
            f"sum({_of('power_watts')})",
            "watt",
        ),
    ]


def _namespaces() -> Panel:
    memory = f"mgpu_pod_memory_used_bytes{{{NAMESPACE}}}"
    limit = f"mgpu_pod_memory_limit_bytes{{{NAMESPACE}}}"
    energy = f"rate(mgpu_namespace_energy_joules_total{{{NAMESPACE}}}[$__rate_interval])"
    return table(
        "Namespaces now",
        "Use and allocation of each namespace. Use includes jobs that were too short for a scrape; "
        "energy is estimated.",
        {"cluster": "Cluster", "namespace": "Namespace"},
        [
            Column("GPUs used", f"sum by ({BY_NAMESPACE}) ({USE})", "short"),
            Column("GPUs allocated", f"sum by ({BY_NAMESPACE}) ({SHARE})", "short"),
            Column(
                "Used of allocated",
                f"sum by ({BY_NAMESPACE}) ({POD_USE} and {SHARE})"
                f" / (sum by ({BY_NAMESPACE}) ({SHARE}) > 0)",
                "percentunit",
            ),
            Column("Memory used", f"sum by ({BY_NAMESPACE}) ({memory})", "bytes"),
            Column("Memory allocated", f"sum by ({BY_NAMESPACE}) ({limit})", "bytes"),
            Column("Power", f"sum by ({BY_NAMESPACE}) ({energy})", "watt"),
            Column("Pods", f"count by ({BY_NAMESPACE}) (mgpu_pod_info{{{NAMESPACE}}})", "short"),
        ],
        links={"Namespace": TO_NAMESPACE},
    )


def _used() -> Panel:
    return series(
        "GPUs used, by namespace",
        "GPUs' worth of core in use.",
        {"{{$namespace_label}}": f"sum by ({BY_NAMESPACE}) ({USE})"},
        "short",
        stacked=True,
    )


def _allocated() -> Panel:
    return series(
        "GPUs allocated, by namespace",
        "GPUs' worth of core promised to pods. Pods without a promised share (time-slicing) are "
        "not in it.",
        {"{{$namespace_label}}": f"sum by ({BY_NAMESPACE}) ({SHARE})"},
        "short",
        stacked=True,
        nothing=NO_SHARE,
    )


def _hours() -> Panel:
    return table(
        "GPU-hours of the time range",
        "What each namespace was allocated and what it used. Idle is the allocated time of each "
        "pod that it did not use; a pod over its share does not make up for another that idles.",
        {"cluster": "Cluster", "namespace": "Namespace"},
        [
            Column(
                "Idle GPU-hours",
                f"sum by ({BY_NAMESPACE}) (clamp_min({HOURS} - {USED_HOURS}, 0))",
                "short",
            ),
            Column("Allocated GPU-hours", f"sum by ({BY_NAMESPACE}) ({HOURS})", "short"),
            Column("Used GPU-hours", f"sum by ({BY_NAMESPACE}) ({ALL_HOURS})", "short"),
        ],
        links={"Namespace": TO_NAMESPACE},
        width=12,
    )


def _idle() -> Panel:
    return table(
        "Pods that idle most",
        "The twenty pods with the most unused allocated GPU-hours in the time range.",
        {"namespace": "Namespace", "pod": "Pod"},
        [
            Column(
                "Idle GPU-hours",
                f"topk(20, sum by ($namespace_label, $pod_label) "
                f"(clamp_min({HOURS} - {USED_HOURS}, 0)))",
                "short",
            )
        ],
        links={"Pod": TO_POD},
        width=12,
    )


def _over_share() -> Panel:
    ratio = f"sum by ({BY_POD}) ({POD_USE}) / (sum by ({BY_POD}) ({SHARE}) > 0)"
    return table(
        "Highest use of the share",
        "The ten pods that use most of their core share now. Over 100 % they take what others "
        "leave, or what others were promised: the pod's page shows its neighbours.",
        ON_NODE,
        [Column("Use of the share", f"topk(10, {ratio})", "percentunit")],
        links={"Pod": TO_POD},
        nothing=NO_SHARE,
        width=12,
    )


def _over_memory() -> Panel:
    ratio = f"max by ({BY_POD}) (mgpu_pod_memory_limit_utilization_ratio{{{NAMESPACE}}})"
    return table(
        "Fullest memory allocations",
        "The ten pods that hold most of their device memory now, on the device where that is most.",
        ON_NODE,
        [Column("Held of the allocation", f"topk(10, {ratio})", "percentunit")],
        links={"Pod": TO_POD},
        nothing="No pod's device memory is limited here",
        width=12,
    )
