"""All that is on one node: GPUs, cgroups, an API server, the exporter, and who scrapes it."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from tests.agent.sources.cgroups.real import mounted, real_cgroups
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import node_document
from tests.e2e.node import NAME, Node
from tests.e2e.programs import Exporter, Page
from tests.e2e.scraper import Scraper
from tests.e2e.tenant import Tenant
from tests.fakenvml.scenario import Fault, Gpu

NO_LABELS: Mapping[str, str] = MappingProxyType({})
WINDOW_S = 0.5 + 1 / 6  # the cycle's interval, and the driver's sample that may come after it


class Stage:
    """A running exporter. ``pages`` is the scraper that has been at it since it was ready."""

    def __init__(self, node: Node, api: ApiServer, exporter: Exporter, pages: Scraper) -> None:
        self.node, self.api, self.exporter, self.pages = node, api, exporter, pages
        self._free = iter(range(len(node.scenario.gpus)))

    def gpu(self) -> int:
        """A GPU that no other test works on."""
        return next(self._free)

    def deploy(self, tenant: Tenant, *gpus: int) -> int:
        """Create a pod and start its process on these GPUs; its pid."""
        self.api.add_pod(tenant.document())
        return self.node.run(tenant.cgroup, *gpus)

    def working(self, tenant: Tenant, beyond: float = 0.0) -> Page:
        """The first page on which a pod's container has a process and more core time than this."""
        return self.pages.when(
            lambda page: tenant.processes(page) and (tenant.core(page) or 0.0) > beyond,
            f"{tenant.name} works, beyond {beyond} s",
        )


@contextlib.contextmanager
def staged(
    folder: Path,
    *flags: str,
    gpus: int = 1,
    cgroups: str = "",
    faults: Sequence[Fault] = (),
    labels: Mapping[str, str] = NO_LABELS,
) -> Iterator[Stage]:
    """Raise a node with so many idle GPUs and run the exporter on it with these flags.

    ``cgroups`` is v1 or v2, else what this machine has; ``labels`` are the node's. With faults
    from the start it is not waited for that everything is measured.
    """
    version = cgroups or ("v1" if mounted("v1") else "v2")
    with real_cgroups(version) as tree, ApiServer() as api:
        api.set_node(node_document(NAME, labels, {}))
        kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url)
        node = Node(folder, tree, [Gpu(index) for index in range(gpus)])
        node.break_(*faults)
        flags = ("--collection.interval=500ms", f"--kubeconfig={kubeconfig}", *flags)
        with node.exporter(*flags) as exporter, Scraper(exporter.ready()) as pages:
            if not faults:
                pages.when(lambda page: _watches(page) and _counts(page, gpus), "it measures")
            yield Stage(node, api, exporter, pages)


def _watches(page: Page) -> bool:
    return all(up for _, up in page.all("mgpu_exporter_source_up"))


def _counts(page: Page, gpus: int) -> bool:
    return len(page.all("mgpu_device_busy_seconds_total")) == gpus
