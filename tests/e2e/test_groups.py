"""Groups off Kubernetes end to end: real processes in real cgroups, names over real sockets.

Slurm's and Docker's directories are made by the test as those programs make them; Podman's are
Podman's own.
"""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.agent.sources.cgroups.names import new_container_id
from tests.agent.sources.cgroups.real import mounted, real_cgroups
from tests.agent.sources.groups.engines import Engine, serving, short_folder
from tests.agent.sources.groups.podman import BUSYBOX, Podman
from tests.e2e.programs import Page
from tests.e2e.scraper import falls, imbalances
from tests.e2e.stage import Stage, staged
from tests.fakenvml.scenario import GIB

pytestmark = [pytest.mark.root, pytest.mark.program("cc"), pytest.mark.slow]

CORE, ENERGY = "mgpu_group_core_seconds_total", "mgpu_group_energy_joules_total"
INFO, MEMORY = "mgpu_group_info", "mgpu_group_memory_used_bytes"
UID = 4711
AS_CAROL = ("setpriv", f"--reuid={UID}", "--clear-groups", "env", "SLURM_JOB_ACCOUNT=physics")


class Machine(NamedTuple):
    """A machine without Kubernetes: the stage, and a container engine with podman's socket."""

    stage: Stage
    docker: Engine
    podman_socket: Path


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("machine")
    (folder / "passwd").write_text(f"root:x:0:0::/:/bin/sh\ncarol:x:{UID}:{UID}::/:/bin/sh\n")
    with short_folder() as sockets, serving(sockets / "docker.sock") as docker:
        podman = sockets / "podman" / "s"
        flags = (
            f"--groups.sockets={docker.path},{podman}",
            f"--path.passwd={folder}/passwd",
            "--groups.slurm-account=true",
            "--pods.source=none",
        )
        with staged(folder, *flags, gpus=12) as stage:
            yield Machine(stage, docker, podman)


@pytest.fixture
def stage(machine: Machine) -> Iterator[Stage]:
    began = len(machine.stage.pages.pages)
    yield machine.stage
    pages = machine.stage.pages.pages[began:]
    assert list(falls(pages)) == []
    assert [wrong for page in pages for wrong in imbalances(page)] == []


def working(stage: Stage, **labels: str) -> Page:
    """The first page on which a group works and holds memory."""
    return stage.pages.when(
        lambda p: p.value(CORE, **labels) and p.value(MEMORY, **labels) == GIB, f"{labels} work"
    )


def test_a_job_is_accounted_to_its_user_and_account_and_stays_when_it_has_ended(
    stage: Stage,
) -> None:
    gpu = stage.gpu()
    job = {"kind": "slurm", "group": "211", "gpu": str(gpu)}
    path = "system.slice/slurmstepd.scope/job_211/step_0/user/task_0"
    pid = stage.node.cgroups.spawn(path, (*AS_CAROL, "sleep", "infinity"))
    stage.node.work(pid, gpu)
    named = {"name": "211", "user": "carol", "account": "physics", "slurm_job": "211"}
    page = working(stage, **job)
    assert page.value(INFO, **job, **named) == 1

    stage.node.end(pid)
    ended = stage.pages.when(lambda p: p.value(MEMORY, **job) is None, "its gauges have gone")
    assert (ended.value(CORE, **job) or 0) >= (page.value(CORE, **job) or 0) > 0
    assert (ended.value(ENERGY, **job) or 0) > 0
    assert ended.value(INFO, **job, **named) == 1


def test_the_steps_of_a_job_are_one_group_on_each_of_its_gpus(stage: Stage) -> None:
    gpus = stage.gpu(), stage.gpu()
    for step, gpu in zip(("batch", "0"), gpus, strict=True):
        stage.node.run(f"system.slice/n1_slurmstepd.scope/job_212/step_{step}/user/task_0", gpu)
    for gpu in gpus:
        working(stage, kind="slurm", group="212", gpu=str(gpu))


def test_a_job_of_cgroup_v1_is_found_by_its_directory(stage: Stage) -> None:
    if mounted("v1") is None:
        pytest.skip("no cgroup v1 hierarchy is mounted")
    gpu = stage.gpu()
    with real_cgroups("v1", prefix="slurm_") as slurm:
        pid = slurm.spawn(f"uid_{UID}/job_213/step_0/task_0")
        stage.node.work(pid, gpu)
        page = working(stage, kind="slurm", group="213", gpu=str(gpu))
        assert page.value(INFO, group="213", user="carol", slurm_job="213") == 1
        stage.node.scenario.processes = [p for p in stage.node.scenario.processes if p.pid != pid]
        stage.node.tell()


def test_a_docker_container_has_the_name_that_its_engine_gives_it(machine: Machine) -> None:
    stage, gpu, container_id = machine.stage, machine.stage.gpu(), new_container_id()
    machine.docker.containers.append({"Id": container_id, "Names": ["/llm-server"]})
    stage.node.run(f"system.slice/docker-{container_id}.scope", gpu)

    page = stage.pages.when(
        lambda p: p.value(INFO, group=container_id, name="llm-server"), "it has its name"
    )

    assert page.value(INFO, kind="docker", group=container_id, gpu=str(gpu)) == 1
    working(stage, kind="docker", group=container_id, gpu=str(gpu))


