from dataclasses import replace

import pytest

from exporter.agent.allocations import registry
from exporter.agent.allocations.reader import PodReader
from exporter.agent.allocations.registry import SCHEMES, decode, read_by
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import Decoded, IndexBasis
from exporter.model import Allocation, Grant, Pod
from tests.agent.allocations.build import FOUR_CARDS, POD_UID, container, node, pod

GPU = {"nvidia.com/gpu": "1"}
NODE = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})


def broken(_: PodReader) -> list[Allocation]:
    msg = "defect " + "x" * 1000
    raise LookupError(msg)


def reserving(reader: PodReader) -> list[Allocation]:
    reader.holds_for_others()
    return []


BROKEN = Scheme("broken", ("example.com/gpu",), (), IndexBasis.UUID, broken)


@pytest.mark.parametrize(
    ("annotations", "limits"),
    [
        ({"vke.volcengine.com/gpu-index-container-a": "0"}, {"vke.volcengine.com/mgpu-core": "3"}),
        ({"tke.cloud.tencent.com/qgpu-pgpu-a": "0"}, {"tke.cloud.tencent.com/qgpu-core": "10"}),
        (
            {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,1,1:;"},
            {**GPU, "nvidia.com/gpumem": "1"},
        ),
        ({"volcano.sh/vgpu-ids-new": "GPU-0,NVIDIA,1,1:"}, {"volcano.sh/vgpu-number": "1"}),
        ({"volcano.sh/gpu-index": "0"}, {"volcano.sh/gpu-memory": "1"}),
        ({"ALIYUN_COM_GPU_MEM_IDX": "0"}, {"aliyun.com/gpu-mem": "1"}),
        (
            {"scheduler.framework.gpushare.allocation": '{"0":{"0":1}}'},
            {"aliyun.com/gpu-mem": "1"},
        ),
        (
            {"scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":0,"resources":{}}]}'},
            {"koordinator.sh/gpu-core": "10"},
        ),
        ({"tencent.com/predicate-gpu-idx-0": "0"}, {"tencent.com/vcuda-core": "10"}),
        ({"elasticgpu.io/container-a": "0"}, {"elasticgpu.io/gpu-core": "10"}),
    ],
)
def test_placement_before_the_cards_are_known_is_no_problem(
    annotations: dict[str, str], limits: dict[str, str]
) -> None:
    facts = node(labels={"kubernetes.io/os": "linux"})
    decoded = decode(pod(container(limits=limits), annotations=annotations), facts)
    assert [a.device for a in decoded.allocations] == [None]
    assert decoded.problems == ()


def test_schemes_of_different_resources_add_up() -> None:
    described = pod(
        container("a", {"vke.volcengine.com/mgpu-core": "30"}),
        container("b", {"tke.cloud.tencent.com/qgpu-core": "40"}),
    )
    assert [a.core for a in decode(described, NODE).allocations] == [0.3, 0.4]


@pytest.mark.parametrize(
    "ended",
    [
        pod(container(limits=GPU), phase="Succeeded"),
        pod(container(limits=GPU), phase="Failed"),
        replace(pod(container(limits=GPU)), deleted=True),
    ],
    ids=["succeeded", "failed", "deleted"],
)
def test_pod_that_has_ended_has_no_allocation(ended: Pod) -> None:
    assert decode(ended, NODE) == Decoded()


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: scheme.name)
def test_pod_that_asks_for_nothing_and_holds_nothing_is_no_schemes(scheme: Scheme) -> None:
    assert read_by(scheme, pod(container()), NODE) == Decoded()


def test_devices_of_a_pod_that_asks_for_nothing_count_where_the_kubelet_tells_of_them() -> None:
    grant = Grant(container().name, "nvidia.com/gpu", (FOUR_CARDS[0].uuid,))
    facts = replace(NODE, grants={POD_UID: (grant,)})
    [allocation] = decode(pod(container()), facts).allocations
    assert allocation.device == FOUR_CARDS[0].uuid


def test_pod_that_waits_to_start_has_its_allocation() -> None:
    assert decode(pod(container(limits=GPU), phase="Pending"), NODE).allocations


def test_defect_of_one_decoder_costs_neither_the_cycle_nor_the_other_schemes() -> None:
    asked = pod(container(limits={**GPU, "example.com/gpu": "1"}))
    decoded = decode(asked, NODE, schemes=(BROKEN, *SCHEMES))
    assert len(decoded.allocations) == 1
    (problem,) = decoded.problems
    assert (problem.pod, problem.scheme, problem.reason) == (POD_UID, "broken", "decoder_error")
    assert "LookupError" in problem.detail
    assert len(problem.detail) <= 200


def test_a_scheme_is_not_asked_about_a_pod_without_a_key_of_its_domains() -> None:
    decoded = decode(pod(container(limits=GPU)), NODE, schemes=(BROKEN, *SCHEMES))
    assert (len(decoded.allocations), decoded.problems) == (1, ())


def test_defect_of_a_decoder_does_not_pass_its_pod_to_the_next() -> None:
    claims_gpu = replace(BROKEN, resources=("nvidia.com/gpu",))
    decoded = decode(pod(container(limits=GPU)), NODE, schemes=(claims_gpu, *SCHEMES))
    assert decoded.allocations == ()


def test_pod_that_holds_devices_for_others_is_no_later_schemes_either() -> None:
    holding = Scheme("holding", tuple(GPU), (), IndexBasis.UUID, reserving)
    described = pod(container(limits=GPU))
    assert decode(described, NODE, schemes=(holding, *SCHEMES)) == Decoded()


@pytest.mark.parametrize(
    "key",
    ["hami.io/vgpu-devices-to-allocate", "volcano.sh/vgpu-time", "app", "kubectl.kubernetes.io/x"],
)
def test_keys_that_no_decoder_reads_are_not_kept(key: str) -> None:
    assert not key.startswith((*Rules().annotations, *Rules().labels))


def test_names_of_schemes_are_unique() -> None:
    assert len({scheme.name for scheme in registry.SCHEMES}) == len(registry.SCHEMES)
