"""elastic-gpu-exporter and tkestack's gpu-manager.

elastic-gpu-exporter (``pkg/metrics``): usage in per cent of one GPU and MiB, utilization in per
cent of the request, occupation in per cent of the node. Its later releases and TKE's gpu-exporter
append ``_percentage`` to ``utilization``; both names are served. ``pod`` is the pod's name; the
first release used its UID.

gpu-manager (``pkg/services/display``): usage per card (``gpu0``) and in total, in per cent of one
GPU and MiB; requests in GPUs and MiB.
"""

from collections.abc import Callable
from functools import partial

from exporter.metrics.compat.subjects import PERCENT, Alias, Figure, of, quotient
from exporter.model import MIB

_CARD = {"node": "node", "card": "gpu"}
_POD = {"node": "node", "namespace": "namespace", "pod": "pod"}
_CONTAINER = {**_POD, "container": "container"}
_MANAGED = {
    "pod_name": "pod",
    "namespace": "namespace",
    "node": "node",
    "container_name": "container",
}


_core, _memory = partial(of, times=PERCENT), partial(of, per=MIB)
_on_card = partial(Alias, subject="device", labels=_CARD)
_on_pod = partial(Alias, subject="pod", labels=_POD)
_on_container = partial(Alias, subject="task", labels=_CONTAINER)


def _ratio(
    make: Callable[..., Alias], name: str, about: str, figure: Figure
) -> tuple[Alias, Alias]:
    """A share under both its names."""
    return make(name, about, figure=figure), make(f"{name}_percentage", about, figure=figure)


def _quotient(part: str, whole: str) -> Figure:
    return quotient(part, whole, PERCENT)


_CORE, _HELD, _LIMIT = "core_utilization_ratio", "memory_used_bytes", "memory_limit_bytes"
_BUSY, _HELD_OF_LIMIT = _core("utilization_ratio"), _quotient(_HELD, _LIMIT)

ELASTIC_GPU = (
    _on_card("gpu_core_usage", "Usage of gpu core per card (in %)", figure=_BUSY),
    *_ratio(_on_card, "gpu_core_utilization", "Utilization of gpu core per card", _BUSY),
    _on_card("gpu_mem_usage", "Usage of gpu memory per card (in MiB)", figure=_memory(_HELD)),
    *_ratio(
        _on_card,
        "gpu_mem_utilization",
        "Utilization of gpu memory per card",
        _quotient(_HELD, "memory_total_bytes"),
    ),
    _on_pod(
        "pod_core_usage",
        "Usage of gpu core per pod (in % of one)",
        figure=_core("core_usage_gpus"),
    ),
    *_ratio(
        _on_pod,
        "pod_core_utilization",
        "Usage of gpu core against the request",
        _core("core_limit_utilization_ratio"),
    ),
    *_ratio(
        _on_pod,
        "pod_core_occupy_node",
        "Usage of gpu core against the node's",
        _quotient("core_usage_gpus", "node_gpus"),
    ),
    _on_pod("pod_mem_usage", "Usage of gpu memory per pod (in MiB)", figure=_memory(_HELD)),
    *_ratio(
        _on_pod, "pod_mem_utilization", "Usage of gpu memory against the request", _HELD_OF_LIMIT
    ),
    *_ratio(
        _on_pod,
        "pod_mem_occupy_node",
        "Usage of gpu memory against the node's",
        _quotient(_HELD, "node_memory_bytes"),
    ),
    _on_pod(
        "pod_core_request", "Request of pod core (in % of one)", figure=_core("core_limit_gpus")
    ),
    _on_pod("pod_mem_request", "Request of pod memory (in MiB)", figure=_memory(_LIMIT)),
    _on_container(
        "container_core_usage",
        "Usage of gpu core per container (in % of one)",
        figure=_core(_CORE),
    ),
    *_ratio(
        _on_container,
        "container_core_utilization",
        "Usage of gpu core against the request",
        _quotient(_CORE, "core_limit_ratio"),
    ),
    _on_container(
        "container_mem_usage", "Usage of gpu memory per container (in MiB)", figure=_memory(_HELD)
    ),
    *_ratio(
        _on_container,
        "container_mem_utilization",
        "Usage of gpu memory against the request",
        _HELD_OF_LIMIT,
    ),
)


def _managed(name: str, about: str, figure: Figure, label: str) -> tuple[Alias, Alias]:
    """A container's series: one for each card, and their total."""
    return (
        Alias(name, about, "container", {**_MANAGED, label: "card"}, figure),
        _requested(name, about, figure, label),
    )


def _requested(name: str, about: str, figure: Figure, label: str) -> Alias:
    return Alias(name, about, "task", {**_MANAGED, label: "=total"}, figure)


GPU_MANAGER = (
    *_managed("container_gpu_utilization", "gpu utilization", _core(_CORE), "gpu"),
    _requested(
        "container_request_gpu_utilization",
        "request of gpu utilization",
        of("core_limit_ratio"),
        "req_of_gpu",
    ),
    *_managed(
        "container_gpu_memory_total", "gpu memory usage in MiB", _memory(_HELD), "gpu_memory"
    ),
    _requested(
        "container_request_gpu_memory",
        "request of gpu memory in MiB",
        _memory(_LIMIT),
        "req_of_gpu_memory",
    ),
)
