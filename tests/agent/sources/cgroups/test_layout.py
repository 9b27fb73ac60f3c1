import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from exporter.agent.sources.cgroups.layout import (
    LONGEST_FILE,
    LONGEST_PATH,
    best_identity,
    cgroup_paths,
    is_own_inside,
    parse_path,
)
from exporter.model import CgroupIdentity, PodSlot
from tests.agent.sources.cgroups.names import container_path, pod_path

HERE = Path(__file__).parent
PATHS: list[dict[str, Any]] = json.loads((HERE / "cgroup.json").read_text())
FILES: list[dict[str, Any]] = json.loads((HERE / "cgroup_procfile.json").read_text())

UID = "4a163a05-439d-484b-8e53-2968bc15824f"
OTHER_UID = "a5ea884f-9e60-4912-bd62-fef9a31db47a"
ID = "cde6dfaf5007ed65aad2d6aed72af91b0f3d95813492f773286e29ae145d20f4"
OTHER_ID = "88ea268ece65a02d68b169fd74bcbcb427eb7f28900db0e3b906fb2eeb7341df"


@pytest.mark.parametrize("case", PATHS, ids=[case["path"] for case in PATHS])
def test_a_path_seen_in_the_field_is_read_as_its_source_says(case: dict[str, Any]) -> None:
    identity = parse_path(case["path"])
    assert identity.pod_uid == case["pod_uid"]
    assert identity.container_id == case["container_id"]
    assert identity.runtime == case["runtime"]
    assert identity.qos == case["qos"]
    found = {
        (True, True): "pod_container",
        (True, False): "pod",
        (False, True): "container",
        (False, False): "none",
    }[identity.pod_uid is not None, identity.container_id is not None]
    assert found == case["expect"]


@pytest.mark.parametrize("case", FILES, ids=[case["name"] for case in FILES])
def test_a_proc_file_seen_in_the_field_is_read_as_its_source_says(case: dict[str, Any]) -> None:
    identity = best_identity(cgroup_paths(case["content"]))
    assert (identity.pod_uid, identity.container_id) == (case["pod_uid"], case["container_id"])


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
@pytest.mark.parametrize("qos", ["guaranteed", "burstable", "besteffort"])
@pytest.mark.parametrize("prefix", ["", "kubelet.slice/", "system.slice/k3s.service/", "../../"])
@pytest.mark.parametrize("suffix", ["", "/container", "/init.scope", "/system.slice/x.service"])
def test_every_driver_and_class_is_read_below_any_prefix_and_above_any_subtree(
    driver: str, qos: str, prefix: str, suffix: str
) -> None:
    identity = parse_path(f"/{prefix}{container_path(driver, UID, ID, qos)}{suffix}")
    assert (identity.pod_uid, identity.container_id, identity.qos) == (UID, ID, qos)


@pytest.mark.parametrize(
    "name",
    [
        "podruntime",
        "pod123",
        f"xpod{UID}",
        f"pod{UID}x",
        f"pod{UID}.scope",
        f"kubepods-xpod{UID}.slice",
        f"libpod-{ID}",
        f"user-pod{UID}.slice",
        f"user-pod{UID}",
        f"kubepods-pod{UID}",
        f"pod{UID}:cri-containerd:{ID}",
        f"pod_{UID}",
        UID,
    ],
)
def test_a_name_that_only_resembles_a_pod_is_none(name: str) -> None:
    assert parse_path(f"/kubepods/burstable/{name}").pod_uid is None


@pytest.mark.parametrize(
    "name",
    [
        f"crio-conmon-{ID}",
        f"crio-conmon-{ID}.scope",
        f"libpod-conmon-{ID}.scope",
        f"crio-{ID}.mount",
        f"kata_{ID}",
        f"kata-{ID}.scope",
        f"overlay-{ID}",
        ID[:-1],
        ID + "0",
        ID.upper(),
        f"{ID}.service",
    ],
)
@pytest.mark.parametrize("parent", [pod_path("cgroupfs", UID), pod_path("systemd", UID)])
def test_what_only_carries_a_containers_id_belongs_to_the_pod(parent: str, name: str) -> None:
    identity = parse_path(f"/{parent}/{name}")
    assert (identity.pod_uid, identity.container_id) == (UID, None)


