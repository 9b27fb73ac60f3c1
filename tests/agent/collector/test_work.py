"""A cycle and its facts take work in proportion to what tenants may choose. Steps are counted."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.agent.api import About
from exporter.agent.api import snapshot as snapshot_document
from exporter.agent.attribution.join import place
from exporter.agent.collector.series_limit import limit_facts
from exporter.agent.sources.pods.podtable import indexed
from exporter.agent.web.page.choice import choice_of
from exporter.agent.web.page.nodepage import node_of
from exporter.agent.web.page.page import page
from exporter.metrics.compat import CompatPage
from exporter.metrics.text import Format, Renderer
from exporter.model import (
    Allocation,
    CgroupIdentity,
    Container,
    ContainerKey,
    DeviceReading,
    DeviceState,
    NodeFacts,
    Owner,
    Pod,
    Snapshot,
)
from exporter.shown.processtree import _settled
from tests.agent.collector.bench import CID, DEVICE, POD, SECOND, Bench
from tests.agent.collector.sources import SetNode
from tests.work import growth

SIZE = 100
MOST = 2.3  # twice, and what is a little more than in proportion
VKE, KOORDINATOR = "vke.volcengine.com/", "koordinator.sh/"
SHARE = {f"{VKE}mgpu-core": "1", f"{VKE}mgpu-memory": "1"}
NODE = NodeFacts(labels={"a": "b"}, allocatable={f"{KOORDINATOR}gpu-core": "100"})


def pod(name: str, *containers: Container, **annotations: str) -> Pod:
    return Pod(f"uid-{name}", "mallory", name, containers=containers, annotations=annotations)


def containers(count: int, limits: dict[str, str]) -> list[Container]:
    return [Container(f"c{n}", limits=limits) for n in range(count)]


def placed(count: int) -> dict[str, str]:
    return {f"{VKE}gpu-index-container-c{n}": "0" for n in range(count)}


def whole(name: str) -> Pod:
    """A pod that has a share as a whole, on the device."""
    users = containers(2, {f"{KOORDINATOR}gpu-core": "1", f"{KOORDINATOR}gpu-memory": "1048576"})
    listed = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":2}}]}'
    return pod(name, *users, **{"scheduling.koordinator.sh/device-allocated": listed})


PODS: dict[str, Callable[[int], list[Pod]]] = {
    "containers without a device": lambda n: [pod("p", *containers(n, SHARE))],
    "containers on a device": lambda n: [pod("p", *containers(n, SHARE), **placed(n))],
    "pods on a device": lambda n: [
        pod(f"p{i}", *containers(1, SHARE), **placed(1)) for i in range(n)
    ],
    "pods as a whole": lambda n: [whole(f"p{i}") for i in range(n)],
    "whole cards": lambda n: [pod("p", *containers(n, {"nvidia.com/gpu": "1"}))],
}


def watched(*pods: Pod) -> Bench:
    """A node with one process, of a container of the first pod."""
    node = SetNode()
    node.known = NODE
    bench = Bench(nodes=(node,))
    bench.use(7, SECOND // 2)
    bench.gpus.devices = tuple(
        one._replace(device=replace(DEVICE, minor=0)) for one in bench.gpus.devices
    )
    bench.processes.identities[7] = CgroupIdentity(pods[0].uid, CID, "containerd")
    bench.pods.current = indexed({one.uid: one for one in pods}, 1)
    return bench


def ready(bench: Bench, cycles: int = 1) -> Callable[[], object]:
    """What makes the facts of a cycle; most cycles have no reader."""
    bench.clock.move(20)  # a point of the history is made of facts, and is not due then
    for _ in range(cycles):
        snapshot = bench.cycle()
    return lambda: snapshot.facts


@pytest.mark.parametrize(
    "chosen",
    [pytest.param(one, marks=[pytest.mark.slow] * one.startswith("pods ")) for one in PODS],
)
def test_twice_the_pods_or_containers_take_twice_the_work(chosen: str) -> None:
    def first(count: int) -> Callable[[], object]:
        return watched(*PODS[chosen](count), POD).cycle

    def later(count: int) -> Callable[[], object]:
        bench = watched(*PODS[chosen](count), POD)
        bench.cycle()
        return bench.cycle

    def facts(count: int) -> Callable[[], object]:
        return ready(watched(*PODS[chosen](count), POD), 3)

    assert growth(first, SIZE) < MOST
    assert growth(later, SIZE) < MOST
    assert growth(facts, SIZE) < MOST


def test_a_device_that_cannot_be_read_takes_work_in_proportion_too() -> None:
    def lost(count: int) -> Callable[[], object]:
        bench = watched(*PODS["containers on a device"](count), POD)
        bench.cycle()
        bench.gpus.devices = (DeviceReading(replace(DEVICE, minor=0), DeviceState.FAILED, "gone"),)
        return ready(bench, 5)

    assert growth(lost, SIZE) < MOST


def test_containers_whose_use_may_be_the_whole_pods_take_work_in_proportion() -> None:
    def pending(count: int) -> Callable[[], object]:
        return ready(watched(*PODS["containers on a device"](count)), 3)

    assert growth(pending, SIZE) < MOST


def test_an_allocation_without_a_device_is_placed_by_its_container() -> None:
    def placing(count: int) -> Callable[[], object]:
        allocations = [
            Allocation("u", f"c{n}", None, None, 1, "nvidia-device-plugin") for n in range(count)
        ]
        seen = {f"c{n}": ["GPU-0"] for n in range(count)}
        return lambda: place(allocations, seen)

    assert growth(placing, SIZE) < MOST


FACES: dict[str, Callable[[Snapshot], object]] = {
    "metrics": lambda of: Renderer().render(of, Format.TEXT),
    "compatible names": lambda of: CompatPage(("hami", "tencent"), "n").render(of, Format.TEXT),
    "JSON": lambda of: snapshot_document(of, About(), 0),
    "JSON of one namespace": lambda of: snapshot_document(of, About(), 0, frozenset({"mallory"})),
    "page": lambda of: page(node_of(of, About(), 0), choice_of({}), 0, "/metrics"),
    "limited": lambda of: limit_facts(lambda: of.facts, lambda: of.facts, 10).measured(),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("chosen", ["containers on a device", "pods as a whole"])
def test_what_is_served_takes_work_in_proportion(chosen: str, face: str) -> None:
    def serving(count: int) -> Callable[[], object]:
        bench = watched(*PODS[chosen](count), POD)
        made = [bench.cycle() for _ in range(3)][-1]
        made.facts  # noqa: B018 - made once for all readers
        return lambda: FACES[face](made)

    assert growth(serving, SIZE // 2) < MOST


def test_use_that_names_no_process_is_divided_among_its_owners_in_proportion() -> None:
    def dividing(count: int) -> Callable[[], object]:
        here: dict[int, Owner] = {n: ContainerKey("m", "p", f"c{n}") for n in range(count)}
        unplaced = {(owner, "core"): 1.0 for owner in here.values()}
        return lambda: _settled({}, unplaced, here)

    assert growth(dividing, SIZE) < MOST
