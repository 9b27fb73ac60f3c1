"""Settings, and how the exporter is reached."""

from charts.forms import schema
from charts.value import (
    MORE_LABELS,
    NUMBER,
    OBJECT,
    OBJECTS,
    PAIRS,
    PORT,
    SWITCH,
    TEXT,
    TEXTS,
    Section,
    Value,
    choice,
)
from exporter.inputs.values import URL_PATH

SETTINGS = "settings"  # its schema is made from the exporter's own table

WEB = (
    Section(
        "Settings of the exporter",
        (
            Value(
                SETTINGS,
                {},
                OBJECT,
                "Settings by the parts of their names (docs/configuration.md), such as "
                "`collection: {interval: 500ms}`; they become a ConfigMap. Those that the chart "
                "itself needs to know are values of their own.",
            ),
            Value(
                "existingConfigMap",
                "",
                TEXT,
                "A ConfigMap of yours with the key `settings.yaml`, in place of `settings`.",
            ),
        ),
    ),
    Section(
        "Web",
        (
            Value("web.port", 10045, PORT, "Port of the container."),
            Value(
                "web.telemetryPath",
                "/metrics",
                schema(URL_PATH.form),
                "Path of the metrics.",
            ),
            Value(
                "web.config",
                {},
                OBJECT,
                "TLS, users and limits (docs/security.md); they become a Secret.",
            ),
            Value(
                "web.existingSecret",
                "",
                TEXT,
                "A Secret of yours with the key `web.yaml`, in place of `web.config`. It is at "
                "/etc/mgpu-exporter/web.",
            ),
            Value(
                "web.tlsSecret",
                "",
                TEXT,
                "A Secret with certificates for either of them, at /etc/mgpu-exporter/tls.",
            ),
            Value(
                "web.scheme",
                "",
                choice("", "http", "https"),
                "Scheme of probes and scrapes; by `web.config` if not set.",
            ),
            Value(
                "web.probe",
                "",
                choice("", "http", "tcp"),
                "`tcp` where clients must show certificates; by `web.config` if not set.",
            ),
            Value(
                "compat.dropIn",
                "",
                choice("", "dcgm"),
                "Stand in another exporter's place. `dcgm`: serve dcgm-exporter's names, those "
                "before and since 4.9, on port 9400, with the Services, labels and annotations by "
                "which users of the GPU operator, OpenCost, Datadog, Netdata, Cast AI and "
                "Prometheus find it. Switch it off there first: `dcgmExporter.enabled=false` of "
                "the GPU operator. `web.port`, `nameOverride` and `fullnameOverride` then have no "
                "effect. See docs/dcgm.md.",
            ),
            Value("service.enabled", True, SWITCH, "A headless Service."),
            Value("service.labels", {}, MORE_LABELS, "Its labels."),
            Value("service.annotations", {}, PAIRS, "Its annotations."),
            Value("hostNetwork", False, SWITCH, "Listen on the node's own addresses."),
        ),
    ),
    Section(
        "Authorisation by Kubernetes",
        (
            Value(
                "accessControl.enabled",
                False,
                SWITCH,
                "Let the exporter ask the API server who scrapes and who sees the page "
                "(docs/security.md). There are two ClusterRoles to bind: one whose name ends in "
                "`-scrape`, and one in `-page`. Give TLS in `web.config` too, so that nobody can "
                "read the tokens on their way.",
            ),
            Value(
                "accessControl.audiences",
                [],
                TEXTS,
                "Audiences of the tokens; the API server's own if none are given.",
            ),
            Value(
                "accessControl.scrapers",
                [],
                OBJECTS,
                "Subjects that may scrape, such as `{kind: ServiceAccount, namespace: monitoring, "
                "name: prometheus-k8s}`.",
            ),
            Value(
                "accessControl.viewers",
                [],
                OBJECTS,
                "Subjects that see the whole page and its JSON. Others see the namespaces in which "
                "they may get pods.",
            ),
            Value(
                "accessControl.tokenFile",
                "/var/run/secrets/kubernetes.io/serviceaccount/token",
                TEXT,
                "The token in Prometheus' own pod that a ServiceMonitor names, unless it has an "
                "`authorization`.",
                optional=True,
            ),
            Value(
                "kubeRBACProxy.enabled",
                False,
                SWITCH,
                "Put kube-rbac-proxy in front: who scrapes needs `get` on the telemetry path. "
                "The exporter then listens on the pod's loopback address only, and serves neither "
                "page nor JSON. `accessControl` does without a proxy.",
            ),
            Value(
                "kubeRBACProxy.image",
                "quay.io/brancz/kube-rbac-proxy:v0.20.0",
                TEXT,
                "Its image; better pinned by digest.",
            ),
            Value("kubeRBACProxy.port", 10443, PORT, "Its port."),
            Value(
                "kubeRBACProxy.tlsSecret",
                "",
                TEXT,
                "Secret of its certificate, `tls.crt` and `tls.key`; it signs its own if not set.",
            ),
            Value(
                "kubeRBACProxy.resources",
                {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}},
                OBJECT,
                "Its resources.",
            ),
            Value("kubeRBACProxy.logLevel", 0, NUMBER, "How much it logs.", optional=True),
        ),
    ),
)
