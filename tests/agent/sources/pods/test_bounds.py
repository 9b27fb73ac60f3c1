"""What a tenant writes into a pod costs in proportion, and is kept within bounds."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from exporter.agent.sources.node.podresources import contribution
from exporter.agent.sources.node.resourceentries import ResourcePod
from exporter.agent.sources.pods.decode import (
    MAX_POD_REFERENCES,
    MAX_POD_RESOURCES,
    MAX_RESOURCES,
    KeyPrefixes,
    decode_pod,
)
from exporter.agent.sources.pods.labels import LabelAllowList, PodLabels
from exporter.agent.sources.pods.podtable import PodStore, indexed
from exporter.model import ClaimedDevice, ClaimRef, Container, Pod
from tests.agent.sources.pods.attacks import ATTACKS, pending
from tests.agent.sources.pods.documents import Document
from tests.work import growth

SIZE = 24
MOST = 2.3  # twice, and what is a little more than in proportion
KEEP = KeyPrefixes(("gpu-", "ALIYUN"), ("runai-gpu-group",))


def hooked(size: int) -> Document:
    """As many containers with HAMi-core as volumes, none of which is the host's."""
    document = pending(0, size)
    document["spec"]["volumes"] = [{"name": f"v{n}", "emptyDir": {}} for n in range(size)]
    limit = {"name": "CUDA_DEVICE_MEMORY_LIMIT", "valueFrom": {"configMapKeyRef": {"name": "m"}}}
    for container in document["spec"]["containers"]:
        container["env"] = [limit]
        container["volumeMounts"] = [{"name": "v0", "mountPath": "/etc/ld.so.preload"}]
    return document


def claiming(size: int) -> Document:
    document = pending(0, 4)
    names = [f"n{each}" for each in range(size)]
    document["spec"]["resourceClaims"] = [{"name": n, "resourceClaimName": n} for n in names]
    for container in document["spec"]["containers"]:
        container["resources"] = {"claims": [{"name": n} for n in names]}
    return document


DOCUMENTS: dict[str, Callable[[int], Document]] = {
    "containers and volumes": hooked,
    "claims": claiming,
    **{name: partial(attack.pod, 0) for name, attack in ATTACKS.items()},
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_of_twice_the_size_takes_twice_the_work(name: str) -> None:
    def decoding(size: int) -> Callable[[], object]:
        document = DOCUMENTS[name](size)
        return lambda: decode_pod(document, KEEP)

    assert growth(decoding, SIZE) < MOST


def test_twice_the_pods_of_a_claim_take_the_kubelets_answer_twice_the_work() -> None:
    device = ClaimedDevice("", "gpu.nvidia.com", "n1", "gpu-0")

    def contributing(count: int) -> Callable[[], object]:
        users = tuple(Container(f"c{n}", claims=(ClaimRef("c", "r"),)) for n in range(4))
        pods = [
            Pod(f"u{n}", "n", f"p{n}", containers=users, acknowledged=True) for n in range(count)
        ]
        entries = {pod.uid: ResourcePod("n", pod.name, (), {("n", "c"): (device,)}) for pod in pods}
        table = indexed({pod.uid: pod for pod in pods}, 1)
        return lambda: contribution(entries, table)

    assert growth(contributing, SIZE) < MOST


def test_an_event_of_a_pod_takes_the_same_work_beside_twice_the_pods() -> None:
    def changing(count: int) -> Callable[[], object]:
        store = PodStore()
        for n in range(count):
            store.upsert(Pod(f"u{n}", "n", f"p{n}"), 0)
        return lambda: store.upsert(Pod("u0", "n", "p0", phase="Running"), 0)

    assert growth(changing, 100) < 1.1


def containers_of(document: Document) -> list[Document]:
    found: list[Document] = document["spec"]["containers"]
    return found


def with_resources(*counts: int) -> Document:
    """A pod of containers that ask for so many extended resources each."""
    document = pending(0, len(counts))
    for container, count in zip(containers_of(document), counts, strict=True):
        container["resources"] = {"limits": {f"example.com/r{n}": "1" for n in range(count)}}
    return document


@pytest.mark.parametrize(
    ("counts", "kept"),
    [
        ((MAX_RESOURCES, 1), [MAX_RESOURCES, 1]),
        ((MAX_RESOURCES + 1, 1), [0, 1]),
        ((64,) * 33, [64] * (MAX_POD_RESOURCES // 64) + [0]),
    ],
)
def test_the_extended_resources_of_a_pod_are_bounded(counts: tuple[int, ...], kept: Any) -> None:
    pod, dropped = decode_pod(with_resources(*counts))
    assert [len(container.limits) for container in pod.containers] == kept
    assert dropped.get("resource_over_limit", 0) == sum(counts) - sum(kept)


def test_the_references_of_a_pod_to_claims_are_bounded() -> None:
    document = pending(0, 8)
    document["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    for container in containers_of(document):
        requests = [{"name": "c", "request": f"r{n}"} for n in range(200)]
        container["resources"] = {"claims": requests}
    pod, dropped = decode_pod(document)
    assert sum(len(container.claims) for container in pod.containers) == MAX_POD_REFERENCES
    assert dropped == {"claim_over_limit": 1600 - MAX_POD_REFERENCES}


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_of_a_large_pod_that_has_ended_only_what_ran_is_kept(phase: str) -> None:
    document = pending(0, 500, phase=phase)
    state = document["status"]["containerStatuses"][3]
    state["containerID"] = "containerd://" + "a" * 64
    pod, _ = decode_pod(document)
    assert [container.name for container in pod.containers] == ["c3", "c0", "c1"]
    assert len(decode_pod(pending(0, 16, phase=phase)).pod.containers) == 16


def test_of_a_large_pod_that_is_deleted_only_what_ran_is_kept() -> None:
    store, pod = PodStore(), decode_pod(pending(0, 500)).pod
    ran = replace(pod.containers[7], container_ids=("a" * 64,))
    store.upsert(replace(pod, containers=(*pod.containers[:7], ran)), 0)
    store.upsert(replace(pod, uid="next", containers=pod.containers[:17]), 0)
    store.delete(replace(pod, uid="next", containers=pod.containers[:17]), 0)
    kept = {uid: [c.name for c in one.containers] for uid, one in store.table.pods.items()}
    assert kept == {pod.uid: [c.name for c in pod.containers[:7]] + ["c7"], "next": ["c0", "c1"]}


def test_a_change_of_a_pod_does_not_pay_for_the_labels_of_others() -> None:
    allowed = LabelAllowList(("*",))

    def changing(size: int) -> Callable[[], object]:
        theirs = {f"a{number}": "b" for number in range(size)}
        others = {f"u{n}": Pod(f"u{n}", "n", f"p{n}", labels=theirs) for n in range(8)}
        labels = PodLabels()
        labels.of(indexed(others, 1), allowed)
        more = indexed({**others, "u": Pod("u", "n", "p", labels={"a": "b"})}, 2)
        return lambda: labels.of(more, allowed)

    assert growth(changing, SIZE) < 1.1
