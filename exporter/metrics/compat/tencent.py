"""elastic-gpu-exporter and tkestack's gpu-manager.

elastic-gpu-exporter (``pkg/metrics``): usage in per cent of one GPU and MiB, utilization in per
cent of the request, occupation in per cent of the node. Its later releases and TKE's gpu-exporter
append ``_percentage`` to ``utilization``; both names are served. ``pod`` is the pod's name; the
first release used its UID.

gpu-manager (``pkg/services/display``): usage per card (``gpu0``) and in total, in per cent of one
GPU and MiB; requests in GPUs and MiB.
"""

from exporter.metrics.compat.subjects import MIB, PERCENT, Alias, Figure, of, quotient

_CARD = {"node": "node", "card": "gpu"}
_POD = {"node": "node", "namespace": "namespace", "pod": "pod"}
_CONTAINER = {**_POD, "container": "container"}
_MANAGED = {
    "pod_name": "pod",
    "namespace": "namespace",
    "node": "node",
    "container_name": "container",
}


def _percentages(
    name: str, about: str, subject: str, labels: dict[str, str], figure: Figure
) -> tuple[Alias, Alias]:
    """A share under both its names."""
    return (
        Alias(name, about, subject, labels, figure),
        Alias(f"{name}_percentage", about, subject, labels, figure),
    )


def _occupied(part: str, whole: str) -> Figure:
    return quotient(part, whole, PERCENT)


def _pod_share(name: str) -> Figure:
    return of(f"{name}_limit_utilization_ratio", times=PERCENT)


ELASTIC_GPU = (
    Alias(
        "gpu_core_usage",
        "Usage of gpu core per card (in %)",
        "device",
        _CARD,
        of("utilization_ratio", times=PERCENT),
    ),
    *_percentages(
        "gpu_core_utilization",
        "Utilization of gpu core per card",
        "device",
        _CARD,
        of("utilization_ratio", times=PERCENT),
    ),
    Alias(
        "gpu_mem_usage",
        "Usage of gpu memory per card (in MiB)",
        "device",
        _CARD,
        of("memory_used_bytes", per=MIB),
    ),
    *_percentages(
        "gpu_mem_utilization",
        "Utilization of gpu memory per card",
        "device",
        _CARD,
        quotient("memory_used_bytes", "memory_total_bytes", PERCENT),
    ),
    Alias(
        "pod_core_usage",
        "Usage of gpu core per pod (in % of one)",
        "pod",
        _POD,
        of("core_usage_gpus", times=PERCENT),
    ),
    *_percentages(
        "pod_core_utilization",
        "Usage of gpu core against the request",
        "pod",
        _POD,
        _pod_share("core"),
    ),
    *_percentages(
        "pod_core_occupy_node",
        "Usage of gpu core against the node's",
        "pod",
        _POD,
        _occupied("core_usage_gpus", "node_gpus"),
    ),
    Alias(
        "pod_mem_usage",
        "Usage of gpu memory per pod (in MiB)",
        "pod",
        _POD,
        of("memory_used_bytes", per=MIB),
    ),
    *_percentages(
        "pod_mem_utilization",
        "Usage of gpu memory against the request",
        "pod",
        _POD,
        quotient("memory_used_bytes", "memory_limit_bytes", PERCENT),
    ),
    *_percentages(
        "pod_mem_occupy_node",
        "Usage of gpu memory against the node's",
        "pod",
        _POD,
        _occupied("memory_used_bytes", "node_memory_bytes"),
    ),
    Alias(
        "pod_core_request",
        "Request of pod core (in % of one)",
        "pod",
        _POD,
        of("core_limit_gpus", times=PERCENT),
    ),
    Alias(
        "pod_mem_request",
        "Request of pod memory (in MiB)",
        "pod",
        _POD,
        of("memory_limit_bytes", per=MIB),
    ),
    Alias(
        "container_core_usage",
        "Usage of gpu core per container (in % of one)",
        "task",
        _CONTAINER,
        of("core_utilization_ratio", times=PERCENT),
    ),
    *_percentages(
        "container_core_utilization",
        "Usage of gpu core against the request",
        "task",
        _CONTAINER,
        quotient("core_utilization_ratio", "core_limit_ratio", PERCENT),
    ),
    Alias(
        "container_mem_usage",
        "Usage of gpu memory per container (in MiB)",
        "task",
        _CONTAINER,
        of("memory_used_bytes", per=MIB),
    ),
    *_percentages(
        "container_mem_utilization",
        "Usage of gpu memory against the request",
        "task",
        _CONTAINER,
        quotient("memory_used_bytes", "memory_limit_bytes", PERCENT),
    ),
)

GPU_MANAGER = (
    Alias(
        "container_gpu_utilization",
        "gpu utilization",
        "container",
        {**_MANAGED, "gpu": "card"},
        of("core_utilization_ratio", times=PERCENT),
    ),
    Alias(
        "container_gpu_utilization",
        "gpu utilization",
        "task",
        {**_MANAGED, "gpu": "=total"},
        of("core_utilization_ratio", times=PERCENT),
    ),
    Alias(
        "container_request_gpu_utilization",
        "request of gpu utilization",
        "task",
        {**_MANAGED, "req_of_gpu": "=total"},
        of("core_limit_ratio"),
    ),
    Alias(
        "container_gpu_memory_total",
        "gpu memory usage in MiB",
        "container",
        {**_MANAGED, "gpu_memory": "card"},
        of("memory_used_bytes", per=MIB),
    ),
    Alias(
        "container_gpu_memory_total",
        "gpu memory usage in MiB",
        "task",
        {**_MANAGED, "gpu_memory": "=total"},
        of("memory_used_bytes", per=MIB),
    ),
    Alias(
        "container_request_gpu_memory",
        "request of gpu memory in MiB",
        "task",
        {**_MANAGED, "req_of_gpu_memory": "=total"},
        of("memory_limit_bytes", per=MIB),
    ),
)
