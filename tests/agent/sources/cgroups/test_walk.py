import contextlib
import os
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from exporter.agent.sources.cgroups.walk import LARGEST_LIST, WalkLimits, walk
from exporter.model import CgroupIdentity, PodSlot, Unit
from tests.agent.sources.cgroups.names import (
    container_path,
    new_container_id,
    new_uid,
    pod_path,
    pods,
)
from tests.agent.sources.cgroups.real import RealCgroups, real_cgroups

UID, OTHER_UID = new_uid(), new_uid()
ID, OTHER_ID = new_container_id(), new_container_id()
DRIVERS = ["systemd", "cgroupfs"]


def put(root: Path, path: str, *lines: int | str) -> Path:
    """Make a cgroup in a plain directory, with the lines of its process list."""
    directory = root / path
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "cgroup.procs").write_text("".join(f"{line}\n" for line in lines))
    return directory


@pytest.mark.parametrize("driver", DRIVERS)
def test_each_container_of_each_pod_has_its_processes(tmp_path: Path, driver: str) -> None:
    put(tmp_path, container_path(driver, UID, ID), 10, 11)
    put(tmp_path, container_path(driver, UID, OTHER_ID), 12)
    put(tmp_path, container_path(driver, OTHER_UID, ID[::-1], "guaranteed"), 13)
    put(tmp_path, pod_path(driver, UID))
    walked = walk(str(tmp_path))
    assert walked.by_pid[10] == walked.by_container[ID]
    assert pods(walked)[UID] == {ID: {10, 11}, OTHER_ID: {12}}
    assert pods(walked)[OTHER_UID] == {ID[::-1]: {13}}


def test_processes_of_deeper_cgroups_are_their_containers(tmp_path: Path) -> None:
    container = container_path("systemd", UID, ID, runtime="crio")
    put(tmp_path, container)
    put(tmp_path, f"{container}/container", 10)
    put(tmp_path, f"{container}/system.slice/cron.service", 11)
    put(tmp_path, f"{container}/docker/{OTHER_ID}", 12)
    walked = walk(str(tmp_path))
    assert pods(walked) == {UID: {ID: {10, 11, 12}}}


def test_processes_of_sandbox_and_monitor_are_the_pods_own(tmp_path: Path) -> None:
    put(tmp_path, pod_path("systemd", UID), 9)
    put(tmp_path, f"{pod_path('systemd', UID)}/crio-{OTHER_ID}", 10)
    put(tmp_path, f"{pod_path('systemd', UID)}/crio-conmon-{ID}.scope", 11)
    put(tmp_path, container_path("systemd", UID, ID, runtime="crio"), 12)
    walked = walk(str(tmp_path))
    assert pods(walked) == {UID: {"": {9, 10, 11}, ID: {12}}}


def test_a_container_outside_any_pod_stands_by_itself(tmp_path: Path) -> None:
    put(tmp_path, f"system.slice/docker-{ID}.scope", 10)
    docker = CgroupIdentity(None, ID, "docker")
    assert walk(str(tmp_path)).by_pid == {10: docker}
    own = "user.slice/user-1000.slice/user@1000.service"
    for number, taken in ((11, ID), (12, OTHER_ID)):  # by a user, who may take any id
        put(tmp_path, f"{own}/app.slice/docker-{taken}.scope", number)
    walked = walk(str(tmp_path))
    assert walked.by_container == {ID: docker}
    assert walked.by_pid[11] != docker
    assert not pods(walked)


def test_a_pod_in_a_pod_is_the_inner_ones_and_names_the_outer(tmp_path: Path) -> None:
    outer = container_path("cgroupfs", UID, ID)
    put(tmp_path, outer, 9)
    put(tmp_path, f"{outer}/kubelet/{container_path('cgroupfs', OTHER_UID, OTHER_ID)}", 10)
    walked = walk(str(tmp_path))
    assert pods(walked) == {UID: {ID: {9}}, OTHER_UID: {OTHER_ID: {10}}}
    assert walked.by_pid[10].enclosing == (PodSlot(UID, ID),)


def test_host_processes_leave_no_trace_in_the_tree(tmp_path: Path) -> None:
    put(tmp_path, "user.slice/user-1000.slice")
    put(tmp_path, "user.slice/user-1000.slice/session-3.scope", 10)
    put(tmp_path, "somewhere", 11)
    walked = walk(str(tmp_path))
    assert walked.by_pid == {10: CgroupIdentity(unit=Unit("user", "1000", uid=1000))}
    assert not pods(walked)
    assert not walked.skipped


# --- each failure costs only itself and is counted ------------------------------------------------


