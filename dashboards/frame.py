"""What the dashboards have in common: variables, selectors, links.

Prometheus may have renamed some of the exporter's labels (to ``exported_pod`` and so on).
Hidden variables find out what each is called; every query takes the names from them.
"""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    VariableHide,
    VariableRefresh,
    VariableSort,
)

TAG = "mgpu"
# The oldest Grafana that the dashboards are made for. docs/dashboards.md says why this one.
GRAFANA = "9.4.0"
SOURCE = DataSourceRef(type_val="prometheus", uid="$datasource")

EXPORTER = 'job=~"$job",cluster=~"$cluster"'
NODE = f'{EXPORTER},instance=~"$node"'
DEVICE = f'{NODE},uuid=~"$uuid"'
GROUP = f'{NODE},kind=~"$kind"'
NAMESPACE = f'{NODE},$namespace_label=~"$namespace"'
POD = f'{NAMESPACE},$pod_label=~"$pod"'
# Alerts have no job of ours, and some no cluster or no node.
OF_ALERTS = 'alertname=~"Mgpu.+",cluster=~"$cluster|",instance=~"$node|"'
FIRING = f'{OF_ALERTS},alertstate="firing"'
ALERTS = f"ALERTS{{{FIRING}}}"
FIRING_SINCE = f"ALERTS_FOR_STATE{{{OF_ALERTS}}}"

WORKLOAD = ("namespace", "pod", "container")
CARD = "cluster, instance, uuid"
# The plain name is also the answer where Prometheus knows no pod: a query needs a name to be valid.
RENAMED = (
    "query_result(label_replace(count({1}), "
    '"name", "exported_{0}", "", "") or label_replace(vector(1) '
    'unless count({1}), "name", "{0}", "", ""))'
)
# The families that say it are in all profiles, and one of them is left where others are dropped.
SAY_IT = "mgpu_(pod|container)_(info|allocation_info|core_seconds_total)"


def in_range(selector: str) -> str:
    """The series that there were at any moment of the time range, with their last values."""
    return f"last_over_time({selector}[$__range] @ end())"


# A pod waits that may have waited for others in more than this part of its time.
WAITS = 0.1

BUILD = f"mgpu_exporter_build_info{{{NODE}}}"
# Nodes whose exporter was read in the time range and is not now. A node that was taken away counts
# too, until the range is past it: no series distinguishes it from one that fell silent.
SILENT = (
    f"(group by (cluster, instance) ({in_range(BUILD)})"
    f" unless group by (cluster, instance) ({BUILD}))"
)


def hit(selector: str) -> str:
    """Of the containers that ``selector`` selects, those on a GPU that is lost now.

    They are named there however long ago it was lost; nothing else of them is measured.
    """
    return f'mgpu_container_unmeasured{{{selector},reason="gpu_lost"}}'


def usable_memory(selector: str) -> str:
    """The memory of each device whose use is known, in bytes.

    A board that is divided has none: its memory is used by its instances or partitions.
    """
    used = f"mgpu_device_memory_used_bytes{{{selector}}}"
    return f"mgpu_device_memory_total_bytes{{{selector}}} and {used}"


def _by_use(selector: str, label: str) -> str:
    """A look-up of a label's values, those first whose pods use most of the GPUs now."""
    use = f"rate(mgpu_pod_core_seconds_total{{{selector}}}[5m])"
    known = f"last_over_time(mgpu_pod_info{{{selector}}}[$__range])"
    return f"query_result(sort_desc(sum by ({label}) ({use}) or 0 * group by ({label}) ({known})))"


CHOICES = {
    "namespace": ("Namespace", f"label_values(mgpu_pod_info{{{NODE}}}, $namespace_label)"),
    "owner": (
        "Workload",
        f"label_values(mgpu_pod_info{{{NAMESPACE}}}, owner_name)",
    ),
    "kind": ("Kind", f"label_values(mgpu_group_info{{{NODE}}}, kind)"),
    # shown as "3 NVIDIA A10", its value is the UUID
    "uuid": (
        "GPU",
        (
            "query_result(label_join(group by (gpu, model, profile, uuid) "
            f'(mgpu_device_info{{{NODE}}}), "a", " ", "gpu", "model", "profile"))'
        ),
    ),
}
# Of the dashboard that opens with one pod: those that use most now first, then the others of the
# time range. By name the first would often be one that has ended.
BUSIEST = {
    "node": ("Node", _by_use(EXPORTER, "instance")),
    "namespace": ("Namespace", _by_use(NODE, "$namespace_label")),
    "pod": ("Pod", _by_use(NAMESPACE, "$pod_label")),
}
REGEX = {
    "node": '/[{,]instance="([^"]+)"/',
    "namespace": '/[{,](?:exported_)?namespace="([^"]+)"/',
    "pod": '/[{,](?:exported_)?pod="([^"]+)"/',
    "owner": '/[{,]owner_name="([^"]*)"/',
    "uuid": '/a="(?<text>[^"]+)".*uuid="(?<value>[^"]+)"/',
}

