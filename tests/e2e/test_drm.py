"""The exporter as a process on a machine with Intel's and AMD's cards, by composed /sys and /proc.

COMPOSED from the kernel's documentation: see tests/agent/sources/gpus/drm/machine.py. Every figure
on the page is the arithmetic of what the trees say, by the pod's name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.agent.doctor.looking import check
from tests.agent.sources.gpus.drm.machine import Machine, i915
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.documents import node_document
from tests.e2e.node import NAME
from tests.e2e.programs import Exporter, Page
from tests.e2e.scraper import Scraper, falls, imbalances
from tests.e2e.tenant import Tenant

pytestmark = pytest.mark.slow

ARC, FLEX = "0000:03:00.0", "0000:4d:00.0"
MIB = 1024**2
MS = 10**6
DOCKER = "d0" * 32
HWMON = "hwmon/hwmon3"
UUIDS = (f"DRM-{ARC}", f"DRM-{FLEX}")


class Node(Machine):
    """A machine with two cards, whose processes are in cgroups."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        files = {f"{HWMON}/name": "i915", f"{HWMON}/energy1_input": "1000000"}
        self.arc = self.card(0, "i915", ARC, files=files)
        self.card(1, "amdgpu", FLEX, (0x1002, 0x7448), {"mem_info_vram_total": str(48 << 30)})
        self.write(self.sys / "fs/cgroup", {"cgroup.controllers": "pids", "cgroup.procs": ""})

    def run(self, pid: int, cgroup: str) -> None:
        """Start a process in this cgroup."""
        self.process(pid)
        self.write(self.proc / str(pid), {"cgroup": f"0::/{cgroup}"})
        self.write(self.sys / "fs/cgroup" / cgroup, {"cgroup.procs": str(pid)})

    def flags(self) -> list[str]:
        """What points an exporter to it."""
        return [f"--path.sysfs={self.sys}", f"--path.procfs={self.proc}", "--gpus.source=drm"]


def amdgpu(client: int, **engines: int) -> str:
    """What amdgpu says of a client that has used these engines for so many nanoseconds."""
    told = "".join(f"drm-engine-{name}:\t{ns} ns\n" for name, ns in engines.items())
    head = f"drm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t{FLEX}\n"
    return f"{head}drm-memory-vram:\t2048 KiB\n{told}"


@contextmanager
def running(folder: Path, node: Node, api: ApiServer) -> Iterator[Scraper]:
    api.set_node(node_document(NAME, {}, {}))
    kubeconfig = write_kubeconfig(folder / "kubeconfig", api.url)
    flags = (
        *node.flags(),
        f"--kubeconfig={kubeconfig}",
        f"--node.name={NAME}",
        "--kubelet.pod-resources-socket=none",
        "--collection.processes-interval=1s",
    )
    with Exporter(*flags) as exporter, Scraper(exporter.ready()) as pages:
        yield pages


def test_use_arrives_by_name_and_is_the_arithmetic_of_the_trees(tmp_path: Path) -> None:
    node, tenant = Node(tmp_path), Tenant("render-1")
    node.run(42, tenant.cgroup)
    node.run(43, f"system.slice/docker-{DOCKER}.scope")
    node.run(44, "system.slice/sshd.service")
    node.open(42, 5, i915(7, render=10**12))
    node.open(43, 5, amdgpu(4), "renderD129")
    with ApiServer() as api:
        api.add_pod(tenant.document())
        with running(tmp_path, node, api) as pages:
            pages.when(lambda p: _measured(p) and tenant.processes(p), "it has its name")
            told = i915(7, render=10**12 + 100 * MS, compute=400 * MS, video=60 * MS)
            node.open(42, 5, told)
            node.open(42, 6, told, "card0")  # the same client again
            node.open(43, 5, amdgpu(4, gfx=50 * MS, enc=20 * MS, dma=300 * MS), "renderD129")
            node.open(44, 9, i915(8, render=10 * MS))
            node.write(node.arc, {f"{HWMON}/energy1_input": "22000000"})
            page = pages.when(
                lambda p: all(p.value(*want[:1], **want[1]) == want[2] for want in _wanted(tenant)),
                "every figure is there",
            )

    assert list(falls(pages.pages)) == []
    assert [wrong for each in pages.pages for wrong in imbalances(each)] == []
    assert pages.failures == []
    assert page.value("mgpu_device_memory_used_bytes", uuid=UUIDS[0]) is None  # i915 does not say
    assert page.value("mgpu_container_memory_used_bytes", **tenant.labels) == 16 * MIB


