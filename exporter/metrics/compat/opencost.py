"""OpenCost's and Kubecost's ``container_gpu_allocation`` (``pkg/costmodel/metrics.go``).

Theirs is what the pod's resources state: whole cards, and 0 for a part of one. From this one they
charge parts, too. ``instance`` is left to Prometheus, because OpenCost does not ask for it.

Left out: their prices (``node_gpu_hourly_cost``), which OpenCost knows itself.
"""

from exporter.metrics.compat.subjects import Alias, of

ALIASES = (
    Alias(
        "container_gpu_allocation",
        "GPUs allocated to the container, also parts of one",
        "allocation",
        {
            "namespace": "namespace",
            "pod": "pod",
            "container": "container",
            "node": "node",
            "uid": "uid",
        },
        of("allocated_gpus"),
    ),
)
