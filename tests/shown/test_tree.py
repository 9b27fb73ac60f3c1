"""The tree of devices, pods, containers and processes that page and terminal show."""

from typing import Any

import pytest

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.model import (
    AllocationFacts,
    Averages,
    ContainerKey,
    Device,
    DeviceFacts,
    Facts,
    Granted,
    HeldMemory,
    PodFacts,
    Process,
    Snapshot,
    Unattributed,
    Unmeasured,
)
from exporter.shown.processtree import tree_of_snapshot
from exporter.shown.tree import Figures, PodEntry, Tree, tree_of, visible_to
from tests.agent.simulation.clock import ManualClock
from tests.snapshots import container

GRANTED = (Granted("koordinator"),)
DEVICE = DeviceFacts(device=Device("GPU-1", 0, "nvidia"), average=Averages(0.7))
POD = PodFacts(namespace="ml", name="train", core=0.3, core_limit=0.5, core_of_limit=0.6)


def of(name: str) -> ContainerKey:
    return ContainerKey("ml", "train", name)


def used(name: str, core: float, uuid: str = "GPU-1", **more: Any) -> Any:
    held = {"average": Averages(core), "memory": HeldMemory(10), "since_unix_ns": 1}
    return container(of(name), uuid, **held | more)


def nowhere(name: str) -> Any:
    reasons = {"core_limit": Unmeasured.PLACEMENT}
    allocation = AllocationFacts(GRANTED)
    return container(of(name), "", index=None, allocation=allocation, unmeasured=reasons)


def only(tree: Tree) -> PodEntry:
    [device] = tree.devices
    [pod] = device.pods
    return pod