# The boards, in the order of their links. Those of ``ONE`` show one node or pod when they are
# opened, and have no "All" of nodes: the other boards are about all of them.
TITLES = {
    "overview": "Overview",
    "node": "Node and devices",
    "pod": "Pod and containers",
    "groups": "Groups",
    "cost": "Energy and cost",
    "exporter": "Exporter health",
}
ONE = ("node", "pod")
# What a link to another dashboard keeps, with the time range: what is chosen above the panels.
# Each board has the first three; what else it has of them:
KEPT = ("datasource", "job", "cluster")
ALSO_KEPT = {
    "overview": ("node", "namespace", "price_gpu_hour"),
    "node": ("node",),
    "pod": ("node", "namespace", "price_gpu_hour"),
    "groups": ("node",),
    "cost": ("node", "namespace", "price_gpu_hour"),
    "exporter": ("node",),
}


def to(source: str, target: str, **values: str) -> str:
    """The address of a dashboard on another, with what is chosen there and values of its own.

    "All" nodes are not taken to a board that has no "All": it would show each of them.
    """
    alike = [name for name in ALSO_KEPT[source] if name in ALSO_KEPT[target]]
    some = {"node", "namespace"} if target in ONE and source not in ONE else ()
    kept = [name for name in (*KEPT, *alike) if name not in values]
    parts = [
        f"${{{name}_link:raw}}" if name in some else f"${{{name}:queryparam}}" for name in kept
    ]
    parts += [f"var-{name}={value}" for name, value in values.items()]
    return "&".join((f"/d/mgpu-{target}?${{__url_time_range}}", *parts))


def _unless_all(name: str) -> build.QueryVariable:
    """What a link says of a choice on a board that has no "All" of it; nothing of "All".

    Grafana keeps a value of an address that cannot be chosen, so "All" must not stand there. It
    writes it as ``$__all``, which PromQL takes for a group that is not there, escaped, or, in 9.4,
    as ``All``.
    """
    asked = f'query_result(label_replace(vector(0), "is", "${{{name}:queryparam}}", "", ""))'
    return (
        _query(f"{name}_link", f"Link with the {name}", asked)
        .regex('/is="(var-\\w+=(?!%24__all|All"|")[^"]+)"/')
        .hide(VariableHide.HIDE_VARIABLE)
    )


