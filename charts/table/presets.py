"""What platforms need beside the defaults: each is a values file of the chart, `presets/NAME.yaml`.

Files, not one value: Helm takes them in order, so what you set yourself goes before a preset, and a
platform's and a monitoring stack's can be given together. A value could not do that: a template
does not see whether a default was set by you.
"""

from collections.abc import Mapping
from dataclasses import dataclass

Values = Mapping[str, object]

SPC = {"seLinuxOptions": {"type": "spc_t"}}
_ASSUMED = "Assumed: NVIDIA's runtime is the default."
_MONITORING = {  # all ServiceAccounts of that namespace: Prometheus' own has the release's name
    "kind": "Group",
    "apiGroup": "rbac.authorization.k8s.io",
    "name": "system:serviceaccounts:monitoring",
}
_RELEASE = {"release": "kube-prometheus-stack"}


@dataclass(frozen=True, slots=True)
class Preset:
    """One platform: its file's name, title and values, what to know before, and where from."""

    name: str
    title: str
    values: Values
    why: str
    source: str = "its documents"


def _runtime_of_the_node(name: str, title: str, why: str, source: str = "its documents") -> Preset:
    return Preset(name, title, {"gpuAccess": "env"}, why, source)


def _nodes(*labels: str) -> list[dict[str, object]]:
    return [{"key": label, "values": ["true"]} for label in labels]


# GKE lets system-node-critical be used outside kube-system with a quota for it only. Without it the
# pods have no priority, and are Pending for as long as a node is full.
_MAY_BE_CRITICAL = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {
        "name": "mgpu-exporter-priority",
        "namespace": '{{ include "mgpu.namespace" . }}',
    },
    "spec": {
        "hard": {"pods": "65000"},
        "scopeSelector": {
            "matchExpressions": [
                {
                    "scopeName": "PriorityClass",
                    "operator": "In",
                    "values": ["system-node-critical"],
                }
            ]
        },
    },
}


PRESETS: tuple[Preset, ...] = (
    Preset(
        "gpu-operator",
        "NVIDIA GPU operator",
        {"gpuAccess": "runtimeClass", "runtimeClassName": "nvidia"},
        "The operator makes the RuntimeClass `nvidia`. `helm install` finds it; what renders "
        "without the cluster, such as Argo CD, needs this preset.",
        "NVIDIA/gpu-operator a22dbf6",
    ),
    _runtime_of_the_node(
        "eks",
        "Amazon EKS, Amazon Linux 2023 and Ubuntu",
        "NVIDIA's runtime is the default.",
        "awslabs/amazon-eks-ami",
    ),
    Preset(
        "eks-bottlerocket",
        "Amazon EKS, Bottlerocket and Auto Mode",
        {"gpuAccess": "volumeMounts"},
        "NVIDIA's runtime takes a mount in place of the variable.",
        "bottlerocket's settings",
    ),
    Preset(
        "gke",
        "Google GKE Standard",
        {
            "gpuAccess": "hostPath",
            "driverLibraries": "/home/kubernetes/bin/nvidia/lib64",
            "extraManifests": [_MAY_BE_CRITICAL],
            "securityContext": {"privileged": True, "allowPrivilegeEscalation": True},
            "gpuNodeLabels": [{"key": "cloud.google.com/gke-accelerator"}],
        },
        "Only a **privileged** container gets devices without asking for a GPU. The process stays "
        "UID 61045. Not for Autopilot, which forbids host paths and `hostPID`.",
        "Google's agents for GPUs",
    ),
    _runtime_of_the_node(
        "aks",
        "Azure AKS",
        "NVIDIA's runtime is the default. With the GPU operator take its preset.",
        "Azure/AgentBaker",
    ),
    Preset(
        "openshift",
        "Red Hat OpenShift",
        {
            "gpuAccess": "runtimeClass",
            "openshift": {"securityContextConstraints": True},
            "securityContext": SPC,
        },
        "Makes SecurityContextConstraints of exactly what the pods have. SELinux keeps confined "
        "containers out of others' `/proc`, so they run as `spc_t`.",
        "openshift/api 2a3d739",
    ),
    Preset(
        "talos",
        "Talos Linux",
        {"gpuAccess": "runtimeClass", "runtimeClassName": "nvidia"},
        "You made the RuntimeClass `nvidia`, as Talos' documents say.",
        "docs.siderolabs.com, Talos 1.12",
    ),
    _runtime_of_the_node(
        "tke",
        "Tencent TKE",
        _ASSUMED,
    ),
    _runtime_of_the_node("vke", "Volcano Engine VKE", _ASSUMED),
    _runtime_of_the_node("ack", "Alibaba Cloud ACK", _ASSUMED),
    Preset(
        "amd",
        "AMD GPUs",
        {
            "profile": "fdinfo",
            "gpuAccess": "none",
            "settings": {"gpus": {"source": ["amd"]}},
            "gpuNodeLabels": _nodes(
                "feature.node.kubernetes.io/amd-gpu",
                "feature.node.kubernetes.io/pci-0300_1002.present",
                "feature.node.kubernetes.io/pci-0380_1002.present",
                "feature.node.kubernetes.io/pci-1200_1002.present",
            ),
        },
        "A second Helm release beside NVIDIA's. Instinct: `--set profile=minimal`, and "
        "[device files](#amd-and-intel).",
        "ROCm/gpu-operator",
    ),
    Preset(
        "intel",
        "Intel GPUs",
        {
            "profile": "fdinfo",
            "gpuAccess": "none",
            "settings": {"gpus": {"source": ["drm"]}},
            "gpuNodeLabels": _nodes(
                "intel.feature.node.kubernetes.io/gpu",
                "feature.node.kubernetes.io/pci-0300_8086.present",
                "feature.node.kubernetes.io/pci-0380_8086.present",
            ),
        },
        "A second Helm release beside NVIDIA's.",
        "intel/intel-device-plugins-for-kubernetes 94a91bc9",
    ),
    Preset(
        "kube-prometheus-stack",
        "kube-prometheus-stack, beside any of them",
        {
            "podMonitor": {"enabled": True, "labels": _RELEASE},
            "prometheusRule": {"enabled": True, "labels": _RELEASE},
            "dashboards": {"enabled": True},
        },
        "Its Prometheus takes only what has its label `release`. If your release has another name, "
        "set `podMonitor.labels.release` and `prometheusRule.labels.release`.",
        "prometheus-community/helm-charts cf408a2",
    ),
    Preset(
        "page",
        "kube-prometheus-stack in the namespace `monitoring`, and the live page",
        {
            "accessControl": {"enabled": True, "scrapers": [_MONITORING]},
            "podMonitor": {"enabled": False},
            "serviceMonitor": {"enabled": True, "labels": _RELEASE},
        },
        "After `kube-prometheus-stack`. Kubernetes decides who scrapes and who sees what of the "
        "page: [security](security.md#kubernetes-own-access-control). Without TLS tokens travel "
        "readable.",
        "prometheus-community/helm-charts cf408a2",
    ),
)
