from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.answers.reading.feeds.details import ProcessCommand
from exporter.answers.reading.feeds.feed import totals_of_devices
from exporter.answers.reading.feeds.nodelines import NodeContext, lines_of
from exporter.answers.reading.feeds.overview import Arrangement, Line, LineKind, path, rows
from exporter.answers.top import linetable
from exporter.answers.top.topreport import sums
from exporter.metrics.families import LEVELS
from exporter.metrics.text import Format, Renderer
from exporter.model import (
    NO_AVERAGES,
    Averages,
    CgroupIdentity,
    Device,
    DeviceFacts,
    DeviceMemoryFacts,
    DeviceState,
    Facts,
    GroupHolding,
    GroupKey,
    ProcessInfo,
    Snapshot,
)
from exporter.shown.marks import MarkKind
from exporter.shown.processtree import tree_of_snapshot
from exporter.shown.tree import DeviceEntry, tree_of
from tests.agent.api.nodes import HOSTILE, crowded, demo, hostile
from tests.agent.collector.bench import CID, Bench
from tests.answers.reading.views import document, everything, find, history, lines_in, view
from tests.snapshots import container as holding

CHAT = "chat-7b"


def of(snapshot: Snapshot) -> tuple[Line, ...]:
    return view(snapshot).lines


def test_devices_hold_pods_hold_containers_hold_processes() -> None:
    lines = of(demo())

    assert [line.kind for line in lines] == [LineKind.DEVICE] * 4
    assert [line.name for line in lines] == [
        *("0 A100-SXM4-80GB", "1 A100-SXM4-80GB", "2 L40S", "3 L40S"),
    ]
    pod = find(lines, "speech")
    container, other = pod.children
    [process] = container.children
    assert [line.kind for line in (pod, container, other, process)] == [
        *(LineKind.POD, LineKind.CONTAINER, LineKind.CONTAINER, LineKind.PROCESS),
    ]
    assert path(container) == f"{pod.name}/recognise"
    assert process.letters == "C"


def test_a_pod_with_one_container_is_one_line() -> None:
    pod = find(of(demo()), CHAT)

    assert [line.kind for line in pod.children] == [LineKind.PROCESS]
    assert ("container", "server") in pod.details
    assert len({name for name, _ in pod.details}) == len(pod.details)
    assert pod.also == "server"


def test_a_device_has_its_power_and_temperature() -> None:
    whole = document(demo())
    device = whole["devices"][0]
    device["power_watts"] = 215.4
    device["temperature_celsius"] = [{"sensor": "hotspot", "value": 61.0}]

    line = lines_in(whole)[0]

    assert (line.watts, line.celsius) == (215.4, 61.0)


def test_a_process_has_its_user_and_command_where_they_are_known() -> None:
    known = ProcessCommand("alice", "python3 serve.py --model 7b", 1.5, 3 << 30)
    commands = {2001: known}

    lines = lines_of(tree_of_snapshot(demo()), NodeContext(commands=commands))

    [line] = find(tuple(lines), CHAT).children
    assert line.name == "2001 alice python3 serve.py --model 7b"
    assert {("user", "alice"), ("command", "python3 serve.py --model 7b")} <= set(line.details)
    assert {("host CPUs", "1.50"), ("host memory", "3.0G")} <= set(line.details)


def test_a_pod_on_several_devices_stands_under_each() -> None:
    whole = document(demo())
    other = whole["devices"][3]
    pod = next(pod for pod in whole["pods"] if pod["pod"].startswith(CHAT))
    parts = pod["containers"][0]["devices"]
    parts.append(parts[0] | {"uuid": other["uuid"], "index": other["index"]})

    lines = lines_in(whole)

    on = [device.name for device in lines if any(CHAT in child.name for child in device.children)]
    assert on == ["0 A100-SXM4-80GB", "3 L40S"]
    assert len({line.key for line in everything(lines) if CHAT in line.name}) == 2


