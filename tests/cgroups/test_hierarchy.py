from pathlib import Path

import pytest

from exporter.sources.cgroups.hierarchy import Hierarchy, find_hierarchy
from tests.cgroups.names import container_path, new_container_id, new_uid
from tests.cgroups.real import mounted

CONTAINER = container_path("systemd", new_uid(), new_container_id())


def make(root: Path, *directories: str, files: tuple[str, ...] = ()) -> str:
    for directory in directories:
        (root / directory).mkdir(parents=True, exist_ok=True)
    for file in files:
        (root / file).touch()
    return str(root)


def found(root: str) -> Hierarchy:
    hierarchy = find_hierarchy(root)
    assert hierarchy is not None
    return hierarchy


def test_control_files_of_v2_at_the_root_mean_v2(tmp_path: Path) -> None:
    root = make(tmp_path, CONTAINER, "memory", files=("cgroup.controllers", "cgroup.procs"))
    assert found(root) == Hierarchy("v2", root)


def test_one_controllers_own_directory_is_v1(tmp_path: Path) -> None:
    root = make(tmp_path, CONTAINER, files=("cgroup.procs", "tasks"))
    assert found(root) == Hierarchy("v1", root)


def test_of_the_controllers_of_v1_the_one_with_pods_is_walked(tmp_path: Path) -> None:
    root = make(tmp_path, "cpu,cpuacct", "pids/user.slice", f"memory/{CONTAINER}", "freezer")
    hierarchy = found(root)
    assert hierarchy == Hierarchy("v1", f"{root}/memory")


def test_a_pod_counts_for_more_than_a_container_outside_pods(tmp_path: Path) -> None:
    root = make(tmp_path, f"pids/docker/{new_container_id()}", f"cpuset/{CONTAINER}")
    assert found(root).root == f"{root}/cpuset"


def test_a_container_outside_pods_counts_for_more_than_none(tmp_path: Path) -> None:
    root = make(tmp_path, "pids", f"cpuset/docker/{new_container_id()}")
    assert found(root).root == f"{root}/cpuset"


def test_where_several_controllers_have_pods_the_order_of_preference_decides(
    tmp_path: Path,
) -> None:
    names = ("unified", "blkio", "systemd", "memory", "pids")
    root = make(tmp_path, *(f"{name}/{CONTAINER}" for name in names))
    assert found(root).root == f"{root}/pids"


def test_pods_deep_below_a_service_are_found(tmp_path: Path) -> None:
    root = make(tmp_path, "pids", f"memory/system.slice/k3s.service/{CONTAINER}")
    assert found(root).root == f"{root}/memory"


def test_a_unified_directory_beside_controllers_means_hybrid(tmp_path: Path) -> None:
    root = make(tmp_path, f"pids/{CONTAINER}", f"unified/{CONTAINER}")
    hierarchy = found(root)
    assert hierarchy == Hierarchy("hybrid", f"{root}/pids")


def test_in_hybrid_mode_pods_only_in_the_unified_tree_are_found(tmp_path: Path) -> None:
    root = make(tmp_path, "pids", f"unified/{CONTAINER}")
    assert found(root).root == f"{root}/unified"


def test_a_hierarchy_of_an_unknown_name_is_known_by_its_files(tmp_path: Path) -> None:
    root = make(tmp_path, f"mine/{CONTAINER}", files=("mine/cgroup.procs",))
    assert found(root) == Hierarchy("v1", f"{root}/mine")


def test_a_link_to_a_controller_is_not_a_hierarchy(tmp_path: Path) -> None:
    root = make(tmp_path, "cpu,cpuacct")
    (tmp_path / "cpu").symlink_to("cpu,cpuacct")
    assert found(root) == Hierarchy("v1", f"{root}/cpu,cpuacct")


def test_a_bare_copy_of_the_pods_directories_is_walked_as_v2(tmp_path: Path) -> None:
    root = make(tmp_path, CONTAINER)
    assert found(root) == Hierarchy("v2", root)


def test_a_directory_without_any_cgroup_is_none(tmp_path: Path) -> None:
    assert find_hierarchy(make(tmp_path, "home/someone")) is None


def test_a_root_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_hierarchy(str(tmp_path / "missing"))


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_this_machines_own_hierarchy_is_found(version: str) -> None:
    mount = mounted(version)
    if mount is None:
        pytest.skip(f"no cgroup {version} hierarchy is mounted")
    hierarchy = found(str(mount))
    assert hierarchy == Hierarchy(version, str(mount))


def test_this_machines_tree_has_the_version_that_its_mounts_say() -> None:
    expected = {(True, True): "hybrid", (True, False): "v1", (False, True): "v2"}
    has = (mounted("v1") is not None, mounted("v2") is not None)
    if has not in expected:
        pytest.skip("no cgroup hierarchy is mounted")
    assert found("/sys/fs/cgroup").version == expected[has]
