"""What is left of the documents for who may see some namespaces only."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from exporter import api
from exporter.api import About, Document
from exporter.model import ContainerKey, Snapshot
from exporter.web.page import choice_of, node_of, page
from tests.api.nodes import HOSTILE, crowded, demo, failing, hostile
from tests.api.validation import validate

FIGURES = ("core_utilization_ratio", "memory_used_bytes")
ABOUT = About("node-1", 15_000_000_000)


def whole(snapshot: Snapshot) -> Document:
    return api.snapshot(snapshot, ABOUT, 0)


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
    left = api.restricted(full, shown)
    past = api.restricted_history(api.history(snapshot, ABOUT, 0), shown)
    devices = api.restricted_devices(full, shown)
    markup = page(node_of(snapshot, ABOUT, 0, shown), choice_of({"all": "1"}), 0.0, "/metrics")
    assert len(secrets_of(full, shown)) > 10
    for text in (json.dumps(left), json.dumps(past), json.dumps(devices), markup):
        for secret in secrets_of(full, shown):
            assert secret not in text


@pytest.mark.parametrize("made", [demo, hostile, failing, crowded])
@pytest.mark.parametrize("shown", [{"inference"}, {HOSTILE[0]}, set()])
def test_the_schema_holds(made: Callable[[], Snapshot], shown: set[str]) -> None:
    snapshot = made()
    full = whole(snapshot)
    validate("snapshot", api.restricted(full, shown))
    validate("devices", api.restricted_devices(full, shown))
    validate("history", api.restricted_history(api.history(snapshot, ABOUT, 0), shown))


@pytest.mark.parametrize("made", [demo, crowded])
@pytest.mark.parametrize("shown", [{"inference"}, {"research"}, set()])
def test_the_parts_of_a_card_add_up_to_the_same_sum(
    made: Callable[[], Snapshot], shown: set[str]
) -> None:
    full = whole(made())
    left = api.restricted(full, shown)
    for device, before in zip(left["devices"], full["devices"], strict=True):
        assert device["utilization_ratio"] == before["utilization_ratio"]
        for figure in FIGURES:
            mine = sum(part[figure] for part in on(left, device["uuid"]))
            everybody = sum(part[figure] for part in on(full, device["uuid"]))
            assert mine + device["others"][figure] == pytest.approx(everybody)


def on(document: Document, uuid: str) -> Iterator[dict[str, float]]:
    """What runs on a device, as far as the document shows it."""
    for pod in document["pods"]:
        for container in pod["containers"]:
            yield from (d for d in container["devices"] if d.get("uuid") == uuid and not d["ended"])
    for group in document["groups"]:
        yield from (d for d in group["devices"] if d["uuid"] == uuid and not d["ended"])


def test_an_unknown_part_makes_the_sum_unknown() -> None:
    full = whole(demo())
    hidden = next(on(full, full["devices"][0]["uuid"]))
    del hidden["core_utilization_ratio"]
    others = api.restricted(full, set())["devices"][0]["others"]
    assert "core_utilization_ratio" not in others
    assert "memory_used_bytes" in others


def test_something_new_in_a_document_is_hidden() -> None:
    full = whole(demo())
    full["new"] = full["devices"][0]["new"] = full["sources"][0]["new"] = "secret-new"
    full["devices"][0]["unattributed"] = [{"reason": "exited", "new": "secret-new"}]
    full["sources"][0]["detail"] = "https://secret-new:6443"
    full["exporter"]["new"] = "secret-new"
    assert "secret-new" not in json.dumps(api.restricted(full, {"inference"}))


def test_the_page_says_what_it_does_not_show() -> None:
    own, full = (
        page(node_of(demo(), ABOUT, 0, shown), choice_of({}), 0.0, "/metrics")
        for shown in ({"inference"}, None)
    )
    assert "You may see the pods of these namespaces only: <bdi>inference</bdi>" in own
    assert "namespaces and groups" in own
    assert "namespaces only" not in full


def test_the_history_of_others_is_not_for_the_page() -> None:
    past = demo().history
    own = api.restricted_past(past, {"inference"})
    owners = [key.owner for key in own.series if key.owner is not None]
    assert {owner[0] for owner in owners} == {"inference"}
    assert all(isinstance(owner, ContainerKey) for owner in owners)
    assert len(owners) < len(own.series)  # and devices
    assert not own.ended
    assert len(own.series) < len(past.series)
