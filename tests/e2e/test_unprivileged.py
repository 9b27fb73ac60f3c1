"""Without root, capabilities or groups: what the kernel lets everybody see is enough for groups."""

import time
from pathlib import Path

import pytest

from tests.agent.sources.cgroups.real import mounted, real_cgroups
from tests.agent.sources.groups.engines import serving, short_folder
from tests.e2e.programs import Exporter
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Gpu, Process, Scenario, Work

NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all")
UID = 4711

pytestmark = [
    pytest.mark.root,
    pytest.mark.program("cc"),
    pytest.mark.program("setpriv"),
    pytest.mark.slow,
]


class Unprivileged(Exporter):
    """The exporter as nobody, who can never be more."""

    def command(self, *arguments: str) -> list[str]:
        """As another user, with nothing to gain."""
        return [*NOBODY, "--no-new-privs", *super().command(*arguments)]


def test_another_users_job_and_a_container_are_told_and_no_name_that_takes_a_right() -> None:
    version, now = "v1" if mounted("v1") else "v2", time.time()
    with real_cgroups(version) as cgroups, short_folder() as folder:
        folder.chmod(0o755)
        scenario = Scenario(gpus=[Gpu(0), Gpu(1)], loaded=now - 60)
        container = "f" * 64
        job = cgroups.spawn(
            "system.slice/slurmstepd.scope/job_99/step_0",
            ("setpriv", f"--reuid={UID}", "env", "SLURM_JOB_ACCOUNT=x", "sleep", "infinity"),
        )
        docker = cgroups.spawn(f"system.slice/docker-{container}.scope")
        for gpu, pid in enumerate((job, docker)):
            scenario.processes.append(Process(gpu, pid, memory=1 << 30, start=now))
            scenario.works.append(Work(gpu, pid, start=now))
        scenario.write(folder / "gpus.txt")
        with serving(folder / "docker.sock") as engine:
            engine.containers = [{"Id": container, "Names": ["/secret"]}]
            engine.path.chmod(0o660)
            _look(folder, container)
            assert engine.asked == []


def _look(folder: Path, container: str) -> None:
    flags = (
        f"--nvml.library={library()}",
        "--pods.source=none",
        f"--groups.sockets={folder}/docker.sock",
        "--groups.slurm-account=true",
        "--collection.interval=500ms",
    )
    environment = {"FAKENVML_SCENARIO": str(folder / "gpus.txt")}
    with Unprivileged(*flags, environment=environment) as exporter:
        exporter.ready()
        page = exporter.when(
            lambda p: (
                p.value("mgpu_group_core_seconds_total", group="99")
                and p.value("mgpu_group_core_seconds_total", group=container)
                and p.value("mgpu_exporter_source_up", source="containers") == 0
            ),
            "both are accounted, and the socket is refused",
        )
        assert page.value("mgpu_group_info", group="99", user=str(UID), account="") == 1
        assert page.value("mgpu_group_info", group=container, name=container[:12]) == 1
        exporter.wait_for_log("Permission denied")
