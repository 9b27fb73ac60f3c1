from exporter.model import CgroupIdentity, ProcessInfo, Unattributed, Unit
from exporter.sources.cgroups.simulated import SimulatedProcesses
from exporter.sources.cgroups.source import ProcessSource
from tests.cgroups.names import container_path, new_container_id, new_uid, pod_path

UID, ID, OTHER_ID = new_uid(), new_container_id(), new_container_id()
PATHS = {
    1: "/system.slice/sshd.service",
    10: "/" + container_path("systemd", UID, ID),
    11: "/" + container_path("systemd", UID, ID),
    12: f"/../../{pod_path('systemd', UID)}",
    13: f"/docker/{OTHER_ID}",
}


def test_paths_are_read_by_the_real_parser() -> None:
    source: ProcessSource = SimulatedProcesses(lambda: PATHS)
    assert source.resolve([1, 10, 99]) == {
        1: CgroupIdentity(unit=Unit("systemd", "sshd.service")),
        10: CgroupIdentity(UID, ID, "containerd", "burstable"),
        99: Unattributed.EXITED,
    }


def test_each_question_is_answered_from_the_paths_of_the_moment() -> None:
    paths = dict(PATHS)
    source = SimulatedProcesses(lambda: paths)
    del paths[10]
    assert source.resolve([10])[10] is Unattributed.EXITED


def test_it_is_always_up() -> None:
    source = SimulatedProcesses(dict)
    assert source.status().up
    assert source.name == "cgroups"
    assert not source.rejected()
    source.close()


def test_it_describes_those_that_are_asked_for() -> None:
    infos = {10: ProcessInfo("server", 5), 11: ProcessInfo("worker")}
    source = SimulatedProcesses(lambda: PATHS, lambda: infos)
    assert source.describe([10, 99]) == {10: ProcessInfo("server", 5)}