@pytest.mark.parametrize(
    ("prefix", "runtime"),
    [("cri-containerd", "containerd"), ("docker", "docker"), ("libpod", "podman")],
)
@pytest.mark.parametrize("suffix", ["", "/container"])
def test_a_directory_without_scope_in_a_pods_slice_is_a_container(
    prefix: str, runtime: str, suffix: str
) -> None:
    identity = parse_path(f"/{pod_path('systemd', UID)}/{prefix}-{ID}{suffix}")
    assert (identity.pod_uid, identity.container_id, identity.runtime) == (UID, ID, runtime)


@pytest.mark.parametrize("parent", ["system.slice", "kubepods.slice", "user.slice/user-1000.slice"])
def test_a_directory_without_scope_in_another_slice_is_no_container(parent: str) -> None:
    assert parse_path(f"/{parent}/cri-containerd-{ID}").container_id is None


@pytest.mark.parametrize("between", ["x", f"kata_{OTHER_ID}", f"crio-conmon-{OTHER_ID}"])
def test_a_container_is_directly_below_its_pod_or_none(between: str) -> None:
    identity = parse_path(f"/{pod_path('cgroupfs', UID)}/{between}/{ID}")
    assert (identity.pod_uid, identity.container_id) == (UID, None)


def test_an_unknown_class_of_service_is_no_error() -> None:
    path = f"/kubepods.slice/kubepods-gold.slice/kubepods-gold-pod{UID.replace('-', '_')}.slice"
    assert parse_path(path) == CgroupIdentity(pod_uid=UID)


def test_enclosing_pods_are_kept_from_the_inside_out() -> None:
    third = "13cb8437-00ed-40e4-99d8-e17193a58086"
    path = f"/kubepods/pod{UID}/{ID}/kubepods/pod{OTHER_UID}/kubepods/pod{third}/{OTHER_ID}"
    identity = parse_path(path)
    assert (identity.pod_uid, identity.container_id) == (third, OTHER_ID)
    assert identity.enclosing == (PodSlot(OTHER_UID, None), PodSlot(UID, ID))


@pytest.mark.parametrize(
    ("path", "runtime"),
    [
        (f"/docker/{ID}/docker/{OTHER_ID}", "docker"),
        (f"/libpod_parent/{OTHER_ID}/libpod-{ID}", "podman"),
        (f"/system.slice/docker.service/system.slice:docker:{ID}", "docker"),
        (f"/system.slice/pouch-{ID}.scope", None),
    ],
)
def test_a_container_outside_any_pod_is_the_outermost_of_its_runtime(
    path: str, runtime: str | None
) -> None:
    identity = parse_path(path)
    assert (identity.pod_uid, identity.container_id, identity.runtime) == (None, ID, runtime)


def test_a_container_inside_a_pods_container_is_the_pods() -> None:
    identity = parse_path(f"/{container_path('cgroupfs', UID, ID)}/docker/{OTHER_ID}")
    assert identity.container_id == ID
    assert identity.enclosing == ()


def test_a_container_with_a_pod_is_preferred_to_one_without_and_that_to_a_pod() -> None:
    pod = f"3:a:/{pod_path('cgroupfs', UID)}"
    container = f"2:b:/docker/{OTHER_ID}"
    both = f"1:c:/{container_path('cgroupfs', UID, ID)}"
    assert best_identity(cgroup_paths(f"{pod}\n{container}\n{both}")).container_id == ID
    assert best_identity(cgroup_paths(f"{pod}\n{container}")).container_id == OTHER_ID
    assert best_identity(cgroup_paths(f"9:z:/\n{pod}")).pod_uid == UID
    second = f"1:b:/{container_path('cgroupfs', OTHER_UID, OTHER_ID)}"
    assert best_identity(cgroup_paths(f"{both}\n{second}")).pod_uid == UID  # the first counts