@pytest.fixture
def with_sound_neighbour(tmp_path: Path) -> Iterator[Path]:
    """A tree whose second container must be found whatever becomes of the first."""
    put(tmp_path, pod_path("cgroupfs", OTHER_UID))
    put(tmp_path, container_path("cgroupfs", OTHER_UID, OTHER_ID), 99)
    yield tmp_path
    assert pods(walk(str(tmp_path)))[OTHER_UID] == {OTHER_ID: {99}}


def test_a_container_that_vanished_is_left_out(with_sound_neighbour: Path) -> None:
    put(with_sound_neighbour, pod_path("cgroupfs", UID))
    (with_sound_neighbour / container_path("cgroupfs", UID, ID)).mkdir()  # and no list in it
    walked = walk(str(with_sound_neighbour))
    assert pods(walked)[UID] == {}
    assert walked.skipped == {"vanished": 1}


def test_a_container_that_cannot_be_read_exists_all_the_same(with_sound_neighbour: Path) -> None:
    container = with_sound_neighbour / container_path("cgroupfs", UID, ID)
    (container / "cgroup.procs").mkdir(parents=True)  # reading gives EISDIR
    (container / "inside").mkdir()
    os.mkfifo(container / "inside" / "cgroup.procs")  # does not block
    walked = walk(str(with_sound_neighbour))
    assert pods(walked)[UID] == {ID: set()}
    assert walked.skipped["unreadable"] == 1


def test_processes_of_a_foreign_pid_namespace_are_counted(with_sound_neighbour: Path) -> None:
    put(with_sound_neighbour, container_path("cgroupfs", UID, ID), 0, 0, 10)
    walked = walk(str(with_sound_neighbour))
    assert pods(walked)[UID] == {ID: {10}}
    assert walked.skipped["foreign_pid"] == 2


@pytest.mark.parametrize("line", ["-1", "x", "1.5", "9" * 5000, "\N{SUPERSCRIPT TWO}", "0x10"])
def test_a_line_that_is_no_pid_is_counted(with_sound_neighbour: Path, line: str) -> None:
    put(with_sound_neighbour, container_path("cgroupfs", UID, ID), 10, line, 11)
    walked = walk(str(with_sound_neighbour))
    assert pods(walked)[UID] == {ID: {10, 11}}
    assert walked.skipped["malformed"] == 1


