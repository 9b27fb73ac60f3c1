"""Nothing that a pod's owner writes beside a whole card takes the card's allocation away."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from exporter.allocations.registry import SCHEMES, decode
from exporter.model import NodeFacts
from tests.allocations.build import (
    CARD_MEMORY,
    FOUR_CARDS,
    card,
    container,
    granted,
    node,
    pod,
    told,
)

PLAIN = {"kubernetes.io/os": "linux"}
NVIDIA = node(*FOUR_CARDS, labels=PLAIN, allocatable={"nvidia.com/gpu": "4"})
AMD = node(
    *(card(n, vendor="amd") for n in range(2)), labels=PLAIN, allocatable={"amd.com/gpu": "2"}
)
VALUES = (
    *("x", ";;;", "0", "…", "GPU-0", "GPU-0,NVIDIA,1,1:;", "GPU-0,NVIDIA,1,1:", "a[0_GPU-0_1_1]"),
    *("{}", "[]", '{"gpu":"x"}', '{"gpu":[]}', '{"gpu":[{"minor":7}]}', '{"0":{"0":1}}', "1Gi"),
)
ENDS = ("", "a", "910B-devices-allocated", "a.gpu-memory.limit", "a.gpus.devices")


def written() -> Iterator[tuple[str, str]]:
    """Return every annotation and label that a scheme reads, with what somebody may write there."""
    beginnings = {key for scheme in SCHEMES for key in (*scheme.annotations, *scheme.labels)}
    keys = sorted(key + end for key in beginnings for end in ENDS)
    return ((key, value) for key in keys for value in VALUES)


@pytest.mark.parametrize(
    ("resource", "facts", "device"),
    [
        ("nvidia.com/gpu", replace(NVIDIA, grants=granted({"nvidia.com/gpu": ["GPU-1"]})), "GPU-1"),
        ("nvidia.com/gpu", NVIDIA, None),
        ("amd.com/gpu", AMD, None),
    ],
    ids=["granted", "not granted", "of AMD"],
)
def test_whole_card_stays_whatever_its_owner_writes(
    resource: str, facts: NodeFacts, device: str | None
) -> None:
    asking = container(limits={resource: "1"})
    whole = [("a", device, 1.0, CARD_MEMORY)]
    assert told(decode(pod(asking), facts)) == whole
    changed = {
        (key, value)
        for key, value in written()
        for notes in ({"annotations": {key: value}}, {"labels": {key: value}})
        if told(decode(pod(asking, **notes), facts)) != whole
    }
    assert changed == set()


@pytest.mark.parametrize(
    ("resource", "facts"), [("nvidia.com/gpu", NVIDIA), ("amd.com/gpu", AMD)], ids=["NVIDIA", "AMD"]
)
def test_whole_card_stays_beside_a_limit_of_0_of_any_other_resource(
    resource: str, facts: NodeFacts
) -> None:
    """The API server accepts it, and such a pod runs on every node."""
    others = {name for scheme in SCHEMES for name in scheme.resources}
    others |= {"amd.com/gpumem", "amd.com/gpucores"}
    whole = [("a", None, 1.0, CARD_MEMORY)]
    asking = {name: container(limits={name: "0", resource: "1"}) for name in others}
    changed = {name for name, one in asking.items() if told(decode(pod(one), facts)) != whole}
    assert changed == set()
