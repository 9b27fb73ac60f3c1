"""One tenant's pods, as large as the API server takes them, do not blind the node to others."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.sources.cgroups.real import mounted, real_cgroups
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.attacks import ATTACKS, NAMESPACE, Attack
from tests.agent.sources.pods.documents import node_document
from tests.e2e.node import NAME, Node
from tests.e2e.programs import Exporter, Page, eventually
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import Gpu

pytestmark = [pytest.mark.root, pytest.mark.program("cc"), pytest.mark.slow]

CORE, MEMORY = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
AT = {"vke.volcengine.com/gpu-index-container-main": "0"}
CHART_LIMIT_KIB = 192 << 10
LOOKS_EACH_S = (
    0.2  # no cycle is missed; without a pause, pages of a thousand pods keep two cores busy
)


class Watched:
    """An exporter and the neighbour that it must not lose sight of."""

    def __init__(self, exporter: Exporter, neighbour: Tenant) -> None:
        self.exporter, self.neighbour = exporter, neighbour

    def page(self) -> Page:
        """The next page. The exporter is alive, and the neighbour is on it."""
        assert self.exporter.get("/-/healthy")[0] == 200
        page = self.exporter.scrape()
        labels = {**self.neighbour.labels, "gpu": "0"}
        assert self.neighbour.core(page, gpu="0") is not None, "its use"
        assert page.value("mgpu_container_core_limit_ratio", **labels) == 0.5, "its allocation"
        return page

    def until(self, cycles: float) -> Page:
        """The last of the pages of so many more cycles; each is as it must be."""
        first = page = self.page()
        while _of(page, "cycles_total") < _of(first, "cycles_total") + cycles:
            time.sleep(LOOKS_EACH_S)
            page = self.page()
        return page

    @property
    def peak_kib(self) -> int:
        """The most memory that the process ever had."""
        status = Path(f"/proc/{self.exporter.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0])


def _of(page: Page, name: str) -> float:
    return page.value(f"mgpu_exporter_{name}") or 0.0


@contextlib.contextmanager
def attacked(folder: Path, attack: Attack) -> Iterator[tuple[ApiServer, Watched]]:
    """An exporter that finds all of the attack but its last pod when it starts."""
    version = "v1" if mounted("v1") else "v2"
    with real_cgroups(version) as tree, ApiServer() as api:
        node, neighbour = Node(folder, tree, [Gpu(0), Gpu(1)]), Tenant("neighbour")
        api.set_node(node_document(NAME, {"nvidia.com/gpu.count": "2"}, {}))
        api.serve_devices("v1")
        api.set_slices(*attack.slices)
        for name, claim in attack.claims.items():
            api.set_claim(name, claim, NAMESPACE)
        api.add_pod(neighbour.document(limits={CORE: "50", MEMORY: "1024"}, annotations=AT))
        for document in attack.documents()[:-1]:
            api.add_pod(document)
        node.run(neighbour.cgroup, 0, duty=0.5)
        kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url)
        with node.exporter(f"--kubeconfig={kubeconfig}") as exporter:
            watched = Watched(exporter.ready(), neighbour)
            eventually(lambda: neighbour.core(exporter.scrape(), gpu="0"), "the list of pods")
            yield api, watched


@pytest.mark.parametrize("name", ATTACKS)
def test_the_neighbours_series_stay_whatever_a_tenant_creates(name: str, tmp_path: Path) -> None:
    """Its cycles keep their interval, it stays alive and below the memory limit of the chart."""
    attack = ATTACKS[name]
    with attacked(tmp_path, attack) as (api, watched):
        before = watched.until(5)
        api.add_pod(attack.pod(attack.pods - 1, attack.size))
        after = watched.until(10)

        done, late = (
            _of(after, name) - _of(before, name)
            for name in ("cycles_total", "cycle_overruns_total")
        )
        assert late <= done / 5
        assert watched.peak_kib < CHART_LIMIT_KIB
        rejected = after.all("mgpu_exporter_rejected_samples_total", reason=attack.reason)
        assert bool(rejected) == bool(attack.reason)
