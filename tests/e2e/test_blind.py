"""Blindness under a real Prometheus: ``rate()`` gives nothing, never 0, and a series says why.

The real exporter over the stand-in driver, with ``/proc`` and the cgroups in plain directories and
a pod at work on each of two GPUs. Two scrapes are further apart than the seconds in which a device
that fails is still given time to come back, so that no two of them fall into these.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.agent.sources.cgroups.fakeproc import FakeProc
from tests.agent.sources.cgroups.names import container_path, new_container_id, new_uid
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import node_document, pod_document
from tests.e2e.programs import Exporter, Prometheus, eventually
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Gpu, Process, Scenario, Work

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.program("cc"), pytest.mark.slow]

SCRAPE = "3s"
RANGE = "12s"
STEP_S = 0.5
DUTY, PERIOD_S = 0.5, 0.53  # so that work and samples do not keep step
STEADY, VICTIM = 0, 1  # GPUs; the namespace of the pod on each is gpu-0, gpu-1
STRANGER = 79_999
COUNTERS = [
    f"mgpu_{level}_{counter}"
    for level in ("container", "pod", "namespace")
    for counter in ("core_seconds_total", "energy_joules_total")
]
GAUGES = (
    "mgpu_container_core_utilization_ratio",
    "mgpu_container_memory_used_bytes",
    "mgpu_pod_core_usage_gpus",
    "mgpu_pod_core_limit_utilization_ratio",
)
OF_OWNERS = [
    f"sum by (namespace) ({what})"
    for what in (
        *(f"rate({counter}[{RANGE}])" for counter in COUNTERS),
        *(f"increase({counter}[{RANGE}])" for counter in COUNTERS),
        *GAUGES,
    )
]
OF_DEVICES = f"rate(mgpu_device_busy_seconds_total[{RANGE}])"
REASONS = "mgpu_container_unmeasured{quantity='core'}"


@dataclass
class Town:
    """What is broken, and what Prometheus makes of it."""

    folder: Path
    scenario: Scenario
    prometheus: Prometheus

    def settle(self) -> None:
        """Wait until both pods are measured over the whole of the range."""
        eventually(lambda: self._answers(set(owners())), "both pods at work")

    def _answers(self, expected: set[str]) -> bool:
        return all(set(self.of_owners(expression)) == expected for expression in OF_OWNERS)

    def wait_for_nothing(self, *left: str) -> None:
        """Wait until nothing is said of any owner but these."""
        eventually(lambda: self._answers(set(left)), f"nothing of any owner but {left}")

    def of_owners(self, expression: str, at: float | None = None) -> dict[str, float]:
        """An expression's values by namespace."""
        values = self.prometheus.values(expression, ("namespace",), at)
        return {namespace: value for (namespace,), value in values.items()}

    def reasons(self) -> dict[tuple[str, ...], float]:
        """Why cores are not measured now, by namespace."""
        return self.prometheus.values(REASONS, ("namespace", "reason"))

    def lose(self, index: int, *, lost: bool) -> None:
        """Let a GPU fall off the bus, or come back."""
        self.scenario.gpus[index] = replace(self.scenario.gpus[index], lost=lost)
        self.scenario.write(self.folder / "gpus.txt")

    def meet(self, pid: int) -> None:
        """Let a process come to a GPU of which ``/proc`` names no cgroup: the tree is walked."""
        FakeProc(self.folder / "proc").put(pid, "/")
        self.scenario.processes.append(Process(VICTIM, pid, memory=GIB))
        self.scenario.write(self.folder / "gpus.txt")


def owners() -> list[str]:
    return [f"gpu-{index}" for index in (STEADY, VICTIM)]


