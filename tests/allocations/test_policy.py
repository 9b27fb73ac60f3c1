"""Each allocation says whether anything holds its container to it."""

from dataclasses import replace

import pytest

from exporter.allocations.registry import SCHEMES, decode
from exporter.model import Allocation
from tests.allocations.build import FOUR_CARDS, container, node, pod

NODE = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
BY_NAME = {scheme.name: scheme for scheme in SCHEMES}


def part(**changes: object) -> Allocation:
    stated: dict[str, object] = {"core": 0.5, "memory_bytes": 1, **changes}
    return Allocation("u", "a", "GPU-0", scheme="x", **stated)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scheme", "allocation", "policy"),
    [
        ("hami", part(), "enforced"),
        ("hami", part(policy="mps"), "mps"),
        ("hami", part(core=None, memory_bytes=None), ""),
        ("aliyun-gpushare-v1", part(core=None), "unenforced"),
        ("volcano-gpushare", part(core=None), "unenforced"),
        ("volcano-gpushare", part(core=1.0), "enforced"),
        ("koordinator", part(), "unenforced"),
        ("elastic-gpu", part(), "unenforced"),
        ("aliyun-acs", part(), ""),
        ("nvidia-device-plugin", part(core=1.0), "enforced"),
        ("intel-device-plugin", part(core=None, memory_bytes=None, replicas=2), "shared"),
    ],
)
def test_policy_is_the_systems_term_or_what_is_known(
    scheme: str, allocation: Allocation, policy: str
) -> None:
    assert BY_NAME[scheme].policy(allocation) == policy


@pytest.mark.parametrize(
    ("labels", "policy"),
    [
        ({}, "unenforced"),
        ({"koordinator.sh/gpu-isolation-provider": "HAMi-core"}, "hami-core"),
        ({"koordinator.sh/gpu-isolation-provider": "ü" * 5000}, "unenforced"),
    ],
)
def test_koordinators_label_names_what_enforces(labels: dict[str, str], policy: str) -> None:
    limits = {"koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory": "1Gi"}
    decoded = decode(pod(container("a", limits), labels=labels), NODE)
    assert {a.policy for a in decoded.allocations} == {policy}


@pytest.mark.parametrize(
    ("mode", "policy"),
    [("", "unenforced"), ("hami-core", "unenforced"), ("mps", "mps")],
)
@pytest.mark.parametrize("encoded", ["GPU-0,NVIDIA,1000,10:;", ""])
def test_hami_core_does_not_hold_a_container_that_disables_it(
    mode: str, policy: str, encoded: str
) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "10"}
    free = replace(container("a", limits), uncontrolled=True)
    notes = {"hami.io/vgpu-devices-allocated": encoded, "nvidia.com/vgpu-mode": mode}
    decoded = decode(pod(free, annotations=notes), NODE)
    assert [(a.policy, a.memory_bytes) for a in decoded.allocations] == [(policy, 1000 << 20)]
