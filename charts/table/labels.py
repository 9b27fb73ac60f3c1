"""The labels by which nodes with GPUs are known: whose they are, and their values."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeLabels:
    """Labels of one platform. Those without a value may have any."""

    whose: str
    labels: tuple[tuple[str, str], ...]
    schemes: tuple[str, ...] = ()

    @property
    def shown(self) -> Iterator[str]:
        """They as kubectl writes them."""
        return (f"{key}={value}" if value else key for key, value in self.labels)


_NFD = "feature.node.kubernetes.io/pci-{}10de.present"

LABELS: tuple[NodeLabels, ...] = (
    NodeLabels(
        "GPU operator, GPU feature discovery",
        (("nvidia.com/gpu.present", "true"),),
        ("nvidia-device-plugin", "kai", "nvfractions", "vgpu-manager", "volcano-vgpu", "dra"),
    ),
    NodeLabels(
        "node feature discovery",
        tuple((_NFD.format(kind), "true") for kind in ("", "0302_", "0300_")),
        ("volcano-gpushare", "elastic-gpu"),
    ),
    NodeLabels("Volcano Engine VKE", (("vke.node.gpu.schedule", ""),), ("vke-mgpu",)),
    NodeLabels(
        "Tencent TKE, gpu-manager",
        (("qgpu-device-enable", ""), ("nvidia-device-enable", "enable")),
        ("tke-qgpu", "tkestack-gpu-manager"),
    ),
    NodeLabels("HAMi", (("gpu", "on"),), ("hami",)),
    NodeLabels(
        "Alibaba Cloud ACK",
        (
            ("aliyun.accelerator/nvidia_name", ""),
            ("ack.node.gpu.schedule", ""),
            ("cgpu", "true"),
            ("gpushare", "true"),
        ),
        ("aliyun-ack", "aliyun-gpushare-v1", "aliyun-acs"),
    ),
    NodeLabels("Koordinator", (("node.koordinator.sh/gpu-vendor", "nvidia"),), ("koordinator",)),
    NodeLabels("Huawei CCE, and AKS of old", (("accelerator", ""),), ("huawei-cce",)),
    NodeLabels("Baidu CCE", (("beta.kubernetes.io/instance-gpu", "true"),), ("baidu-cce",)),
    NodeLabels("Google GKE", (("cloud.google.com/gke-accelerator", ""),), ("gke",)),
    NodeLabels(
        "Amazon EKS, its Auto Mode, Karpenter",
        (
            ("k8s.amazonaws.com/accelerator", ""),
            ("eks.amazonaws.com/instance-gpu-name", ""),
            ("karpenter.k8s.aws/instance-gpu-name", ""),
        ),
    ),
    NodeLabels(
        "Azure AKS, Karpenter",
        (("kubernetes.azure.com/accelerator", ""), ("karpenter.azure.com/sku-gpu-name", "")),
    ),
    NodeLabels(
        "Talos Linux",
        tuple(
            (f"extensions.talos.dev/nvidia-container-toolkit{kind}", "")
            for kind in ("", "-production", "-lts")
        ),
    ),
)
