"""What the dashboards have in common: variables, selectors, links.

Prometheus may have renamed the exporter's labels (``exported_pod``, without ``honorLabels``).
Hidden variables find out what they are called; every query takes the names from them.
"""

from collections.abc import Sequence

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

WORKLOAD = ("namespace", "pod", "container")
# The plain name is also the answer where Prometheus knows no pod: a query needs a name to be valid.
RENAMED = (
    'query_result(label_replace(count(mgpu_pod_info{{job=~"$job",exported_pod!=""}}), '
    '"name", "exported_{0}", "", "") or label_replace(vector(1) '
    'unless count(mgpu_pod_info{{job=~"$job",exported_pod!=""}}), "name", "{0}", "", ""))'
)

CHOICES = {
    "namespace": ("Namespace", f"label_values(mgpu_pod_info{{{NODE}}}, $namespace_label)"),
    "pod": ("Pod", f"label_values(mgpu_pod_info{{{NAMESPACE}}}, $pod_label)"),
    "kind": ("Kind", f"label_values(mgpu_group_info{{{NODE}}}, kind)"),
    "uuid": ("GPU", f"label_values(mgpu_device_info{{{NODE}}}, uuid)"),
}

# What a link to another dashboard keeps: what was chosen above the panels, and the time range.
KEPT = "&".join(f"${{{name}:queryparam}}" for name in ("datasource", "job", "cluster", "node"))


def to(uid: str, **values: str) -> str:
    """The address of another dashboard, with values for its other variables."""
    chosen = "".join(f"&var-{name}={value}" for name, value in values.items())
    return f"/d/mgpu-{uid}?${{__url_time_range}}&{KEPT}{chosen}"


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
    variable = _query(name, label, query).multi(multi=True)
    return variable.include_all(include_all=True).all_value(every)


def _label_name(label: str) -> build.QueryVariable:
    return (
        _query(f"{label}_label", f"Label of the {label}", RENAMED.format(label))
        .regex('/name="([^"]+)"/')
        .hide(VariableHide.HIDE_VARIABLE)
    )


def board(
    uid: str, title: str, about: str, choices: Sequence[str] = (), labels: Sequence[str] = ()
) -> build.Dashboard:
    """An empty dashboard with its variables.

    ``choices`` are those beyond cluster and node, ``labels`` those of the workload's labels whose
    names it needs.
    """
    known = "mgpu_exporter_build_info"
    nodes = f"label_values({known}{{{EXPORTER}}}, instance)"
    clusters = f'label_values({known}{{job=~"$job"}}, cluster)'
    found = (
        build.Dashboard(f"GPU / {title}")
        .uid(f"mgpu-{uid}")
        .description(about)
        .tags([TAG])
        .readonly()
        .timezone("utc")
        .refresh("30s")
        .time("now-1h", "now")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .link(_others())
        .with_variable(
            build.DatasourceVariable("datasource").label("Data source").type("prometheus")
        )
        .with_variable(_choice("job", "job", f"label_values({known}, job)", ".+"))
        .with_variable(_choice("cluster", "Cluster", clusters))
        .with_variable(_choice("node", "Node", nodes))
    )
    for label in labels:
        found.with_variable(_label_name(label))
    for choice in choices:
        found.with_variable(_choice(choice, *CHOICES[choice]))
    return found


def _others() -> build.DashboardLink:
    """The way to the other dashboards, with time and variables kept."""
    return (
        build.DashboardLink("GPU dashboards")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(as_dropdown=True)
        .include_vars(include_vars=True)
        .keep_time(keep_time=True)
    )
