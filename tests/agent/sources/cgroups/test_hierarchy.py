from pathlib import Path

import pytest

from exporter.agent.sources.cgroups.cgrouptree import Hierarchy, find_hierarchy
from exporter.agent.sources.door import Absent, Whole
from tests.agent.sources.cgroups.names import container_path, new_container_id, new_uid
from tests.agent.sources.cgroups.real import mounted

CONTAINER = container_path("systemd", new_uid(), new_container_id())


def make(root: Path, *directories: str, files: tuple[str, ...] = ()) -> str:
    for directory in directories:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for file in files:
        (root / file).touch()
    return str(root)


def found(root: str) -> Hierarchy:
    hierarchy = find_hierarchy(root)
    assert isinstance(hierarchy, Whole)
    assert hierarchy.value is not None
    return hierarchy.value


DOCKER = f"docker/{new_container_id()}"


@pytest.mark.parametrize(
    ("directories", "files", "version", "walked"),
    [
        ((CONTAINER, "memory"), ("cgroup.controllers", "cgroup.procs"), "v2", ""),
        ((CONTAINER,), ("cgroup.procs", "tasks"), "v1", ""),  # one controller's own directory
        ((CONTAINER,), (), "v2", ""),  # a bare copy of the pods' directories
        # The controller with pods is walked, else with containers, else the first; v2 comes last.
        (("cpu,cpuacct", "pids/user.slice", f"memory/{CONTAINER}"), (), "v1", "memory"),
        ((f"pids/{DOCKER}", f"cpuset/{CONTAINER}"), (), "v1", "cpuset"),
        (("pids", f"cpuset/{DOCKER}"), (), "v1", "cpuset"),
        (("pids", f"memory/system.slice/k3s.service/{CONTAINER}"), (), "v1", "memory"),
        (
            tuple(f"{name}/{CONTAINER}" for name in ("unified", "blkio", "systemd", "pids")),
            (),
            "hybrid",
            "pids",
        ),
        (("pids", f"unified/{CONTAINER}"), (), "hybrid", "unified"),
        ((f"mine/{CONTAINER}",), ("mine/cgroup.procs",), "v1", "mine"),
    ],
)
def test_the_hierarchy_with_the_pods_is_found(
    tmp_path: Path, directories: tuple[str, ...], files: tuple[str, ...], version: str, walked: str
) -> None:
    root = make(tmp_path, *directories, files=files)
    assert found(root) == Hierarchy(version, f"{root}/{walked}".rstrip("/"))


def test_a_link_to_a_controller_is_not_a_hierarchy(tmp_path: Path) -> None:
    root = make(tmp_path, "cpu,cpuacct")
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    assert found(root) == Hierarchy("v1", f"{root}/cpu,cpuacct")


def test_a_directory_without_any_cgroup_is_none_and_one_that_is_missing_an_error(
    tmp_path: Path,
) -> None:
    assert find_hierarchy(make(tmp_path, "home/someone")) == Whole(None)
    assert find_hierarchy(str(tmp_path / "missing")) == Absent()


def test_this_machines_tree_is_found_and_has_the_version_that_its_mounts_say() -> None:
    expected = {(True, True): "hybrid", (True, False): "v1", (False, True): "v2"}
    mounts = {version: mounted(version) for version in ("v1", "v2")}
    has = mounts["v1"] is not None, mounts["v2"] is not None
    if has not in expected:
        pytest.skip("no cgroup hierarchy is mounted")
    assert found("/sys/fs/cgroup").version == expected[has]
    for version, mount in mounts.items():
        assert mount is None or found(str(mount)) == Hierarchy(version, str(mount))