@pytest.fixture(
    scope="module", params=("demo", "eight-schemes", "hpc", "mixed", "single", "turing")
)
def node(request: pytest.FixtureRequest) -> Snapshot:
    clock = ManualClock()
    settings = load({"simulate": [request.param]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(30):
        clock.move(1)
        collector.cycle()
    return collector.snapshot


def test_everything_that_the_metrics_have_is_in_the_tree_once(node: Snapshot) -> None:
    tree = tree_of_snapshot(node)

    pods = [pod for device in tree.devices for pod in device.pods]
    held = [one for pod in (*pods, *tree.nowhere) for one in pod.holdings]
    assert sorted(map(repr, held)) == sorted(map(repr, node.facts.containers))
    groups = [group.holding for device in tree.devices for group in device.groups]
    assert sorted(map(repr, groups)) == sorted(map(repr, node.facts.groups))
    assert [device.facts for device in tree.devices] == sorted(
        node.facts.devices, key=lambda device: (device.index, device.uuid)
    )
    named = {(pod.namespace, pod.pod) for pod in (*pods, *tree.nowhere)}
    assert named == {(pod.namespace, pod.name) for pod in node.facts.pods}


def test_a_pod_on_one_device_has_the_figures_of_the_pods_own_metrics(node: Snapshot) -> None:
    pods = [pod for device in tree_of_snapshot(node).devices for pod in device.pods]

    for pod in pods:
        assert pod.facts is not None
        own = (pod.facts.core, pod.facts.core_limit, pod.facts.core_of_limit)
        assert not pod.is_only_here or pod.figures[:3] == own
        assert not pod.facts.ended or pod.ended


def test_an_allocation_of_the_whole_pod_is_no_container_of_it() -> None:
    of_pod = container(of(""), allocation=AllocationFacts(GRANTED))

    pod = only(tree_of(Facts((DEVICE,), (used("main", 0.3), of_pod), pods=(POD,))))

    assert [one.holding.owner.container for one in pod.containers] == ["main"]
    assert pod.unplaced == (of_pod,)
    assert pod.figures == Figures(0.3, 0.5, 0.6)


def test_use_that_is_the_whole_pods_is_shown_as_its_own() -> None:
    pod = only(tree_of(Facts((DEVICE,), (used("", 0.3),))))

    assert [one.figures.core for one in pod.containers] == [0.3]


def test_an_allocation_without_a_device_is_with_its_pod_if_that_is_seen_anywhere() -> None:
    seen = tree_of(Facts((DEVICE,), (used("main", 0.3), nowhere("side")), pods=(POD,)))
    unseen = tree_of(Facts((DEVICE,), (nowhere("side"),), pods=(POD,)))

    assert (only(seen).unplaced, seen.nowhere) == ((nowhere("side"),), ())
    assert unseen.devices[0].pods == ()
    assert [pod.figures.core_limit for pod in unseen.nowhere] == [0.5]


def test_a_pod_may_borrow_on_each_device_if_a_policy_of_any_of_them_lets_it() -> None:
    lends = AllocationFacts((Granted("vke-mgpu", "guaranteed-burst-share"),), 0.5)
    facts = Facts((DEVICE,), (used("a", 0.2), used("a", 0.6, "GPU-2", allocation=lends)))

    known, stray = tree_of(facts).devices

    assert [known.pods[0].may_borrow, stray.pods[0].may_borrow] == [True, True]
    assert known.pods[0].figures.may_borrow is False
    assert stray.pods[0].figures[1:3] == pytest.approx((0.5, 1.2))
    assert stray.pods[0].figures.core_of_bound is None


def test_a_pod_on_two_devices_has_the_sums_of_each_and_compares_what_has_a_limit() -> None:
    share = AllocationFacts(GRANTED, 0.5)
    facts = Facts(
        (DEVICE,),
        (used("a", 0.2, allocation=share), used("b", 0.1), used("a", 0.4, "GPU-2")),
        pods=(POD,),
    )

    known, stray = tree_of(facts).devices

    assert known.pods[0].figures == pytest.approx((0.3, 0.5, 0.4, 20, None, None, False))
    assert (stray.uuid, stray.facts, stray.pods[0].figures.core) == ("GPU-2", None, 0.4)


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    unread = used("b", 0.1, memory=HeldMemory(None))

    pod = only(tree_of(Facts((DEVICE,), (used("a", 0.2), unread))))

    assert pod.figures[:4] == pytest.approx((0.3, None, None, None))


def test_processes_are_with_their_owner_and_nobodys_with_their_reason() -> None:
    listed = [
        Process(1, "GPU-1", of("main"), core=0.3),
        Process(2, "GPU-1", Unattributed.HOST_PROCESS, memory_bytes=5),
    ]
    nobody = {"GPU-1": {Unattributed.NO_PID: 0.1}}

    tree = tree_of(Facts((DEVICE,), (used("main", 0.3),)), listed, nobody)

    assert only(tree).containers[0].processes == (listed[0],)
    reasons = [(each.reason, each.core, each.processes) for each in tree.devices[0].unattributed]
    assert reasons == [
        (Unattributed.HOST_PROCESS, 0.0, (listed[1],)),
        (Unattributed.NO_PID, 0.1, ()),
    ]


def test_what_a_reader_may_not_see_is_one_sum_of_each_device() -> None:
    other = container(ContainerKey("web", "api", "c"), average=Averages(0.2), memory=HeldMemory(5))
    unused = container(ContainerKey("web", "db", "c"), allocation=AllocationFacts(GRANTED, 0.5))
    process = Process(2, "GPU-1", Unattributed.HOST_PROCESS, memory_bytes=5)
    tree = tree_of(Facts((DEVICE,), (used("main", 0.3), other, unused)), [process])

    [device] = visible_to(tree, {"ml"}).devices

    assert [pod.namespace for pod in device.pods] == ["ml"]
    assert device.others == (0.2, 5)
    assert [each.processes for each in device.unattributed] == [()]


def test_a_sum_of_others_is_not_known_if_a_part_of_it_is_not() -> None:
    blind = container(ContainerKey("web", "api", "c"), unmeasured={"core": Unmeasured.MPS})

    [device] = visible_to(tree_of(Facts((DEVICE,), (used("main", 0.3), blind))), {"ml"}).devices

    assert device.others == (None, None)
