"""What a page must say of a node, by the arithmetic of the sharing systems that its pods are of."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import pytest

from exporter.model import ContainerKey
from tests.scenario.truth import Truth

Series = Mapping[tuple[str, ...], float]
Read = Callable[[str, Sequence[str]], Series]  # a family and labels → its numbers by them

PART = ("namespace", "pod", "container", "uuid")
POD = ("namespace", "pod")
SECOND = 10**9


@dataclass(frozen=True)
class Expected:
    """The series that must be there, each family in full."""

    core_limit: Series
    memory_limit: Series
    replicas: Series
    memory_ratio: Series
    pod_core_limit: Series
    pod_memory_limit: Series
    pod_memory_ratio: Series


def expected(truth: Truth) -> Expected:
    """What is told of limits and memory.

    A container's limit is told where its device is: by its system, or because it was seen there.
    What only the pod is promised is told of the pod alone.
    """
    told = {
        (key, uuid): promise
        for (key, uuid), promise in truth.promised.items()
        if key.container and (promise.device_known or truth.memory_bytes.get((key, uuid)))
    }
    unseen = {key[:2] for key, uuid in truth.promised.keys() - told.keys() if key.container}
    pods = truth.pods()
    fullness = _known((name, pod.memory_ratio) for name, pod in pods.items() if name not in unseen)
    return Expected(
        core_limit=_known(((*k, u), p.core) for (k, u), p in told.items()),
        memory_limit=_known(((*k, u), p.memory_bytes) for (k, u), p in told.items()),
        replicas=_known(((*k, u), p.replicas) for (k, u), p in told.items()),
        memory_ratio=_known(((*k, u), truth.memory_ratio(k, u)) for k, u in told),
        pod_core_limit=_known((name, pod.core_gpus) for name, pod in pods.items()),
        pod_memory_limit=_known((name, pod.memory_bytes) for name, pod in pods.items()),
        pod_memory_ratio=fullness,
    )


def found(read: Read) -> Expected:
    """The same families as they are read."""
    return Expected(
        core_limit=read("mgpu_container_core_limit_ratio", PART),
        memory_limit=read("mgpu_container_memory_limit_bytes", PART),
        replicas=read("mgpu_container_allocated_replicas", PART),
        memory_ratio=read("mgpu_container_memory_limit_utilization_ratio", PART),
        pod_core_limit=read("mgpu_pod_core_limit_gpus", POD),
        pod_memory_limit=read("mgpu_pod_memory_limit_bytes", POD),
        pod_memory_ratio=read("mgpu_pod_memory_limit_utilization_ratio", POD),
    )


def check_limits(truth: Truth, read: Read) -> None:
    """Fail unless every limit is there, as promised, and no other."""
    read_of = asdict(found(read))
    for family, series in asdict(expected(truth)).items():
        assert read_of[family] == pytest.approx(series, rel=1e-9), family


def check_use(truth: Truth, read: Read) -> None:
    """Fail unless core use, and its ratio to the limit, are the truth's to the sampling noise.

    A driver's sample names one process, so that a share p of T seconds cannot be known better than
    by √(p(1-p)/(6·T)) from samples.
    """
    use = read("mgpu_container_core_utilization_ratio", PART)
    ratios = read("mgpu_container_core_limit_utilization_ratio", PART)
    checked = 0
    for (owner, uuid), ns in truth.core_ns.items():
        if isinstance(owner, ContainerKey):
            share = ns / truth.length_ns
            noise = 3 * math.sqrt(share * (1 - share) * SECOND / truth.length_ns / 6) + 0.01
            assert use[*owner, uuid] == pytest.approx(share, abs=noise), owner
            ratio = truth.core_ratio(owner, uuid)
            if ratio is not None:
                limit = share / ratio
                assert ratios[*owner, uuid] == pytest.approx(ratio, abs=noise / limit), owner
            checked += 1
    assert checked
    _check_pods(truth, read)


def _check_pods(truth: Truth, read: Read) -> None:
    """The noise of a pod is that of all of its containers and devices."""
    found = read("mgpu_pod_core_limit_utilization_ratio", POD)
    parts = Counter(owner[:2] for owner, _ in truth.core_ns if isinstance(owner, ContainerKey))
    for name, pod in truth.pods().items():
        if pod.core_ratio is None or pod.core_gpus is None:
            assert name not in found
        elif parts[name]:
            noise = 3 * math.sqrt(parts[name] * SECOND / truth.length_ns / 24) + 0.01
            assert found[name] == pytest.approx(pod.core_ratio, abs=noise / pod.core_gpus), name


def _known(items: Iterable[tuple[tuple[str, ...], float | None]]) -> Series:
    return {key: value for key, value in items if value is not None}