def test_what_may_not_be_seen_is_a_line_of_its_own() -> None:
    left = document(demo(), shown={"inference"})
    first = lines_in(left)[0]
    assert first.children[-1].name == "others, not shown to you"
    parts = [child.memory.value or 0 for child in first.children]
    assert sum(parts) == pytest.approx(first.memory.value)


def test_keys_are_of_one_line_each() -> None:
    for snapshot in (demo(), crowded(8, 40), hostile()):
        keys = [line.key for line in everything(of(snapshot))]
        assert len(keys) == len(set(keys))


def test_containers_and_rest_come_to_the_device_and_processes_to_their_container() -> None:
    for device in of(demo())[:2]:  # on the others pods have ended within the window
        assert device.core.value is not None
        parts = [line.core.value for line in device.children if line.core.value is not None]
        assert sum(parts) == pytest.approx(device.core.value, abs=0.02)

    containers = [line for line in everything(of(demo())) if line.kind is LineKind.CONTAINER]
    for container in containers:
        parts = [line.core.value or 0.0 for line in container.children]
        assert sum(parts) == pytest.approx(container.core.value, abs=1e-6)


def changed(part: dict[str, Any]) -> tuple[Line, ...]:
    """The demo's lines after its chat container's part was replaced."""
    whole = document(demo())
    pod = next(pod for pod in whole["pods"] if pod["pod"].startswith(CHAT))
    for name in ("core_usage_gpus", "memory_used_bytes"):
        del pod[name]
    [container] = pod["containers"]
    container["devices"] = [container["devices"][0] | part]
    for name in [name for name, value in part.items() if value is None]:
        del container["devices"][0][name]
    return lines_in(whole)


def test_what_is_not_known_has_its_reason_up_to_the_pod() -> None:
    reasons = [{"quantity": "core", "reason": "mps"}]
    pod = find(changed({"core_utilization_ratio": None, "unmeasured": reasons}), CHAT)

    assert (pod.core.value, pod.core.why) == (None, "mps")
    assert any("mps: Clients of several owners share" in words for _, words in pod.details)
    assert find(changed({"memory_used_bytes": None}), CHAT).memory.why == "not_reported"


def test_a_device_whose_memory_the_driver_does_not_report_says_why() -> None:
    whole = document(demo())
    device = whole["devices"][0]
    device["unmeasured"] = [{"quantity": "device_memory", "reason": "not_supported"}]
    del device["memory_used_bytes"], device["memory_total_bytes"]

    line = lines_in(whole)[0]

    assert (line.memory.value, line.memory.why) == (None, "not_supported")
    assert line.children[0].memory.value is not None


def test_what_is_not_known_is_not_summed() -> None:
    whole = document(demo())
    speech = next(pod for pod in whole["pods"] if pod["pod"].startswith("speech"))
    del speech["core_usage_gpus"]
    del speech["containers"][0]["devices"][0]["core_utilization_ratio"]

    pod = find(lines_in(whole), "speech")

    assert [child.core.value is None for child in pod.children] == [True, False]
    assert pod.core.value is None


def test_an_allocation_on_no_known_device_stands_by_itself_at_the_end() -> None:
    lines = changed({"uuid": None, "index": None, "core_utilization_ratio": None})

    assert lines[-1].kind is LineKind.NOWHERE
    assert find(lines[-1:], CHAT).core.limit == pytest.approx(0.4)


def test_a_device_that_the_document_lacks_has_a_line_of_its_own() -> None:
    whole = document(demo())
    del whole["devices"][0]

    stray = lines_in(whole)[-1]

    assert stray.name.startswith("GPU GPU-")
    assert (stray.core.value, stray.core.why) == (None, "not_reported")
    assert find((stray,), CHAT).kind is LineKind.POD


def test_a_lost_device_is_not_idle_and_marked() -> None:
    facts = demo().facts
    first = replace(facts.devices[0], state=DeviceState.LOST, average=NO_AVERAGES)
    lost = replace(first, memory=DeviceMemoryFacts(total_bytes=5))

    tree = tree_of(replace(facts, devices=(lost, *facts.devices[1:])))
    device = find(tuple(lines_of(tree, NodeContext())), "0 A100")

    assert (device.core.value, device.core.why) == (None, "gpu_lost")
    assert (device.memory.value, device.memory.why) == (None, "gpu_lost")
    assert [mark.kind for mark in device.marks] == [MarkKind.LOST]


