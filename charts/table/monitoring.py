"""What reads the metrics. Off by default where it needs somebody else's custom resources."""

from charts.table.monitors import api_version, monitor
from charts.value import (
    MORE_LABELS,
    NUMBER,
    OBJECT,
    PAIRS,
    PATTERN,
    SWITCH,
    TEXT,
    TEXTS,
    Section,
    Value,
)
from exporter.model.alerts import HARDWARE, IGNORED, WATCH, codes

RULES = "prometheusRule.rules"  # its schema is made from the alerts
_CODES = {"type": "array", "items": NUMBER}


MONITORING = (
    Section(
        "Prometheus Operator",
        (
            *monitor("podMonitor", "A PodMonitor; the better choice with many nodes."),
            *monitor("serviceMonitor", "A ServiceMonitor; it needs `service.enabled`."),
            Value(
                "trustedJobs",
                "",
                PATTERN,
                "Prometheus' jobs that rules and boards take for exporters, as a pattern: what "
                "others show of our series is not trusted. By default `.*mgpu-exporter.*` and the "
                "job of the chart's monitor; without a monitor all.",
            ),
            Value(
                "prometheusRule.enabled",
                False,
                SWITCH,
                "A PrometheusRule with the repository's recording rules and alerts.",
            ),
            api_version("prometheusRule"),
            Value("prometheusRule.namespace", "", TEXT, "Its namespace, if another."),
            Value(
                "prometheusRule.labels", {}, MORE_LABELS, "Labels by which Prometheus selects it."
            ),
            Value("prometheusRule.annotations", {}, PAIRS, "Its annotations."),
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
                "http://localhost:10045/runbooks/{alert}",
                TEXT,
                "Where the alerts' runbooks are; `{alert}` stands for the name. Each exporter "
                "serves them, with the alert's node, GPU and pod in their commands: by a "
                "port-forward, or an Ingress (`https://gpu.example.com/runbooks/{alert}`). "
                "Empty: no link.",
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
