"""What a tenant may choose costs in proportion, whatever his pods look like. Steps are counted."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from exporter.agent.allocations.rules import Rules, make
from exporter.agent.allocations.schemes import kai
from exporter.agent.sources.pods.claims import decode_claim, decode_slice, offered
from exporter.model import (
    ClaimedDevice,
    ClaimRef,
    Container,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
    SchemeDescription,
)
from tests.agent.allocations.build import FOUR_CARDS
from tests.agent.allocations.cases import CASES, Json, node_of, pod_of, rules_of
from tests.agent.sources.pods.attacks import ATTACKS, NAMESPACE, Attack
from tests.work import growth

SIZE = 24
MOST = 2.3  # twice, and what is a little more than in proportion: sorting, the growth of a table
NODE = NodeFacts(devices=FOUR_CARDS, labels={"kubernetes.io/os": "linux"})
FIRST = dict(reversed(CASES))


def decoding(
    pods: Sequence[Pod], node: NodeFacts = NODE, rules: Rules | None = None
) -> Callable[[], object]:
    """What decodes all pods of a node."""
    used = rules or make()

    def decode() -> object:
        known = used.tied(node, pods)
        return [used.decode(pod, known) for pod in pods]

    return decode


def many(pod: Pod, count: int) -> Pod:
    """The pod with each of its containers so many times."""
    numbers = [f"{number or ''}" for number in range(count)]
    copies = (replace(c, name=c.name + n) for n in numbers for c in pod.containers)
    return replace(pod, containers=tuple(copies))


@pytest.mark.parametrize("system", FIRST)
def test_a_pod_of_twice_the_containers_takes_twice_the_work(system: str) -> None:
    case: Json = FIRST[system]
    rules = rules_of(case)
    pod, node = pod_of(case["pod"], rules), node_of(case, rules)
    held = node.grants.get(pod.uid, ())

    def of(count: int) -> Callable[[], object]:
        names = [f"{number or ''}" for number in range(count)]
        grants = tuple(g._replace(container=g.container + n) for n in names for g in held)
        known = replace(node, grants={pod.uid: grants} if grants else {})
        return decoding([many(pod, count)], known, rules)

    assert growth(of, SIZE) < MOST


def containers(count: int, limits: dict[str, str], kind: str = "app") -> tuple[Container, ...]:
    return tuple(Container(f"{kind}{n}", kind=kind, limits=limits) for n in range(count))


DESCRIBED = SchemeDescription(
    name="mine",
    core_resource="mine.example/core",
    core_key="mine.example/core-each",
    evidence_resource="mine.example/",
    placement_annotation="mine.example/at-{index}",
)
CLAIMED = ClaimedDevice("r", "gpu.nvidia.com", "n1", "gpu-0")
MPS = {"strategy": "MPS", "core": "10", "memory": "1Gi", "memory/0": "1Gi"}


def with_claims(count: int) -> tuple[list[Pod], NodeFacts]:
    """One pod whose containers have all requests of a claim of as many devices under MPS."""
    results = tuple(
        replace(CLAIMED, request=f"r{n}", device=f"gpu-{n}", sharing=MPS) for n in range(32)
    )
    refs = tuple(ClaimRef("c", f"r{n}") for n in range(8))
    users = tuple(Container(f"c{n}", claims=refs) for n in range(count))
    offered = {(r.driver, r.pool, r.device): OfferedDevice({"uuid": r.device}) for r in results}
    node = replace(NODE, claims={("n", "c"): results}, offered=offered)
    return [Pod("u", "n", "p", containers=users)], node


def pods_of_one_claim(count: int) -> tuple[list[Pod], NodeFacts]:
    users = tuple(Container(f"c{n}", claims=(ClaimRef("c"),)) for n in range(4))
    pods = [Pod(f"u{n}", "n", f"p{n}", containers=users) for n in range(count)]
    return pods, replace(NODE, claims={("n", "c"): (CLAIMED,)})


def pods_of_the_same_groups(count: int) -> tuple[list[Pod], NodeFacts]:
    labels = {f"runai-gpu-group/x{n}": f"g{n}" for n in range(16)}
    fraction = Pod("u", "n", "gpu-reservation", annotations={"gpu-memory": "9"}, labels=labels)
    own = (Container(kai.RESERVATION_CONTAINER),)
    pods = [
        replace(fraction, uid=f"u{n}", labels={**labels, "runai-gpu-group": "g0"}, containers=own)
        for n in range(count)
    ]
    return pods, NODE


def one(pod: Pod, node: NodeFacts = NODE) -> tuple[list[Pod], NodeFacts]:
    return [pod], node


GPU, OTHER = {"nvidia.com/gpu": "1"}, {"example.com/gpu": "1"}
BASE = Pod("u", "n", "p")
INPUTS: dict[str, Callable[[int], tuple[list[Pod], NodeFacts]]] = {
    "init containers beside others": lambda n: one(
        replace(BASE, containers=(*containers(n, OTHER, "init"), *containers(n, GPU)))
    ),
    "lists of many vendors": lambda n: one(
        replace(
            BASE,
            containers=containers(n, {"iluvatar.ai/vcuda": "1"}),
            annotations={
                f"hami.io/{word}-devices-allocated": "GPU-0,X,1,1:;" * n
                for word in ("MR-V100", "MR-V50", "BI-V150", "BI-V100")
            },
        )
    ),
    "a list of numbers": lambda n: one(
        replace(
            BASE,
            containers=containers(n, {"aliyun.com/gpu-mem": "1"}),
            annotations={"ALIYUN_COM_GPU_MEM_IDX": ",".join("1" * 5 * n)},
        )
    ),
    "units by a factor": lambda n: one(
        replace(BASE, containers=containers(n, {"volcano.sh/gpu-memory": "1"})),
        replace(NODE, allocatable={"volcano.sh/gpu-memory": "4"}),
    ),
    "resources of one container": lambda n: one(
        replace(
            BASE,
            containers=(
                Container(
                    "a",
                    limits={f"nvidia.com/mig-{each}": "1" for each in range(n)},
                    claims=tuple(ClaimRef("c", f"{each}", f"x/{each}") for each in range(n)),
                ),
            ),
        )
    ),
    "a described system": lambda n: one(
        replace(
            BASE,
            containers=containers(n, {"mine.example/core": "1"}),
            annotations={"mine.example/core-each": "1"},
        )
    ),
    "a claim's requests": with_claims,
    "pods of one claim": pods_of_one_claim,
    "pods of the same groups": pods_of_the_same_groups,
}


@pytest.mark.parametrize("chosen", INPUTS)
def test_twice_of_what_a_tenant_chooses_takes_twice_the_work(chosen: str) -> None:
    rules = make([DESCRIBED])

    def of(count: int) -> Callable[[], object]:
        pods, node = INPUTS[chosen](count)
        return decoding(pods, node, rules)

    assert growth(of, SIZE) < MOST


def test_more_groups_than_a_pod_can_have_devices_are_refused_at_once() -> None:
    labels = {f"runai-gpu-group/x{n}": f"g{n}" for n in range(65)}
    pod = Pod("u", "n", "p", annotations={"gpu-memory": "9"}, labels=labels)
    known = make().tied(NODE, [pod])
    assert not known.ties
    assert [p.reason for p in make().decode(pod, known).problems] == ["too_many_devices"]


def test_a_grant_is_found_by_its_container() -> None:
    """The kubelet's grants of a pod are as many as its containers."""
    pod = replace(BASE, containers=containers(3, GPU))
    grants = tuple(Grant(f"app{n}", "nvidia.com/gpu", (f"GPU-{n}",)) for n in range(3))
    found = make().decode(pod, replace(NODE, grants={"u": grants})).allocations
    assert [(a.container, a.device) for a in found] == [(f"app{n}", f"GPU-{n}") for n in range(3)]


def attacking(attack: Attack, pods: int, size: int) -> Callable[[], object]:
    """What decodes so many pods of an attack, each of this size, as the API server has them."""
    rules = make()
    slices = [one for each in attack.slices if (one := decode_slice(each))]
    claims = {(NAMESPACE, name): decode_claim(one) for name, one in attack.claims.items()}
    node = replace(NODE, claims=claims, offered=offered(slices))
    documents = [attack.pod(number, size) for number in range(pods)]
    return decoding([pod_of(one, rules) for one in documents], node, rules)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_with_twice_the_pods_or_twice_the_size_takes_twice_the_work(name: str) -> None:
    attack = ATTACKS[name]
    assert growth(lambda count: attacking(attack, count, SIZE), 8) < MOST
    assert growth(lambda size: attacking(attack, 4, size), SIZE) < MOST
