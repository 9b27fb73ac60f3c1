"""What reads the metrics. Off by default where it needs somebody else's custom resources."""

from charts.table.value import (
    DURATION,
    MORE_LABELS,
    NUMBER,
    OBJECT,
    OBJECTS,
    PAIRS,
    SWITCH,
    TEXT,
    TEXTS,
    Section,
    Value,
)
from exporter.model.alerts import HARDWARE, IGNORED, WATCH, codes

RULES = "prometheusRule.rules"  # its schema is made from the alerts
_CODES = {"type": "array", "items": NUMBER}
_COUNTED = (
    *("sampleLimit", "targetLimit", "labelLimit"),
    *("labelNameLengthLimit", "labelValueLengthLimit"),
)
_LIMITS = {
    "type": "object",
    "additionalProperties": False,
    "properties": dict.fromkeys(_COUNTED, NUMBER),
}


def _monitor(kind: str, enabled: str) -> tuple[Value, ...]:
    """Both kinds of monitors have the same values."""
    return (
        Value(f"{kind}.enabled", False, SWITCH, enabled),
        Value(f"{kind}.namespace", "", TEXT, "Its namespace, if another."),
        Value(f"{kind}.labels", {}, MORE_LABELS, "Labels by which Prometheus selects it."),
        Value(f"{kind}.interval", "", DURATION, "Scrape interval; Prometheus' own if not set."),
        Value(f"{kind}.scrapeTimeout", "", DURATION, "Scrape timeout; likewise."),
        Value(
            f"{kind}.honorLabels",
            True,
            SWITCH,
            "Keep the series' own `namespace`, `pod` and `container`, those of who used the GPU, "
            "and drop the exporter's. Without it they become `exported_namespace` and so on, and "
            "the PrometheusRule has its rules for that.",
        ),
        Value(
            f"{kind}.relabelings",
            [],
            OBJECTS,
            "Further relabeling of targets, after that which sets `node` and `instance`.",
        ),
        Value(f"{kind}.metricRelabelings", [], OBJECTS, "Relabeling of series."),
        Value(
            f"{kind}.attachNodeMetadata",
            False,
            SWITCH,
            "Let relabelings use the node's labels; Prometheus must be allowed to watch nodes.",
        ),
        Value(f"{kind}.params", {}, OBJECT, "Query parameters, such as `collect[]: [pod]`."),
        Value(f"{kind}.tlsConfig", {}, OBJECT, "How the certificate is checked."),
        Value(f"{kind}.basicAuth", {}, OBJECT, "Secret of name and password."),
        Value(f"{kind}.authorization", {}, OBJECT, "Secret of a token, for kube-rbac-proxy."),
        Value(f"{kind}.limits", {}, _LIMITS, "Limits of samples, targets and labels."),
    )


MONITORING = (
    Section(
        "Prometheus Operator",
        (
            *_monitor("podMonitor", "A PodMonitor; the better choice with many nodes."),
            *_monitor("serviceMonitor", "A ServiceMonitor; it needs `service.enabled`."),
            Value(
                "prometheusRule.enabled",
                False,
                SWITCH,
                "A PrometheusRule with the repository's recording rules and alerts.",
            ),
            Value("prometheusRule.namespace", "", TEXT, "Its namespace, if another."),
            Value(
                "prometheusRule.labels", {}, MORE_LABELS, "Labels by which Prometheus selects it."
            ),
            Value(
                "prometheusRule.alerts", True, SWITCH, "Alerts; the recording rules are always in."
            ),
            Value("prometheusRule.disabled", [], TEXTS, "Names of alerts to leave out."),
            Value(
                RULES,
                {},
                OBJECT,
                "By an alert's name: `enabled`, `for`, `severity`, and its thresholds, such as "
                "`MgpuPodNearMemoryLimit: {threshold: 0.98, for: 1h}`. docs/alerts.md has all.",
            ),
            *(
                Value(
                    f"prometheusRule.xids.{name}",
                    codes(alert),
                    _CODES,
                    about,
                )
                for name, alert, about in (
                    ("critical", HARDWARE, "XIDs of MgpuXidHardware: reset, or restart."),
                    ("warning", WATCH, "XIDs of MgpuXidWarning: look, do not drain."),
                    (
                        "ignored",
                        IGNORED,
                        "XIDs of no alert; all others are those of MgpuXidError.",
                    ),
                )
            ),
            Value(
                "prometheusRule.runbookUrl",
                "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/docs/runbooks/{alert}.md",
                TEXT,
                "Where the alerts' runbooks are; `{alert}` stands for the name. Each exporter "
                "serves them, so an Ingress or a port-forward to one does: "
                "`http://localhost:10045/runbooks/{alert}`. With "
                "`?node={{ $labels.instance }}&uuid={{ $labels.uuid }}` behind it, their commands "
                "are about the alert's node and GPU. Empty: no link.",
                optional=True,
            ),
            Value("prometheusRule.alertLabels", {}, PAIRS, "Labels that are added to each alert."),
        ),
    ),
    Section(
        "Grafana",
        (
            Value(
                "dashboards.enabled",
                False,
                SWITCH,
                "A ConfigMap for each dashboard, for Grafana's sidecar.",
            ),
            Value("dashboards.namespace", "", TEXT, "Their namespace, if another."),
            Value(
                "dashboards.labels",
                {"grafana_dashboard": "1"},
                MORE_LABELS,
                "Labels by which the sidecar selects them.",
            ),
            Value(
                "dashboards.annotations",
                {},
                PAIRS,
                "Annotations, such as the sidecar's `grafana_folder`.",
            ),
            Value(
                "dashboards.operator.enabled",
                False,
                SWITCH,
                "For grafana-operator: also a GrafanaDashboard for each ConfigMap.",
            ),
            Value(
                "dashboards.operator.instances",
                {},
                PAIRS,
                "Labels of the Grafana resources, in any namespace, that are to have them; "
                "empty: all.",
            ),
            Value(
                "dashboards.operator.folder",
                "GPU",
                TEXT,
                "Grafana's folder for them; empty: none.",
                optional=True,
            ),
        ),
    ),
)