def test_who_waits_on_a_full_gpu_and_who_runs_meanwhile_are_both_marked() -> None:
    device = DeviceFacts(device=Device("GPU-1", 0, "nvidia"), average=Averages(1.0))
    waits = holding(average=Averages(0.1, waiting=0.63))
    job = GroupHolding(
        owner=GroupKey("slurm", "7"), index=0, uuid="GPU-1", average=Averages(0.9, waiting=0.1)
    )
    tree = tree_of(Facts(devices=(device,), containers=(waits,), groups=(job,)))

    (line,) = lines_of(tree, NodeContext())

    assert {child.name: [mark.kind for mark in child.marks] for child in line.children} == {
        f"{waits.owner.namespace}/{waits.owner.pod}": [MarkKind.WAITING],
        "slurm 7": [MarkKind.CROWDS],
    }


def test_who_has_ended_is_under_one_line_that_says_so() -> None:
    whole = document(demo())
    ended = {f"{pod['namespace']}/{pod['pod']}" for pod in whole["pods"] if pod["ended"]}

    lines = lines_in(whole)

    folded = [line for line in everything(lines) if line.kind is LineKind.ENDED]
    assert {line.name for one in folded for line in one.children if "/" in line.name} >= ended
    assert ended
    assert all(line.ended for one in folded for line in one.children)
    shown = rows(lines, Arrangement(deepest=4))
    assert not any(row.line.ended for row in shown)
    opened = rows(lines, Arrangement(opened={one.key for one in folded}))
    assert ended <= {row.line.name for row in opened if row.line.ended}
    assert linetable.bar(find(lines, min(ended)), 10)[0].text == "ended"


def test_the_last_minutes_are_those_of_the_line() -> None:
    lines = lines_in(document(demo()), history(demo()))

    for device in lines:
        assert len(device.past) >= 5
    assert find(lines, CHAT).past
    assert find(lines, "speech").past


def test_several_nodes_are_told_apart() -> None:
    lines = view(demo(), demo()).lines

    assert [line.name.split()[0] for line in lines] == ["node-1"] * 4 + ["node-2"] * 4
    keys = [line.key for line in everything(lines)]
    assert len(keys) == len(set(keys))


NODES = ("demo", "eight-schemes", "hpc", "mixed", "single", "turing")


@pytest.mark.parametrize("scenario", NODES)
def test_the_terminal_shows_the_numbers_of_the_metrics(scenario: str) -> None:
    """Use, limit and share of each container and pod, whether it has ended, by both ways here."""
    snapshot = demo(20, scenario)
    metrics: dict[tuple[str, ...], dict[str, float]] = {}
    page = Renderer().render(snapshot, Format.TEXT).decode()
    for sample in (one for family in read_text(page) for one in family.samples):
        level, _, name = sample.name.removeprefix("mgpu_").partition("_")
        if level in {"container", "pod"}:
            owner = (level, *(sample.labels[label] for label in LEVELS[level] if label != "gpu"))
            metrics.setdefault(owner, {})[name] = sample.value
    own = lines_of(tree_of_snapshot(snapshot), NodeContext())
    far = lines_in(document(snapshot))

    for lines in (tuple(own), far):
        shown = {key: line for line in everything(lines) for key in _owners(line)}
        for owner, values in metrics.items():
            has_ended = all(name.endswith("_total") for name in values)
            if owner[0] == "container" and owner not in shown:
                assert values.keys() <= {"allocation_info", "unmeasured"} or "" in owner
                continue
            line = shown[owner]
            assert line.ended == has_ended, owner
            if owner[0] == "container" or len(_devices_of(metrics, owner)) <= 1:
                assert _numbers(line) == pytest.approx(_of_metrics(owner[0], values)), owner


