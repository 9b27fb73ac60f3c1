"""The wall clock of a running exporter is set: soon the truth again, and never 0 while working.

libfaketime sets the clock of the process, and of the driver in it, while both run. The GPUs: one
that always samples, one that takes no samples while it is idle, and one that keeps none to itself.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.agent.sources.cgroups.real import mounted, real_cgroups
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import node_document
from tests.e2e.node import NAME, Node
from tests.e2e.programs import Page
from tests.e2e.scraper import Scraper, falls
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import Fault, Gpu, Work

pytestmark = [
    pytest.mark.root,
    pytest.mark.program("cc"),
    pytest.mark.program("faketime"),
    pytest.mark.slow,
]

GPUS = (0, 1, 2)
SLEEPER, RATES = 1, 2
LONG_AGO_S = 3 * 3600
SOON_S = 30
CYCLE_S = 0.5
CORE = "mgpu_container_core_seconds_total"
BUSY = "mgpu_device_busy_seconds_total"


@dataclass
class Town:
    """An exporter with a clock that can be set, and a pod on each of its GPUs."""

    node: Node
    pages: Scraper
    clock: Path
    pods: dict[int, Tenant]
    pids: dict[int, int]

    def step(self, seconds: int) -> None:
        """Set the wall clock to so much more than the real one."""
        fresh = self.clock.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.replace(self.clock)

    def work(self, *, on: bool) -> None:
        """Let all pods work without a pause, or none."""
        begin = _now(self.node) - LONG_AGO_S
        works = [Work(gpu, self.pids[gpu], start=begin) for gpu in GPUS]
        self.node.scenario.works = works if on else []
        self.node.tell()

    def cycles(self, seconds: float) -> None:
        """Let so many seconds of cycles go by."""
        due = _cycles(self.pages.pages[-1]) + seconds / CYCLE_S
        self.pages.when(lambda page: _cycles(page) >= due, f"{seconds} s of cycles")

    def core(self, page: Page, gpu: int) -> float | None:
        """Core seconds of a GPU's container."""
        return page.value(CORE, uuid=f"GPU-{gpu}", **self.pods[gpu].labels)

    def follow(self, page: Page) -> None:
        """Wait until each container works all the time again, beginning with this page."""
        began, waiting = time.monotonic(), set(GPUS)
        while waiting:
            before = self.pages.pages[-1]
            self.cycles(3)
            now = self.pages.pages[-1]
            waiting -= {gpu for gpu in waiting if self.worked(gpu, before, now) >= 3 - 2 * CYCLE_S}
            late = time.monotonic() - began > SOON_S
            assert not (waiting and late), (waiting, page.text, now.text)

    def worked(self, gpu: int, before: Page, now: Page) -> float:
        """Core seconds between two pages; 0 where one does not know them."""
        used = [self.core(page, gpu) for page in (before, now)]
        return 0.0 if None in used else (used[1] or 0.0) - (used[0] or 0.0)

    def zeros(self, gpu: int, pages: list[Page]) -> list[tuple[float, float]]:
        """When the device was seen to work, and its container was told to have done nothing."""
        return [
            (_cycles(a), _cycles(b))
            for a, b in pairwise(pages)
            if (b.value(BUSY, uuid=f"GPU-{gpu}") or 0) - (a.value(BUSY, uuid=f"GPU-{gpu}") or 0)
            > CYCLE_S / 2
            and self.core(a, gpu) is not None
            and self.core(a, gpu) == self.core(b, gpu)
        ]


def _cycles(page: Page) -> float:
    return page.value("mgpu_exporter_cycles_total") or 0


def _now(node: Node) -> float:
    return time.monotonic() if node.scenario.monotonic else time.time()


@pytest.fixture(scope="module", params=["wall", "boot"])
def town(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("clock")
    clock = folder / "clock"
    clock.write_text("+0\n")
    faketime = next(Path("/usr/lib").glob("**/faketime/libfaketimeMT.so.1"))
    environment = {
        "LD_PRELOAD": str(faketime),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
    }
    with real_cgroups("v1" if mounted("v1") else "v2") as tree, ApiServer() as api:
        api.set_node(node_document(NAME, {}, {}))
        kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url)
        node = Node(folder, tree, [Gpu(gpu, sleeps=gpu == SLEEPER) for gpu in GPUS])
        node.scenario.monotonic = request.param == "boot"
        node.scenario.loaded = _now(node) - LONG_AGO_S
        node.break_(Fault("error", "nvmlDeviceGetSamples", gpu=RATES, code=3))
        pods = {gpu: Tenant(f"pod-{gpu}") for gpu in GPUS}
        for tenant in pods.values():
            api.add_pod(tenant.document())
        pids = {gpu: node.run(tenant.cgroup, gpu) for gpu, tenant in pods.items()}
        node.scenario.processes = [replace(p, start=0.0) for p in node.scenario.processes]
        flags = (f"--collection.interval={int(CYCLE_S * 1000)}ms", f"--kubeconfig={kubeconfig}")
        with (
            node.exporter(*flags, environment=environment) as exporter,
            Scraper(exporter.ready()) as pages,
        ):
            made = Town(node, pages, clock, pods, pids)
            made.work(on=True)
            pages.when(_cycles, "a cycle")
            made.follow(pages.pages[-1])
            yield made


@pytest.mark.parametrize("state", ["busy", "idle"])
def test_a_step_of_the_clock_is_survived(town: Town, state: str) -> None:
    """Each two of the driver's clock, the state and the step; ``test_window_steps`` has all."""
    stamps_since_boot = town.node.scenario.monotonic
    step = -3600 if stamps_since_boot == (state == "idle") else 30
    if state == "idle":
        town.work(on=False)
        town.cycles(15)  # the ring of the one that sleeps is empty by now
    began = town.pages.pages[-1]
    town.step(step)
    if state == "idle":
        town.cycles(10)
        town.work(on=True)
    working = town.pages.pages[-1]

    town.follow(working)
    town.cycles(6)  # later in the ring nothing stands still either
    pages = town.pages.since(began)
    assert [town.zeros(gpu, pages) for gpu in GPUS] == [[]] * len(GPUS)
    assert list(falls(pages)) == []
    assert town.pages.failures == []
    town.step(0)
    town.follow(town.pages.pages[-1])