def test_a_list_without_end_is_cut(with_sound_neighbour: Path) -> None:
    container = put(with_sound_neighbour, container_path("cgroupfs", UID, ID))
    (container / "cgroup.procs").write_bytes(b"123456\n" * (LARGEST_LIST // 7 + 100))
    walked = walk(str(with_sound_neighbour))
    assert pods(walked)[UID] == {ID: {123456}}
    assert walked.skipped["too_large"] == 1


def test_directories_deeper_in_a_container_than_the_limit_are_counted(tmp_path: Path) -> None:
    container = container_path("cgroupfs", UID, ID)
    put(tmp_path, container, 10)
    put(tmp_path, f"{container}/a", 11)
    put(tmp_path, f"{container}/a/b", 12)
    walked = walk(str(tmp_path), limits=WalkLimits(depth_inside=1))
    assert pods(walked)[UID] == {ID: {10, 11}}
    assert walked.skipped["too_deep"] == 1
    walked = walk(str(tmp_path), WalkLimits(depth=3))
    assert not pods(walked)
    assert walked.skipped["too_deep"] == 1
    assert walk(str(tmp_path / "missing")).skipped == {"vanished": 1}


def test_a_user_who_makes_directories_without_end_hides_no_container(tmp_path: Path) -> None:
    """Each user has a slice that is delegated, also one who runs nothing in a container."""
    own = "user.slice/user-1000.slice/user@1000.service"
    for number in range(60):
        put(tmp_path, f"{own}/app.slice/a{number}", 1000 + number)
    for container in (container_path("cgroupfs", OTHER_UID, OTHER_ID), "zz.slice/zz.service"):
        put(tmp_path, container, 98)
    control = walk(str(tmp_path))
    walked = walk(str(tmp_path), limits=WalkLimits(directories=20, directories_inside=10))
    assert pods(walked) == pods(control) != {}
    assert walked.by_container == control.by_container
    assert walked.skipped["too_many"] >= 50


@pytest.mark.parametrize(
    "shape", ["a{}", "a{}/b", "kubepods/pod{:08x}-0000-4000-8000-000000000000"]
)
@pytest.mark.parametrize(
    ("limits", "left_out"),
    [(WalkLimits(directories_inside=10), 30), (WalkLimits(directories=12), 1)],
    ids=["of one container", "of all"],
)
def test_a_container_that_makes_directories_without_end_hides_no_other(
    tmp_path: Path, shape: str, limits: WalkLimits, left_out: int
) -> None:
    hostile = container_path("cgroupfs", UID, ID)
    put(tmp_path, hostile, 10)
    for number in range(40):
        put(tmp_path, f"{hostile}/{shape.format(number)}", 1000 + number)
    neighbour = container_path("cgroupfs", OTHER_UID, OTHER_ID)
    put(tmp_path, neighbour, 98)
    put(tmp_path, f"{neighbour}/inside", 99)
    walked = walk(str(tmp_path), limits=limits)
    assert 10 in pods(walked)[UID][ID]
    assert 98 in pods(walked)[OTHER_UID][OTHER_ID]
    assert walked.skipped["too_many"] >= left_out
    if limits.directories_inside == 10:
        assert pods(walked)[OTHER_UID] == {OTHER_ID: {98, 99}}


def test_links_are_not_followed(tmp_path: Path) -> None:
    real = put(tmp_path / "elsewhere", "x", 10).parent
    put(real, container_path("cgroupfs", UID, ID), 10)
    (tmp_path / "root" / "user.slice").mkdir(parents=True)
    (tmp_path / "root" / "kubepods").symlink_to(real / "kubepods")
    assert not pods(walk(str(tmp_path / "root")))


def test_names_that_are_not_text_are_walked_through(tmp_path: Path) -> None:
    odd = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(odd)  # noqa: PTH102 - bytes
    put(Path(os.fsdecode(odd)), container_path("cgroupfs", UID, ID), 10)
    assert pods(walk(str(tmp_path))) == {UID: {ID: {10}}}


def test_a_process_in_two_places_is_where_it_was_read_last(tmp_path: Path) -> None:
    put(tmp_path, pod_path("cgroupfs", UID), 9, 10)
    put(tmp_path, container_path("cgroupfs", UID, ID), 10, 110)
    assert pods(walk(str(tmp_path))) == {UID: {"": {9}, ID: {10, 110}}}


# --- real cgroups ---------------------------------------------------------------------------------


@pytest.fixture(params=["v1", "v2"])
def cgroups(request: pytest.FixtureRequest) -> Iterator[RealCgroups]:
    with real_cgroups(request.param) as made:
        yield made


@pytest.mark.root
@pytest.mark.parametrize("driver", DRIVERS)
def test_real_processes_are_found_in_their_containers(cgroups: RealCgroups, driver: str) -> None:
    container = container_path(driver, UID, ID)
    pids = {cgroups.spawn(container), cgroups.spawn(f"{container}/deeper")}
    monitor = cgroups.spawn(pod_path(driver, UID))
    walked = walk(str(cgroups.root))
    assert pods(walked)[UID][ID] == pids
    assert pods(walked)[UID][""] == {monitor}
    assert not walked.skipped


@pytest.mark.root
def test_a_real_threaded_cgroup_is_skipped_and_its_processes_are_not() -> None:
    with real_cgroups("v2") as cgroups:
        container = container_path("systemd", UID, ID)
        pid = cgroups.spawn(container)
        (cgroups.make(f"{container}/threads") / "cgroup.type").write_text("threaded")
        walked = walk(str(cgroups.root))
        assert pods(walked)[UID] == {ID: {pid}}
        assert walked.skipped == {"threaded": 1}


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.root
def test_a_real_directory_without_permission_costs_only_itself(cgroups: RealCgroups) -> None:
    pid = cgroups.spawn(container_path("cgroupfs", UID, ID))
    cgroups.make(container_path("cgroupfs", OTHER_UID, OTHER_ID))
    (cgroups.root / pod_path("cgroupfs", OTHER_UID)).chmod(0o700)
    with as_nobody():
        walked = walk(str(cgroups.root))
    assert pods(walked)[UID] == {ID: {pid}}
    assert ID not in pods(walked).get(OTHER_UID, {})
    assert set(walked.skipped) == {"unreadable"}


@pytest.mark.root
def test_real_containers_that_come_and_go_all_the_time_do_not_disturb(
    cgroups: RealCgroups,
) -> None:
    stays = cgroups.spawn(container_path("cgroupfs", OTHER_UID, OTHER_ID))
    stop = threading.Event()

    def churn() -> None:
        for number in count():
            path = container_path("cgroupfs", OTHER_UID, f"{number:064x}")
            cgroups.make(path)
            cgroups.remove(path)
            if stop.is_set():
                return

    thread = threading.Thread(target=churn)
    thread.start()
    walks = [walk(str(cgroups.root)) for _ in range(100)]
    stop.set()
    thread.join()
    assert all(pods(walked)[OTHER_UID][OTHER_ID] == {stays} for walked in walks)
    assert all(set(walked.skipped) <= {"vanished"} for walked in walks)