def build(folder: Path, api: ApiServer) -> Scenario:
    """A node in which a pod is at work on each GPU and is allocated half of it."""
    proc, cgroups = FakeProc(folder / "proc"), folder / "cgroup"
    scenario = Scenario(gpus=[Gpu(STEADY), Gpu(VICTIM)])
    start = time.time() - 60
    for index, namespace in enumerate(owners()):
        uid, container_id, pid = new_uid(), new_container_id(), 70_000 + index
        cgroup = container_path("systemd", uid, container_id)
        (cgroups / cgroup).mkdir(parents=True)
        (cgroups / cgroup / "cgroup.procs").write_text(f"{pid}\n")
        proc.put(pid, f"/{cgroup}")
        api.add_pod(
            pod_document(
                "worker",
                namespace=namespace,
                uid=uid,
                containers={"main": container_id},
                limits={"vke.volcengine.com/mgpu-core": "50"},
                annotations={"vke.volcengine.com/gpu-index-container-main": str(index)},
            )
        )
        scenario.processes.append(Process(index, pid, memory=GIB))
        scenario.works.append(Work(index, pid, start=start, duty=DUTY, period=PERIOD_S))
    (cgroups / "cgroup.controllers").touch()
    api.set_node(node_document("node-1", {}, {}))
    scenario.write(folder / "gpus.txt")
    return scenario


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("blind")
    with ApiServer() as api:
        scenario = build(folder, api)
        flags = (
            "--collection.interval=250ms",
            "--node.name=node-1",
            f"--kubeconfig={write_kubeconfig(folder / 'kubeconfig', api.url)}",
            f"--nvml.library={library()}",
            f"--path.cgroup={folder / 'cgroup'}",
            f"--path.procfs={folder / 'proc'}",
        )
        environment = {"FAKENVML_SCENARIO": str(folder / "gpus.txt")}
        with (
            Exporter(*flags, environment=environment) as exporter,
            Prometheus(exporter.ready().url, folder, SCRAPE) as prometheus,
        ):
            yield Town(folder, scenario, prometheus)


@pytest.fixture
def town(raised: Town) -> Town:
    raised.settle()
    return raised


def moments(begin: float) -> list[float]:
    """Each half second from then to now."""
    count = int((time.time() - begin) / STEP_S)
    return [begin + STEP_S * number for number in range(count)]


def check_never_zero(town: Town, begin: float) -> None:
    """At no moment since was anything of an owner 0, in any expression."""
    zeros = [
        (expression, moment - begin, values)
        for expression in OF_OWNERS
        for moment in moments(begin)
        if min((values := town.of_owners(expression, moment)).values(), default=1.0) <= 0
    ]
    assert zeros == []


def check_goes_on(town: Town, expression: str, begin: float, by: str, *labels: str) -> None:
    """At each moment since, the expression had a value above 0 for each of these labels."""
    for moment in moments(begin):
        values = town.prometheus.values(expression, (by,), moment)
        assert {label for label in labels if values.get((label,), 0) > 0} == set(labels)


def test_a_blind_device_takes_its_owners_rates_away_and_nobody_elses(town: Town) -> None:
    begin = time.time()
    steady, victim = owners()
    town.lose(VICTIM, lost=True)
    town.wait_for_nothing(steady)

    assert town.reasons() == {(victim, "gpu_lost"): 1}
    check_never_zero(town, begin)
    for expression in OF_OWNERS:
        check_goes_on(town, expression, begin, "namespace", steady)

    town.lose(VICTIM, lost=False)
    town.settle()
    assert town.reasons() == {}


def test_without_cgroups_no_owner_has_a_rate_and_the_devices_go_on(town: Town) -> None:
    begin = time.time()
    cgroups, away = town.folder / "cgroup", town.folder / "away"
    cgroups.rename(away)
    town.meet(STRANGER)  # else the exporter looks at the tree once a minute
    town.wait_for_nothing()

    assert town.reasons() == dict.fromkeys(((name, "no_cgroups") for name in owners()), 1)
    check_never_zero(town, begin)
    check_goes_on(town, OF_DEVICES, begin, "uuid", "GPU-0", "GPU-1")
    nobodys = f"mgpu_device_unattributed_core_seconds_total{{reason='unknown_cgroup'}}[{RANGE}]"
    assert min(town.prometheus.values(f"rate({nobodys})", ("uuid",)).values()) > 0

    away.rename(cgroups)
    town.settle()
    assert town.reasons() == {}
