"""Sandboxed runtimes: all of a pod works in one process, under a container id of no status.

gVisor and Kata start such a process in the pod's cgroup (gvisor#13067).
"""

from dataclasses import replace

import pytest

from exporter.model import CgroupIdentity, Container
from tests.agent.collector.bench import PLACED, POD, SECOND, Bench, row

SANDBOX = CgroupIdentity("uid-1", "5" * 64, "containerd")
MAIN = POD.containers[0]
BESIDE = Container("beside", container_ids=("d" * 64,), limits=MAIN.limits)
IN = ("ml", "train")
ROW = ("0", "GPU-0")


@pytest.fixture
def bench() -> Bench:
    """A pod that is there, and whose process has not begun."""
    bench = Bench()
    bench.use(6, 0, memory=0)
    bench.processes.identities[6] = CgroupIdentity()
    show(bench, MAIN, Container("side", container_ids=("e" * 64,)))
    return bench


def show(bench: Bench, *containers: Container) -> None:
    """Let the pod have these containers, and its allocations be known."""
    placed = {f"vke.volcengine.com/gpu-index-container-{c.name}": "0" for c in containers}
    bench.name_pod(replace(POD, containers=containers, annotations=placed))
    bench.cycle()


def work(bench: Bench, core_ns: int, cycles: int = 1) -> None:
    bench.processes.identities[7] = SANDBOX
    bench.use(7, core_ns, memory=400)
    for _ in range(cycles):
        bench.cycle()


def test_use_in_a_sandbox_is_that_of_the_only_container_with_an_allocation(bench: Bench) -> None:
    before = row(bench.collector.snapshot, "container", *IN, "main", *ROW).values
    work(bench, SECOND // 10, cycles=10)

    main = row(bench.collector.snapshot, "container", *IN, "main", *ROW).values

    assert main["core_seconds_total"] == SECOND
    assert main["memory_used_bytes"] == 400
    idle = "allocated_idle_core_seconds_total"
    assert main[idle] - before[idle] == 4 * SECOND  # type: ignore[operator]
    assert main["unmeasured"] == {}


def test_the_only_container_of_a_pod_needs_no_id_to_be_known(bench: Bench) -> None:
    show(bench, Container("main", container_ids=("e" * 64,)))
    work(bench, SECOND // 10)

    main = row(bench.collector.snapshot, "container", *IN, "main", *ROW).values
    assert main["core_seconds_total"] == SECOND // 10


def test_of_several_allocations_idle_and_borrowed_time_is_the_pods(bench: Bench) -> None:
    show(bench, MAIN, BESIDE)
    names = ("core_seconds_total", "allocated_core_seconds_total")
    balance = ("allocated_idle_core_seconds_total", "borrowed_core_seconds_total")
    places = {"pod": IN, "namespace": ("ml", "GPU-0")}

    def sums(level: str) -> list[float]:
        values = row(bench.collector.snapshot, level, *places[level]).values
        return [values[name] for name in (*names, *balance)]  # type: ignore[misc]

    before = {level: sums(level) for level in places}
    work(bench, SECOND * 3 // 4, cycles=4)  # a half and a half are a whole card
    for level in places:
        rise = [b - a for a, b in zip(before[level], sums(level), strict=True)]
        assert rise == [3 * SECOND, 4 * SECOND, SECOND, 0]
    for name in ("main", "beside"):
        values = row(bench.collector.snapshot, "container", *IN, name, *ROW).values
        assert "core_seconds_total" not in values
        assert not values.keys() & set(balance)  # they are not known of it


def test_a_container_is_pending_for_a_minute_and_then_in_a_sandbox(bench: Bench) -> None:
    show(bench, MAIN, BESIDE)

    def reasons(name: str) -> set[str]:
        values = row(bench.collector.snapshot, "container", *IN, name, *ROW).values
        told = values["unmeasured"]
        assert isinstance(told, dict)
        return {reason for _, reason in told}

    work(bench, SECOND // 2)
    assert reasons("main") == {"container_pending"}
    work(bench, SECOND // 2, cycles=60)
    assert reasons("main") == reasons("beside") == {"container_unknown"}

    known = replace(MAIN, container_ids=("5" * 64,))
    bench.name_pod(replace(POD, containers=(known, BESIDE), annotations=PLACED))
    bench.cycle()
    assert reasons("main") == set()


def test_a_container_that_never_gets_an_id_does_not_get_its_neighbours_use_for_ever(
    bench: Bench,
) -> None:
    """Its image cannot be pulled."""
    show(bench, MAIN, replace(BESIDE, container_ids=()))
    work(bench, SECOND // 2, cycles=62)
    before = row(bench.collector.snapshot, "pod", *IN).values["core_seconds_total"]
    work(bench, SECOND // 2, cycles=20)

    pod = row(bench.collector.snapshot, "pod", *IN).values
    assert pod["core_seconds_total"] - before == 10 * SECOND  # type: ignore[operator]
    for name in ("main", "beside"):
        values = row(bench.collector.snapshot, "container", *IN, name, *ROW).values
        assert "core_utilization_ratio" not in values