def _owners(line: Line) -> Iterator[tuple[str, ...]]:
    """What of the metrics a line shows; that of a pod with one container shows both."""
    if line.kind is LineKind.POD:
        _, uuid, *name = line.key
        yield "pod", *name
        if line.also and uuid:
            yield "container", *name, line.also, uuid
    if line.kind is LineKind.CONTAINER:
        yield "container", *line.key[-3:], line.key[1]


def _devices_of(metrics: Iterable[tuple[str, ...]], pod: tuple[str, ...]) -> set[str]:
    return {owner[-1] for owner in metrics if owner[:3] == ("container", *pod[1:])} - {""}


def _numbers(line: Line) -> list[float | None]:
    return [
        *(line.core.value, line.core.limit, line.core.share),
        *(line.memory.value, line.memory.limit, line.memory.share),
    ]


def _of_metrics(level: str, values: Mapping[str, float]) -> list[float | None]:
    core = ("core_usage_gpus", "core_limit_gpus")
    if level == "container":
        core = ("core_utilization_ratio", "core_limit_ratio")
    memory = ("memory_used_bytes", "memory_limit_bytes", "memory_limit_utilization_ratio")
    return [values.get(name) for name in (*core, "core_limit_utilization_ratio", *memory)]


def test_hostile_names_are_each_in_their_place() -> None:
    pods = [line for line in everything(of(hostile())) if line.kind is LineKind.POD]

    assert len(pods) == len(HOSTILE)


def test_a_pod_whose_policy_lends_it_what_is_free_is_not_accused() -> None:
    pod = find(of(demo()), "rerank")

    assert (pod.core.share or 0) > 2
    assert linetable.tone_of(pod, pod.core) is linetable.Tone.CALM
    assert pod.marks == ()


def test_a_process_of_a_job_inside_of_its_container_names_it() -> None:
    bench = Bench()
    bench.name_pod()
    bench.processes.identities[7] = CgroupIdentity("uid-1", CID)
    bench.processes.infos[7] = ProcessInfo("python", job="slurm/31")
    bench.use(7, 10**9 // 4)
    bench.cycle()
    snapshot = bench.cycle()
    made = document(snapshot)
    (device,) = made["pods"][0]["containers"][0]["devices"]
    assert [one.get("job") for one in device["process_list"]] == ["slurm/31"]
    process = find(lines_in(made), "slurm/31")
    assert process.name == "7 python slurm/31"
    assert ("job", "slurm/31") in process.details


@pytest.mark.parametrize("unmeasured", [1, 4])
def test_a_gpu_whose_core_use_is_not_known_is_a_gpu(unmeasured: int) -> None:
    made = demo()
    devices = [
        replace(device, average=NO_AVERAGES) if number < unmeasured else device
        for number, device in enumerate(made.facts.devices)
    ]
    facts = replace(made.facts, devices=tuple(devices))
    whole, found = view(made), view(replace(made, measured=lambda: facts))
    assert found.totals.memory == whole.totals.memory
    assert (found.totals.core is None) is (unmeasured == len(devices))
    said = sums(found)
    assert f"of 4 GPUs ({unmeasured} unknown)" in said
    assert ("core ?" in said) is (unmeasured == len(devices))


def test_a_card_counts_although_a_divided_card_of_another_node_has_its_uuid() -> None:
    place = "0000:03:00.0"  # of a driver without UUIDs
    board = DeviceFacts(device=Device(place, 0, "amd"), memory=DeviceMemoryFacts(total_bytes=8))
    part = DeviceFacts(
        device=Device("part", 1, "amd", parent_uuid=place),
        memory=DeviceMemoryFacts(total_bytes=4),
        average=Averages(core=0.5),
    )
    divided = [DeviceEntry(place, board), DeviceEntry("part", part)]
    totals = totals_of_devices([divided, [DeviceEntry(place, board)]])
    assert (totals.gpus, totals.unmeasured, totals.memory_total) == (2, 1, 4 + 8)
