from dataclasses import replace
from typing import Any

import pytest

from exporter import api
from exporter.model import DeviceState, Row, Snapshot, Value
from exporter.terminal.lines import lines_of
from exporter.terminal.view import Line, LineKind, path
from tests.api.nodes import HOSTILE, crowded, demo, hostile
from tests.terminal.views import document, everything, find, history, view

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
    assert ("container", "server") in pod.facts
    assert len({name for name, _ in pod.facts}) == len(pod.facts)
    assert pod.also == "server"


def test_a_device_has_its_power_and_temperature() -> None:
    whole = document(demo())
    device = whole["devices"][0]
    device["power_watts"] = 215.4
    device["temperature_celsius"] = [{"sensor": "hotspot", "value": 61.0}]

    line = lines_of(whole, None)[0]

    assert (line.watts, line.celsius) == (215.4, 61.0)


def test_a_process_has_its_user_and_command_where_they_are_known() -> None:
    whole = document(demo())
    pod = next(pod for pod in whole["pods"] if pod["pod"].startswith(CHAT))
    [process] = pod["containers"][0]["devices"][0]["process_list"]
    process |= {"user": "alice", "command": "python3 serve.py --model 7b"}

    [line] = find(tuple(lines_of(whole, None)), CHAT).children

    assert line.name == "2001 alice python3 serve.py --model 7b"
    assert {("user", "alice"), ("command", "python3 serve.py --model 7b")} <= set(line.facts)


def test_a_pod_on_several_devices_stands_under_each() -> None:
    whole = document(demo())
    other = whole["devices"][3]
    pod = next(pod for pod in whole["pods"] if pod["pod"].startswith(CHAT))
    parts = pod["containers"][0]["devices"]
    parts.append(parts[0] | {"uuid": other["uuid"], "index": other["index"]})

    lines = tuple(lines_of(whole, None))

    on = [device.name for device in lines if any(CHAT in child.name for child in device.children)]
    assert on == ["0 A100-SXM4-80GB", "3 L40S"]
    assert len({line.key for line in everything(lines) if CHAT in line.name}) == 2


def test_what_may_not_be_seen_is_a_line_of_its_own() -> None:
    left = api.restricted(document(demo()), {"inference"})
    first = lines_of(left, None)[0]
    assert first.children[-1].name == "others, not shown to you"
    parts = [child.memory.value or 0 for child in first.children]
    assert sum(parts) == pytest.approx(first.memory.value)


def test_keys_are_of_one_line_each() -> None:
    for snapshot in (demo(), crowded(8, 40), hostile()):
        keys = [line.key for line in everything(of(snapshot))]
        assert len(keys) == len(set(keys))


def test_containers_and_rest_come_to_the_device() -> None:
    for device in of(demo())[:2]:  # on the others pods have ended within the window
        assert device.core.value is not None
        parts = [line.core.value for line in device.children if line.core.value is not None]
        assert sum(parts) == pytest.approx(device.core.value, abs=0.02)


def test_processes_come_to_their_container() -> None:
    containers = [line for line in everything(of(demo())) if line.kind is LineKind.CONTAINER]
    for container in containers:
        parts = [line.core.value or 0.0 for line in container.children]
        assert sum(parts) == pytest.approx(container.core.value, abs=1e-6)


def changed(part: dict[str, Any]) -> tuple[Line, ...]:
    """The demo's lines after its chat container's part was replaced."""
    whole = document(demo())
    pod = next(pod for pod in whole["pods"] if pod["pod"].startswith(CHAT))
    [container] = pod["containers"]
    container["devices"] = [container["devices"][0] | part]
    for name in [name for name, value in part.items() if value is None]:
        del container["devices"][0][name]
    return tuple(lines_of(whole, None))


def test_what_is_not_known_has_its_reason_up_to_the_pod() -> None:
    reasons = [{"quantity": "core", "reason": "mps"}]
    pod = find(changed({"core_utilization_ratio": None, "unmeasured": reasons}), CHAT)

    assert (pod.core.value, pod.core.why) == (None, "mps")
    assert pod.memory.value
    assert any("mps: A client of MPS" in words for _, words in pod.facts)


def test_no_reason_is_said_to_be_none() -> None:
    assert find(changed({"memory_used_bytes": None}), CHAT).memory.why == "not_reported"


def test_what_is_not_known_is_not_summed() -> None:
    whole = document(demo())
    speech = next(pod for pod in whole["pods"] if pod["pod"].startswith("speech"))
    del speech["containers"][0]["devices"][0]["core_utilization_ratio"]

    pod = find(tuple(lines_of(whole, None)), "speech")

    assert [child.core.value is None for child in pod.children] == [True, False]
    assert pod.core.value is None


def test_an_allotment_on_no_known_device_stands_by_itself_at_the_end() -> None:
    lines = changed({"uuid": None, "index": None, "core_utilization_ratio": None})

    assert lines[-1].kind is LineKind.NOWHERE
    assert find(lines[-1:], CHAT).core.limit == pytest.approx(0.4)


def test_a_device_that_the_document_lacks_has_a_line_of_its_own() -> None:
    whole = document(demo())
    del whole["devices"][0]

    stray = lines_of(whole, None)[-1]

    assert stray.name.startswith("GPU GPU-")
    assert (stray.core.value, stray.core.why) == (None, "not_reported")
    assert find((stray,), CHAT).kind is LineKind.POD


def test_a_lost_device_is_not_idle() -> None:
    snapshot = demo()
    first, *others = snapshot.rows["device"]
    kept: dict[str, Value] = {name: first.values[name] for name in ("info", "memory_total_bytes")}
    lost: dict[str, Value] = {"up": 0, "unmeasured": {("core", str(DeviceState.LOST)): 1}}
    devices = (Row(first.labels, kept | lost), *others)

    device = of(replace(snapshot, rows={**snapshot.rows, "device": devices}))[0]

    assert (device.core.value, device.core.why) == (None, "gpu_lost")
    assert (device.memory.value, device.memory.why) == (None, "gpu_lost")


def test_who_has_ended_is_not_shown() -> None:
    whole = document(demo())
    ended = [pod["pod"] for pod in whole["pods"] if pod["ended"]]

    names = " ".join(line.name for line in everything(tuple(lines_of(whole, None))))

    assert ended
    assert not any(name in names for name in ended)


def test_the_last_minutes_are_those_of_the_line() -> None:
    lines = lines_of(document(demo()), history(demo()))

    for device in lines:
        assert len(device.past) >= 5
    assert find(tuple(lines), CHAT).past
    assert find(tuple(lines), "speech").past


def test_several_nodes_are_told_apart() -> None:
    lines = view(demo(), demo()).lines

    assert [line.name.split()[0] for line in lines] == ["node-1"] * 4 + ["node-2"] * 4
    keys = [line.key for line in everything(lines)]
    assert len(keys) == len(set(keys))


def test_hostile_names_are_each_in_their_place() -> None:
    pods = [line for line in everything(of(hostile())) if line.kind is LineKind.POD]

    assert len(pods) == len(HOSTILE)
