"""What is left of the documents for who may see some namespaces only."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from exporter.agent import api
from exporter.agent.api import About, Document
from exporter.agent.api.context import Context
from exporter.agent.api.fields import TEXT, Field, Object
from exporter.agent.hostuse import HostUse
from exporter.agent.web.page import choice_of, node_of, page
from exporter.model import Averages, ContainerKey, HeldMemory, Snapshot
from tests.agent.api.nodes import HOSTILE, crowded, demo, failing, hostile
from tests.agent.api.test_document import device_of
from tests.agent.api.validation import validate
from tests.snapshots import container, snapshot_of

FIGURES = ("core_utilization_ratio", "memory_used_bytes")
ABOUT = About("node-1", 15_000_000_000)


def whole(snapshot: Snapshot, shown: set[str] | None = None) -> Document:
    return api.snapshot(snapshot, ABOUT, 0, shown)


def secrets_of(document: Document, shown: set[str]) -> set[str]:
    """Everything in the document that names somebody who may not be seen."""
    found = set()
    for pod in document["pods"]:
        if pod["namespace"] not in shown:
            found |= {pod["namespace"], pod["pod"], pod.get("info", {}).get("uid", "")}
            found |= {container["container"] for container in pod["containers"]}
            found |= set(_processes(container["devices"] for container in pod["containers"]))
    for group in document["groups"]:
        found |= {group["group"], *group.get("info", {}).values(), *_processes([group["devices"]])}
    for device in document["devices"]:
        found |= set(_processes([device["unattributed"]]))
    visible = json.dumps([pod for pod in document["pods"] if pod["namespace"] in shown])
    own = re.sub(r'"by_pod": "[^"]*"', "", visible)  # an owner that they waited for
    # Plain words, such as a container "main", are words of the page too.
    return {name for name in found if re.search(r"[-.:\d]", name) and name not in own}


def _processes(parts: Any) -> Iterator[str]:
    for devices in parts:
        for device in devices:
            for process in device.get("process_list", ()):
                yield f'"pid": {process["pid"]},'
                yield process.get("name", "")


@pytest.mark.parametrize("shown", [{"inference"}, {"research", "media"}, set()])
def test_no_name_of_others_is_left_anywhere(shown: set[str]) -> None:
    snapshot = demo()
    full = whole(snapshot)
    left = whole(snapshot, shown)
    past, devices = (make(snapshot, ABOUT, 0, shown) for make in (api.history, api.devices))
    markup = page(node_of(snapshot, ABOUT, 0, shown), choice_of({"all": "1"}), 0.0, "/metrics")
    assert len(secrets_of(full, shown)) > 10
    for text in (json.dumps(left), json.dumps(past), json.dumps(devices), markup):
        for secret in secrets_of(full, shown):
            assert secret not in text


@pytest.mark.parametrize(
    "made", [demo, hostile, failing, pytest.param(crowded, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("shown", [{"inference"}, {HOSTILE[0]}, set()])
def test_the_schema_holds(made: Callable[[], Snapshot], shown: set[str]) -> None:
    snapshot = made()
    validate("snapshot", whole(snapshot, shown))
    validate("devices", api.devices(snapshot, ABOUT, 0, shown))
    validate("history", api.history(snapshot, ABOUT, 0, shown))


@pytest.mark.parametrize("made", [demo, crowded])
@pytest.mark.parametrize("shown", [{"inference"}, {"research"}, set()])
def test_the_parts_of_a_card_add_up_to_the_same_sum(
    made: Callable[[], Snapshot], shown: set[str]
) -> None:
    full, left = whole(made()), whole(made(), shown)
    for device, before in zip(left["devices"], full["devices"], strict=True):
        assert device["utilization_ratio"] == before["utilization_ratio"]
        for figure in FIGURES:
            mine = sum(part[figure] for part in on(left, device["uuid"]))
            everybody = sum(part[figure] for part in on(full, device["uuid"]))
            if figure == "core_utilization_ratio":
                mine += device.get(f"ended_{figure}", 0.0)
                everybody += before.get(f"ended_{figure}", 0.0)
            assert mine + device["others"][figure] == pytest.approx(everybody)


def on(document: Document, uuid: str) -> Iterator[dict[str, float]]:
    """What runs on a device, as far as the document shows it."""
    for pod in document["pods"]:
        for each in pod["containers"]:
            yield from (d for d in each["devices"] if d.get("uuid") == uuid and not d["ended"])
    for group in document["groups"]:
        yield from (d for d in group["devices"] if d["uuid"] == uuid and not d["ended"])


def test_an_unknown_part_makes_the_sum_unknown() -> None:
    holdings = [
        container(
            ContainerKey("n", f"p{number}", "c"), "GPU-0", average=average, memory=HeldMemory(5)
        )
        for number, average in enumerate((Averages(0.5), Averages()))
    ]
    made = snapshot_of(devices=[device_of(0, Averages(core=0.5))], containers=holdings)
    [device] = whole(made, set())["devices"]
    assert device["others"] == {"memory_used_bytes": 10}


def test_what_is_not_listed_as_open_is_hidden() -> None:
    snapshot = demo(61, "hpc")
    full, left = whole(snapshot), whole(snapshot, {"inference"})
    assert full["exporter"].keys() - left["exporter"].keys() == full["exporter"].keys() - {
        "version"
    }
    assert (left["groups"], left["group_kinds"]) == ([], [])
    parts = [part for device in left["devices"] for part in device["unattributed"]]
    assert {name for part in parts for name in part} == {"reason", *FIGURES}
    ill = failing()
    assert {source["detail"] for source in whole(ill, set())["sources"]} == {""}
    assert not any("what_to_do" in source for source in whole(ill, set())["sources"])
    new = Object("new", (Field("new", TEXT, lambda _, __: "secret"),))
    assert new.made(None, Context(snapshot, ABOUT, 0, set())) == {}


def test_the_page_says_what_it_does_not_show() -> None:
    own, full = (
        page(node_of(demo(), ABOUT, 0, shown), choice_of({}), 0.0, "/metrics")
        for shown in ({"inference"}, None)
    )
    assert "You may see the pods of these namespaces only: <bdi>inference</bdi>" in own
    *own_rows, others = re.findall(r'<details class="entry" data-k="([^"]*)"', own)
    assert own_rows
    assert others == "others"
    assert own.count("others, not shown to you") >= 2
    assert "namespaces only" not in full


def test_the_readers_own_rows_stand_before_the_sum_of_others() -> None:
    own = page(node_of(demo(), ABOUT, 0, {"research"}), choice_of({}), 0.0, "/metrics")
    card = own.split("<article")[2].partition("</article>")[0]
    rows = [card.index(f'title="{name}') for name in ("batch-scoring", "others, not shown")]
    assert rows == sorted(rows)


def test_processes_have_their_use_of_the_host_and_only_those_shown_are_read() -> None:
    read: list[dict[int, str]] = []

    def host(names: Mapping[int, str]) -> Mapping[int, HostUse]:
        read.append(dict(names))
        return {pid: HostUse(None if pid == min(names) else 98.75, 3 << 30) for pid in names}

    whole_page, own, without = (
        page(node_of(demo(), ABOUT, 0, shown), choice_of({}), 0.0, "/metrics", host=each)
        for shown, each in ((None, host), ({"inference"}, host), (None, lambda _: {}))
    )
    everybody, mine = read
    assert mine
    assert mine.items() < everybody.items()
    assert whole_page.count("98.75") == len(everybody) - 1
    assert own.count("98.75") == len(mine) - 1
    assert "Host CPUs" in own
    assert "Host CPUs" not in without


def test_the_history_of_others_is_not_for_the_page() -> None:
    past = demo().history
    own = api.restricted_past(past, {"inference"})
    owners = [key.owner for key in own.series if key.owner is not None]
    assert {owner[0] for owner in owners} == {"inference"}
    assert all(isinstance(owner, ContainerKey) for owner in owners)
    assert len(owners) < len(own.series)  # and devices
    assert not own.ended
    assert len(own.series) < len(past.series)
