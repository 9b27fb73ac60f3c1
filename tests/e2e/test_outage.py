"""An exporter that starts while nobody answers it: pods are named all the same, and go on so.

The API server is dead at the start, and so is the kubelet; only the names of the node's log files
are there. Then the kubelet answers, then the API server. On every page of all of it the pod has one
account that grows, the books balance, and its use is under no group.
"""

from pathlib import Path

import pytest

from tests.agent.sources.cgroups.real import mounted, real_cgroups
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import Document, node_document
from tests.agent.sources.pods.logs import Logs
from tests.e2e.node import NAME, Node
from tests.e2e.programs import Page
from tests.e2e.scraper import Scraper, falls, grows, imbalances
from tests.e2e.tenant import NAMESPACE, Tenant, static
from tests.fakenvml.scenario import Gpu

pytestmark = [pytest.mark.root, pytest.mark.program("cc"), pytest.mark.slow]

CORE = "mgpu_container_core_seconds_total"
LIMIT = "mgpu_container_memory_limit_bytes"
LIMITS = {"vke.volcengine.com/mgpu-core": "50", "vke.volcengine.com/mgpu-memory": "1024"}
INDEX = "vke.volcengine.com/gpu-index-container-main"


def sources(page: Page) -> dict[str, float]:
    """Which sources of pods are shown, and whether they are up."""
    found = page.all("mgpu_exporter_source_up")
    return {ls["source"]: up for ls, up in found if ls["source"].startswith("pods_")}


def document_of(tenant: Tenant, gpu: int) -> Document:
    """A pod that was allocated a part of a GPU."""
    labels = {"app": tenant.name, "secret": "s3cret"}
    return tenant.document(limits=LIMITS, annotations={INDEX: str(gpu)}, labels=labels)


def kubelet_has(kubelet: ApiServer, tenant: Tenant, gpu: int) -> None:
    """Let the kubelet know a pod; a static one by the hash that its cgroup has."""
    document = document_of(tenant, gpu)
    if tenant.config_hash:
        document["metadata"]["uid"] = tenant.config_hash
        document["metadata"]["annotations"].pop("kubernetes.io/config.mirror")
    kubelet.add_pod(document)


def test_an_exporter_that_starts_in_an_outage_names_pods_and_goes_on_so(tmp_path: Path) -> None:
    tenants = (Tenant("chat"), static("etcd"))
    logs, api, kubelet = Logs(tmp_path / "log"), ApiServer(), ApiServer()
    for server in (api, kubelet):
        server.start()  # now it has a port, and nobody will listen there
        server.stop()
    flags = (
        "--collection.interval=500ms",
        f"--kubeconfig={write_kubeconfig(tmp_path / 'kubeconfig', api.url)}",
        f"--kubelet.address={kubelet.url}",
        f"--path.logs={logs.root}",
        "--pods.source=auto",
        "--pods.labels=app",
    )
    with real_cgroups("v1" if mounted("v1") else "v2") as tree:
        node = Node(tmp_path, tree, [Gpu(0), Gpu(1)])
        for gpu, tenant in enumerate(tenants):
            uid, cid = tenant.config_hash or tenant.uid, tenant.container_id
            logs.run(tenant.name, uid, cid=cid, namespace=NAMESPACE)
            api.add_pod(document_of(tenant, gpu))
            kubelet_has(kubelet, tenant, gpu)
            node.run(tenant.cgroup, gpu)
        api.set_node(node_document(NAME, {}, {}))
        with node.exporter(*flags) as exporter, Scraper(exporter.ready()) as pages:
            named = pages.when(lambda p: all(t.core(p) for t in tenants), "named by files")
            files = pages.when(
                lambda p: sources(p) == {"pods_api": 0, "pods_kubelet": 0, "pods_files": 1},
                "files are in use, and said to be",
            )
            assert files.all(LIMIT) == []
            exporter.wait_for_log("pods come from pods_files")

            kubelet.start()
            second = pages.when(
                lambda p: sources(p) == {"pods_api": 0, "pods_kubelet": 1} and p.all(LIMIT),
                "the kubelet's pods, with limits",
            )
            app = {"label_app": "chat", **tenants[0].pod_labels}
            assert second.value("mgpu_pod_info", **app) == 1

            api.start()
            best = pages.when(lambda p: sources(p) == {"pods_api": 1}, "the API server is back")
            exporter.wait_for_log("pods come from pods_api again")
            last = pages.after(best, 1)
            kubelet.stop()
            api.stop()

        seen = pages.until(named, last)
        for tenant in tenants:
            assert grows(seen, CORE, **tenant.labels)
            assert not [page for page in pages.pages if page.names(**tenant.group)]
            assert last.value("mgpu_pod_info", uid=tenant.uid, **tenant.pod_labels) == 1
        assert "s3cret" not in last.text
        assert pages.failures == []
        assert list(falls(pages.pages)) == []
        assert [wrong for page in pages.pages for wrong in imbalances(page)] == []
