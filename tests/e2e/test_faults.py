"""What breaks around the exporter is said on its pages, costs only itself, and comes back.

One exporter lives through all faults but the last two and is scraped all the time. On every page
of every fault: no scrape fails, no counter goes back, the books balance.
"""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.agent.sources.cgroups.names import new_container_id
from tests.e2e.programs import Page
from tests.e2e.scraper import falls, grows, imbalances, measured_at
from tests.e2e.stage import WINDOW_S, Stage, staged
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import Fault, truth

pytestmark = [pytest.mark.root, pytest.mark.program("cc"), pytest.mark.slow]

WHOLE_LIBRARY = "nvml*"
SAMPLES = "nvmlDeviceGetSamples"  # asked in each cycle of each device
NOT_LOADED = Fault("error", WHOLE_LIBRARY, code=9)  # NVML_ERROR_DRIVER_NOT_LOADED
BLIND_CYCLES = 6  # 2.5 s, in cycles of half a second, after which series are withheld
CORE = "mgpu_container_core_seconds_total"
ENERGY = "mgpu_device_energy_joules_total"
SOUND, FAULTY = "GPU-0", "GPU-1"


@dataclass
class Town:
    """A stage with a pod at work on each of two GPUs. Faults are done to the victim's, GPU-1."""

    stage: Stage
    neighbour: Tenant
    victim: Tenant
    victim_pid: int

    def both_at_work(self) -> Page:
        """The first page on which both pods have used more than on the newest one."""
        pods = (self.neighbour, self.victim)
        before = self.stage.pages.pages[-1]
        used = {pod.name: pod.core(before) or 0.0 for pod in pods}
        return self.stage.pages.when(
            lambda page: all((pod.core(page) or 0.0) > used[pod.name] for pod in pods),
            "both pods at work",
        )

    def blind(self, reason: str, uuid: str = FAULTY) -> Page:
        """The first page that says why the use of a GPU's pod is not known."""
        said = {"quantity": "core", "reason": reason, "uuid": uuid}
        return self.stage.pages.when(
            lambda page: page.all("mgpu_container_unmeasured", **said), f"{uuid} blind: {reason}"
        )

    def source(self, name: str, up: int) -> Page:
        """The first page on which a source is up, or is not."""
        return self.stage.pages.when(
            lambda page: page.value("mgpu_exporter_source_up", source=name) == up, f"{name} {up}"
        )


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with staged(tmp_path_factory.mktemp("faults"), gpus=2) as stage:
        neighbour, victim = Tenant("neighbour"), Tenant("victim", driver="cgroupfs")
        stage.deploy(neighbour, 0)
        pid = stage.deploy(victim, 1)
        town = Town(stage, neighbour, victim, pid)
        stage.working(neighbour)
        stage.working(victim)
        yield town


@pytest.fixture
def town(settled: Town) -> Iterator[Town]:
    """Checks after each fault what holds on every page since the exporter started."""
    settled.both_at_work()
    yield settled
    check(settled.stage)


def check(stage: Stage) -> None:
    pages = stage.pages.pages
    assert stage.pages.failures == []
    assert list(falls(pages)) == []
    assert [wrong for page in pages for wrong in imbalances(page)] == []


def check_blind(pages: list[Page], tenant: Tenant, uuid: str, reason: str) -> None:
    """On the last page nothing is left of a device's pod but the reason; it was not flat before."""
    blind = pages[-1]
    assert blind.value("mgpu_device_up", uuid=uuid) == 0
    told = {"quantity": "device", "reason": reason, "uuid": uuid}
    assert blind.value("mgpu_device_unmeasured", **told) == 1
    assert blind.value("mgpu_device_busy_seconds_total", uuid=uuid) is None
    assert blind.names(**tenant.pod_labels) == {"mgpu_container_unmeasured", "mgpu_pod_info"}
    flat = {
        page.value("mgpu_exporter_cycles_total")
        for page in pages
        if page.value("mgpu_device_up", uuid=uuid) == 0 and tenant.core(page) is not None
    }
    assert len(flat) < BLIND_CYCLES


def check_neighbour(town: Town, pages: list[Page]) -> None:
    """The other device and its pod were measured all the time."""
    assert {page.value("mgpu_device_up", uuid=SOUND) for page in pages} == {1}
    assert grows(pages, CORE, **town.neighbour.labels)


def test_without_the_api_server_the_names_stay_and_new_pods_wait_for_theirs(town: Town) -> None:
    pages, newcomer = town.stage.pages, Tenant("newcomer")
    town.stage.api.stop()
    down = town.source("pods_api", 0)
    town.stage.deploy(newcomer, 0)
    unnamed = pages.when(
        lambda page: page.value("mgpu_group_processes", **newcomer.group), "the new pod's group"
    )
    assert newcomer.core(unnamed) is None
    pages.after(unnamed, 1)
    for tenant in (town.neighbour, town.victim):
        assert grows(pages.since(down), CORE, **tenant.labels)

    town.stage.api.start()
    town.source("pods_api", 1)
    assert town.stage.working(newcomer).value("mgpu_group_processes", **newcomer.group) is None


