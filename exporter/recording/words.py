"""What sharing systems say that names nothing, and so is kept in every recording."""

from exporter.allocations.registry import SCHEMES

RESOURCE_PREFIXES = tuple(sorted({name for scheme in SCHEMES for name in scheme.resources}))
NODE_LABEL_PREFIXES = (  # how the node's cards are shared, and of which model they are
    "nvidia.com/gpu.",
    "nvidia.com/mig-",
    "cloud.google.com/gke-",
    "amd.com/compute-memory-partition",
    "vke.volcengine.com/mgpu-compute-policy",
    "tke.cloud.tencent.com/qgpu-schedule-policy",
    "mixed-qgpu-enable",
    "ack.node.gpu.schedule",
    "cgpu",
    "gpushare",
)
WORDS = frozenset(  # of annotations: what sharing systems say in words
    {
        *("fixed-share", "guaranteed-burst-share", "native-burst-share"),
        *("best-effort", "burst-share", "be", "fs", "bs"),
        *("online", "offline", "true", "false", "null"),
        *("hami-core", "mig", "mps", "containerIndex", "deviceIndex", "gpuUUID", "migUUID"),
        *("gpu", "minor", "resources", "koordinator.sh"),
        *("gpu-core", "gpu-memory", "gpu-memory-ratio"),
    }
)