def _measured(page: Page) -> bool:
    return all(page.value("mgpu_device_busy_seconds_total", uuid=uuid) == 0 for uuid in UUIDS)


def _wanted(tenant: Tenant) -> list[tuple[str, dict[str, str], float]]:
    """Names, labels and values."""
    arc, other = {"uuid": UUIDS[0]}, {"uuid": UUIDS[1]}
    group = {"kind": "docker", "group": DOCKER}
    unit = {**arc, "kind": "systemd", "group": "sshd.service"}
    return [
        ("mgpu_container_core_seconds_total", tenant.labels, 0.2),
        ("mgpu_container_decoder_seconds_total", tenant.labels, 0.03),
        ("mgpu_group_core_seconds_total", group, 0.05),
        ("mgpu_group_encoder_seconds_total", group, 0.02),
        ("mgpu_group_copy_seconds_total", group, 0.3),
        ("mgpu_group_core_seconds_total", unit, 0.01),
        ("mgpu_device_busy_seconds_total", arc, 0.21),
        ("mgpu_device_busy_seconds_total", other, 0.05),
        ("mgpu_device_energy_joules_total", arc, 21.0),
        ("mgpu_device_memory_total_bytes", other, 48.0 * (1 << 30)),
        ("mgpu_group_memory_used_bytes", group, 2.0 * MIB),
    ]


def test_the_page_says_how_it_is_measured_and_what_is_not(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with Exporter(*node.flags(), "--pods.source=none") as exporter:
        page = exporter.when(_measured, "both devices are read")

    [info] = [labels for labels, _ in page.all("mgpu_device_info", uuid=UUIDS[0])]
    methods = {labels["busy"] for labels, _ in page.all("mgpu_device_method_info")}
    reasons = {
        labels["quantity"]: labels["reason"]
        for labels, _ in page.all("mgpu_device_unmeasured", uuid=UUIDS[0])
    }
    assert (info["vendor"], info["model"], info["pci_bus_id"]) == ("intel", "Intel Arc A770", ARC)
    assert methods == {"fdinfo"}
    assert {"encoder", "memory_active"} <= reasons.keys()
    assert set(reasons.values()) <= {"not_supported", "never_idle"}
    assert page.value("mgpu_exporter_source_up", source="drm") == 1


def test_the_doctor_says_what_they_tell_and_that_it_is_experimental(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run(42, "system.slice/x.service")
    node.open(42, 5, i915(7))

    report = check(*node.flags(), "--pods.source=none", "--kubelet.pod-resources-socket=none")

    assert "experimental" in report.of("gpus", "DRM")["found"]
    assert report.of("gpus", "clients of DRM")["verdict"] == "ok"
    assert report.of("gpus", "GPU 200")["verdict"] == "ok"
    assert report.of("gpus", "DRM core")["verdict"] == "ok"
    # The counter of the first stands still here, and the other has none.
    assert report.of("gpus", "DRM energy")["found"].startswith("not measured on GPU 200, 101: ")
    assert not [room for room, _ in report.problems() if room == "gpus"]


@pytest.mark.parametrize("source", ["auto", "drm"])
def test_a_machine_without_such_devices_is_served_all_the_same(tmp_path: Path, source: str) -> None:
    machine = Machine(tmp_path)
    flags = (f"--path.sysfs={machine.sys}", f"--path.procfs={machine.proc}")
    with Exporter(*flags, f"--gpus.source={source}", "--pods.source=none") as exporter:
        page = exporter.ready().scrape()

    assert page.value("mgpu_exporter_source_up", source="drm") == (0 if source == "drm" else None)
