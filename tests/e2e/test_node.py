"""Processes in real cgroups, on GPUs of the stand-in library: what they do arrives by name.

The exporter runs unmodified, with the real pynvml, against a real cgroup file system and an API
server over HTTP. All tests but the last two share one exporter, each with GPUs of its own; it runs
all the time, so that every pod is one that came while it ran.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.sources.cgroups.real import mounted
from tests.e2e.programs import Page
from tests.e2e.scraper import falls, grows, imbalances, measured_at
from tests.e2e.stage import WINDOW_S, Stage, staged
from tests.e2e.tenant import NAMESPACE, Tenant
from tests.fakenvml.scenario import GIB, energy_joules, truth

pytestmark = [pytest.mark.root, pytest.mark.program("cc")]

GPUS = 14
CORE = "mgpu_container_core_seconds_total"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("node"), gpus=GPUS) as stage:
        yield stage


@pytest.fixture
def stage(shared: Stage) -> Iterator[Stage]:
    """Checks after each test what holds on every page of its time."""
    began = len(shared.pages.pages)
    yield shared
    check(shared.pages.pages[began:], shared.pages.failures)


def check(pages: list[Page], failures: list[str]) -> None:
    assert failures == []
    assert pages
    assert list(falls(pages)) == []
    assert [wrong for page in pages for wrong in imbalances(page)] == []


@pytest.mark.parametrize("driver", ["systemd", "cgroupfs"])
def test_a_process_is_accounted_to_its_container_beside_its_allocation(
    stage: Stage, driver: str
) -> None:
    tenant, gpu = Tenant(f"train-{driver}", driver), stage.gpu()
    resource = "vke.volcengine.com/"
    stage.api.add_pod(
        tenant.document(
            limits={f"{resource}mgpu-core": "50", f"{resource}mgpu-memory": "2048"},
            annotations={f"{resource}gpu-index-container-main": str(gpu)},
        )
    )
    bound = stage.pages.when(lambda p: tenant.core(p) is not None, "the allocation")
    stage.node.run(tenant.cgroup, gpu)
    page = stage.working(tenant)

    assert tenant.core(bound) == 0
    assert tenant.processes(bound) == 0
    labels = {**tenant.labels, "gpu": str(gpu), "uuid": f"GPU-{gpu}"}
    assert tenant.processes(page) == 1
    assert page.value("mgpu_container_memory_used_bytes", **labels) == GIB
    assert page.value("mgpu_container_core_limit_ratio", **labels) == 0.5
    assert page.value("mgpu_container_memory_limit_utilization_ratio", **labels) == 0.5
    assert page.value("mgpu_pod_info", uid=tenant.uid, **tenant.pod_labels) == 1
    assert (page.value("mgpu_pod_core_seconds_total", **tenant.pod_labels) or 0) > 0
    assert page.all("mgpu_group_processes", gpu=str(gpu)) == []


@pytest.mark.slow
def test_counters_grow_by_what_the_driver_knows_to_be_true(stage: Stage) -> None:
    steady, paused = Tenant("steady"), Tenant("paused")
    on_steady, on_paused = stage.gpu(), stage.gpu()
    steady_pid = stage.deploy(steady, on_steady)
    stage.api.add_pod(paused.document())
    stage.node.run(paused.cgroup, on_paused, duty=0.4, period=0.53)
    stage.working(paused)
    before = stage.working(steady)
    after = stage.pages.after(before, 6)

    begin, end = measured_at(before), measured_at(after)
    world = stage.node.scenario
    expected = truth(world, on_steady, begin, end)[steady_pid]
    grown = (steady.core(after) or 0) - (steady.core(before) or 0)
    assert grown == pytest.approx(expected, abs=0.03 * expected + WINDOW_S)
    for gpu in (on_steady, on_paused):
        busy = _increase(before, after, "mgpu_device_busy_seconds_total", gpu)
        joules = _increase(before, after, "mgpu_device_energy_joules_total", gpu)
        seconds = sum(truth(world, gpu, begin, end).values())
        energy = energy_joules(world, gpu, begin, end)
        assert busy == pytest.approx(seconds, abs=0.03 * seconds + WINDOW_S)
        assert joules == pytest.approx(energy, abs=0.03 * energy + WINDOW_S * 350)
    assert grown == pytest.approx(
        _increase(before, after, "mgpu_device_busy_seconds_total", on_steady), rel=1e-6
    )


def _increase(before: Page, after: Page, name: str, gpu: int) -> float:
    first, last = (page.value(name, gpu=str(gpu)) for page in (before, after))
    assert first is not None
    assert last is not None
    return last - first


@pytest.mark.slow
def test_a_process_on_two_devices_counts_on_each(stage: Stage) -> None:
    tenant, gpus = Tenant("wide"), (stage.gpu(), stage.gpu())
    stage.deploy(tenant, *gpus)
    before = stage.pages.when(
        lambda p: all(tenant.processes(p, gpu=str(gpu)) for gpu in gpus), "a process on each"
    )
    after = stage.pages.after(before, 2)

    for gpu in gpus:
        assert tenant.processes(after, gpu=str(gpu)) == 1
        assert _increase(before, after, CORE, gpu) == pytest.approx(
            _increase(before, after, "mgpu_device_busy_seconds_total", gpu), rel=1e-6
        )
    whole = after.value("mgpu_pod_core_seconds_total", **tenant.pod_labels)
    assert whole == pytest.approx(sum(v for _, v in after.all(CORE, **tenant.labels)), rel=1e-6)


@pytest.mark.slow
def test_a_pod_without_a_name_is_a_group_until_the_api_server_names_it(stage: Stage) -> None:
    tenant = Tenant("late")
    stage.node.run(tenant.cgroup, stage.gpu())
    unnamed = stage.pages.when(
        lambda p: (
            p.value("mgpu_group_processes", **tenant.group)
            and p.value("mgpu_group_core_seconds_total", **tenant.group)
        ),
        "its group",
    )
    assert tenant.core(unnamed) is None

    stage.api.add_pod(tenant.document())
    named = stage.working(tenant)
    later = stage.pages.after(named, 1)

    assert named.value("mgpu_group_processes", **tenant.group) is None
    group = [p.value("mgpu_group_core_seconds_total", **tenant.group) for p in (named, later)]
    assert group[0] == group[1]  # what it used before stays there
    assert (tenant.core(later) or 0) > (tenant.core(named) or 0)


@pytest.mark.slow
def test_when_a_process_ends_its_gauges_go_and_its_counters_stay(stage: Stage) -> None:
    tenant, gpu = Tenant("ending"), stage.gpu()
    pid = stage.deploy(tenant, gpu)
    before = stage.working(tenant)
    stage.node.end(pid)

    gone = stage.pages.when(lambda p: tenant.processes(p) is None, "the gauges are gone")

    assert gone.value("mgpu_container_memory_used_bytes", **tenant.labels) is None
    assert gone.value("mgpu_container_core_utilization_ratio", **tenant.labels) is None
    # The driver tells of its last samples when it is dead already; they are its container's too.
    exited = {"reason": "exited", "gpu": str(gpu)}
    assert not gone.value("mgpu_device_unattributed_core_seconds_total", **exited)
    assert (tenant.core(gone) or 0) >= (tenant.core(before) or 0)
    assert gone.value("mgpu_pod_core_seconds_total", **tenant.pod_labels) == tenant.core(gone)


@pytest.mark.slow
def test_a_deleted_pod_keeps_its_name_while_its_process_ends_and_its_counters_after(
    stage: Stage,
) -> None:
    tenant = Tenant("deleted")
    pid = stage.deploy(tenant, stage.gpu())
    stage.working(tenant)
    stage.api.delete_pod(tenant.name, NAMESPACE)
    deleted = stage.working(tenant)
    still = stage.pages.after(deleted, 1.5)
    stage.node.end(pid)

    gone = stage.pages.when(lambda p: tenant.processes(p) is None, "the gauges are gone")

    assert grows([deleted, still], CORE, **tenant.labels)
    assert still.all("mgpu_group_processes", group=tenant.group["group"]) == []
    assert gone.value("mgpu_pod_info", **tenant.pod_labels) is None
    assert (tenant.core(gone) or 0) >= (tenant.core(still) or 0)


@pytest.mark.slow
def test_on_cgroup_v2_a_pod_is_named_too(tmp_path: Path) -> None:
    tenant = Tenant("modern")
    with staged(tmp_path, f"--path.cgroup={mounted('v2')}", cgroups="v2") as stage:
        stage.deploy(tenant, 0)
        stage.working(tenant)
    check(stage.pages.pages, stage.pages.failures)