def test_a_call_that_hangs_costs_its_own_device_only_and_is_made_up_for(town: Town) -> None:
    pages, node = town.stage.pages, town.stage.node
    before = town.both_at_work()
    node.break_(Fault("hang", SAMPLES, gpu=1, seconds=60))
    blind = town.blind("driver_stuck")
    check_blind(pages.until(before, blind), town.victim, FAULTY, "driver_stuck")
    node.mend()
    after = pages.after(town.both_at_work(), 1)

    check_neighbour(town, pages.until(before, after))
    span = (measured_at(before), measured_at(after))
    expected = truth(node.scenario, 1, *span)[town.victim_pid]
    used = (town.victim.core(after) or 0) - (town.victim.core(before) or 0)
    assert used == pytest.approx(expected, abs=0.03 * expected + WINDOW_S)


def test_a_library_that_hangs_as_a_whole_blinds_every_device_until_it_answers(town: Town) -> None:
    pages, node = town.stage.pages, town.stage.node
    before = town.both_at_work()
    node.break_(Fault("hang", WHOLE_LIBRARY, seconds=60))
    town.blind("driver_stuck", SOUND)
    blind = town.source("nvml", 0)
    for tenant, uuid in ((town.neighbour, SOUND), (town.victim, FAULTY)):
        check_blind(pages.until(before, blind), tenant, uuid, "driver_stuck")
    assert town.stage.exporter.get("/-/healthy")[0] == 200

    node.mend()
    town.source("nvml", 1)
    town.both_at_work()


def test_a_lost_gpu_is_said_to_be_and_taken_up_when_it_is_back(town: Town) -> None:
    pages, node = town.stage.pages, town.stage.node
    before = town.both_at_work()
    node.lose(1)
    blind = town.blind("gpu_lost")
    check_blind(pages.until(before, blind), town.victim, FAULTY, "gpu_lost")
    node.lose(1, lost=False)

    after = town.both_at_work()
    check_neighbour(town, pages.until(before, after))


def test_processes_and_cgroups_that_vanish_take_their_gauges_along_and_nothing_else(
    town: Town,
) -> None:
    pages, node, victim = town.stage.pages, town.stage.node, town.victim
    before = town.both_at_work()
    node.end(town.victim_pid)
    node.cgroups.remove("kubepods")
    gone = pages.when(lambda page: victim.processes(page) is None, "the gauges are gone")
    assert (victim.core(gone) or 0) >= (victim.core(before) or 0)

    victim.container_id = new_container_id()
    town.stage.api.modify_pod(victim.document())
    town.victim_pid = node.run(victim.cgroup, 1)
    after = town.both_at_work()
    check_neighbour(town, pages.until(before, after))
    assert {p.value("mgpu_exporter_source_up", source="cgroups") for p in pages.pages} == {1}


def test_a_driver_that_is_unloaded_and_loaded_again_is_followed(town: Town) -> None:
    pages, node = town.stage.pages, town.stage.node
    before = town.both_at_work()
    node.break_(NOT_LOADED)
    town.blind("read_failed", SOUND)
    blind = town.source("nvml", 0)
    for tenant, uuid in ((town.neighbour, SOUND), (town.victim, FAULTY)):
        check_blind(pages.until(before, blind), tenant, uuid, "read_failed")

    node.scenario.loaded = time.time()  # its energy counters begin anew
    node.mend()
    town.source("nvml", 1)
    joules = {labels: town.both_at_work().value(ENERGY, uuid=labels) for labels in (SOUND, FAULTY)}
    pages.when(
        lambda page: all((page.value(ENERGY, uuid=u) or 0) > (j or 0) for u, j in joules.items()),
        "energy is counted again",
    )


def test_a_signal_lets_go_of_the_driver_and_another_takes_it_up_again(town: Town) -> None:
    pages, process = town.stage.pages, town.stage.exporter.process
    before = town.both_at_work()
    process.send_signal(signal.SIGUSR2)
    town.blind("released", SOUND)
    blind = town.source("nvml", 0)
    for tenant, uuid in ((town.neighbour, SOUND), (town.victim, FAULTY)):
        check_blind(pages.until(before, blind), tenant, uuid, "released")
    calls = [
        p.value("mgpu_exporter_nvml_calls_total", call="nvmlShutdown") for p in (before, blind)
    ]
    assert (calls[1] or 0) == (calls[0] or 0) + 1

    process.send_signal(signal.SIGUSR2)
    town.source("nvml", 1)
    town.both_at_work()


def test_a_driver_that_is_not_loaded_yet_is_waited_for(tmp_path: Path) -> None:
    tenant = Tenant("early")
    with staged(tmp_path, faults=[NOT_LOADED]) as stage:
        stage.deploy(tenant, 0)
        without = stage.pages.when(
            lambda page: page.value("mgpu_exporter_source_up", source="pods_api"), "pods are known"
        )
        assert without.value("mgpu_exporter_source_up", source="nvml") == 0
        assert without.all("mgpu_device_up") == []
        stage.node.mend()
        stage.working(tenant)
        check(stage)


def test_sigterm_ends_it_in_the_middle_of_a_hang(tmp_path: Path) -> None:
    with staged(tmp_path) as stage:
        stage.node.break_(Fault("hang", WHOLE_LIBRARY, seconds=60))
        stage.pages.when(
            lambda page: page.all("mgpu_device_unmeasured", reason="driver_stuck"), "the hang"
        )
        stage.exporter.process.send_signal(signal.SIGTERM)
        assert stage.exporter.process.wait(timeout=5) == 0
