from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.agent.allocations.registry import SCHEMES, read_by
from exporter.agent.allocations.rules import Rules, RulesError, make
from exporter.agent.allocations.terms import IndexBasis
from exporter.agent.settings.clustersettings import FACTOR_NAME, RESOURCE_NAMES
from exporter.agent.settings.schemes import KEYS
from exporter.model import Device, SchemeDescription
from tests.agent.allocations.build import FOUR_CARDS, container, granted, node, pod

CORE = "acme.example/core"
ACME = SchemeDescription(name="acme", core_resource=CORE, placement_annotation="acme.example/card")
NODE = node(*FOUR_CARDS, labels={"kubernetes.io/os": "linux"})


def complaints(
    *described: SchemeDescription, bases: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    with pytest.raises(RulesError) as caught:
        make(described, bases)
    return list(caught.value.complaints)


def test_nothing_said_is_the_shipped_schemes() -> None:
    assert make() == Rules()
    assert make().schemes == SCHEMES


def test_a_described_scheme_is_read_beside_the_shipped_ones() -> None:
    rules = make([ACME])
    described = pod(
        container("a", {CORE: "30"}), container("b", {"vke.volcengine.com/mgpu-core": "40"})
    )
    found = rules.decode(described, NODE).allocations
    assert {(a.container, a.scheme, a.core) for a in found} == {
        ("a", "acme", 0.3),
        ("b", "vke-mgpu", 0.4),
    }


@pytest.mark.parametrize(
    ("name", "resource", "whose"),
    [
        ("acme", "tke.cloud.tencent.com/qgpu-core", "tke-qgpu"),
        ("acme", "nvidia.com/gpucores", "hami"),
        ("acme", "nvidia.com/mig-1g.5gb", "nvidia-device-plugin"),
        ("vke-mgpu", CORE, "vke-mgpu"),
    ],
)
def test_a_shipped_schemes_name_and_resources_are_taken_only_by_saying_so(
    name: str, resource: str, whose: str
) -> None:
    [(setting, text)] = complaints(SchemeDescription(name=name, core_resource=resource))
    assert setting == "schemes"
    assert text.startswith(name)
    assert f"replaces: [{whose}]" in text

    rules = make([SchemeDescription(name=name, core_resource=resource, replaces=(whose,))])
    assert [s.name for s in rules.schemes].count(whose) == (name == whose)
    [found] = rules.decode(pod(container(limits={resource: "30"})), NODE).allocations
    assert (found.scheme, found.core) == (name, 0.3)


def test_a_resource_of_several_schemes_needs_all_of_them_to_be_replaced() -> None:
    about = SchemeDescription(name="acme", count_resource="nvidia.com/gpu", replaces=("hami",))
    whose = [s.name for s in SCHEMES if "nvidia.com/gpu" in s.resources and s.name != "hami"]
    [(_, text)] = complaints(about)

    assert "nvidia-device-plugin" in whose
    assert text.endswith(f"replaces: [{', '.join(whose)}]")
    assert make([replace(about, replaces=("hami", *whose))]).schemes[0].name == "acme"


def test_only_shipped_schemes_can_be_replaced() -> None:
    about = SchemeDescription(name="acme", core_resource=CORE, replaces=("acne",))
    [(_, text)] = complaints(about)
    assert text.startswith("acme replaces acne, which is not shipped; known: ")


@pytest.mark.parametrize(
    ("scheme", "complaint"),
    [
        ("hami", "hami does not number its cards; those that number them: acme, "),
        ("none", "none is no scheme that is read; those that number them: acme, "),
        ("huawei-cce", "huawei-cce does not number its cards; those that number them: acme, "),
        ("amd-device-plugin", "amd-device-plugin does not number its cards; those that number "),
    ],
)
def test_an_index_basis_is_for_schemes_that_number_their_cards(scheme: str, complaint: str) -> None:
    [(setting, text)] = complaints(ACME, bases={scheme: "minor", "acme": "pci"})
    assert setting == "index-basis"
    assert text.startswith(complaint)


RENAMED = {
    "resourceCountName": "acme.example/vgpu",
    "resourceMemoryName": "acme.example/vmem",
    "memoryFactor": "256",
}


def test_hami_is_read_under_the_names_of_its_configuration() -> None:
    rules = make((), None, RENAMED)
    renamed = container("a", {"acme.example/vgpu": "1", "acme.example/vmem": "4"})
    found = rules.decode(pod(renamed, container("b", {"nvidia.com/gpucores": "30"})), NODE)

    assert [(a.container, a.scheme, a.core, a.memory_bytes) for a in found.allocations] == [
        ("a", "hami", None, 1 << 30),
        ("b", "hami", 0.3, None),
    ]
    assert make().decode(pod(renamed), NODE).allocations == ()
    assert [scheme.name for scheme in rules.schemes] == [scheme.name for scheme in SCHEMES]


def test_hamis_configured_resources_are_not_to_be_taken_either() -> None:
    about = SchemeDescription(name="acme", core_resource="acme.example/vmem")
    with pytest.raises(RulesError, match=r"acme reads acme.example/vmem.*replaces: \[hami\]"):
        make([about], None, RENAMED)


def test_every_key_of_hami_that_can_be_set_is_followed() -> None:
    rules = make((), None, {key: f"acme.example/{key}" for key in RESOURCE_NAMES})
    [renamed] = [scheme for scheme in rules.schemes if scheme.name == "hami"]

    assert {f"acme.example/{key}" for key in RESOURCE_NAMES} <= set(renamed.resources)
    assert FACTOR_NAME in RENAMED


def test_hamis_names_read_no_resource_as_two_things() -> None:
    with pytest.raises(RulesError) as caught:
        make((), None, {"resourceMemoryName": "nvidia.com/gpucores"})
    assert caught.value.complaints == [("hami", "it reads nvidia.com/gpucores as two things")]


def test_all_that_does_not_fit_is_said_at_once() -> None:
    both = SchemeDescription(name="hami", count_resource="nvidia.com/gpu")
    assert len(complaints(both, bases={"none": "pci"})) == 3


def test_the_bases_that_a_description_can_name_are_those_that_there_are() -> None:
    assert KEYS["index-basis"].kind.allowed == f"one of {', '.join(IndexBasis)}"


PLACED = {  # what each system writes for card 1, and what its container asks for
    "vke-mgpu": ({"vke.volcengine.com/gpu-index-container-a": "1"}, "vke.volcengine.com/mgpu-core"),
    "tke-qgpu": ({"tke.cloud.tencent.com/qgpu-pgpu-a": "1"}, "tke.cloud.tencent.com/qgpu-core"),
    "volcano-gpushare": ({"volcano.sh/gpu-index": "1"}, "volcano.sh/gpu-memory"),
    "aliyun-ack": (
        {"scheduler.framework.gpushare.allocation": '{"0":{"1":1}}'},
        "aliyun.com/gpu-mem",
    ),
    "aliyun-gpushare-v1": ({"ALIYUN_COM_GPU_MEM_IDX": "1"}, "aliyun.com/gpu-mem"),
    "tkestack-gpu-manager": ({"tencent.com/predicate-gpu-idx-0": "1"}, "tencent.com/vcuda-core"),
    "elastic-gpu": ({"elasticgpu.io/container-a": "1"}, "elasticgpu.io/gpu-core"),
    "koordinator": (
        {"scheduling.koordinator.sh/device-allocated": '{"gpu":[{"minor":1}]}'},
        "koordinator.sh/gpu-core",
    ),
    "nvfractions": (
        {
            "nvidia.com/container.a.gpu-memory.limit": "1Gi",
            "nvidia.com/container.a.gpus.devices": "1",
        },
        "",
    ),
}
GRANTED = {
    "gke": ("nvidia.com/gpu", "nvidia1"),
    "intel-device-plugin": ("gpu.intel.com/xe", "card1-0"),
}


@pytest.mark.parametrize("basis", ["nvml_index", "minor", "pci"])
@pytest.mark.parametrize(
    "scheme", [s.name for s in SCHEMES if s.index_basis not in {None, IndexBasis.UUID}]
)
def test_every_scheme_that_numbers_its_cards_follows_the_basis(scheme: str, basis: str) -> None:
    cards = [
        Device(
            uuid=f"GPU-{number}",
            index=number,
            vendor="intel" if scheme.startswith("intel") else "nvidia",
            minor=(number + 1) % 3,
            pci_bus_id=f"0000:0{(number + 2) % 3}:00.0",
        )
        for number in range(3)
    ]
    facts = node(*cards, index_bases={scheme: basis})
    annotations, asked = PLACED.get(scheme, ({}, ""))
    if scheme in GRANTED:
        asked, held = GRANTED[scheme]
        facts = replace(facts, grants=granted({asked: [held]}))
    described = pod(container("a", {asked: "1"} if asked else {}), annotations=annotations)
    [decoder] = [one for one in SCHEMES if one.name == scheme]
    [found] = read_by(decoder, described, facts).allocations
    named = {"nvml_index": "GPU-1", "minor": "GPU-0", "pci": "GPU-2"}
    assert found.device == named[basis]
