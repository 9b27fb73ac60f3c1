"""Names, image, and what stands outside the DaemonSet."""

from charts.value import (
    MORE_LABELS,
    PAIRS,
    SECRETS,
    SWITCH,
    TEXT,
    Section,
    Value,
    choice,
)

RELEASE = (
    Section(
        "Image",
        (
            Value("global.imageRegistry", "", TEXT, "Registry that goes before `image.registry`."),
            Value("global.imagePullSecrets", [], SECRETS, "Added to `imagePullSecrets`."),
            Value("image.registry", "ghcr.io", TEXT, "Registry.", optional=True),
            Value("image.repository", "mgpu-exporter/mgpu-exporter", TEXT, "Repository."),
            Value("image.tag", "", TEXT, "Tag; the chart's appVersion if not set."),
            Value("image.digest", "", TEXT, "Digest, such as sha256:…; it goes before the tag."),
            Value(
                "image.pullPolicy",
                "IfNotPresent",
                choice("Always", "IfNotPresent", "Never"),
                "When the image is pulled.",
                optional=True,
            ),
            Value(
                "imagePullSecrets",
                [],
                SECRETS,
                "Secrets to pull with: `[name]` or `[{name: name}]`.",
            ),
        ),
    ),
    Section(
        "Names and labels",
        (
            Value("nameOverride", "", TEXT, "In place of the chart's name."),
            Value(
                "fullnameOverride",
                "",
                TEXT,
                "In place of the name of all objects. It is Prometheus' `job`, after the "
                "namespace if that has another name.",
            ),
            Value("namespaceOverride", "", TEXT, "In place of the release's namespace."),
            Value("commonLabels", {}, MORE_LABELS, "Labels of all objects."),
            Value("commonAnnotations", {}, PAIRS, "Annotations of all objects."),
        ),
    ),
)

EXTRAS = (
    Section(
        "More",
        (
            Value("tests.enabled", True, SWITCH, "Whether `helm test` has a pod to run."),
            Value("tests.annotations", {}, PAIRS, "Annotations of that pod."),
            Value(
                "extraManifests",
                [],
                {"type": "array", "items": {"type": ["object", "string"]}},
                "Further objects; templates in them are rendered.",
            ),
        ),
    ),
)
