"""Which device a container was allocated: from a kubelet's socket, from the API server's claims."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.agent.sources.node.kubeletserver import KubeletServer
from tests.agent.sources.node.messages import holding
from tests.agent.sources.pods.devices import claim_document, result, slice_document
from tests.agent.sources.pods.documents import Document
from tests.e2e.programs import Page
from tests.e2e.stage import Stage, staged
from tests.e2e.tenant import NAMESPACE, Tenant
from tests.fakenvml.scenario import GIB, Instance, Process

pytestmark = [pytest.mark.root, pytest.mark.program("cc"), pytest.mark.slow]

GPUS = 4
INFO, ALLOCATED = "mgpu_device_info", "mgpu_container_allocation_info"
LIMIT = "mgpu_container_memory_limit_bytes"


@pytest.fixture(scope="module")
def kubelet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeletServer]:
    with KubeletServer(tmp_path_factory.mktemp("kubelet") / "kubelet.sock") as server:
        yield server


@pytest.fixture(scope="module")
def stage(kubelet: KubeletServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    socket = f"--kubelet.pod-resources-socket={kubelet.path}"
    labels = {"nvidia.com/gpu.count": str(GPUS)}
    flags = (socket, "--compat=dcgm,dcgm-4.9")
    with staged(tmp_path_factory.mktemp("node"), *flags, gpus=GPUS, labels=labels) as stage:
        yield stage


def allocated_on(page: Page, tenant: Tenant) -> set[str]:
    """The devices that a pod's container has a limit on."""
    return {labels["uuid"] for labels, _ in page.all(LIMIT, **tenant.labels)}


def test_what_the_kubelet_says_a_container_holds_is_what_it_was_allocated(
    stage: Stage, kubelet: KubeletServer
) -> None:
    tenant = Tenant("whole")
    kubelet.answer = holding(tenant.name, "GPU-2")
    stage.api.add_pod(tenant.document(limits={"nvidia.com/gpu": "1"}))
    page = stage.pages.when(lambda page: allocated_on(page, tenant), "the allocation")

    labels = {**tenant.labels, "gpu": "2", "uuid": "GPU-2"}
    assert allocated_on(page, tenant) == {"GPU-2"}
    assert page.value("mgpu_container_core_limit_ratio", **labels) == 1
    assert page.value("mgpu_container_core_seconds_total", **labels) == 0
    assert page.value("mgpu_exporter_source_up", source="podresources") == 1
    assert kubelet.asked


def test_the_next_pod_of_that_name_has_its_own_device(stage: Stage, kubelet: KubeletServer) -> None:
    first, second = Tenant("replica-0"), Tenant("replica-0")
    kubelet.answer = holding("replica-0", "GPU-0")
    stage.api.add_pod(first.document(limits={"nvidia.com/gpu": "1"}))
    stage.pages.when(lambda page: allocated_on(page, first) == {"GPU-0"}, "the first on GPU-0")
    stage.api.delete_pod("replica-0", NAMESPACE)
    kubelet.answer = holding("replica-0", "GPU-1")
    stage.api.add_pod(second.document(limits={"nvidia.com/gpu": "1"}))

    page = stage.pages.when(lambda page: allocated_on(page, second) == {"GPU-1"}, "the next")
    assert page.value("mgpu_pod_info", uid=second.uid, **second.pod_labels) == 1


def claiming(tenant: Tenant, claim: str) -> Document:
    """The pod, whose container has all of a claim."""
    document = tenant.document()
    document["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    document["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return document


def test_a_claims_device_is_what_its_container_was_allocated(stage: Stage) -> None:
    api, tenant = stage.api, Tenant("claiming")
    api.serve_devices("v1")
    api.set_slices(slice_document({"gpu-0": "GPU-0", "gpu-1": "GPU-1"}))
    api.set_claim("claiming-gpu", claim_document(result("gpu-1")), NAMESPACE)
    api.add_pod(claiming(tenant, "claiming-gpu"))

    page = stage.pages.when(lambda page: allocated_on(page, tenant), "the allocation")
    assert page.value(LIMIT, **tenant.labels, uuid="GPU-1") == 80 * 2**30
    assert page.value("mgpu_exporter_source_up", source="claims_api") == 1


USED = ("DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_USED_BYTES")


def test_an_instance_that_its_driver_makes_for_a_claim_is_its_pods_until_it_is_gone(
    stage: Stage,
) -> None:
    """As NVIDIA's driver does (DynamicMIG): before the pod starts it turns MIG on, too."""
    api, driver, tenant = stage.api, stage.node.scenario, Tenant("partitioned")
    name = "gpu-3-mig-1g10gb-19-2"
    offer = slice_document({name: ""})
    offer["spec"]["devices"][0]["attributes"] = {
        "type": {"string": "mig"},
        "parentUUID": {"string": "GPU-3"},
        "profile": {"string": "1g.10gb"},
    }
    api.serve_devices("v1")
    api.set_slices(offer)
    api.set_claim("partition", claim_document(result(name)), NAMESPACE)
    api.add_pod(claiming(tenant, "partition"))
    stage.pages.when(lambda page: page.all(ALLOCATED, uuid="", **tenant.labels), "it is to be made")

    driver.gpus[3] = replace(driver.gpus[3], mig=True)
    driver.instances.append(Instance(3, 0, uuid="MIG-made", gi=7, start=2))
    pid = stage.node.cgroups.spawn(tenant.cgroup)
    driver.processes.append(Process(3, pid, memory=GIB, instance=0))
    stage.node.tell()
    page = stage.pages.when(
        lambda page: page.value(
            "mgpu_container_memory_used_bytes", uuid="MIG-made", **tenant.labels
        ),
        "the instance is the pod's",
    )
    assert allocated_on(page, tenant) == {"MIG-made"}
    board = {"UUID": "GPU-3", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb"}
    assert [page.value(used, **board, **tenant.labels) for used in USED] == [1024, GIB]

    api.delete_pod(tenant.name, NAMESPACE)
    stage.node.cgroups.end(pid)
    driver.processes = [process for process in driver.processes if process.pid != pid]
    driver.instances.clear()
    driver.gpus[3] = replace(driver.gpus[3], mig=False)
    stage.node.tell()
    page = stage.pages.when(
        lambda page: (
            not page.all(INFO, uuid="MIG-made") and not page.all(ALLOCATED, **tenant.labels)
        ),
        "it is gone",
    )
    assert not [family for family in USED if page.all(family, GPU_I_ID="7")]
