"""The CronJob that closes days of the bill. Off by default."""

from charts.value import (
    OBJECT,
    OBJECTS,
    PAIRS,
    SWITCH,
    TEXT,
    TEXTS,
    VARIABLES,
    Section,
    Value,
)

CLOSING = (
    Section(
        "Closed days of the bill",
        (
            Value(
                "billClose.enabled",
                False,
                SWITCH,
                "A CronJob of `bill close`, which writes each day's books once as Parquet "
                "(docs/bill.md).",
            ),
            Value(
                "billClose.image",
                "",
                TEXT,
                "Its image, which has to be given: the exporter's is without pyarrow. "
                "`docker build --build-arg WITHOUT= .` has it; add the package of your store.",
            ),
            Value("billClose.schedule", "30 2 * * *", TEXT, "When it runs (UTC)."),
            Value(
                "billClose.since",
                "7d",
                TEXT,
                "How far back days are closed that are open, such as those of a failed run.",
            ),
            Value(
                "billClose.prometheus",
                "",
                TEXT,
                "The Prometheus that it asks, such as `http://prometheus.monitoring:9090`.",
            ),
            Value(
                "billClose.to", "", TEXT, "Where to: a URL of fsspec, such as `s3://bucket/bills`."
            ),
            Value("billClose.claim", "", TEXT, "Or the PersistentVolumeClaim that days stand in."),
            Value("billClose.prices", {}, OBJECT, "The price file of docs/bill.md."),
            Value("billClose.extraArgs", [], TEXTS, "Further flags, such as `--cluster=east`."),
            Value(
                "billClose.extraEnv",
                [],
                VARIABLES,
                "Further variables, such as the store's credentials from a Secret.",
            ),
            Value(
                "billClose.serviceAccountName",
                "",
                TEXT,
                "A ServiceAccount that the store knows; else the namespace's default. It has no "
                "token for the API server.",
            ),
            Value("billClose.podAnnotations", {}, PAIRS, "Annotations of its pods."),
            Value(
                "billClose.resources",
                {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
                OBJECT,
                "Requests and limits.",
                optional=True,
            ),
            Value("billClose.nodeSelector", {}, PAIRS, "Labels of the nodes that it may run on."),
            Value("billClose.tolerations", [], OBJECTS, "Taints that it tolerates."),
            Value(
                "billClose.networkPolicy.enabled",
                False,
                SWITCH,
                "Let it reach DNS and what `billClose.networkPolicy.egress` names, and nobody it.",
            ),
            Value(
                "billClose.networkPolicy.egress",
                [],
                OBJECTS,
                "Rules of egress for the Prometheus and the store. An empty list is refused if the "
                "policy is enabled.",
            ),
        ),
    ),
)
