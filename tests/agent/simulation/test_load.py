from pathlib import Path
from typing import Any

import pytest

from exporter.agent.simulation import ScenarioError
from exporter.agent.simulation.description import SampleRule
from exporter.agent.simulation.load_scenario import describe, load
from exporter.agent.simulation.node import Node
from exporter.inputs.mapping import MAX_PROBLEMS
from exporter.model import Grant
from tests.agent.simulation.clock import ManualClock
from tests.agent.simulation.nodes import A10, pod, process

SECOND = 10**9


def test_a_file_is_read_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("devices: [{model: NVIDIA T4, memory: 16GiB}]\nsample_rule: longest\n")
    scenario = load(str(file))
    assert scenario.devices[0].shown.memory_bytes == 16 << 30
    assert scenario.sample_rule is SampleRule.LONGEST


@pytest.mark.parametrize(
    ("written", "ns"),
    [("250ms", SECOND // 4), ("1.5s", 3 * SECOND // 2), ("2m", 120 * SECOND), (3, 3 * SECOND)],
)
def test_times_have_units_or_are_seconds(written: object, ns: int) -> None:
    data = {"devices": [A10], "processes": [process(start=written)]}
    assert describe(data, "f").processes[0].span.start_ns == ns


def test_a_duty_may_be_points_over_time() -> None:
    rising = process(duty=[["0s", 0], ["10s", 1]], repeat="20s")
    duty = describe({"devices": [A10], "processes": [rising]}, "f").processes[0].work.duty
    assert [duty.at(s * SECOND) for s in (0, 5, 10, 15, 25)] == [0, 0.5, 1, 1, 0.5]


def test_a_pod_stands_as_its_sharing_system_and_the_kubelet_write_it() -> None:
    asking = {"name": "c", "limits": {"a.b/gpu": 1}, "granted": {"a.b/gpu": ["GPU-a::0"]}}
    written = {"annotations": {"a.b/policy": "first\nsecond"}, "labels": {"app": "x"}}
    node = {"labels": {"a.b/n": "1"}, "annotations": {"a.b/m": "2"}, "allocatable": {"a.b/gpu": 4}}
    cards = [A10, {**A10, "policy": "fixed-share"}]
    job = {**pod(**{"for": "5s"}), "containers": [asking], **written}
    clock = ManualClock()
    asked = Node(describe({"devices": cards, "pods": [job], "node": node}, "f"), clock)

    [found] = asked.pod_table().pods.values()
    assert (found.annotations, found.labels) == (written["annotations"], written["labels"])
    assert found.containers[0].limits == {"a.b/gpu": "1"}
    facts = asked.facts()
    assert facts.grants == {found.uid: (Grant("c", "a.b/gpu", ("GPU-a::0",)),)}
    assert (facts.labels, facts.annotations) == (node["labels"], node["annotations"])
    assert (facts.allocatable, facts.card_policies) == ({"a.b/gpu": "4"}, {1: "fixed-share"})
    clock.move(6)
    assert asked.facts().grants == {}  # it has ended


def test_an_instance_is_its_card_s_part() -> None:
    h100 = {"model": "NVIDIA H100", "memory": "80GiB", "minor": 3}
    part = {"parent": 1, "profile": "3g.40gb", "memory": "40GiB"}
    devices = describe({"devices": [A10, h100, part]}, "f").devices
    _, card, instance = (device.shown for device in devices)
    assert [device.divided for device in devices] == [False, True, False]
    assert (card.index, card.minor, card.sharing) == (1, 3, "mig")
    assert (instance.index, instance.minor, instance.parent_uuid) == (1, 3, card.uuid)
    assert instance.uuid.startswith("MIG-")
    assert instance.core_share == 3 / 7


def test_cards_of_each_vendor_are_numbered_on_their_own() -> None:
    amd = {"model": "MI300X", "memory": "192GiB", "vendor": "amd"}
    devices = describe({"devices": [A10, amd, A10, amd]}, "f").devices
    assert [device.shown.index for device in devices] == [0, 100, 1, 101]
    assert [device.number for device in devices] == [0, 1, 2, 3]
    assert devices[3].shown.pci_bus_id == "0000:91:00.0"


def test_a_partitioned_board_is_followed_by_its_partitions() -> None:
    board = {"model": "MI300X", "memory": "192GiB", "vendor": "amd", "partition": "cpx"}
    devices = describe({"devices": [A10, board, A10]}, "f").devices
    assert [device.number for device in devices] == list(range(11))
    assert [device.divided for device in devices] == [False, True, *[False] * 9]
    assert [device.parent for device in devices] == [None, None, *[1] * 8, None]
    _, whole, *parts, last = (device.shown for device in devices)
    assert (whole.sharing, last.vendor) == ("partitioned", "nvidia")
    assert [part.uuid for part in parts] == [f"{whole.uuid}-{n}" for n in range(8)]
    assert {(p.profile, p.core_share) for p in parts} == {("cpx_nps1", 1 / 8)}
    assert sum(part.memory_bytes or 0 for part in parts) == whole.memory_bytes


def test_what_a_vendor_s_source_does_not_tell_of_a_device_is_not_there() -> None:
    xe = {"model": "8086:e20b", "vendor": "intel", "minor": 3}
    amd = {"model": "MI300X", "memory": "192GiB", "vendor": "amd", "partition": "dpx"}
    intel, _, part, _ = (each.shown for each in describe({"devices": [xe, amd]}, "f").devices)
    assert (intel.index, intel.minor, intel.memory_bytes) == (203, 3, None)
    assert (intel.uuid, intel.driver_version) == ("DRM-0000:50:00.0", "xe 6.12.0")
    assert (part.index, part.minor, part.driver_version) == (100, None, "")


def _with(**keys: Any) -> dict[str, Any]:
    return {"devices": [A10], **keys}


AMD = {**A10, "vendor": "amd"}
PART = {"parent": 0, "profile": "1g.6gb", "memory": "6GiB"}


BAD: list[tuple[object, str, str]] = [
    ([], "f", "keys are expected"),
    ({}, "f.devices", "at least one device"),
    ({"devices": [A10], "pod": []}, "f.pod: no such key", "pods"),
    ({"devices": [{"model": "A10"}]}, "f.devices[0].memory: missing", "16GiB"),
    ({"devices": [{**A10, "memory": "24GB"}]}, "f.devices[0].memory: '24GB'", "16GiB"),
    ({"devices": [{**A10, "max_power": 1}]}, "f.devices[0].max_power", "no less than idle_power"),
    ({"devices": [{**A10, "uuid": "u"}] * 2}, "f.devices", "same uuid"),
    (_with(sample_rule="first"), "f.sample_rule: 'first'", "last, end, longest, random"),
    (_with(seed=-1), "f.seed: '-1'", "a number from 0"),
    (_with(node={"name": "Bad Name"}), "f.node.name", "a-z"),
    (_with(pods="none"), "f.pods: 'none'", "a list"),
    (_with(pods=[pod(), pod()]), "f.pods", "same name"),
    (_with(pods=[{"name": "p", "namespace": "n"}]), "f.pods[0].containers", "at least one"),
    (_with(pods=[pod(scheme="magic")]), "f.pods[0].scheme: no such key", "annotations"),
    (_with(pods=[pod(labels=["a"])]), "f.pods[0].labels: this", "a mapping of texts"),
    (_with(pods=[pod(qos="Fast")]), "f.pods[0].qos", "Guaranteed, Burstable, BestEffort"),
    (
        _with(pods=[{**pod(), "containers": [{"name": "c", "granted": {"a": "b"}}]}]),
        "f.pods[0].containers[0].granted",
        "resources to lists of ids",
    ),
    (_with(pods=[pod(static="yes")]), "f.pods[0].static", "true or false"),
    (_with(pods=[pod(every="1s")]), "f.pods[0].every", "'for'"),
    (_with(pods=[pod(**{"for": "0s", "every": "1s"})]), "f.pods[0].for", "above zero"),
    (_with(pods=[pod(**{"for": "1e-9", "every": "1e-9"})]), "f.pods[0].every", "1ms or more"),
    (
        _with(pods=[pod("p", process(every=2, **{"for": 1}), every=9, **{"for": 5})]),
        "f.pods[0].containers[0].processes[0].every",
        "not for both",
    ),
    (
        _with(pods=[{**pod(), "containers": [{"name": "c", "kind": "job"}]}]),
        "f.pods[0].containers[0].kind",
        "app, init, sidecar",
    ),
    ({"devices": [{"memory": "1GiB"}]}, "f.devices[0].model", "name of a card"),
    ({"devices": [A10, {**PART, "parent": 1}]}, "f.devices[1].parent", "stands before it"),
    ({"devices": [A10, PART, {**PART, "parent": 1}]}, "f.devices[2].parent", "of a card"),
    ({"devices": [A10, {**PART, "profile": "7gb"}]}, "f.devices[1].profile", "1g.10gb"),
    ({"devices": [A10, {**PART, "profile": "cpx_nps4"}]}, "f.devices[1].profile", "a MIG profile"),
    ({"devices": [{**A10, "profile": "1g.6gb"}]}, "f.devices[0].profile", "has a parent"),
    ({"devices": [{**A10, "partition": "cpx"}]}, "f.devices[0].partition", "AMD's"),
    ({"devices": [{**AMD, "partition": "tpx"}]}, "f.devices[0].partition", "dpx, qpx, cpx"),
    ({"devices": [AMD, PART]}, "f.devices[1].parent", "NVIDIA's"),
    ({"devices": [{"model": "MI300X", "vendor": "amd"}]}, "f.devices[0].memory: missing", "16GiB"),
    (
        {"devices": [{**AMD, "partition": "cpx"}], "processes": [process(device=0)]},
        "f.processes[0].device",
        "parts of it",
    ),
    (
        {"devices": [A10, PART], "processes": [process(device=0)]},
        "f.processes[0].device",
        "nothing runs on a card that is divided",
    ),
    ({"devices": [A10] * 65}, "f.devices", "at most 64"),
    ({"devices": {"a": 1}}, "f.devices: this is not allowed", "a list of at least one device"),
    ({"devices": "x" * 999}, f"f.devices: '{'x' * 99} is not allowed", "at least one device"),
    (
        _with(faults=[{"device": 1, "state": "lost", "from": 1}]),
        "f.faults[0].device",
        "from 0 to 0",
    ),
    (_with(processes=[process(duty=1.5)]), "f.processes[0].duty: '1.5'", "from 0 to 1"),
    (_with(processes=[process(duty=[[9, 0], [1, 1]])]), "f.processes[0].duty", "times rising"),
    (_with(processes=[process(device=1)]), "f.processes[0].device: 1", "from 0 to 0"),
    (_with(processes=[process(period="1us")]), "f.processes[0].period", "1h"),
    (_with(processes=[process(period="0s")]), "f.processes[0].period", "1ms or more"),
    (_with(processes=[process(label="x")]), "f.processes[0].label: no such key", "duty"),
    (_with(faults=[{"device": 0, "state": "broken", "from": 1}]), "f.faults[0].state", "stuck"),
]


@pytest.mark.parametrize(("data", "place", "allowed"), BAD)
def test_a_bad_file_is_refused_with_place_and_what_is_allowed(
    data: object, place: str, allowed: str
) -> None:
    with pytest.raises(ScenarioError) as refusal:
        describe(data, "f")
    assert place.removeprefix("f.") in str(refusal.value)
    assert allowed in str(refusal.value)


def test_all_problems_of_a_file_are_told_at_once_with_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(
        "devices:\n- {model: NVIDIA T4, memory: 16GB}\nseed: 1\nseed: 2\npods:\n- name: p\n"
        "  containers: [{name: c, kind: job}]\n"
    )
    with pytest.raises(ScenarioError) as refusal:
        load(str(file))

    places = [line.partition(": ")[0] for line in str(refusal.value).splitlines()]
    assert places == [
        f"{file}, line 2, devices[0].memory",
        f"{file}, line 4, seed",
        f"{file}, line 7, pods[0].containers[0].kind",
        f"{file}, line 6, pods[0].namespace",
    ]


def test_a_key_that_stands_after_too_many_problems_is_not_said_to_be_missing(
    tmp_path: Path,
) -> None:
    file = tmp_path / "node.yaml"
    wrong = "".join(f"k{n}: 1\n" for n in range(MAX_PROBLEMS + 1))
    file.write_text(wrong + "devices: [{model: NVIDIA T4, memory: 16GiB}]\n")
    with pytest.raises(ScenarioError) as refusal:
        load(str(file))
    assert len(str(refusal.value).splitlines()) == MAX_PROBLEMS
    assert "missing" not in str(refusal.value)


def test_a_name_that_is_neither_shipped_nor_a_file_is_told_the_choice() -> None:
    with pytest.raises(ScenarioError, match="one of demo, eight-schemes, hpc, mixed, single"):
        load("no-such-scenario")


def test_a_file_that_is_not_yaml_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("devices: [")
    with pytest.raises(ScenarioError, match=r"broken\.yaml: line 1, column 11: not YAML"):
        load(str(file))


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    file.write_text("#" * (1 << 20) + "#")
    with pytest.raises(ScenarioError, match="longer than"):
        load(str(file))
