"""The command on a node with real cgroups and processes, a driver's library and an API server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.agent.doctor import privileges
from tests.agent.doctor.looking import Report, check
from tests.agent.sources.cgroups.real import RealCgroups, mounted, real_cgroups
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import node_document
from tests.e2e.node import NAME, Node
from tests.e2e.tenant import Tenant
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Gpu

pytestmark = [pytest.mark.root, pytest.mark.program("cc")]


class Site:
    """The node, and the command on it."""

    def __init__(self, folder: Path, cgroups: RealCgroups, api: ApiServer) -> None:
        self.node = Node(folder, cgroups, [Gpu(0), Gpu(1)])
        self.api = api
        self._flags = (
            f"--kubeconfig={write_kubeconfig(folder / 'kubeconfig', api.url)}",
            f"--nvml.library={library()}",
            f"--node.name={NAME}",
            "--pods.source=api",
        )
        self._environment = {"FAKENVML_SCENARIO": str(folder / "gpus.txt")}

    def check(self, *flags: str, wrap: str = "") -> Report:
        """Look at it."""
        return check(*self._flags, *flags, environment=self._environment, wrap=wrap)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    version = "v1" if mounted("v1") else "v2"
    with real_cgroups(version) as cgroups, ApiServer() as api:
        api.set_node(node_document(NAME, {}, {}))
        site = Site(tmp_path, cgroups, api)
        tenant = Tenant("worker")
        api.add_pod(tenant.document())
        site.node.run(tenant.cgroup, 0)
        yield site


def test_a_node_that_is_as_it_should_be_has_no_problem(site: Site) -> None:
    report = site.check()

    assert report.problems() == []
    assert report.of("together", "processes on GPUs")["found"] == "1 of named containers"
    assert report.of("gpus", "driver")["verdict"] == "ok"
    assert report.of("gpus", "GPU 0")["found"].startswith("NVIDIA H100")
    assert report.of("clock", "driver's time")["verdict"] == "ok"


@pytest.mark.slow
def test_each_part_that_fails_is_named_and_the_others_are_well(site: Site) -> None:
    site.node.lose(1)
    site.node.break_(
        Fault("error", "nvmlDeviceGetTotalEnergyConsumption", gpu=0, code=4),
        Fault("error", "nvmlDeviceGetPowerUsage", gpu=0, code=3),
    )
    site.api.fail("list", 403, "forbidden", times=100)

    report = site.check()

    assert set(report.problems()) == {
        ("gpus", "devices"),
        ("gpus", "energy"),
        ("pods", "pods: list"),
    }
    assert report.of("gpus", "devices")["found"].startswith("GPU 1 cannot be opened")
    assert report.of("gpus", "energy")["found"].startswith("not measured on GPU 0: no_permission")
    assert privileges.ROOT in report.of("gpus", "energy")["privilege"]
    assert report.of("gpus", "power")["verdict"] == "note"
    assert report.of("pods", "pods: list")["privilege"] == privileges.PODS
    assert report.of("together", "processes on GPUs")["verdict"] == "note"


@pytest.mark.slow
def test_what_the_driver_is_slow_to_tell_is_named_with_its_pace(site: Site) -> None:
    lists = "nvmlDeviceGetComputeRunningProcesses_v3"
    site.node.break_(Fault("delay", lists, gpu=1, seconds=0.08))

    report = site.check("--collection.processes-interval=1s")

    slow = report.of("gpus", "slow to answer")
    assert slow["verdict"] == "note"
    assert re.match(
        r"processes: \d+ ms of GPU 1, 1 of 2 devices use over 1% of the time", slow["found"]
    )
    assert re.search("processes .* to .* ms every 1 s", report.of("gpus", "driver's pace")["found"])


@pytest.mark.slow
def test_what_is_read_once_in_the_meantime_is_told_and_not_called_slow(site: Site) -> None:
    lists = "nvmlDeviceGetComputeRunningProcesses_v3"
    site.node.break_(Fault("delay", lists, gpu=1, seconds=0.08))

    report = site.check()

    assert re.search(
        r"processes \S+ to \S+ ms \(one read\) every 5 s",
        report.of("gpus", "driver's pace")["found"],
    )
    assert "slow to answer" not in {finding["subject"] for finding in report.findings}


@pytest.mark.slow
def test_a_driver_that_hangs_ends_with_a_report(site: Site) -> None:
    site.node.break_(Fault("hang", "nvmlDeviceGetCount_v2"))

    report = site.check()

    assert "has not answered" in report.of("gpus", "driver")["found"]


@pytest.mark.slow
@pytest.mark.program("unshare")
def test_in_a_pid_namespace_of_its_own_hostpid_is_what_is_missing(site: Site) -> None:
    report = site.check(wrap="unshare --pid --fork --mount-proc")

    finding = report.of("cgroups", "host's processes")
    assert (finding["verdict"], finding["privilege"]) == ("problem", privileges.HOST_PID)


def test_people_read_it_as_text() -> None:
    command = [sys.executable, "-m", "exporter", "check", "--simulate=demo"]

    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert "simulated (demo): no value is measured" in done.stdout
    assert done.stdout.endswith("no problems, 1 note\n")
