import re
from typing import Any

import pytest

from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.model import Pod, PodTable
from tests.agent.simulation.clock import START, ManualClock
from tests.agent.simulation.nodes import A10, node, pod, process

UID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def _at(seconds: float, *pods: dict[str, Any], **keys: Any) -> PodTable:
    clock = ManualClock()
    asked = node(clock, pods=list(pods), **keys)
    clock.move(seconds)
    return asked.pod_table()


def _only(table: PodTable) -> Pod:
    (found,) = table.pods.values()
    return found


JOB = {"start": "10s", "for": "5s"}


@pytest.mark.parametrize(
    ("seconds", "phase", "ids"),
    [
        (8.0, "Pending", 0),
        (9.9, "Pending", 0),
        (10.0, "Running", 1),
        (14.9, "Running", 1),
        (15.0, "Succeeded", 1),
        (34.9, "Succeeded", 1),
    ],
)
def test_a_pod_goes_through_its_phases(seconds: float, phase: str, ids: int) -> None:
    found = _only(_at(seconds, pod("p", process(), **JOB)))
    (container,) = found.containers
    assert (found.phase, len(container.container_ids)) == (phase, ids)


@pytest.mark.parametrize("seconds", [0, 7.9, 35])
def test_before_it_is_bound_and_after_it_is_cleaned_up_a_pod_is_not_there(seconds: float) -> None:
    assert not _at(seconds, pod("p", process(), **JOB)).pods


def test_a_container_id_may_be_known_late() -> None:
    late = _only(_at(10.5, pod("p", process(), **JOB), status_delay="1s"))
    assert not late.containers[0].container_ids
    assert _only(_at(11, pod("p", process(), **JOB), status_delay="1s")).containers[0].container_ids


def test_the_version_rises_with_each_change_and_only_then() -> None:
    clock = ManualClock()
    asked = node(clock, pods=[pod("a", **JOB), pod("b", every="7s", **{"for": "2s"})])
    versions, tables = [], []
    for _ in range(400):
        table = asked.pod_table()
        versions.append(table.version)
        tables.append(table.pods)
        clock.move(0.1)
    assert versions == sorted(versions)
    for i in range(1, len(tables)):
        assert (tables[i] == tables[i - 1]) == (versions[i] == versions[i - 1])


def test_a_recurring_pod_is_a_new_one_each_time() -> None:
    clock = ManualClock()
    asked = node(clock, pods=[pod("job", process(), every="60s", **{"for": "5s"})])
    first, first_pids = _only(asked.pod_table()), set(asked.cgroup_paths())
    clock.move(61)
    second, second_pids = _only(asked.pod_table()), set(asked.cgroup_paths())
    assert first.uid != second.uid
    assert first.name != second.name
    assert first.owner_kind == second.owner_kind == "Job"
    assert (first.owner_name, second.owner_name) == ("job-0", "job-1")
    assert second.name.startswith("job-1-")
    assert first.containers[0].container_ids != second.containers[0].container_ids
    assert first_pids.isdisjoint(second_pids)


def test_pids_are_unique_among_all_that_live() -> None:
    clock = ManualClock()
    jobs = [pod(f"j{i}", process(), every="1s", **{"for": ["500ms", "20s"]}) for i in range(5)]
    asked = node(clock, pods=jobs)
    for _ in range(50):
        clock.move(1)
        pids = [p.pid for p in asked.memory(0).processes or ()]
        assert len(set(pids)) == len(pids) > 5


def _path(**keys: Any) -> str:
    (path,) = node(pods=[pod("p", process(), **keys)]).cgroup_paths().values()
    return path


ID = "[0-9a-f]{64}"
HASH = "[0-9a-f]{32}"
BURSTABLE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable"
BEST_EFFORT = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort"
SLICED = UID.replace("-[", "_[").replace("-4", "_4")


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        (
            {},
            f"{BURSTABLE}-pod{SLICED}.slice/cri-containerd-{ID}.scope",
        ),
        (
            {"qos": "Guaranteed", "runtime": "cri-o"},
            f"/kubepods.slice/kubepods-pod{SLICED}.slice/crio-{ID}.scope/container",
        ),
        (
            {"qos": "BestEffort", "runtime": "docker"},
            f"{BEST_EFFORT}-pod{SLICED}.slice/docker-{ID}.scope",
        ),
        ({"cgroup_driver": "cgroupfs"}, f"/kubepods/burstable/pod{UID}/{ID}"),
        ({"cgroup_driver": "cgroupfs", "qos": "Guaranteed"}, f"/kubepods/pod{UID}/{ID}"),
        (
            {"static": True},
            f"{BURSTABLE}-pod{HASH}.slice/cri-containerd-{ID}.scope",
        ),
    ],
)
def test_cgroup_paths_are_those_of_the_kubelet_and_the_runtime(
    keys: dict[str, Any], path: str
) -> None:
    assert re.fullmatch(path, _path(**keys))


def test_a_static_pod_is_found_by_its_hash_and_its_uid() -> None:
    table = _at(0, pod("p", process(), static=True))
    found = _only(table)
    assert found.annotations["kubernetes.io/config.mirror"] == found.static_hash
    assert table.by_kubelet_uid == {found.uid: found.uid, found.static_hash: found.uid}
    assert f"pod{found.static_hash}.slice" in _path(static=True)


def test_an_ended_process_is_told_of_for_fifteen_seconds() -> None:
    clock = ManualClock()
    asked = node(clock, processes=[process(**{"for": "5s"}, cgroup="/a.service")])
    clock.move(19.9)
    assert list(asked.cgroup_paths().values()) == ["/a.service"]
    clock.move(0.1)
    assert not asked.cgroup_paths()


@pytest.mark.parametrize(
    ("state", "seen"), [("lost", "gpu_lost"), ("stuck", "driver_stuck"), ("failing", "read_failed")]
)
def test_a_fault_lasts_from_its_begin_to_its_end(state: str, seen: str) -> None:
    clock = ManualClock()
    fault = {"device": 1, "state": state, "from": "5s", "to": "7s"}
    asked = node(clock, devices=2, faults=[fault])
    states = []
    for _ in range(8):
        states.append((asked.state(0), asked.state(1)))
        clock.move(1)
    assert states == [("up", seen if i in {5, 6} else "up") for i in range(8)]


def test_the_start_is_now_unless_said_otherwise() -> None:
    scenario = describe({"devices": [A10]}, "f")
    assert Node(scenario, ManualClock(START + 1500)).start_unix_ns == START + 1000
    assert Node(scenario, ManualClock(), 5000).start_unix_ns == 5000
