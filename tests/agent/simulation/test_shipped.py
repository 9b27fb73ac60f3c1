"""The shipped scenarios hold what they are shipped for."""

from collections import Counter

import pytest

from exporter.agent.allocations.registry import decode
from exporter.agent.allocations.rules import Rules
from exporter.agent.simulation.load_scenario import load, shipped
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.layout import parse_path
from exporter.model import ContainerKey, GroupKey, Pod, Unattributed
from tests.agent.simulation.clock import SECOND, START, ManualClock
from tests.agent.simulation.truth import truth_of
from tests.agent.simulation.watched import Watched

MIB, GIB = 1 << 20, 1 << 30
Limit = tuple[float | None, int | None]  # of the cores and of the memory of one device
LIMITS: dict[str, dict[tuple[str, str, int], Limit]] = {  # by pod, container, number of the device
    "eight-schemes": {
        ("crawl-0", "main", 0): (0.2, 10 * GIB),
        ("chat-0", "server", 0): (0.6, 30 * GIB),
        ("rerank-0", "wide", 0): (0.1, 4 * GIB),
        ("rerank-0", "wide", 1): (0.1, 4 * GIB),
        ("rerank-0", "narrow", 1): (0.3, 8 * GIB),
        ("search-0", "embed", 2): (0.5, 16 * GIB),
        ("search-0", "rank", 2): (0.15, 6 * GIB),
        ("scoring-0", "score", 2): (0.3, 12 * GIB),
        ("speech-0", "recognise", 3): (0.25, 8 * GIB),
        ("transcode-0", "ffmpeg", 4): (0.4, 12 * GIB),
        ("transcode-0", "thumbs", 4): (None, 4000 * MIB),
        ("simulate-0", "solver", 5): (0.5, 20 * GIB),
        ("simulate-0", "viewer", 5): (0.1, 2 * GIB),
        ("detect-0", "camera", 6): (0.3, 6 * GIB),
        ("detect-0", "model", 6): (0.4, 24 * GIB),
        ("notebook-carol-0", "jupyter", 7): (0.25, 12 * GIB),
        ("evaluate-0", "eval", 8): (0.5, 24 * GIB),
        ("notebook-dave-0", "jupyter", 8): (None, 8000 * MIB),
        ("finetune-0", "trainer", 9): (1, 48 * GIB),
    },
    "mixed": {
        ("chat-6f7d9c5b8d-x2k4p", "server", 0): (1, 80 * GIB),
        ("llama-0", "vllm", 3): (1 / 8, 24 * GIB),
        ("finetune-0", "trainer", 4): (1 / 8, 24 * GIB),
        ("finetune-0", "trainer", 5): (1 / 8, 24 * GIB),
        ("notebook-eve-0", "jupyter", 12): (1 / 8, 24 * GIB),
        ("transcode-7c9d8b6f5-8wq2n", "ffmpeg", 20): (1, None),
    },
    "turing": {},  # time-slicing promises nothing
}


def _node(name: str, seconds: float = 0) -> tuple[Node, ManualClock]:
    clock = ManualClock()
    node = Node(load(name), clock)
    clock.move(seconds)
    return node, clock


def _pods(node: Node) -> dict[str, Pod]:
    return {pod.name: pod for pod in node.pod_table().pods.values()}