def test_a_path_longer_than_the_kernel_prints_says_nothing() -> None:
    tail = f"/{container_path('cgroupfs', UID, ID)}"
    filler = "/x" * (LONGEST_PATH // 2)
    assert parse_path(filler + tail) == CgroupIdentity()


def test_a_file_longer_than_the_kernel_prints_is_read_as_far_as_its_last_whole_line() -> None:
    pod = pod_path("cgroupfs", UID)
    start = LONGEST_FILE - len(pod) - len("1:a:/") - 1
    text = "x" * start + f"\n1:a:/{pod}/{ID}\n" + "1:b:/\n" * 10**6
    assert best_identity(cgroup_paths(text)) == CgroupIdentity()


UUIDS = st.from_regex(r"[0-9a-f]{8}([-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}", fullmatch=True)
HASHES = st.from_regex(r"[0-9a-f]{32}", fullmatch=True)
IDS = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
FRAGMENTS = st.one_of(
    st.text(max_size=8),
    UUIDS,
    HASHES,
    IDS,
    st.sampled_from(["/", "pod", "kubepods", "-", "_", ":", ".slice", ".scope", "kata", ".."]),
    st.sampled_from(["cri-containerd", "crio", "docker", "conmon", "burstable"]),
    st.sampled_from([" (deleted)", "\n", "0::", "1:pids:"]),
)
HOSTILE = st.lists(FRAGMENTS, max_size=40).map("".join)
NAMES = st.text(
    st.characters(exclude_characters="/", exclude_categories=()), min_size=1, max_size=12
)


def literally_in(identity: CgroupIdentity, text: str) -> bool:
    uids = [identity.pod_uid, *(slot.pod_uid for slot in identity.enclosing)]
    ids = [identity.container_id, *(slot.container_id for slot in identity.enclosing)]
    dashed = text.replace("_", "-")
    return all(uid in dashed for uid in uids if uid) and all(id_ in text for id_ in ids if id_)


@given(HOSTILE)
def test_no_path_raises_or_yields_an_id_that_is_not_in_it(path: str) -> None:
    assert literally_in(parse_path(path), path)


@given(HOSTILE)
def test_no_proc_file_raises_or_yields_an_id_that_is_not_in_it(text: str) -> None:
    assert literally_in(best_identity(cgroup_paths(text)), text)


@given(UUIDS | HASHES, IDS, st.lists(NAMES, max_size=4), st.sampled_from(["systemd", "cgroupfs"]))
def test_a_containers_own_subdirectories_never_change_whose_they_are(
    uid: str, container_id: str, below: list[str], driver: str
) -> None:
    path = "/" + container_path(driver, uid.replace("_", "-"), container_id)
    identity = parse_path("/".join([path, *below]))
    assert (identity.pod_uid, identity.container_id) == (uid.replace("_", "-"), container_id)


@given(UUIDS, IDS, st.lists(NAMES, max_size=4), st.sampled_from(["systemd", "cgroupfs"]))
@example("4b2c1d3e-1111-2222-3333-444455556666", "ab" * 32, ["lxc"], "systemd")
def test_what_is_above_a_pod_never_changes_which_it_is_but_for_units_that_own_all_inside(
    uid: str, container_id: str, above: list[str], driver: str
) -> None:
    path = container_path(driver, uid.replace("_", "-"), container_id)
    identity = parse_path("/".join(["", *above, path]))
    inside = identity.unit is not None and is_own_inside(identity.unit)  # anyone may forge that
    assert identity.pod_uid == (None if inside else uid.replace("_", "-"))
    assert identity.container_id == container_id