@pytest.mark.program("podman")
@pytest.mark.program("runc")
@pytest.mark.skipif(not BUSYBOX.exists(), reason="needs busybox-static as /bin/busybox")
def test_a_real_podman_container_is_accounted_by_its_name(machine: Machine) -> None:
    stage, gpu = machine.stage, machine.stage.gpu()
    machine.podman_socket.parent.mkdir()
    podman = Podman(machine.podman_socket.parent)
    with contextlib.closing(_Clearing(podman)), podman.serving():
        container_id, pid = podman.run("carols-training")
        stage.node.work(pid, gpu)
        group = {"kind": "podman", "group": container_id, "gpu": str(gpu)}
        named = stage.pages.when(
            lambda p: p.value(INFO, **group, name="carols-training"), "podman tells its name"
        )
        assert named.all(INFO, name="carols-training") == named.all(INFO, **group)
        working(stage, **group)

        podman.remove("carols-training")
        ended = stage.pages.when(lambda p: p.value(MEMORY, **group) is None, "it has ended")
        assert ended.value(INFO, **group, name="carols-training") == 1


class _Clearing:
    def __init__(self, podman: Podman) -> None:
        self.close = podman.clear


def test_a_unit_in_which_two_users_work_is_neithers(stage: Stage) -> None:
    """As JupyterHub's, which starts each user's notebook in its own unit."""
    gpu, hub = stage.gpu(), {"kind": "systemd", "group": "jupyterhub.service"}
    carol = stage.node.cgroups.spawn("system.slice/jupyterhub.service", (*AS_CAROL, "sleep", "99"))
    stage.node.work(carol, gpu)
    stage.pages.when(lambda p: p.value(INFO, **hub, user="carol"), "carol's alone")
    other = stage.node.cgroups.spawn(
        "system.slice/jupyterhub.service", ("setpriv", "--reuid=4712", "sleep", "99")
    )
    stage.node.work(other, gpu)
    both = stage.pages.when(lambda p: p.value(INFO, **hub, user=""), "nobody's alone")
    assert both.value(INFO, **hub, user="carol") is None
    stage.node.end(other)
    page = stage.pages.when(
        lambda p: p.value("mgpu_group_processes", **hub, gpu=str(gpu)) == 1, "the other has gone"
    )
    assert page.value(INFO, **hub, user="") == 1


def test_a_job_of_another_batch_system_is_a_group(stage: Stage) -> None:
    gpu, slot = stage.gpu(), "slot1_3@node7.example.org"
    path = f"system.slice/htcondor/condor_var_lib_condor_execute_{slot}"
    pid = stage.node.cgroups.spawn(f"{path}/inner", (*AS_CAROL, "sleep", "infinity"))
    stage.node.work(pid, gpu)
    page = working(stage, kind="htcondor", group=slot, gpu=str(gpu))
    assert page.value(INFO, kind="htcondor", group=slot, name=slot, user="carol") == 1


def test_a_job_inside_of_a_container_is_named_beside_its_process(machine: Machine) -> None:
    """Slurmd in a container: the use is the container's."""
    stage, gpu, container_id = machine.stage, machine.stage.gpu(), new_container_id()
    own = f"system.slice/docker-{container_id}.scope"
    inside = f"{own}/system.slice/slurmstepd.scope/job_31/step_0/user/task_0"
    stage.node.run(inside, gpu)
    working(stage, kind="docker", group=container_id, gpu=str(gpu))
    status, text = stage.exporter.get("/api/v1/snapshot")
    assert status == 200
    groups = json.loads(text)["groups"]
    (group,) = [one for one in groups if one["group"] == container_id]
    (device,) = group["devices"]
    assert [process["job"] for process in device["process_list"]] == ["slurm/31"]
    assert [one["group"] for one in groups if one["group"] == "31"] == []


def test_a_service_a_session_and_what_is_of_no_unit_have_groups_of_their_own(
    stage: Stage,
) -> None:
    gpu = stage.gpu()
    pid = stage.node.cgroups.spawn("nowhere", ("setpriv", f"--reuid={UID}", "sleep", "infinity"))
    stage.node.work(pid, gpu)
    working(stage, kind="cgroup", gpu=str(gpu))
    assert stage.pages.pages[-1].value(INFO, kind="cgroup", gpu=str(gpu), user="carol") == 1
    service = stage.gpu()
    stage.node.run("system.slice/ollama.service", service)
    working(stage, kind="systemd", group="ollama.service", gpu=str(service))
    assert stage.pages.pages[-1].value(INFO, group="ollama.service", user="root") == 1
    session = stage.gpu()
    stage.node.run(f"user.slice/user-{UID}.slice/session-1.scope", session)
    working(stage, kind="user", group=str(UID), gpu=str(session))
    containers = "mgpu_container_core_seconds_total"
    assert stage.pages.pages[-1].all(containers) == []
