"""The kernel's dmem controller, in directories laid out as its own are."""

import gc
import weakref
from pathlib import Path

import pytest

from exporter.agent.sources.cgroups.dmem import CgroupFiles, address_of, stated
from exporter.model import CgroupMemory, Device, DeviceMemory, DeviceReading, ProcessMemory

GIB = 1 << 30
POD, LEAF = "kubepods.slice/pod1.slice", "kubepods.slice/pod1.slice/cri-1.scope"
PID = 7
KEYS = {  # the region's key → the device's address as its driver has it
    "amdgpu": ("drm/0000:03:00.0/vram", "0000:03:00.0"),
    "xe": ("drm/0000:03:00.0/vram0", "0000:03:00.0"),
    "nvidia": ("nvidia/0000:03:00.0/vidmem", "00000000:03:00.0"),
}


class Watched(DeviceMemory):
    """Memory that can be seen to be let go."""

    __slots__ = ("__weakref__",)


class Tree:
    """A node with one process in a container, and a device with one region."""

    def __init__(self, folder: Path, key: str) -> None:
        self.root, self.proc, self.key = folder / "cgroup", folder / "proc", key
        (self.root / LEAF).mkdir(parents=True)
        (self.root / "cgroup.controllers").write_text("dmem memory\n")
        self.write("", capacity=64 * GIB)
        self.process(f"/{LEAF}")

    def process(self, path: str) -> None:
        """Put the process into this cgroup, by the path that its file shows."""
        (self.proc / str(PID)).mkdir(parents=True, exist_ok=True)
        (self.proc / str(PID) / "cgroup").write_text(f"1:name=systemd:/other\n0::{path}\n")

    def write(self, cgroup: str, **files: int | str) -> None:
        """Write files of a cgroup, with another device's region beside ours."""
        for name, value in files.items():
            text = f"drm/0000:99:00.0/vram0 1\n{self.key} {value}\ndrm/0000:03:00.0/gtt 5\n"
            (self.root / cgroup / f"dmem.{name}").write_text(text)

    def charged(
        self, address: str, used: int | None = GIB, told: CgroupMemory | None = None
    ) -> CgroupMemory | None:
        """What the only process's cgroup is charged."""
        processes = (ProcessMemory(PID, used, frozenset({"compute"}), told),)
        memory = DeviceMemory(64 * GIB, GIB, 0, processes)
        reading = DeviceReading(Device("GPU-0", 0, "any", pci_bus_id=address), memory=memory)
        (charged,) = CgroupFiles(str(self.root), str(self.proc)).charged((reading,))
        after = charged.memory
        assert after
        assert after.processes
        return after.processes[0].cgroup


@pytest.fixture(params=KEYS)
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Tree, str]:
    key, address = KEYS[request.param]
    return Tree(tmp_path, key), address


