"""Each allocation says how its device is shared, and whether anything holds its container to it."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from exporter.agent.allocations.registry import SCHEMES
from exporter.agent.allocations.registry import decode as by_registry
from exporter.agent.allocations.terms import Decoded, Reason
from exporter.model import Allocation, AllocationFacts, Granted, NodeFacts, Pod
from exporter.model.policies import LENDS, policies
from tests.agent.allocations.build import (
    FOUR_CARDS,
    container,
    decoder,
    granted,
    node,
    pod,
    reasons,
)

FOUR = node(*FOUR_CARDS)
NODE = replace(FOUR, labels={"kubernetes.io/os": "linux"})
BY_NAME = {scheme.name: scheme for scheme in SCHEMES}
ALIYUN_CGPU = decoder(BY_NAME["aliyun-ack"])
GKE = decoder(BY_NAME["gke"])
HAMI = decoder(BY_NAME["hami"])
NVIDIA = decoder(BY_NAME["nvidia-device-plugin"])
TKE_QGPU = decoder(BY_NAME["tke-qgpu"])
VGPU_MANAGER = decoder(BY_NAME["vgpu-manager"])
VKE_MGPU = decoder(BY_NAME["vke-mgpu"])
VOLCANO_VGPU = decoder(BY_NAME["volcano-vgpu"])


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


def labelled(**labels: str) -> NodeFacts:
    """A node with labels, whose keys have no dots here."""
    return node(*FOUR_CARDS, labels={KEYS[name]: text for name, text in labels.items()})


KEYS = {
    "vke": "vke.volcengine.com/mgpu-compute-policy",
    "tke": "tke.cloud.tencent.com/qgpu-schedule-policy",
    "mixed": "mixed-qgpu-enable",
    "ack": "ack.node.gpu.schedule",
    "cgpu": "cgpu",
    "gpushare": "gpushare",
    "gke": "cloud.google.com/gke-accelerator",
    "gke_strategy": "cloud.google.com/gke-gpu-sharing-strategy",
    "gke_clients": "cloud.google.com/gke-max-shared-clients-per-gpu",
    "os": "kubernetes.io/os",
    "strategy": "nvidia.com/gpu.sharing-strategy",
    "replicas": "nvidia.com/gpu.replicas",
}
TKE_HALF = {"tke.cloud.tencent.com/qgpu-core": "50"}
VKE, TKE = {"vke.volcengine.com/mgpu-core": "10"}, {"tke.cloud.tencent.com/qgpu-core": "200"}
ACK, VOLCANO = {"aliyun.com/gpu-mem": "2"}, {"volcano.sh/vgpu-number": "1"}
ACK_CORE = {**ACK, "aliyun.com/gpu-core.percentage": "60"}
VGPU, GPU = {"nvidia.com/vgpu-number": "1"}, {"nvidia.com/gpu": "1"}
ON_CARDS = {"tke.cloud.tencent.com/qgpu-pgpu-a": "1,0"}
IDS, LIST = "volcano.sh/vgpu-ids-new", "hami.io/vgpu-devices-allocated"
ENTRY = "GPU-0,NVIDIA,1000,10:"
OF_VGPU = "nvidia.com/vgpu-compute-policy"


def tke(*policies: str, **labels: str) -> NodeFacts:
    """A node whose cards have policies of their own, from the first on."""
    return replace(labelled(**labels), card_policies=dict(enumerate(policies)))


def volcano(mode: str, entry: str = ENTRY) -> dict[str, str]:
    return {IDS: entry, "volcano.sh/vgpu-mode": mode}


def of_hami(mode: str) -> dict[str, str]:
    return {LIST: f"{ENTRY};", "nvidia.com/vgpu-mode": mode}


def of_vgpus_node(policy: str) -> NodeFacts:
    return replace(NODE, annotations={OF_VGPU: policy})


Decode = Callable[[Pod, NodeFacts], Decoded]
Row = tuple[Decode, Mapping[str, str], Mapping[str, str], NodeFacts, str]
READ: list[Row] = [
    (
        VKE_MGPU,
        VKE,
        {KEYS["vke"]: "native-burst-share"},
        labelled(vke="fixed-share"),
        "native-burst-share",
    ),
    (
        VKE_MGPU,
        VKE,
        {},
        labelled(vke="guaranteed-burst-share"),
        "guaranteed-burst-share",
    ),
    (VKE_MGPU, VKE, {}, NODE, ""),
    *(
        (TKE_QGPU, TKE_HALF, {}, labelled(tke=short), long)
        for short, long in (
            ("be", "best-effort"),
            ("best-effort", "best-effort"),
            ("fs", "fixed-share"),
            ("bs", "burst-share"),
        )
    ),
    # A card's own policy counts before the node's, if it is placed.
    (
        TKE_QGPU,
        TKE,
        ON_CARDS,
        tke("best-effort\n", "bs", tke="fs"),
        "burst-share best-effort",
    ),
    (TKE_QGPU, TKE, ON_CARDS, tke("be", tke="fs"), "fixed-share best-effort"),
    (TKE_QGPU, TKE, ON_CARDS, tke("be", tke="fs", mixed="enable"), "mixed mixed"),
    (TKE_QGPU, TKE, ON_CARDS, tke(mixed="disable"), " "),
    (TKE_QGPU, TKE_HALF, {}, tke("be", tke="fs"), "fixed-share"),
    # It is by the number that the placement means.
    (
        TKE_QGPU,
        TKE,
        {"tke.cloud.tencent.com/qgpu-pgpu-a": "7,6"},
        replace(NODE, index_bases={"tke-qgpu": "minor"}, card_policies={7: "bs", 6: "be", 0: "fs"}),
        "burst-share best-effort",
    ),
    (by_registry, ACK, {}, labelled(ack="cgpu"), "cgpu"),
    (by_registry, ACK, {}, labelled(ack="core_mem", cgpu="true"), "core_mem"),
    (by_registry, ACK, {}, labelled(gpushare="true"), "unenforced"),
    (by_registry, ACK, {}, NODE, "unenforced"),
    (ALIYUN_CGPU, ACK_CORE, {}, labelled(cgpu="true"), "cgpu"),
    (ALIYUN_CGPU, ACK_CORE, {}, labelled(gpushare="true"), "share"),
    (ALIYUN_CGPU, ACK_CORE, {}, labelled(cgpu="false"), ""),
    (VOLCANO_VGPU, VOLCANO, volcano("hami-core"), NODE, "hami-core"),
    (VOLCANO_VGPU, VOLCANO, volcano(""), NODE, ""),
    (VOLCANO_VGPU, VOLCANO, volcano("", "GPU-0[0-1],NVIDIA,1000,10:"), NODE, "mig"),
    (HAMI, GPU, of_hami("hami-core"), FOUR, "hami-core"),
    (HAMI, GPU, of_hami("mps"), FOUR, "mps"),
    (HAMI, GPU, of_hami(" mig "), FOUR, "mig"),
    (HAMI, GPU, of_hami("hami-core,mps"), FOUR, ""),
    (HAMI, GPU, of_hami(""), FOUR, ""),
    (VGPU_MANAGER, VGPU, {}, NODE, "fixed"),
    (VGPU_MANAGER, VGPU, {OF_VGPU: "Balance"}, NODE, "balance"),
    (VGPU_MANAGER, VGPU, {}, of_vgpus_node("none"), "none"),
    (VGPU_MANAGER, VGPU, {OF_VGPU: "fixed"}, of_vgpus_node("none"), "fixed"),
    (GKE, GPU, {}, labelled(gke="t4"), ""),
    (
        GKE,
        GPU,
        {},
        labelled(gke="t4", gke_strategy="time-sharing", gke_clients="8"),
        "time-sharing",
    ),
    (GKE, GPU, {}, labelled(gke="t4", gke_strategy="mps", gke_clients="8"), "mps"),
    (
        GKE,
        GPU,
        {},
        replace(FOUR, grants=granted({"nvidia.com/gpu": ["nvidia6/vgpu0"]})),
        "shared",
    ),
    (NVIDIA, GPU, {}, labelled(os="linux"), ""),
    (
        NVIDIA,
        GPU,
        {},
        labelled(strategy="time-slicing", replicas="4"),
        "time-slicing",
    ),
    (NVIDIA, GPU, {}, labelled(strategy="mps", replicas="4"), "mps"),
    (NVIDIA, GPU, {}, labelled(replicas="2"), "shared"),
]
UNKNOWN: list[Row] = [
    (VKE_MGPU, VKE, {KEYS["vke"]: "anything"}, NODE, ""),
    (TKE_QGPU, TKE, ON_CARDS, tke("?"), " "),
    (TKE_QGPU, TKE_HALF, {"tke.cloud.tencent.com/app-class": "Online"}, NODE, ""),
    (VOLCANO_VGPU, VOLCANO, volcano("turbo"), NODE, ""),
    (HAMI, GPU, of_hami("turbo"), FOUR, ""),
    (VGPU_MANAGER, VGPU, {OF_VGPU: "x" * 999}, NODE, "fixed"),
]


@pytest.mark.parametrize(
    ("number", "problems"),
    [
        *((number, []) for number in range(len(READ))),
        *(
            (number, [Reason.UNKNOWN_POLICY])
            for number in range(len(READ), len(READ) + len(UNKNOWN))
        ),
    ],
)
def test_policy_is_the_pods_or_the_cards_or_the_nodes(number: int, problems: list[Reason]) -> None:
    decode, limits, annotations, facts, policy = [*READ, *UNKNOWN][number]
    found = decode(pod(container(limits=limits), annotations=annotations), facts)
    assert " ".join(each.policy for each in found.allocations) == policy
    assert {each.policy for each in found.allocations} <= {"", *LENDS}
    assert {each.priority for each in found.allocations} == {""}
    assert reasons(found) == problems


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
    decoded = by_registry(pod(container("a", limits), labels=labels), NODE)
    assert {a.policy for a in decoded.allocations} == {policy}


@pytest.mark.parametrize(
    ("mode", "policy"),
    [("", "unenforced"), ("hami-core", "unenforced"), ("mps", "mps")],
)
@pytest.mark.parametrize("encoded", ["GPU-0,NVIDIA,1000,10:;", ""])
def test_hami_core_does_not_hold_a_container_that_disables_it(
    mode: str, policy: str, encoded: str
) -> None:
    limits = {**GPU, "nvidia.com/gpumem": "1000", "nvidia.com/gpucores": "10"}
    free = replace(container("a", limits), uncontrolled=True)
    decoded = by_registry(
        pod(free, annotations={LIST: encoded, "nvidia.com/vgpu-mode": mode}), NODE
    )
    assert [(a.policy, a.memory_bytes) for a in decoded.allocations] == [(policy, 1000 << 20)]


def test_a_scheme_cannot_have_a_policy_of_which_nothing_says_whether_it_lends() -> None:
    assert policies("fixed", be="best-effort") == {"fixed": "fixed", "be": "best-effort"}
    with pytest.raises(ValueError, match=r"exporter/model/policies\.py .*'generous'"):
        policies("fixed", x="generous")


@pytest.mark.parametrize(
    ("names", "lends"),
    [
        (["best-effort", "burst-share", "guaranteed-burst-share", "native-burst-share"], True),
        (["balance", "none", "mixed", "burst", "elastic", "work-conserving"], True),
        (
            ["fixed", "fixed-share", "hami-core", "enforced", "shared", "a user's own"],
            False,
        ),
    ],
)
def test_who_may_use_more_than_its_share_is_said_by_the_policy(
    names: list[str], *, lends: bool
) -> None:
    for name in names:
        assert AllocationFacts((Granted("x", name),)).may_borrow is lends