@pytest.mark.parametrize("name", shipped())
def test_the_decoders_read_every_pod_without_a_problem(name: str) -> None:
    node, clock = _node(name)
    for _ in range(60):
        pods = node.pod_table().pods.values()
        known = Rules().tied(node.facts(), pods)
        for pod in pods:
            decoded = decode(pod, known)
            # HAMi's ids name any card, as the real kubelet's choice: that is no problem by itself.
            assert not [problem for problem in decoded.problems if not problem.devices]
        clock.move(1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_limits_on_the_page_are_what_each_system_s_own_text_says(name: str) -> None:
    node = Watched(load(name), 5)
    numbers = {each.shown.uuid: each.number for each in node.node.scenario.devices}
    for place, family in enumerate(("core_limit_ratio", "memory_limit_bytes")):
        found = node.read(f"mgpu_container_{family}", ("pod", "container", "uuid"))
        limits = {(pod, own, numbers[uuid]): limit for (pod, own, uuid), limit in found.items()}
        assert limits == {key: own[place] for key, own in LIMITS[name].items() if own[place]}
    rejected = node.page.all("mgpu_exporter_rejected_samples_total")
    assert [labels for labels, count in rejected if count] == []
    divided = node.read("mgpu_container_allocated_replicas", ("pod",))
    assert divided == ({("stream-hevc-0",): 1, ("stream-h264-0",): 1} if name == "turing" else {})


@pytest.mark.parametrize("name", shipped())
def test_every_process_of_a_pod_is_found_by_its_cgroup(name: str) -> None:
    node, _ = _node(name, 66)
    table = node.pod_table()
    for path in node.cgroup_paths().values():
        identity = parse_path(path)
        if identity.pod_uid:
            assert identity.pod_uid in table.by_kubelet_uid
            assert table.by_container_id[identity.container_id or ""]


def test_the_hpc_node_shows_every_kind_of_group_and_no_pod() -> None:
    node, _ = _node("hpc", 60)
    truth = truth_of(node, START, START + 90 * SECOND)
    owners = {owner for owner, _ in truth.core_ns}
    kinds = {owner.kind for owner in owners if isinstance(owner, GroupKey)}
    assert kinds == {"slurm", "docker", "podman", "user", "systemd", "lxc"}
    assert Unattributed.HOST_PROCESS in owners
    assert not any(isinstance(owner, ContainerKey) for owner in owners)


def test_a_job_that_comes_again_has_a_new_number_and_the_same_user() -> None:
    node, _ = _node("hpc", 95)
    names = {path.split("/")[3] for path in node.cgroup_paths().values() if "slurmstepd" in path}
    assert names >= {"job_4711", "job_4723"}
    assert {"alice", "bob", "carol"} <= {facts.user for facts in node.group_facts().values()}


def test_the_demo_has_a_pod_over_its_share_and_one_idle() -> None:
    node, _ = _node("demo", 60)
    uuid = node.devices()[0].uuid
    truth = truth_of(node, START, START + 60 * SECOND).core_ns
    rerank = ContainerKey("inference", "rerank-58d4f8f7c4-9vkmt", "server")
    assert truth[rerank, uuid] > 2 * 0.10 * 60 * SECOND
    idle = ContainerKey("research", "notebook-alice-0", "jupyter")
    assert (idle, uuid) not in truth
    (allocation,) = decode(_pods(node)["notebook-alice-0"], node.facts()).allocations
    assert allocation.core == 0.2


def test_the_demo_has_an_offline_pod_that_is_paused_and_runs_later() -> None:
    node, _ = _node("demo", 60)
    (allocation,) = decode(_pods(node)["batch-scoring-5f6c7b8d9-2xk8p"], node.facts()).allocations
    assert (allocation.priority, allocation.device) == ("offline", None)
    key = (
        ContainerKey("research", "batch-scoring-5f6c7b8d9-2xk8p", "score"),
        node.devices()[1].uuid,
    )
    assert key not in truth_of(node, START, START + 180 * SECOND).core_ns
    assert key in truth_of(node, START + 180 * SECOND, START + 200 * SECOND).core_ns


def test_the_demo_s_jobs_come_and_go() -> None:
    node, clock = _node("demo")
    seen: set[str] = set()
    for _ in range(120):
        seen |= {pod.uid for pod in node.pod_table().pods.values() if pod.namespace == "batch"}
        clock.move(1)
    assert len(seen) > 40
    assert sum(pod.namespace == "batch" for pod in _pods(node).values()) < 20


def test_the_mixed_node_has_pods_and_jobs_on_devices_of_each_vendor() -> None:
    node, _ = _node("mixed", 60)
    devices = {device.uuid: device for device in node.devices()}
    assert Counter(device.vendor for device in devices.values()) == {
        "nvidia": 2,
        "amd": 18,
        "intel": 1,
    }
    used = truth_of(node, START, START + 90 * SECOND).core_ns
    by_kind = {(devices[u].vendor, o.kind if isinstance(o, GroupKey) else "") for o, u in used}
    vendors = ("nvidia", "amd", "intel")
    assert by_kind >= {(vendor, kind) for vendor in vendors for kind in ("", "slurm")}


def test_the_single_scenario_is_exact() -> None:
    node, _ = _node("single", 2)
    assert [device.uuid[4:5] for device in node.devices()] == ["1", "2"]
    truth = truth_of(node, START, START + 2 * SECOND)
    assert truth.device_core_ns[node.devices()[1].uuid] == 2 * SECOND
    assert truth.namespace_core_ns["research", node.devices()[1].uuid] == 2 * SECOND


def test_a_process_outside_of_pods_is_named_as_what_it_runs_in_is_called() -> None:
    node, _ = _node("hpc", 60)
    names = {info.name for info in node.process_infos().values()}

    assert {"llm-server", "carols-notebook", "ollama"} <= names
    assert not [name for name in names if "{" in name]
