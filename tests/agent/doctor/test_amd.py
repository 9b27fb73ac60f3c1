"""What the examination says of AMD's drivers, from a composed tree."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from exporter.agent.doctor import CheckResult, CheckVerdict, privileges
from exporter.agent.doctor.gpuchecks import gpus
from exporter.agent.sources.gpus.amd.amdsource import AmdSource
from exporter.agent.sources.gpus.drm.holders import CROWDED, REFUSED
from exporter.agent.sources.gpus.fleet import HANGS
from exporter.model import DeviceState, Reading, SourceStatus, Unmeasured
from tests.agent.doctor.looking import by_subject, check, evidence, settings
from tests.agent.sources.gpus.amd.node import Node
from tests.agent.sources.gpus.amd.trees import MI210, MI250, MI300X, RADEON, STRIX_HALO, table, v1_6

ABSENT = Reading(SourceStatus("nvml", up=False, absent=True))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path / "sys")
    made.tree.load()
    return made


def found(*readings: Reading, windows: bool = True) -> dict[str, CheckResult]:
    ends = {d.device.uuid: 1 for r in readings for d in r.devices if windows}
    given = evidence(settings(), readings=(ABSENT, *readings), windows=ends)
    return by_subject(gpus(given, Path("/nonexistent")))


def test_boards_and_partitions_are_named_and_nvidia_is_not_missed(node: Node) -> None:
    node.tree.add(MI210)
    node.tree.add(MI300X, parts=2).metrics(v1_6(0, [[0], [0]]))
    node.read()

    findings = found(node.read())

    assert {subject: f.verdict for subject, f in findings.items()} == dict.fromkeys(
        [
            *("amdgpu", "GPU 100", "GPU 101", "GPU 101/0", "GPU 101/1"),
            *("clients of DRM", "amdgpu core", "amdgpu memory", "amdgpu energy"),
        ],
        CheckVerdict.OK,
    )


def test_of_a_radeon_the_clients_of_drm_are_seen(node: Node) -> None:
    node.tree.add(RADEON)
    node.read()

    findings = found(node.read())

    assert {f.verdict for f in findings.values()} == {CheckVerdict.OK}
    assert "clients of DRM" in findings


def test_where_clients_of_a_radeon_are_not_seen_the_charts_profile_is_named(node: Node) -> None:
    node.tree.add(RADEON)
    node.read()
    reading = node.read()
    [device] = reading.devices
    blind = dict.fromkeys(("core", "encoder", "decoder"), Unmeasured.NO_PERMISSION)
    reading = Reading(reading.status._replace(detail=REFUSED), (device._replace(unmeasured=blind),))

    findings = found(reading)

    problems = [f for f in findings.values() if f.verdict is CheckVerdict.PROBLEM]
    assert [(f.subject, f.privilege) for f in problems] == [("clients of DRM", privileges.FDINFO)]
    assert "profile fdinfo" in privileges.FDINFO
    assert "amdgpu core" not in findings


@pytest.mark.parametrize("source", ["amd", "drm"])
def test_what_is_not_measured_for_want_of_its_clients_is_not_called_measured(
    node: Node, source: str
) -> None:
    node.tree.add(RADEON)
    node.read()
    reading = node.read()
    [device] = reading.devices
    blind = dict.fromkeys(("core", "encoder", "decoder"), Unmeasured.READ_FAILED)
    status = SourceStatus(source, up=True, detail=CROWDED)

    findings = found(Reading(status, (device._replace(unmeasured=blind),)))

    assert not [subject for subject in findings if subject.endswith(" core")]
    [problem] = [f for f in findings.values() if f.verdict is CheckVerdict.PROBLEM]
    assert (problem.found, problem.privilege) == (CROWDED, "")  # no device would help


def test_partitions_whose_use_no_file_tells_are_not_called_measured(node: Node) -> None:
    node.tree.add(MI210)
    node.tree.add(MI300X, parts=2)  # without gpu_metrics
    node.read()

    finding = found(node.read())["amdgpu core"]

    assert finding.verdict is CheckVerdict.NOTE
    assert finding.found.startswith("not measured on GPU 101/0, 101/1: partitioned")
    assert "gpu_metrics 1.6" in finding.remedy


def test_the_memory_of_an_apu_is_its_hosts(node: Node) -> None:
    node.tree.add(STRIX_HALO)
    node.read()

    finding = found(node.read())["GPU 100"]

    assert finding.verdict is CheckVerdict.NOTE
    assert finding.found.endswith("its memory is its host's, GTT included")


def test_the_dies_of_a_module_are_said_to_be_some(node: Node) -> None:
    node.tree.add(MI250)
    node.tree.add(MI250)
    node.read()

    finding = found(node.read())["amdgpu energy"]

    assert finding.verdict is CheckVerdict.NOTE
    assert finding.found.startswith("not measured on GPU 100, 101: module")
    assert "all dies of a module on its first" in finding.remedy


def test_a_table_that_is_not_known_is_named_by_its_number(node: Node) -> None:
    node.tree.add(MI300X, parts=2).metrics(table((1999, 1, 12), {}))
    node.read()

    findings = found(node.read())

    assert findings["GPU 100"].verdict is CheckVerdict.NOTE
    assert findings["GPU 100"].found.endswith("gpu_metrics 1.12 of 1999 bytes is not known")


def test_a_driver_that_hangs_is_not_one_to_be_loaded(node: Node) -> None:
    node.tree.add(MI210)
    [device] = node.read().devices
    stuck = device._replace(state=DeviceState.STUCK, detail="no answer for 9 s")

    findings = found(Reading(SourceStatus("amd", up=False, detail=HANGS), (stuck,)))

    assert findings["amdgpu"].found == HANGS
    assert (findings["amdgpu"].remedy, findings["amdgpu"].privilege) == (
        "see the kernel log for amdgpu",
        "",
    )
    assert findings["GPU 100"].verdict is CheckVerdict.PROBLEM


def test_what_a_board_cannot_tell_is_a_note(node: Node) -> None:
    board = node.tree.add(MI210)
    (board.folder / "hwmon/hwmon4/power1_average").unlink()

    findings = found(node.read())

    assert findings["amdgpu energy"].verdict is CheckVerdict.NOTE
    assert "not_supported" in findings["amdgpu energy"].found


def test_what_may_not_be_read_names_the_devices_that_are_needed(node: Node) -> None:
    node.tree.add(MI210)
    reading = node.read()
    [device] = reading.devices
    device.unmeasured["memory"] = Unmeasured.NO_PERMISSION  # type: ignore[index] # a plain dict

    finding = found(reading)["amdgpu memory"]

    assert (finding.verdict, finding.privilege) == (CheckVerdict.PROBLEM, privileges.AMD_DEVICES)


@pytest.mark.parametrize(
    ("quantity", "said", "unsaid"),
    [
        ("energy", ("files in /sys",), ("KFD",)),
        ("core", ("files in /sys", "KFD"), ()),
        ("memory", ("KFD",), ("files in /sys",)),
    ],
)
def test_the_remedy_of_a_refusal_is_of_what_was_refused(
    node: Node, quantity: str, said: Sequence[str], unsaid: Sequence[str]
) -> None:
    node.tree.add(MI210)
    reading = node.read()
    [device] = reading.devices
    device.unmeasured[quantity] = Unmeasured.NO_PERMISSION  # type: ignore[index] # a plain dict

    remedy = found(reading)[f"amdgpu {quantity}"].remedy

    assert [text for text in said if text not in remedy] == []
    assert [text for text in unsaid if text in remedy] == []


def test_without_the_driver_there_is_one_problem(tmp_path: Path) -> None:
    source = AmdSource(tmp_path)

    findings = found(source.read())

    source.close()
    assert [(s, f.verdict) for s, f in findings.items()] == [("amdgpu", CheckVerdict.PROBLEM)]


@pytest.mark.slow
def test_the_command_tells_of_amd_where_it_is(tmp_path: Path) -> None:
    node = Node(tmp_path / "sys")
    node.tree.load()
    node.tree.add(MI210)

    report = check(f"--path.sysfs={tmp_path / 'sys'}", "--pods.source=none")

    assert report.of("gpus", "GPU 100")["verdict"] == "ok"
    assert not [f for f in report.findings if f["subject"] in {"libnvidia-ml.so.1", "driver"}]
