"""A node whose sharing system the settings file describes, and whose card numbers it explains.

The real exporter over the stand-in driver. NVML's order of the cards, the numbers of their device
files and the order of their PCI addresses are three different ones.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import node_document, pod_document
from tests.e2e.programs import Exporter, Page
from tests.fakenvml.build import library
from tests.fakenvml.scenario import GIB, Gpu, Scenario

pytestmark = [pytest.mark.program("cc"), pytest.mark.slow]

INFO = "mgpu_container_allocation_info"
REJECTED = "mgpu_exporter_rejected_samples_total"
SETTINGS = """\
collection.interval: 250ms
allocations:
  index-basis: {vke-mgpu: pci}
  schemes:
    - name: acme
      core-resource: acme.example/core
      core-units: 1000
      memory-resource: acme.example/memory
      memory-unit: 256Mi
      placement-annotation: acme.example/cards-of-{container}
      index-basis: minor
"""
GPUS = [  # minors 2, 0, 1; places in PCI order 1, 2, 0
    Gpu(0, minor=2, pci="00000000:02:00.0"),
    Gpu(1, minor=0, pci="00000000:03:00.0"),
    Gpu(2, minor=1, pci="00000000:01:00.0"),
]
PODS = (
    pod_document(
        "described",
        limits={"acme.example/core": "1250", "acme.example/memory": "9"},
        annotations={"acme.example/cards-of-main": "0,2"},
    ),
    pod_document(
        "explained",
        limits={"vke.volcengine.com/mgpu-core": "30"},
        annotations={"vke.volcengine.com/gpu-index-container-main": "0"},
    ),
    pod_document(
        "late",
        limits={"late.example/core": "50"},
        annotations={"late.example/cards": "1"},
    ),
    pod_document(
        "as-taken",
        limits={"tke.cloud.tencent.com/qgpu-core": "20"},
        annotations={"tke.cloud.tencent.com/qgpu-pgpu-main": "0"},
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("described")


@pytest.fixture(scope="module")
def exporter(folder: Path) -> Iterator[Exporter]:
    (folder / "settings.yaml").write_text(SETTINGS)
    (folder / "cgroup").mkdir()
    (folder / "cgroup" / "cgroup.controllers").touch()
    for card, policy in enumerate(("fixed-share\n", "no policy\n")):
        (folder / f"proc/qgpu/{card}").mkdir(parents=True)
        (folder / f"proc/qgpu/{card}/policy").write_text(policy)
    Scenario(gpus=GPUS).write(folder / "gpus.txt")
    with ApiServer() as api:
        api.set_node(node_document("node-1", {}, {}))
        for pod in PODS:
            api.add_pod(pod)
        flags = (
            f"--config.file={folder / 'settings.yaml'}",
            "--node.name=node-1",
            f"--kubeconfig={write_kubeconfig(folder / 'kubeconfig', api.url)}",
            f"--nvml.library={library()}",
            f"--path.cgroup={folder / 'cgroup'}",
            f"--path.procfs={folder / 'proc'}",
        )
        environment = {"FAKENVML_SCENARIO": str(folder / "gpus.txt")}
        with Exporter(*flags, environment=environment) as exporter:
            yield exporter.ready()


@pytest.fixture(scope="module")
def page(exporter: Exporter) -> Page:
    return exporter.when(
        lambda page: (
            len(page.all("mgpu_container_core_limit_ratio")) == 4
            and page.all(INFO, policy="fixed-share")
        ),
        "all limits, and the node's policies",
    )


def limits(page: Page, family: str, pod: str) -> dict[str, float]:
    """A pod's limits by the UUID of the card."""
    return {labels["uuid"]: value for labels, value in page.all(family, pod=pod)}


def test_a_described_scheme_has_limits_on_the_cards_that_it_names(page: Page) -> None:
    cores = limits(page, "mgpu_container_core_limit_ratio", "described")
    memory = limits(page, "mgpu_container_memory_limit_bytes", "described")

    assert cores == {"GPU-1": 0.625, "GPU-0": 0.625}
    assert memory == {"GPU-1": 9 * GIB / 8, "GPU-0": 9 * GIB / 8}
    assert page.value("mgpu_pod_core_limit_gpus", pod="described") == 1.25
    [(labels, _)] = page.all(INFO, pod="described", uuid="GPU-1")
    assert labels["scheme"] == "acme"


def test_card_numbers_mean_what_the_settings_say(page: Page) -> None:
    assert limits(page, "mgpu_container_core_limit_ratio", "explained") == {"GPU-2": 0.3}
    assert limits(page, "mgpu_container_core_limit_ratio", "as-taken") == {"GPU-0": 0.2}


def test_the_policy_of_a_card_is_what_the_node_has(page: Page) -> None:
    [(labels, _)] = page.all(INFO, policy="fixed-share")
    assert (labels["pod"], labels["scheme"]) == ("as-taken", "tke-qgpu")


def test_a_policy_of_the_node_that_is_none_is_counted(page: Page) -> None:
    assert page.value("mgpu_exporter_source_up", source="card_policies") == 1
    assert page.value(REJECTED, reason="card_policy_unusable") == 1


def test_a_scheme_that_is_described_while_it_runs_is_read_of_the_pods_that_are_there(
    page: Page, exporter: Exporter, folder: Path
) -> None:
    """Its annotation was of no use so far, and not kept: the pods are listed anew."""
    late = """\
    - {name: late, core-resource: late.example/core, placement-annotation: late.example/cards}
"""
    file = folder / "settings.yaml"
    file.write_text(SETTINGS + late)
    after = exporter.when(
        lambda page: limits(page, "mgpu_container_core_limit_ratio", "late"), "the late limit"
    )

    assert not page.all(INFO, pod="late")
    assert limits(after, "mgpu_container_core_limit_ratio", "late") == {"GPU-1": 0.5}
    assert limits(after, "mgpu_container_core_limit_ratio", "explained") == {"GPU-2": 0.3}
    assert after.value("mgpu_exporter_source_up", source="pods_api") == 1
    assert not [line for line in exporter.log if "level=error" in line or "no news" in line]