def _query(name: str, label: str, query: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(SOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )


def _choice(name: str, label: str, query: str, every: str = ".*") -> build.QueryVariable:
    """A variable of which any number may be chosen; all of them at first."""
    return _some(name, label, query).include_all(include_all=True).all_value(every)


def _some(name: str, label: str, query: str) -> build.QueryVariable:
    """A variable of which any number may be chosen; the first of them at first."""
    variable = _query(name, label, query).multi(multi=True)
    return variable.regex(REGEX[name]) if query.startswith("query_result") else variable


def largest(name: str, key: str, expr: str) -> build.QueryVariable:
    """A hidden variable: the names of the rows that a table shows, of those of ``expr``.

    It is found once for all columns. A column that asks for these names finds them by the index of
    Prometheus; one that ranks for itself reads the whole fleet, each time.
    """
    return (
        _query(name, f"The largest of each {key}", f"query_result({expr})")
        .regex(REGEX[key])
        .multi(multi=True)
        .include_all(include_all=True)
        .sort(VariableSort.DISABLED)
        .hide(VariableHide.HIDE_VARIABLE)
    )


def _busiest(name: str) -> build.QueryVariable:
    """A variable of which any number may be chosen; at first what uses most of the GPUs now."""
    return _some(name, *BUSIEST[name]).sort(VariableSort.DISABLED)


def _label_name(label: str) -> build.QueryVariable:
    renamed = f'{{__name__=~"{SAY_IT}",job=~"$job",exported_{label}!=""}}'
    return (
        _query(f"{label}_label", f"Label of the {label}", RENAMED.format(label, renamed))
        .regex('/name="([^"]+)"/')
        .hide(VariableHide.HIDE_VARIABLE)
    )


def board(
    uid: str, about: str, choices: Sequence[str] = (), labels: Sequence[str] = ()
) -> build.Dashboard:
    """An empty dashboard with its variables.

    ``choices`` are those beyond cluster and node, ``labels`` those of the workload's labels whose
    names it needs.
    """
    known = "mgpu_exporter_build_info"
    found = (
        build.Dashboard(f"GPU / {TITLES[uid]}")
        .uid(f"mgpu-{uid}")
        .description(about)
        .tags([TAG])
        .readonly()
        .timezone("utc")
        .refresh("30s")
        .time("now-1h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(
            build.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_choice("job", "job", f"label_values({known}, job)", ".+"))
        .with_variable(
            _choice("cluster", "Cluster", f'label_values({known}{{job=~"$job"}}, cluster)')
        )
    )
    nodes = f"label_values({known}{{{EXPORTER}}}, instance)"
    busiest = uid == "pod"
    if busiest:
        found.with_variable(_busiest("node"))
    else:
        found.with_variable((_some if uid in ONE else _choice)("node", "Node", nodes))
    for label in labels:
        found.with_variable(_label_name(label))
    for choice in choices:
        found.with_variable(_busiest(choice) if busiest else _choice(choice, *CHOICES[choice]))
    for name in ("node", "namespace"):
        if uid not in ONE and name in ALSO_KEPT[uid]:
            found.with_variable(_unless_all(name))
    for other, title in TITLES.items():
        if other != uid:
            # Grafana 9.4 knows "${__url_time_range}" in links of panels alone.
            address = to(uid, other).replace("${__url_time_range}&", "")
            link = build.DashboardLink(title).type(DashboardLinkType.LINK)
            found.link(link.url(address).keep_time(keep_time=True))
    return found


def _event(
    name: str, expr: str, color: str, title: str, text: str, **more: object
) -> Mapping[str, object]:
    """A query whose samples are marked on the axis of time; Grafana's SDK knows none of titles."""
    return {
        "name": name,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "enable": True,
        "expr": expr,
        "iconColor": color,
        "titleFormat": title,
        "textFormat": text,
        "step": "15s",
        **more,
    }


def events(workload: str = "", *, starts: bool = True) -> Sequence[Mapping[str, object]]:
    """What is marked on a dashboard: XIDs, alerts, and starts of pods that ``workload`` selects.

    ``starts`` is whether the starts are seen before somebody switches them on.
    """
    its_cards = f"mgpu_container_core_seconds_total{{{workload}}}"
    # As they were in the range: of a card that fell off, the containers' series are withheld.
    own = f" and on ({CARD}) group by ({CARD}) ({in_range(its_cards)})" if workload else ""
    found = [
        _event(
            "XIDs",
            # By their last time, which has a series only once there was one. The counters have a
            # dozen series a card, nearly all 0: at 400 nodes Prometheus refused to read them.
            f"mgpu_device_xid_last_timestamp_seconds{{{NODE}}} * 1000 >= $__from{own}",
            "#E02F44",
            "XID {{xid}}",
            "GPU {{gpu}} of {{instance}}",
            useValueForTime=True,
        ),
        _event(
            "Alerts",
            # its beginning: an alert that goes on would tint the whole chart
            f"{FIRING_SINCE} * 1000 and ignoring (alertstate) {ALERTS}",
            "#FF9830",
            "{{alertname}}",
            "{{severity}} {{instance}} GPU {{gpu}}",
            useValueForTime=True,
        ),
    ]
    if workload:
        since = f"mgpu_container_observed_since_timestamp_seconds{{{workload}}}"
        pods = f"min by (cluster, instance, $namespace_label, $pod_label) ({since})"
        found.append(
            _event(
                "Pod starts",
                f"{pods} * 1000 >= $__from",
                "#3274D9",
                "GPU use of a pod is first counted",
                "{{$namespace_label}}/{{$pod_label}} on {{instance}}",
                useValueForTime=True,
                enable=starts,
            )
        )
    return found
