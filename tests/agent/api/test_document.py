import json
from collections.abc import Callable
from typing import Any

import pytest

from exporter.agent import api
from exporter.agent.api import About
from exporter.metrics.families import families_without
from exporter.model import (
    NO_AVERAGES,
    AllocatedTime,
    Averages,
    ContainerHolding,
    ContainerKey,
    Device,
    DeviceFacts,
    HeldMemory,
    History,
    Snapshot,
    SourceStatus,
    Unattributed,
    Unmeasured,
)
from exporter.shown.reasonwords import UNATTRIBUTED, UNMEASURED, process_type
from tests.agent.api.nodes import HOSTILE, crowded, demo, failing, hostile
from tests.agent.api.validation import validate, validator
from tests.snapshots import container as held_by
from tests.snapshots import snapshot_of, with_every_family

SECOND = 10**9
ABOUT = About("node-1", 15 * SECOND)
CHAT = ("inference", "chat-7b-6c9f7d9c5b-x2lqz")


def whole(snapshot: Snapshot, age_ns: int = SECOND // 2) -> dict[str, Any]:
    """The whole document, as a client reads it."""
    read: dict[str, Any] = json.loads(json.dumps(api.snapshot(snapshot, ABOUT, age_ns)))
    return read


def device_of(index: int, average: Averages = NO_AVERAGES) -> DeviceFacts:
    return DeviceFacts(device=Device(f"GPU-{index}", index, "nvidia", "A100"), average=average)


def only(pods: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(pod for pod in pods if pod["pod"] == name)


@pytest.mark.parametrize(
    "made",
    [
        Snapshot,
        with_every_family,
        demo,
        pytest.param(crowded, marks=pytest.mark.slow),
        hostile,
        failing,
    ],
)
def test_every_answer_is_as_the_schema_says(made: Callable[[], Snapshot]) -> None:
    snapshot = made()
    for age_ns in (0, 60 * SECOND):
        validate("snapshot", whole(snapshot, age_ns))
        for name in ("devices", "history"):
            validate(name, json.loads(json.dumps(getattr(api, name)(snapshot, ABOUT, age_ns))))
    for pod in snapshot.facts.pods[:12]:
        document = api.pod(snapshot, ABOUT, 0, name=(pod.namespace, pod.name))
        validate("pod", json.loads(json.dumps(document)))


def test_the_schema_refuses_what_it_does_not_name() -> None:
    document = whole(demo())
    document["pods"][0]["containers"][0]["devices"][0]["command_line"] = "python train.py --key=…"
    assert list(validator("snapshot").iter_errors(document))


def test_every_family_is_told_under_its_own_name() -> None:
    document = whole(with_every_family())
    [device], [pod] = document["devices"], document["pods"]
    [container] = pod["containers"]
    assert device["busy_seconds_total"] == 1e-9
    assert pod["core_usage_gpus"] == 1
    assert container["devices"][0]["core_limit_ratio"] == 1
    assert document["groups"][0]["devices"][0]["energy_joules_total"] == 1e-6
    assert document["exporter"]["cycles_total"] == 1


def test_families_that_are_switched_off_are_not_told() -> None:
    about = About(families=families_without(["power"]))
    [device] = api.snapshot(with_every_family(), about, 0)["devices"]
    assert "power_watts" not in device
    assert "temperature_celsius" in device


def test_a_pod_has_its_containers_their_devices_and_their_processes() -> None:
    pod = only(whole(demo())["pods"], CHAT[1])
    [container] = pod["containers"]
    [device] = container["devices"]
    [process] = device["process_list"]
    assert (pod["namespace"], container["container"], device["index"]) == (CHAT[0], "server", 0)
    assert (process["name"], process["type"]) == ("server", "C")
    assert process["core_utilization_ratio"] == pytest.approx(device["core_utilization_ratio"])
    assert process["memory_used_bytes"] == device["memory_used_bytes"] == pod["memory_used_bytes"]


def test_what_is_not_known_is_absent_and_its_reason_is_there() -> None:
    held = held_by(memory=HeldMemory(5), unmeasured={"core": Unmeasured.MPS})
    [pod] = whole(snapshot_of(containers=[held]))["pods"]
    [device] = pod["containers"][0]["devices"]
    assert "core_utilization_ratio" not in device
    assert device["unmeasured"] == [{"quantity": "core", "reason": "mps"}]


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_json_cannot_say_is_absent(number: float) -> None:
    [device] = whole(snapshot_of(devices=[device_of(0, Averages(core=number))]))["devices"]
    assert "utilization_ratio" not in device
    assert device["up"]


def test_an_allocation_whose_device_is_not_known_has_none() -> None:
    owner = ContainerKey("n", "p", "c")
    held = ContainerHolding(
        owner=owner, index=None, uuid="", ended=True, allocated=AllocatedTime(5)
    )
    [pod] = whole(snapshot_of(containers=[held]))["pods"]
    assert pod["containers"][0]["devices"] == [
        {"allocated_core_seconds_total": 5e-9, "ended": True}
    ]


def test_what_has_gone_is_marked_so() -> None:
    pods = whole(demo())["pods"]
    ended = {pod["pod"] for pod in pods if pod["ended"]}
    assert "thumbnail-0-zwpx4" in ended
    assert CHAT[1] not in ended


def test_a_stale_snapshot_tells_of_its_sources_only() -> None:
    document = whole(demo(), 11 * SECOND)
    assert document["snapshot"]["stale"]
    assert (document["devices"], document["pods"], document["groups"]) == ([], [], [])
    assert len(document["sources"]) == 5
    assert document["exporter"]["cycles_total"] == 60


def test_a_source_that_is_down_says_what_to_do() -> None:
    sources = (
        SourceStatus("nvml", up=False, detail="no driver"),
        SourceStatus("cgroups", up=False, reason=Unmeasured.NO_HOSTPID),
        SourceStatus("new", up=False),
        SourceStatus("pods_api", up=True),
    )
    told = whole(Snapshot(version=1, sources=sources))["sources"]
    assert [(s["up"], s.get("what_to_do", "")[:24]) for s in told] == [
        (False, "The driver's library was"),
        (False, "Set hostPID: true in the"),
        (False, "See the exporter's log; "),
        (True, ""),
    ]
    assert told[1]["reason"] == "no_hostpid"


def test_one_pod_is_told_as_in_the_whole() -> None:
    document = api.pod(demo(), ABOUT, SECOND, name=CHAT)
    assert document is not None
    assert json.loads(json.dumps(document["pod"])) == only(whole(demo())["pods"], CHAT[1])


@pytest.mark.parametrize("name", [("inference", "x"), ("", ""), ("x", CHAT[1]), (CHAT[1], CHAT[0])])
def test_a_pod_that_is_not_here_is_none(name: tuple[str, str]) -> None:
    assert api.pod(demo(), ABOUT, 0, name=name) is None


def test_any_name_comes_through_as_it_is() -> None:
    pods = whole(hostile())["pods"]
    names = {pod["containers"][0]["devices"][0]["process_list"][0].get("name") for pod in pods}
    assert {pod["pod"] for pod in pods} == set(HOSTILE)
    assert names == {name or None for name in HOSTILE}


def test_a_history_tells_where_nothing_was_known() -> None:
    document = api.history(demo(), ABOUT, 0)
    series = {tuple(s["labels"]): s for s in document["series"]}
    gpu = next(s for s in document["series"] if s["level"] == "device")
    assert gpu["core_utilization_ratio"][0] is None
    assert 0 < gpu["core_utilization_ratio"][-1] <= 1
    assert len(series) == len(document["series"]) == len(demo().history.series)
    assert api.history(Snapshot(history=History()), ABOUT, 0)["series"] == []


def test_who_holds_what_nobody_is_named_for_is_told() -> None:
    devices = whole(demo(61, "hpc"))["devices"]
    parts = [part for device in devices for part in device["unattributed"]]
    [host] = [part for part in parts if part["reason"] == "host_process"]
    assert host["process_list"][0]["type"] == "C"
    assert host["core_utilization_ratio"] >= 0


def test_a_group_says_what_it_is_called_beside_its_key() -> None:
    groups = whole(demo(61, "hpc"))["groups"]
    info = {group["kind"]: group["info"] for group in groups if group["group"] != "4711"}
    assert info["docker"] == {"name": "llm-server"}
    assert info["podman"] == {"name": "carols-notebook", "user": "carol"}
    assert info["user"] == {"name": "dave", "user": "dave"}
    job = next(group for group in groups if group["group"] == "4711")
    assert job["info"] == {
        "name": "4711",
        "user": "alice",
        "account": "climate",
        "slurm_job": "4711",
    }
    assert [device["index"] for device in job["devices"]] == [0, 1]


def test_a_job_that_has_ended_is_marked_so_and_keeps_its_names() -> None:
    groups = whole(demo(61, "hpc"))["groups"]
    ended = {g["group"]: g["info"] for g in groups if all(d["ended"] for d in g["devices"])}
    assert ended["4720"]["user"] == "bob"


@pytest.mark.parametrize(
    ("kinds", "letters"),
    [
        ({"compute"}, "C"),
        ({"graphics"}, "G"),
        ({"compute", "graphics"}, "C+G"),
        ({"mps"}, "M+C"),
        ({"mps", "compute"}, "M+C"),
        ({"mps_server", "compute"}, "C"),
    ],
)
def test_types_are_those_of_nvidia_smi(kinds: set[str], letters: str) -> None:
    assert process_type(frozenset(kinds)) == letters


def test_every_reason_has_words() -> None:
    assert UNMEASURED.keys() == set(Unmeasured)
    assert UNATTRIBUTED.keys() == set(Unattributed)


def test_devices_are_in_the_order_of_their_index() -> None:
    devices = [device_of(number) for number in (10, 9, 2)]
    assert [d["index"] for d in whole(snapshot_of(devices=devices))["devices"]] == [2, 9, 10]


@pytest.mark.parametrize("seconds", [3, 60])
def test_the_processes_of_a_container_add_up_to_it(seconds: int) -> None:
    for pod in whole(demo(seconds))["pods"]:
        for container in pod["containers"]:
            for device in container["devices"]:
                parts = [p.get("core_utilization_ratio") for p in device.get("process_list", ())]
                if parts and None not in parts:
                    assert sum(parts) <= device["core_utilization_ratio"] + 1e-9