Files = dict[str, int | str]
CASES: dict[str, tuple[Files, Files, tuple[int | None, int | None, int | None]]] = {
    "not limited": ({"current": GIB, "min": 0, "max": "max"}, {}, (GIB, None, None)),
    "soft only": ({"current": GIB, "min": 2 * GIB, "max": "max"}, {}, (GIB, 2 * GIB, None)),
    "hard only": ({"current": GIB, "min": 0, "max": 4 * GIB}, {}, (GIB, 0, 4 * GIB)),
    "both": ({"current": GIB, "min": GIB, "max": 4 * GIB}, {}, (GIB, GIB, 4 * GIB)),
    "the pod's limit is lower": (
        {"current": GIB, "min": GIB, "max": 4 * GIB},
        {"max": 3 * GIB},
        (GIB, GIB, 3 * GIB),
    ),
    "the pod keeps less": (
        {"current": GIB, "min": 2 * GIB, "max": "max"},
        {"min": GIB, "max": "max"},
        (GIB, GIB, None),
    ),
    "the pod keeps nothing": (
        {"current": GIB, "min": 2 * GIB, "max": "max"},
        {"min": 0, "max": "max"},
        (GIB, 0, None),
    ),
    "all that it may have is kept": (
        {"current": GIB, "min": "max", "max": 4 * GIB},
        {"min": "max", "max": "max"},
        (GIB, 4 * GIB, 4 * GIB),
    ),
    "all of the device is kept": (
        {"current": GIB, "min": "max", "max": "max"},
        {},
        (GIB, 64 * GIB, None),
    ),
    "a leaf without files has the pod's limit and no charge": (
        {},
        {"current": 9 * GIB, "min": 2 * GIB, "max": 3 * GIB},
        (None, None, 3 * GIB),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_kernels_figures_are_found_by_the_pci_address(
    case: str, tree: tuple[Tree, str]
) -> None:
    leaf, pod, (charged, guaranteed, limit) = CASES[case]
    files, address = tree
    files.write(LEAF, **leaf)
    files.write(POD, **pod)
    assert files.charged(address) == CgroupMemory(charged, guaranteed, limit, "kernel")


LOW: dict[str, tuple[Files, Files, int | None]] = {
    "best effort only": ({"low": 2 * GIB}, {"low": 3 * GIB}, 2 * GIB),
    "above what is guaranteed": ({"min": GIB, "low": 2 * GIB}, {"min": GIB, "low": "max"}, 2 * GIB),
    "below what is guaranteed": ({"min": 3 * GIB, "low": GIB}, {}, 3 * GIB),
    "the pod has less": ({"low": 2 * GIB}, {"low": GIB}, GIB),
    "the pod has none": ({"low": 2 * GIB}, {"low": 0}, 0),
    "all": ({"low": "max"}, {}, 64 * GIB),
    "none": ({"low": 0}, {"low": GIB}, None),
    "a kernel without it": ({}, {}, None),
}


@pytest.mark.parametrize("case", LOW)
def test_best_effort_is_told_from_what_is_guaranteed(case: str, tree: tuple[Tree, str]) -> None:
    leaf, pod, protected = LOW[case]
    files, address = tree
    stated: Files = {"current": GIB, "min": 0, "max": "max"}
    files.write(LEAF, **stated | leaf)
    files.write(POD, **pod)
    charged = files.charged(address)
    assert charged is not None
    assert (charged.charged_bytes, charged.protected_bytes) == (GIB, protected)
    assert charged.guaranteed_bytes == leaf.get("min")


def test_the_root_whose_charge_is_that_of_all_says_nothing(tree: tuple[Tree, str]) -> None:
    files, address = tree
    files.write("", current=9 * GIB)
    files.process("/")
    assert files.charged(address) is None


def test_a_device_that_is_gone_is_not_held_any_more(tree: tuple[Tree, str]) -> None:
    files, address = tree
    files.write(LEAF, current=GIB, min=0, max="max")
    cgroups = CgroupFiles(str(files.root), str(files.proc))
    process = ProcessMemory(PID, 1, frozenset({"compute"}))

    def read(*uuids: str) -> list[weakref.ref[object]]:
        memories = [Watched(GIB, GIB, 0, (process,)) for _ in uuids]
        named = (Device(uuid, 0, "any", pci_bus_id=address) for uuid in uuids)
        cgroups.charged([DeviceReading(d, memory=m) for d, m in zip(named, memories, strict=True)])
        return [weakref.ref(memory) for memory in memories]

    stays, goes = read("GPU-0", "GPU-1")
    read("GPU-0")
    gc.collect()
    assert goes() is None
    assert stays() is None  # another reading took its place


# --- what a real kernel has ---------------------------------------------------------------------

CAPTURED = Path(__file__).with_name("captured") / "linux-7.3.4.txt"
XE, AMD = "0000:03:00.0", "0000:c3:00.0"
POD1, POD2 = "/kubepods.slice/pod1.slice", "/kubepods.slice/pod2.slice"
REAL = {  # cgroup, device → charged, guaranteed, limit, protected
    "all three": (f"{POD1}/cri-both.scope", XE, (1610612736, 0, 4 * GIB, 0)),
    "low, which the pod does not have": (f"{POD1}/cri-low.scope", XE, (1 << 28, None, None, 0)),
    "all, which the pod does not have": (f"{POD1}/cri-all.scope", XE, (1 << 27, 0, None, None)),
    "another device": (f"{POD1}/cri-none.scope", AMD, (1 << 26, None, None, None)),
    "not its device": (f"{POD1}/cri-none.scope", XE, (0, None, None, None)),
    "the pod's": (POD2, XE, (1 << 25, 0, 3 * GIB, None)),
    "without files": (f"{POD2}/cri-bare.scope", XE, (None, None, 3 * GIB, None)),
}


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    """The captured files, as a directory."""
    (tmp_path / "cgroup.controllers").write_text("memory pids dmem\n")
    for block in CAPTURED.read_text().split("=== ")[1:]:
        name, _, lines = block.partition("\n")
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(lines)
    (tmp_path / POD2[1:] / "cri-bare.scope").mkdir()
    return tmp_path


@pytest.mark.parametrize("case", REAL)
def test_what_a_real_kernel_has_is_read(case: str, captured: Path) -> None:
    cgroup, device, (charged, guaranteed, limit, protected) = REAL[case]
    address = address_of(device)
    assert address is not None
    files = CgroupFiles(str(captured), str(captured))
    assert files.of(f"{captured}{cgroup}", address, stated) == CgroupMemory(
        charged, guaranteed, limit, "kernel", protected_bytes=protected
    )
    assert files.of(str(captured), address, stated) is None


def test_what_the_driver_said_stays_and_a_refusal_does_not(tree: tuple[Tree, str]) -> None:
    files, address = tree
    files.write(LEAF, current=GIB, min=0, max="max")
    driver = CgroupMemory(GIB, 2 * GIB, 3 * GIB, "driver")
    assert files.charged(address, told=driver) == driver
    refused = CgroupMemory(refused="not_found")
    assert files.charged(address, told=refused) == CgroupMemory(GIB, None, None, "kernel")


def test_a_kernel_without_dmem_says_nothing(tree: tuple[Tree, str]) -> None:
    files, address = tree
    files.write(LEAF, current=GIB, min=0, max="max")
    (files.root / "dmem.capacity").unlink()
    assert files.charged(address) is None


@pytest.mark.parametrize("text", ["", "drm/card0 5\n", "drm/0000:03:00.0/vram0 many\n", "\0" * 99])
def test_files_that_say_something_else_say_nothing(text: str, tree: tuple[Tree, str]) -> None:
    files, address = tree
    (files.root / LEAF / "dmem.current").write_text(text)
    assert files.charged(address) is None


def test_a_path_out_of_the_tree_is_not_followed(tree: tuple[Tree, str]) -> None:
    files, address = tree
    files.process("/../../etc")
    assert files.charged(address) is None


def test_a_reader_in_a_namespace_of_its_own_sees_paths_relative_to_its_own(
    tree: tuple[Tree, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files, address = tree
    own = files.root / "kubepods.slice/pod2.slice/cri-2.scope"
    own.mkdir(parents=True)
    (own / "cgroup.procs").write_text("4711\n")
    monkeypatch.setattr("os.getpid", lambda: 4711)
    files.write(LEAF, current=GIB, min=0, max="max")
    files.process("/../../pod1.slice/cri-1.scope")
    assert files.charged(address) == CgroupMemory(GIB, None, None, "kernel")


def test_an_address_is_the_same_however_long_its_domain_is_written() -> None:
    assert address_of("00000000:3B:00.0") == address_of("drm/0000:3b:00.0/vram0") == (0, "3b:00.0")
