"""Which sources of facts about the node stand behind the settings."""

from pathlib import Path

import pytest

from exporter.agent.collector.wiring import open_for_agent, open_sources
from exporter.agent.settings import load
from exporter.agent.sources.pods.apiserverpods import ApiPods
from exporter.model import Unmeasured
from tests.agent.sources.gpus.drm.machine import Machine
from tests.agent.sources.pods.apiserver import write_kubeconfig


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({}, ["node_api", "claims_api"]),
        ({"pods.claims": ["off"]}, ["node_api"]),
        ({"pods.source": ["none"]}, []),
        (
            {"kubelet.pod-resources-socket": ["/run/k.sock"]},
            ["podresources", "node_api", "claims_api"],
        ),
        (
            {"kubelet.pod-resources-socket": ["/run/k.sock"], "pods.source": ["none"]},
            ["podresources"],
        ),
    ],
)
def test_the_node_sources_follow_from_the_settings(
    tmp_path: Path, flags: dict[str, list[str]], names: list[str]
) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    given = {"kubelet.pod-resources-socket": ["none"], "kubeconfig": [str(kubeconfig)], **flags}

    sources = open_sources(load(given, {}))

    assert [node.name for node in sources.nodes] == ["card_policies", *names]


def test_of_a_simulated_node_all_is_simulated() -> None:
    flags = {"simulate": ["single"], "kubelet.pod-resources-socket": ["/run/k.sock"]}

    assert [node.name for node in open_sources(load(flags, {})).nodes] == ["node_simulated"]


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        ({}, ["nvml", "amd", "drm"]),
        ({"gpus.source": ["nvml"]}, ["nvml"]),
        ({"gpus.source": ["amd"]}, ["amd"]),
        ({"gpus.source": ["amd,nvml"]}, ["nvml", "amd"]),
        ({"gpus.source": ["drm,nvml"]}, ["nvml", "drm"]),
    ],
)
def test_the_gpu_sources_follow_from_the_settings(
    flags: dict[str, list[str]], names: list[str]
) -> None:
    sources = open_sources(load({"pods.source": ["none"], **flags}, {}))

    assert [source.name for source in sources.gpus] == names


@pytest.mark.parametrize(("flag", "absent"), [("auto", True), ("amd", False), ("drm", False)])
def test_a_vendor_that_is_not_here_is_a_fault_only_where_it_was_asked_for(
    tmp_path: Path,
    flag: str,
    absent: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    given = {"pods.source": ["none"], "gpus.source": [flag], "path.sysfs": [str(tmp_path)]}
    *_, last = open_sources(load(given, {})).gpus

    status = last.read().status

    assert (status.up, status.absent) == (False, absent)


@pytest.mark.parametrize(
    ("flag", "addresses"),
    [
        ("auto", ["0000:00:02.0"]),
        ("amd,drm", ["0000:00:02.0"]),
        ("drm", ["0000:00:02.0", "0000:03:00.0"]),
        ("nvml,drm", ["0000:00:02.0", "0000:03:00.0"]),
    ],
)
def test_amds_cards_are_drms_only_where_amds_own_source_is_not_taken(
    tmp_path: Path, flag: str, addresses: list[str]
) -> None:
    machine = Machine(tmp_path)
    machine.card(0, "i915", "0000:00:02.0")
    machine.card(1, "amdgpu", "0000:03:00.0", (0x1002, 0x744C))
    roots = {"path.sysfs": [str(machine.sys)], "path.procfs": [str(machine.proc)]}
    flags = {"pods.source": ["none"], "gpus.source": [flag], **roots}
    *_, drm = open_sources(load(flags, {})).gpus

    assert sorted(d.device.pci_bus_id for d in drm.read().devices) == addresses


@pytest.mark.parametrize("source", ["auto", "amd", "drm"])
def test_whatever_source_has_a_radeon_it_knows_kfds_processes(tmp_path: Path, source: str) -> None:
    machine = Machine(tmp_path)
    machine.card(1, "amdgpu", "0000:03:00.0", (0x1002, 0x744C), {"mem_info_vram_total": "9"})
    machine.write(machine.sys / "devices/pci0000:00/0000:03:00.0", {"mem_info_vram_used": "9"})
    (machine.sys / "class/kfd/kfd/proc/42").mkdir(parents=True)
    machine.process(42)
    told = "drm-driver:\tamdgpu\ndrm-client-id:\t1\ndrm-pdev:\t0000:03:00.0\n"
    machine.open(42, 5, told, "renderD129")
    roots = {"path.sysfs": [str(machine.sys)], "path.procfs": [str(machine.proc)]}
    flags = {"pods.source": ["none"], "gpus.source": [source], **roots}

    readings = [g.read() for g in open_sources(load(flags, {})).gpus if g.name != "nvml"]

    [device] = [device for reading in readings for device in reading.devices]
    assert device.memory is not None
    kinds = {p.pid: p.kinds for p in device.memory.processes or ()}
    unmeasured = device.unmeasured.get("core") is Unmeasured.NOT_SUPPORTED
    assert unmeasured or kinds == {42: {"compute"}}


def test_only_the_agent_lets_its_lists_of_pods_wait(tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    given = {"pods.source": ["api"], "kubeconfig": [str(kubeconfig)], "pods.list-spread": ["7s"]}

    agent, person = (opened(load(given, {})) for opened in (open_for_agent, open_sources))

    assert isinstance(agent.pods, ApiPods)
    assert isinstance(person.pods, ApiPods)
    assert (agent.pods._timings.list_spread_s, person.pods._timings.list_spread_s) == (7, 0)
