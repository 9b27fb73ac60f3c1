"""Cgroups, the driver's files, PodResources and clocks: each problem made for real."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from exporter.agent.doctor import CheckResult, CheckVerdict, as_json, as_text, examine, privileges
from exporter.agent.doctor.cgroupchecks import cgroups
from exporter.agent.doctor.evidence import ClockReading, note, ok, problem
from exporter.agent.doctor.examine import ReportEntry, together
from exporter.agent.doctor.exporterchecks import clock
from exporter.agent.doctor.gpuchecks import gpus, module_version
from exporter.agent.doctor.podchecks import node
from exporter.agent.sources.door import Absent, Whole
from exporter.model import (
    CgroupIdentity,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    PodTable,
    ProcessMemory,
    Reading,
    SourceStatus,
    Unattributed,
    Unit,
    Unmeasured,
)
from tests.agent.doctor.looking import by_subject, evidence, settings
from tests.agent.sources.node.kubeletserver import KubeletServer
from tests.agent.sources.node.messages import holding
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Scenario

POD = "pod0f7e0b62-5a7c-4c0e-9d0a-0123456789ab"
SLICE = POD.replace("-", "_")
ID = "a1" * 32
SECOND = 10**9


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "cgroup"
    root.mkdir()
    (root / "cgroup.controllers").touch()
    (root / "cgroup.procs").touch()
    return root


def in_cgroups(root: Path, proc: str = "/proc", **more: object) -> dict[str, CheckResult]:
    status = SourceStatus("cgroups", up=True)
    given = {"sources": (status,)} | more
    flags = settings(path_cgroup=str(root), path_procfs=proc)
    return by_subject(cgroups(evidence(flags, **given)))


@pytest.mark.parametrize(
    ("path", "driver", "runtime"),
    [
        (f"kubepods/burstable/{POD}/{ID}", "cgroupfs", "unnamed"),
        (
            f"kubepods.slice/kubepods-{SLICE}.slice/cri-containerd-{ID}.scope",
            "systemd",
            "containerd",
        ),
        (f"kubepods.slice/kubepods-{SLICE}.slice/crio-{ID}.scope", "systemd", "crio"),
    ],
)
def test_driver_and_runtime_are_told_by_the_tree(
    path: str, driver: str, runtime: str, tree: Path
) -> None:
    (tree / path).mkdir(parents=True)
    (tree / path / "cgroup.procs").write_text("1\n")

    found = in_cgroups(tree)

    assert found["hierarchy"].found.startswith("cgroup v2")
    assert found["cgroup driver"].found == driver
    assert found["containers"].found.startswith("1 pod with 1 container")
    assert f"({runtime})" in found["containers"].found


@pytest.mark.parametrize("there", [True, False])
def test_no_hierarchy_is_a_problem_and_no_containers_a_note(
    there: bool,  # noqa: FBT001 - a case
    tmp_path: Path,
    tree: Path,
) -> None:
    empty = in_cgroups(tree)["containers"]
    root = tmp_path / "another"
    if there:
        root.mkdir()
    finding = in_cgroups(root)["hierarchy"]

    assert (empty.verdict, empty.privilege) == (CheckVerdict.NOTE, privileges.CGROUPS)
    assert (finding.verdict, finding.privilege) == (CheckVerdict.PROBLEM, privileges.CGROUPS)
    assert "Errno" not in finding.found


def test_without_the_hosts_processes_hostpid_is_named(tree: Path) -> None:
    blind = SourceStatus("cgroups", up=False, reason=Unmeasured.NO_HOSTPID)

    finding = in_cgroups(tree, sources=(blind,))["host's processes"]

    assert (finding.verdict, finding.privilege) == (CheckVerdict.PROBLEM, privileges.HOST_PID)


@pytest.mark.parametrize(
    ("vendor", "is_told"),
    [
        pytest.param("nvidia", True, id="NVIDIA's"),
        pytest.param("amd", False, id="found by /proc itself"),
    ],
)
def test_a_process_that_the_driver_lists_and_that_has_no_gpu_open_is_told(
    vendor: str,
    is_told: bool,  # noqa: FBT001 - a case
    tree: Path,
    tmp_path: Path,
) -> None:
    opened = {70: ["/dev/null", "/dev/nvidia0"], 71: ["/var/log/nginx.log"], 72: [], 73: None}
    for pid, targets in opened.items():
        for number, target in enumerate(targets or ()):
            (tmp_path / f"proc/{pid}/fd").mkdir(parents=True, exist_ok=True)
            (tmp_path / f"proc/{pid}/fd/{number}").symlink_to(target)
    listed = tuple(ProcessMemory(pid, 1, frozenset({"compute"})) for pid in opened)
    memory = DeviceMemory(None, None, None, listed)
    reading = Reading(
        SourceStatus("nvml", up=True), (DeviceReading(Device("GPU-0", 0, vendor), memory=memory),)
    )
    found = in_cgroups(tree, proc=str(tmp_path / "proc"), readings=(reading,))
    assert ("the driver's PIDs" in found) == is_told
    if is_told:
        told = found["the driver's PIDs"]
        assert told.verdict is CheckVerdict.NOTE
        assert told.found == "no file of a GPU is open in process 71"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48\n",
            "535.161.07",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n",
            "580.65.06",
        ),
        ("something else\n", "unknown"),
    ],
)
def test_the_kernel_module_is_read(text: str, version: str, tmp_path: Path) -> None:
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text(text)

    assert module_version(tmp_path) == Whole(version)
    assert module_version(tmp_path / "none") == Absent()


def of_driver(
    *devices: DeviceReading, dev: Path = Path("/nonexistent"), up: bool = True, **flags: str
) -> dict[str, CheckResult]:
    reading = Reading(SourceStatus("nvml", up=up, detail="" if up else "no"), devices)
    given = settings(**{"nvml_library": str(library()), **flags})
    return by_subject(gpus(evidence(given, readings=(reading,)), dev))


@pytest.mark.program("cc")
@pytest.mark.parametrize(
    ("reason", "quantity", "verdict"),
    [
        (Unmeasured.NO_PERMISSION, "profiling", CheckVerdict.PROBLEM),
        (Unmeasured.NOT_SUPPORTED, "energy", CheckVerdict.NOTE),
        (Unmeasured.NOT_SUPPORTED, "memory", CheckVerdict.PROBLEM),
        (Unmeasured.MIG, "core", CheckVerdict.NOTE),
        (Unmeasured.DRIVER_TOO_OLD, "core", CheckVerdict.PROBLEM),
    ],
)
def test_what_a_device_does_not_tell_is_said_with_its_calls(
    reason: Unmeasured, quantity: str, verdict: CheckVerdict
) -> None:
    devices = [Device("GPU-0", 0, "nvidia", "A100"), Device("GPU-1", 1, "nvidia", "A100")]
    refusing = DeviceReading(devices[1], unmeasured={quantity: reason})

    finding = of_driver(DeviceReading(devices[0]), refusing)[quantity]

    assert finding.verdict is verdict
    assert finding.found.startswith(f"not measured on GPU 1: {reason} (nvml")


@pytest.mark.program("cc")
def test_what_is_switched_off_is_not_reported() -> None:
    device = DeviceReading(Device("GPU-0", 0, "nvidia", "A100"))

    found = of_driver(device, metrics_disable="ecc,power")

    assert not {"ecc_errors", "remapped_rows", "power", "power_limit"} & set(found)
    assert "temperature" in found


@pytest.mark.program("cc")
@pytest.mark.parametrize("state", [DeviceState.LOST, DeviceState.STUCK])
def test_a_device_that_is_not_read_is_a_problem(state: DeviceState) -> None:
    reading = DeviceReading(Device("GPU-0", 0, "nvidia", "A100"), state, "fallen off the bus")

    finding = of_driver(reading)["GPU 0"]

    assert (finding.verdict, finding.found) == (
        CheckVerdict.PROBLEM,
        f"A100: {state}: fallen off the bus",
    )


@pytest.mark.program("cc")
def test_what_only_a_restart_helps_is_said(tmp_path: Path) -> None:
    given = settings(nvml_library=str(library()))
    found = by_subject(gpus(evidence(given, fatal="of different versions; restart"), tmp_path))

    assert found["driver"].verdict is CheckVerdict.PROBLEM
    assert found["driver"].found == "of different versions; restart"


@pytest.mark.program("cc")
@pytest.mark.root
def test_device_files_are_opened_not_only_seen(tmp_path: Path) -> None:
    os.mknod(tmp_path / "nvidiactl", stat.S_IFCHR | 0o666, os.makedev(195, 255))
    (tmp_path / "nvidia-uvm").touch()

    refused = of_driver(dev=tmp_path, up=False)["device files"]
    (tmp_path / "nvidiactl").unlink()
    (tmp_path / "nvidiactl").touch()
    opened = of_driver(dev=tmp_path, up=False)["device files"]
    (tmp_path / "nvidiactl").unlink()
    none = of_driver(dev=tmp_path, up=False)["device files"]

    assert (refused.verdict, refused.privilege) == (CheckVerdict.PROBLEM, privileges.DEVICES)
    assert f"{tmp_path}/nvidiactl: " in refused.found
    assert opened.verdict is CheckVerdict.OK
    assert none.verdict is CheckVerdict.PROBLEM


@pytest.mark.program("cc")
def test_a_library_of_another_version_than_the_module_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scenario().write(tmp_path / "gpus.txt")
    monkeypatch.setenv("FAKENVML_SCENARIO", str(tmp_path / "gpus.txt"))
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  1.2.3  a day\n"
    (tmp_path / "driver/nvidia/version").write_text(version)

    found = of_driver(path_procfs=str(tmp_path))

    assert found["versions"].verdict is CheckVerdict.PROBLEM
    assert "the kernel module 1.2.3" in found["versions"].found


@pytest.mark.program("cc")
def test_a_module_of_an_unknown_version_is_no_other_than_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scenario().write(tmp_path / "gpus.txt")
    monkeypatch.setenv("FAKENVML_SCENARIO", str(tmp_path / "gpus.txt"))
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    (tmp_path / "driver/nvidia/version").write_text("NVRM version: of a kind to come\n")

    found = of_driver(path_procfs=str(tmp_path))

    assert found["kernel module"].found == "version unknown"
    assert "versions" not in found


def test_no_library_ends_the_examination_of_the_driver() -> None:
    found = of_driver(up=False, nvml_library="/nonexistent/lib.so")

    assert found["libnvidia-ml.so.1"].privilege == privileges.DRIVER
    assert set(found) == {"kernel module", "libnvidia-ml.so.1"}


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[KubeletServer]:
    with KubeletServer(tmp_path / "kubelet.sock") as server:
        yield server


def of_kubelet(setting: str, usual: str = "/nonexistent/folder/kubelet.sock") -> CheckResult:
    given = settings(kubelet_pod__resources__socket=setting)
    [finding] = node(evidence(given), usual)
    return finding


def test_the_kubelet_is_asked_what_containers_hold(kubelet: KubeletServer) -> None:
    kubelet.answer = holding("worker", "GPU-0")

    finding = of_kubelet(str(kubelet.path))

    assert finding.verdict is CheckVerdict.OK
    assert finding.found.startswith("1 pod holds 1 grant, ")


def test_what_the_kubelet_says_at_too_great_length_is_counted(kubelet: KubeletServer) -> None:
    kubelet.answer = holding("big", *(f"GPU-0-_-{unit}" for unit in range(30_000)))

    finding = of_kubelet(str(kubelet.path))

    assert "left out: podresources_over_limit 1" in finding.found


def test_a_kubelet_that_refuses_is_a_problem(kubelet: KubeletServer) -> None:
    kubelet.refusal = (grpc.StatusCode.PERMISSION_DENIED, "not you")

    finding = of_kubelet("auto", str(kubelet.path))

    assert (finding.verdict, finding.privilege) == (CheckVerdict.PROBLEM, privileges.POD_RESOURCES)
    assert "PERMISSION_DENIED" in finding.found


def test_a_socket_that_was_named_and_is_not_there_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert of_kubelet("/nonexistent/kubelet.sock").verdict is CheckVerdict.PROBLEM
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert of_kubelet("auto").verdict is CheckVerdict.NOTE


def test_nothing_is_said_of_a_kubelet_where_there_is_none_and_no_pods_are_asked_for() -> None:
    assert not list(node(evidence(settings(pods_source="none")), "/nonexistent/kubelet.sock"))


def test_other_sources_say_how_they_fare() -> None:
    fine, down = SourceStatus("card_policies", up=True), SourceStatus("claims_api", up=False)
    given = settings(kubelet_pod__resources__socket="none")

    found = by_subject(node(evidence(given, sources=(fine, down))))

    assert {name: f.verdict for name, f in found.items()} == {
        "card_policies": CheckVerdict.OK,
        "claims_api": CheckVerdict.PROBLEM,
    }


@pytest.mark.parametrize(
    ("begun_s", "later_s", "verdict"),
    [
        (1_800_000_000, 1, CheckVerdict.OK),
        (1_800_000_000, 60, CheckVerdict.PROBLEM),  # it is set meanwhile
        (1, 1, CheckVerdict.PROBLEM),  # of long ago
    ],
)
def test_a_clock_is_plausible_and_steady(begun_s: int, later_s: int, verdict: CheckVerdict) -> None:
    begun = ClockReading(0, begun_s * SECOND)
    ended = ClockReading(SECOND, (begun_s + later_s) * SECOND)

    found = by_subject(clock(evidence(settings(), begun=begun, ended=ended)))

    assert found["time"].verdict is verdict


@pytest.mark.parametrize(
    ("age_s", "verdict"),
    [(0.2, CheckVerdict.OK), (-60, CheckVerdict.NOTE), (60, CheckVerdict.NOTE)],
)
def test_the_drivers_samples_tell_of_its_clock(age_s: float, verdict: CheckVerdict) -> None:
    now = evidence(settings())
    devices = [DeviceReading(Device(f"GPU-{n}", n, "nvidia", "A100")) for n in range(2)]
    nvml = Reading(SourceStatus("nvml", up=True), tuple(devices))
    intel = Reading(
        SourceStatus("drm", up=True), (DeviceReading(Device("DRM-0", 200, "intel", "Arc")),)
    )
    stamps = dict.fromkeys(("GPU-0", "GPU-1"), now.ended.unix_ns - int(age_s * SECOND))
    windows = stamps | {"DRM-0": now.ended.unix_ns}  # these are of our own clock

    given = evidence(settings(), windows=windows, ended=now.ended, readings=(nvml, intel))
    found = by_subject(clock(given))

    assert found["driver's time"].verdict is verdict


def test_a_driver_without_a_clock_of_its_own_is_not_said_to_have_the_right_time() -> None:
    now = evidence(settings())
    intel = Reading(
        SourceStatus("drm", up=True), (DeviceReading(Device("DRM-0", 200, "intel", "Arc")),)
    )
    windows = {"DRM-0": now.ended.unix_ns}

    found = by_subject(clock(evidence(settings(), windows=windows, readings=(intel,))))

    assert "driver's time" not in found


@pytest.mark.parametrize(
    ("identity", "words", "verdict"),
    [
        (CgroupIdentity(), "1 of the host, in no unit", CheckVerdict.OK),
        (
            CgroupIdentity(unit=Unit("slurm", "7")),
            "1 of jobs, units, machines and users outside of pods",
            CheckVerdict.OK,
        ),
        (CgroupIdentity("uid", "id"), "1 of pods whose names are not known", CheckVerdict.NOTE),
        (CgroupIdentity(None, "id", "docker"), "1 of containers outside of pods", CheckVerdict.OK),
        (Unattributed.UNKNOWN_CGROUP, "1 without a known owner", CheckVerdict.NOTE),
    ],
)
def test_whose_the_processes_are_is_the_last_word(
    identity: CgroupIdentity | Unattributed, words: str, verdict: CheckVerdict
) -> None:
    [finding] = together(evidence(settings(), identities={7: identity}, table=PodTable()))

    assert (finding.found, finding.verdict) == (words, verdict)


def test_an_examination_that_fails_costs_only_itself() -> None:
    examined = list(examine(evidence(settings(pods_source="none"), sources=())))

    failed = [one for one in examined if one.finding.subject == "examination"]
    assert [one.room for one in failed] == ["cgroups"]  # whose status is not in the evidence
    assert {"exporter", "gpus", "pods", "clock", "together"} <= {one.room for one in examined}


REPORT = [
    ReportEntry("gpus", ok("GPU 0", "A100")),
    ReportEntry("gpus", problem("GPU 1", "lost " * 20, "see the log", "runAsUser: 0")),
    ReportEntry("pods", note("\x1b[31mpods", "off")),
]


@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_report_keeps_to_the_terminal_and_colours_change_nothing(width: int) -> None:
    text, coloured = (as_text(REPORT, width, coloured=c) for c in (False, True))

    assert max(map(len, text.splitlines())) <= max(width, 60)
    assert "\x1b" not in text
    assert text.endswith("\n1 problem, 1 note\n")
    for code in ("\x1b[32m", "\x1b[33m", "\x1b[1;31m", "\x1b[0m"):
        assert code in coloured
        coloured = coloured.replace(code, "")
    assert coloured == text


def test_programs_read_the_same() -> None:
    assert '"privilege": "runAsUser: 0"' in as_json(REPORT)
    assert '"ok": false' in as_json(REPORT)
