"""Off Kubernetes: whose a process is by the cgroup that its runtime made."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from exporter.agent.sources.cgroups.layout import best_identity
from exporter.agent.sources.groups.containers import ContainerNames
from exporter.model import GroupKey, GroupMembers
from tests.agent.sources.groups.engines import serving, short_folder
from tests.fakenvml.scenario import Gpu
from tests.field.nodes import field_node
from tests.field.report import report

CID, INNER = "a1" * 32, "b2" * 32
UUID = "0f5c3a1e-1111-4222-8333-444455556666"
TASK = "bf1ddbfbbc8f45c9b1ac4f779368741e"
USER = "user.slice/user-1000.slice/user@1000.service"
Owner = tuple[str, str]


def owner(folder: Path, *paths: str) -> Owner:
    """The kind and name of who has all use of a process with these cgroups, the last of v2."""
    with field_node(folder, Gpu(0)) as node:
        pid = node.start(paths[-1].strip("/."), 0)
        node.proc.put(pid, *paths, uid=1000)
        page = node.run(2)
    ((labels, seconds),) = page.all("mgpu_group_core_seconds_total")
    assert seconds > 0
    assert seconds == page.value("mgpu_device_busy_seconds_total", uuid="GPU-0")
    return labels["kind"], labels["group"]


WSL = "/wsl-user/distro-3/systemd"


@pytest.mark.parametrize(
    ("paths", "right"),
    [
        pytest.param(
            (f"{WSL}/system.slice/docker-{CID}.scope",),
            ("docker", CID),
            marks=report(
                source="WSL#41492",
                seen="WSL 2.9 moves all cgroups below /wsl-user/distro-N, and engines find none.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"{WSL}/{USER}/user.slice/docker-{CID}.scope",),
            ("docker", f"1000/{CID}"),
            marks=report(
                source="moby#53531",
                seen="An engine without root looks for user.slice at the top, where WSL has none.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/{USER}/user.slice/libpod-{CID}.scope/container",),
            ("podman", f"1000/{CID}"),
            marks=report(
                source="falcosecurity/libs#236",
                seen="A user's Podman container is taken for one of the machine's.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/machine.slice/libpod-{CID}.scope/container",),
            ("podman", CID),
            marks=report(
                source="backend.ai#13796",
                seen="Paths are made as Docker makes them, so Podman's containers have no figures.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            ("/user.slice", "/user.slice/user-1000.slice", f"/{USER}/user.slice/podman-77.scope"),
            ("user", "1000"),
            marks=report(
                source="datadog-agent#20225",
                seen="On cgroup v1 a user's Podman container has no cgroup that names it.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/user.slice/user-7.slice/session-1.scope/libpod-{CID}/container",),
            ("podman", f"7/{CID}"),
            marks=report(
                source="datadog-agent#41524",
                seen="The processes of a user's Podman container lie one directory deeper.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/system.slice/app_name.service/libpod-payload-{CID}",),
            ("podman", CID),
            marks=report(
                source="coroot-node-agent#251",
                seen="With --cgroups=split a container lies in its service, and is taken for it.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/machine.slice/machine-libpod_pod_{INNER}.slice/libpod-{CID}.scope/container",),
            ("podman", CID),
            marks=report(
                source="podman#16589",
                seen="Containers of a .kube unit lie outside of its service, in a slice of a pod.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/{USER}/user.slice/user-libpod_pod_{INNER}.slice/libpod-{CID}.scope/container",),
            ("podman", f"1000/{CID}"),
            marks=report(
                source="podman#6400",
                seen="A user's pod has a slice that belongs to none of the units that started it.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            ("/lxc/103/ns/system.slice/ollama.service",),
            ("lxc", "103"),
            marks=report(
                source="netdata#2161",
                seen="Proxmox's containers are hidden behind the services inside of them.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            ("/lxc/web/system.slice/dev-ptmx.mount", "/lxc/web/system.slice/ssh.service"),
            ("lxc", "web"),
            marks=report(
                source="netdata#3199",
                seen="Of some LXC containers the units inside are shown, of others the container.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            ("/user.slice", "/user.slice", "/lxc/yyz", "/user.slice/user-0.slice/session-1.scope"),
            ("lxc", "yyz"),
            marks=report(
                source="lxc#1820",
                seen="A container is in its cgroup by one controller and in a user's by others.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            ("/system.slice/lxc/one-12",),
            ("lxc", "one-12"),
            marks=report(
                source="OpenNebula#2840",
                seen="A site has its LXC containers in a slice, and none has figures.",
                first="wrong",
                group="runtimes",
                kind="a place that is only looked for at the top",
            ),
        ),
        pytest.param(
            ("/lxc.payload.gpu-box/user.slice/user-0.slice/session-c1.scope",),
            ("lxc", "gpu-box"),
            marks=report(
                source="lxd#9755",
                seen="In an LXD container the driver's pids mean nothing; the host has to tell.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/system.slice/docker-{CID}.scope/docker/{INNER}",),
            ("docker", CID),
            marks=report(
                source="dind#87",
                seen="Containers of an engine in a container lie below it, and are not found.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/docker/{CID}/dind",),
            ("docker", CID),
            marks=report(
                source="dstack#4267",
                seen="An engine in a container moves its processes into a cgroup of its own.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/containers.slice/titus-executor@default__{UUID}.service/{CID}",),
            ("container", CID),
            marks=report(
                source="pcp#770",
                seen="A container below a unit's name with hyphens was looked for at another path.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/system.slice/docker-{CID}.scope",),
            ("docker", CID),
            marks=report(
                source="nomad#27638",
                seen="Nomad's Docker task is in system.slice, and Nomad looks below nomad.slice.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            ("/system.slice/nomad.service",),
            ("systemd", "nomad.service"),
            marks=report(
                source="nomad#14490",
                seen="A raw_exec task has no cgroup of its own, and no memory in the metrics.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/nomad.slice/{UUID}.sleep3.scope",),
            ("nomad", f"{UUID}.sleep3"),
            marks=report(
                source="nomad-driver-containerd#133",
                seen="On cgroup v2 a task's scope is named by its allocation, not its container.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/ecs/{TASK}/{CID}",),
            ("container", CID),
            marks=report(
                source="amazon-ecs-agent#1119",
                seen="With task limits the path says ecs and a task instead of docker.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/ecstasks.slice/ecstasks-{TASK}.slice/docker-{CID}.scope",),
            ("docker", CID),
            marks=report(
                source="amazon-ecs-agent#3127",
                seen="On cgroup v2 a task has a slice of its own, in which its containers lie.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/mesos/{UUID}/mesos/child/leaf",),
            ("mesos", UUID),
            marks=report(
                source="mesos#551",
                seen="On cgroup v2 processes lie in leaves, and a nested container below its own.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            ("/slurm/uid_1000/job_397/step_0/task_0",),
            ("slurm", "397"),
            marks=report(
                source="pyxis#72",
                seen="Somebody asks whether a container of enroot stays in its job's cgroup.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            ("/", "/", f"/docker/{CID}", "/"),
            ("docker", CID),
            marks=report(
                source="ros2_medkit#637",
                seen="On a hybrid host only one controller's path names the container.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            (f"/../../../machine.slice/libpod-{CID}.scope/container",),
            ("podman", CID),
            marks=report(
                source="systemd#17902",
                seen="A reader in a cgroup namespace whose mount was not renewed sees /.. paths.",
                first="right",
                group="runtimes",
            ),
        ),
    ],
)
def test_a_process_is_its_groups(tmp_path: Path, paths: tuple[str, ...], right: Owner) -> None:
    assert owner(tmp_path, *paths) == right


@report(
    source="moby#42704",
    seen="With a cgroup parent, processes of docker exec land in another slice.",
    first="right",
    group="runtimes",
)
def test_a_container_in_two_slices_is_one(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        for folder in ("my-example.slice", "system.slice"):
            node.start(f"{folder}/docker-{CID}.scope", 0)
        page = node.run(3)
    ((labels, count),) = page.all("mgpu_group_processes")
    assert (labels["group"], count) == (CID, 2)
    ((_, seconds),) = page.all("mgpu_group_core_seconds_total")
    assert seconds == pytest.approx(2)


@report(
    source="opentelemetry-collector-contrib#43641",
    seen="On a kernel without cgroups no process has a cgroup file, and all metrics were lost.",
    first="right",
    group="runtimes",
)
def test_a_process_without_a_cgroup_file_costs_only_its_owner(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        pid = node.start("somewhere", 0)
        (node.proc.root / str(pid) / "cgroup").unlink()
        (node.cgroup / "somewhere/cgroup.procs").write_text("")
        page = node.run(5)
    nobodys = "mgpu_device_unattributed_core_seconds_total"
    assert page.value(nobodys, uuid="GPU-0", reason="unknown_cgroup") == pytest.approx(4)


@report(
    source="podman#3912",
    seen="cgroup v2 is mounted beside v1 in /sys/fs/cgroup/unified and is not recognised.",
    first="right",
    group="runtimes",
)
def test_a_hidden_process_is_found_in_any_hierarchy_of_a_hybrid_host(tmp_path: Path) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        pid = node.start("elsewhere", 0)
        node.proc.put(pid, "/..", "/..")
        (node.cgroup / "cgroup.controllers").unlink()
        for path in sorted(node.cgroup.rglob("cgroup.procs")):
            path.unlink()
        for each in ("unified", "systemd", "pids", "memory"):
            folder = node.cgroup / each / f"machine.slice/libpod-{CID}.scope"
            folder.mkdir(parents=True)
            for above in (folder, folder.parent, node.cgroup / each):
                (above / "cgroup.procs").write_text("")
            (folder / "cgroup.procs").write_text("" if each == "unified" else f"{pid}\n")
        (node.cgroup / "unified/cgroup.controllers").write_text("")
        page = node.run(3)
    ((labels, _),) = page.all("mgpu_group_core_seconds_total")
    assert (labels["kind"], labels["group"]) == ("podman", CID)


@report(
    source="netdata#11094",
    seen="Only cgroup v2 is mounted, and systemd's default says hybrid: v1 is looked for.",
    first="right",
    group="runtimes",
)
def test_a_hidden_process_is_found_in_a_unified_tree(tmp_path: Path) -> None:
    path = f"system.slice/docker-{CID}.scope"
    with field_node(tmp_path, Gpu(0)) as node:
        node.proc.put(node.start(path, 0), "/..")
        page = node.run(3)
    ((labels, _),) = page.all("mgpu_group_core_seconds_total")
    assert (labels["kind"], labels["group"]) == ("docker", CID)


@report(
    source="falcosecurity/libs#815",
    seen="A user's Podman container that a service runs has a bare id and stays without a name.",
    first="wrong",
    group="runtimes",
    kind="what holds for the machine is not done for its users",
)
def test_a_users_container_of_an_unknown_engine_has_its_name() -> None:
    uid = os.getuid()
    path = f"/user.slice/user-{uid}.slice/user@{uid}.service/app.slice/web.service/{CID}"
    key = GroupKey("container", f"{uid}/{CID}")
    wanted: Mapping[GroupKey, GroupMembers] = {key: GroupMembers((7,), best_identity((path,)))}
    with short_folder() as root, serving(root / f"run/user/{uid}/podman/podman.sock") as engine:
        engine.containers.append({"Id": CID, "Names": ["/web"]})
        source = ContainerNames(root=str(root))
        facts = source.facts(source.ask(wanted), wanted)
    assert [each.name for each in facts.values()] == ["web"]


@pytest.mark.parametrize(
    ("path", "right"),
    [
        pytest.param(
            "/default/trainer",
            ("cgroup", "default/trainer"),
            id="ctr",
            marks=report(
                source="tracee#1563",
                seen="Containers that ctr runs are in /default, which no rule knows.",
                first="wrong",
                group="runtimes",
                kind="a layout that is not known is root's",
            ),
        ),
        pytest.param(
            f"/system.slice:docker:{CID}",
            ("docker", CID),
            id="with systemd's words and no systemd",
            marks=report(
                source="moby#45796",
                seen="An engine without systemd makes one directory of slice, prefix and id.",
                first="right",
                group="runtimes",
            ),
        ),
        pytest.param(
            "/docker/buildkit/n4eu0udvbz9vfzjy71jkvgkwh",
            ("buildkit", "n4eu0udvbz9vfzjy71jkvgkwh"),
            id="a build of Docker's",
            marks=report(
                source="cryptnono#93",
                seen="Builds lie one deeper than containers, and were not found.",
                first="wrong",
                group="runtimes",
                kind="a layout that is not known is root's",
            ),
        ),
        pytest.param(
            "/buildkit/n4eu0udvbz9vfzjy71jkvgkwh",
            ("buildkit", "n4eu0udvbz9vfzjy71jkvgkwh"),
            id="a build",
            marks=report(
                source="buildkit#6368",
                seen="A daemon of its own has its builds at the top.",
                first="wrong",
                group="runtimes",
                kind="a layout that is not known is root's",
            ),
        ),
        pytest.param(
            f"/kata_overhead/{CID}",
            ("cgroup", f"kata_overhead/{CID}"),
            id="a sandbox of Kata's",
            marks=report(
                source="kata-containers#4128",
                seen="What a pod's machine costs beside its containers has a place of its own.",
                first="wrong",
                group="runtimes",
                kind="a layout that is not known is root's",
            ),
        ),
        pytest.param(
            "/qemu.slice/103.scope",
            ("qemu", "103"),
            id="a machine of Proxmox",
            marks=report(
                source="i915-sriov-dkms#54",
                seen="A virtual machine of Proxmox is a number in a slice.",
                first="wrong",
                group="runtimes",
                kind="one platform's name is taken for all",
            ),
        ),
        pytest.param(
            f"/lxc/101/ns/docker/{CID}",
            ("docker", f"101/{CID}"),
            id="an engine in LXC",
            marks=report(
                source="frigate#8652",
                seen="An engine runs in a container of Proxmox, whose number is lost.",
                first="wrong",
                group="runtimes",
                kind="a part is taken for the whole",
            ),
        ),
    ],
)
def test_a_layout_of_its_own_is_a_group_of_its_own(tmp_path: Path, path: str, right: Owner) -> None:
    with field_node(tmp_path, Gpu(0)) as node:
        for name, uid in ((path, 0), (path.replace("101", "102").replace("n4e", "x"), 0), ("/", 0)):
            pid = node.start(name.strip("/"), 0, duty=0.2, period=0.4)
            node.proc.put(pid, name, uid=uid)
        page = node.run(4)
    groups = {(own["kind"], own["group"]) for own, _ in page.all("mgpu_group_core_seconds_total")}
    assert {right, ("host", "0")} <= groups
    assert page.all("mgpu_group_kind_core_seconds_total", kind=right[0]) != []
    ((named, _),) = page.all("mgpu_group_info", kind=right[0], group=right[1])
    assert named["name"] == right[1].replace(CID, CID[:12])
