"""The DaemonSet and its pods: where they run, how they are updated, what is added to them."""

from charts.table.labels import LABELS
from charts.value import (
    CONTAINERS,
    MORE_LABELS,
    NUMBER,
    OBJECT,
    OBJECTS,
    PAIRS,
    SHARE,
    SWITCH,
    TEXT,
    TEXTS,
    VARIABLES,
    Schema,
    Section,
    Value,
    choice,
    objects,
)

_HAS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["key"],
    "properties": {"key": TEXT, "values": TEXTS},
}

_DNS: Schema = {"type": "object", "properties": {"options": objects(name=TEXT, value=TEXT)}}

_GPU_NODES = [
    {"key": key, **({"values": [value]} if value else {})}
    for one in LABELS
    for key, value in one.labels
]

POD = (
    Section(
        "Where it runs",
        (
            Value(
                "gpuNodeLabels",
                _GPU_NODES,
                {"type": "array", "items": _HAS},
                "A node that has one of these labels has GPUs: node feature discovery, Volcano "
                "Engine, Tencent, HAMi, Alibaba, Koordinator, Huawei, Baidu, GKE, EKS, AKS, "
                "Karpenter, Talos. docs/installation.md says which is whose. `[]` is every node.",
            ),
            Value(
                "nodeSelector",
                {"kubernetes.io/os": "linux"},
                PAIRS,
                "Labels that a node must have as well.",
            ),
            Value("affinity", {}, OBJECT, "In place of the one made from `gpuNodeLabels`."),
            Value(
                "tolerations",
                [{"effect": "NoSchedule", "operator": "Exists"}],
                objects(key=TEXT, operator=TEXT, value=TEXT, effect=TEXT),
                "GPU nodes are tainted in many ways; an agent must be on all of them.",
            ),
            Value(
                "priorityClassName",
                "system-node-critical",
                TEXT,
                "So that a full node still has its agent (docs/security.md). Some clusters (GKE) "
                "let it be used outside kube-system only with a ResourceQuota for it.",
                optional=True,
            ),
        ),
    ),
    Section(
        "Updates",
        (
            Value(
                "updateStrategy.type",
                "RollingUpdate",
                choice("RollingUpdate", "OnDelete"),
                "How pods are replaced.",
                optional=True,
            ),
            Value(
                "updateStrategy.maxUnavailable",
                "10%",
                SHARE,
                "How many nodes may be without it meanwhile. Nobody waits for an agent, so it has "
                "no PodDisruptionBudget.",
                optional=True,
            ),
            Value(
                "minReadySeconds", 0, NUMBER, "Seconds that a new pod must be ready.", optional=True
            ),
            Value("revisionHistoryLimit", 5, NUMBER, "Revisions that are kept.", optional=True),
            Value(
                "terminationGracePeriodSeconds",
                10,
                NUMBER,
                "It ends within a second.",
                optional=True,
            ),
        ),
    ),
    Section(
        "The container",
        (
            Value(
                "resources",
                {
                    "requests": {"cpu": "100m", "memory": "96Mi"},
                    "limits": {"memory": "192Mi"},
                },
                OBJECT,
                "The memory is the budget of a node with 8 GPUs (docs/decisions.md). The CPU is "
                "mostly the driver's (docs/performance.md). A limit on CPU would make cycles late; "
                "there is none.",
            ),
            Value(
                "livenessProbe",
                {"initialDelaySeconds": 10, "periodSeconds": 20, "timeoutSeconds": 5},
                OBJECT,
                "Times of the probe of `/-/healthy`.",
            ),
            Value(
                "readinessProbe",
                {"periodSeconds": 10, "timeoutSeconds": 5},
                OBJECT,
                "Times of the probe of `/-/ready`.",
            ),
            Value("securityContext", {}, OBJECT, "Goes before the profile's, key by key."),
            Value("podSecurityContext", {}, OBJECT, "Likewise, of the pod."),
            Value("extraArgs", [], TEXTS, "Further flags; settings go better into `settings`."),
            Value("extraEnv", [], VARIABLES, "Further environment variables."),
            Value("envFrom", [], OBJECTS, "Environment variables by ConfigMap or Secret."),
            Value("extraVolumeMounts", [], OBJECTS, "Further mounts."),
        ),
    ),
    Section(
        "The pod",
        (
            Value("podLabels", {}, MORE_LABELS, "Labels of the pods."),
            Value("podAnnotations", {}, PAIRS, "Annotations of the pods."),
            Value("annotations", {}, PAIRS, "Annotations of the DaemonSet."),
            Value("extraVolumes", [], OBJECTS, "Further volumes."),
            Value("extraContainers", [], CONTAINERS, "Further containers."),
            Value("initContainers", [], CONTAINERS, "Containers that run before."),
            Value("dnsPolicy", "", TEXT, "Its DNS policy; Kubernetes' default if not set."),
            Value("dnsConfig", {}, _DNS, "Its DNS configuration."),
            Value("hostAliases", [], OBJECTS, "Lines of /etc/hosts."),
            Value(
                "automountServiceAccountToken",
                "auto",
                {"enum": ["auto", True, False]},
                "`auto`: only where a source needs it.",
                optional=True,
            ),
            Value("verticalPodAutoscaler.enabled", False, SWITCH, "A VerticalPodAutoscaler."),
            Value(
                "verticalPodAutoscaler.updateMode",
                "Off",
                choice("Off", "Initial", "Recreate", "InPlaceOrRecreate", "Auto"),
                "`Off` recommends only.",
            ),
            Value("verticalPodAutoscaler.resourcePolicy", {}, OBJECT, "Limits of what it may set."),
        ),
    ),
)
