"""The Prometheus Operator's monitors. Its fields have here the names that they have there.

What a monitor names that the Operator does not know is dropped in silence. So what can be misspelt
is closed, and the rest goes into ``extraSpec`` and ``extraEndpoint``.
"""

from charts.value import (
    DURATION,
    MORE_LABELS,
    NUMBER,
    OBJECT,
    PAIRS,
    SWITCH,
    TEXT,
    TEXTS,
    Schema,
    Value,
    choice,
)

_LIMITS = (
    *("sampleLimit", "targetLimit", "labelLimit"),
    *("labelNameLengthLimit", "labelValueLengthLimit"),
)
_ENDPOINT = (  # what the chart itself writes
    *("port", "portNumber", "targetPort", "path", "scheme", "honorLabels", "interval"),
    *("scrapeTimeout", "params", "tlsConfig", "basicAuth", "authorization"),
    *("relabelings", "metricRelabelings"),
)
_SPEC = (
    *("jobLabel", "selector", "namespaceSelector", "podMetricsEndpoints", "endpoints"),
    *("attachMetadata", "bodySizeLimit", "keepDroppedTargets", "scrapeClass"),
    *("fallbackScrapeProtocol", "podTargetLabels", "targetLabels"),
    *_LIMITS,
)


def _closed(fields: dict[str, Schema]) -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": fields}


def _but(*taken: str) -> Schema:
    return {"type": "object", "properties": dict.fromkeys(taken, False)}


_RELABELINGS: Schema = {
    "type": "array",
    "items": _closed(
        {
            **dict.fromkeys(("separator", "targetLabel", "regex", "replacement", "action"), TEXT),
            "sourceLabels": TEXTS,
            "modulus": {"type": "integer", "minimum": 1},
        }
    ),
}
_TLS = {  # files of Prometheus' own pod are for a ServiceMonitor only
    "podMonitor": _but("caFile", "certFile", "keyFile"),
    "serviceMonitor": OBJECT,
}
_SIZE: Schema = {"type": "string", "pattern": "^(0|([0-9]*[.])?[0-9]+((K|M|G|T|E|P)i?)?B)?$"}


def api_version(kind: str) -> Value:
    """Which API the objects of a kind are of: other operators serve the same ones in their own."""
    name = {"type": "string", "pattern": r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/v[0-9][a-z0-9]*$"}
    about = (
        "Whose: the Prometheus Operator's, Azure's (`azmonitoring.coreos.com/v1`), that of "
        "OpenShift's Cluster Observability Operator (`monitoring.rhobs/v1`), or another."
    )
    return Value(f"{kind}.apiVersion", "monitoring.coreos.com/v1", name, about)


def monitor(kind: str, enabled: str) -> tuple[Value, ...]:
    """Both kinds have the same values."""
    return (
        Value(f"{kind}.enabled", False, SWITCH, enabled),
        api_version(kind),
        Value(f"{kind}.namespace", "", TEXT, "Its namespace, if another."),
        Value(f"{kind}.labels", {}, MORE_LABELS, "Labels by which Prometheus selects it."),
        Value(f"{kind}.annotations", {}, PAIRS, "Its annotations."),
        Value(f"{kind}.interval", "", DURATION, "Scrape interval; Prometheus' own if not set."),
        Value(f"{kind}.scrapeTimeout", "", DURATION, "Scrape timeout; likewise."),
        Value(
            f"{kind}.honorLabels",
            True,
            SWITCH,
            "Keep the series' own `namespace`, `pod` and `container`, those of who used the GPU, "
            "and drop the exporter's. Without it they become `exported_namespace` and so on.",
        ),
        Value(
            f"{kind}.relabelings",
            [],
            _RELABELINGS,
            "Further relabeling of targets, after that which sets `job`, `node` and `instance`.",
        ),
        Value(f"{kind}.metricRelabelings", [], _RELABELINGS, "Relabeling of series."),
        Value(
            f"{kind}.attachNodeMetadata",
            False,
            SWITCH,
            "Let relabelings use the node's labels; Prometheus must be allowed to watch nodes.",
        ),
        Value(f"{kind}.podTargetLabels", [], TEXTS, "Labels of the pods that targets get."),
        *_of_services(kind),
        Value(
            f"{kind}.params",
            {},
            {"type": "object", "additionalProperties": TEXTS},
            "Query parameters, such as `collect[]: [pod]`.",
        ),
        Value(f"{kind}.tlsConfig", {}, _TLS[kind], "How the certificate is checked."),
        Value(f"{kind}.basicAuth", {}, OBJECT, "Secret of name and password."),
        Value(f"{kind}.authorization", {}, OBJECT, "Secret of a token, for kube-rbac-proxy."),
        Value(
            f"{kind}.limits",
            {},
            _closed(dict.fromkeys(_LIMITS, NUMBER)),
            "Limits of samples, targets and labels.",
        ),
        Value(f"{kind}.bodySizeLimit", "", _SIZE, "The largest page, such as `10MB`."),
        Value(
            f"{kind}.keepDroppedTargets",
            0,
            NUMBER,
            "How many of the targets that relabeling dropped Prometheus remembers; 0 is all.",
        ),
        Value(f"{kind}.scrapeClass", "", TEXT, "The scrape class."),
        Value(
            f"{kind}.fallbackScrapeProtocol",
            "",
            choice(
                *("", "PrometheusProto", "OpenMetricsText0.0.1", "OpenMetricsText1.0.0"),
                *("PrometheusText0.0.4", "PrometheusText1.0.0"),
            ),
            "The format of a page without a Content-Type, as behind some proxies.",
        ),
        Value(
            f"{kind}.extraEndpoint",
            {},
            _but(*_ENDPOINT),
            "Further fields of its endpoint, such as `proxyUrl`, `oauth2`, `enableHttp2`.",
        ),
        Value(
            f"{kind}.extraSpec",
            {},
            _but(*_SPEC),
            "Further fields of its `spec`, such as `scrapeProtocols`.",
        ),
    )


def _of_services(kind: str) -> tuple[Value, ...]:
    if kind == "podMonitor":
        return ()
    return (Value(f"{kind}.targetLabels", [], TEXTS, "Labels of the Service that targets get."),)
