"""The alert rules on the live page: they are those of the rules file, and hold when it says so."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter import api
from exporter.api import About
from exporter.web.page.alerts import (
    NOT_HERE,
    RULES,
    alerts,
    holding,
)
from tests.api.nodes import demo, failing

FILE = Path(__file__).parents[2] / "rules" / "mgpu-alerts.yaml"
SHIPPED = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]


def document() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(api.snapshot(demo(), About("n"), 0)))
    return made


def names(of: dict[str, Any]) -> set[str]:
    return {rule.name for rule, _ in holding(of)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_that_of_the_rules_file(rule: Any) -> None:
    [shipped] = [each for each in SHIPPED if each["alert"] == rule.name]

    assert rule.severity == shipped["labels"]["severity"]
    assert rule.summary == shipped["annotations"]["summary"]
    assert rule.wait == shipped.get("for", "")


def test_each_rule_is_either_evaluated_or_said_not_to_be() -> None:
    here = {rule.name for rule in RULES}

    assert here.isdisjoint(NOT_HERE)
    assert here | set(NOT_HERE) == {rule["alert"] for rule in SHIPPED}


def test_the_most_severe_rules_come_first() -> None:
    order = ["critical", "warning", "info"]

    assert [rule.severity for rule in RULES] == sorted(
        (rule.severity for rule in RULES), key=order.index
    )


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("MgpuGpuLost", {"unmeasured": [{"quantity": "device", "reason": "gpu_lost"}]}),
        ("MgpuGpuUnreadable", {"unmeasured": [{"quantity": "device", "reason": "driver_stuck"}]}),
        ("MgpuRowRemapping", {"row_remapping": [{"state": "pending", "value": 1}]}),
        ("MgpuRowRemappingFailed", {"row_remapping": [{"state": "failed", "value": 1}]}),
        ("MgpuRetiredPagesPending", {"retired_pages_pending": 1}),
        ("MgpuGpuRecoveryAction", {"recovery_action": 2}),
        ("MgpuPcieLinkDegraded", {"pcie_link_width": 8, "pcie_link_max_width": 16}),
        ("MgpuDeviceOvercommitted", {"allocated_core_ratio": 1.2}),
        ("MgpuDeviceOvercommitted", {"allocated_memory_bytes": 2**50}),
    ],
)
def test_a_rule_of_devices_holds_for_the_device(name: str, device: dict[str, Any]) -> None:
    made = document()
    assert "GPU 1" not in whom(made, name)
    made["devices"][1] |= device

    assert "GPU 1" in whom(made, name)


def whom(of: dict[str, Any], name: str) -> set[str]:
    """The GPUs that a rule holds for."""
    found = (each for rule, found in holding(of) if rule.name == name for each in found)
    return {each.replace("\u00a0", " ").partition(":")[0] for each in found}


@pytest.mark.parametrize(
    ("name", "xid", "ago"),
    [
        ("MgpuXidHardware", "79", 100),
        ("MgpuXidWarning", "94", 100),
        ("MgpuXidError", "31", 100),
        ("", "63", 100),
        ("", "79", 1000),
    ],
)
def test_an_xid_counts_for_a_quarter_of_an_hour(name: str, xid: str, ago: int) -> None:
    made = document()
    at = made["snapshot"]["timestamp_seconds"] - ago
    made["devices"][0]["xid_last_timestamp_seconds"] = [{"xid": xid, "value": at}]

    assert {each for each in names(made) if "Xid" in each} == ({name} if name else set())


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("MgpuPlacementMismatch", {"placement_mismatch": True}),
        (
            "MgpuContainerUnmeasured",
            {"unmeasured": [{"quantity": "core", "reason": "no_hostpid"}]},
        ),
    ],
)
def test_a_rule_of_containers_holds_for_the_container(name: str, part: dict[str, Any]) -> None:
    made = document()
    before = names(made)
    pod = next(pod for pod in made["pods"] if not pod["ended"])
    pod["containers"][0]["devices"][0] |= part

    assert name not in before
    assert name in names(made)


def test_a_container_on_a_gpu_that_cannot_be_read_is_not_told_apart() -> None:
    made = document()
    pod = next(pod for pod in made["pods"] if not pod["ended"])
    part = pod["containers"][0]["devices"][0]
    part["unmeasured"] = [{"quantity": "core", "reason": "gpu_lost"}]
    gpu = next(each for each in made["devices"] if each["uuid"] == part["uuid"])
    gpu["unmeasured"] = [{"quantity": "device", "reason": "gpu_lost"}]

    assert "MgpuGpuLost" in names(made)
    assert "MgpuContainerUnmeasured" not in names(made)


def test_a_reason_that_is_expected_raises_nothing() -> None:
    made = document()
    pod = next(pod for pod in made["pods"] if not pod["ended"])
    reasons = [{"quantity": "core", "reason": "container_pending"}]
    pod["containers"][0]["devices"][0]["unmeasured"] = reasons

    assert "MgpuContainerUnmeasured" not in names(made)


def test_a_pod_near_its_memory_limit_is_named() -> None:
    made = document()
    pod = next(pod for pod in made["pods"] if not pod["ended"])
    pod["memory_limit_utilization_ratio"] = 0.99

    found = {rule.name: found for rule, found in holding(made)}
    assert f"{pod['namespace']}/{pod['pod']}" in found["MgpuPodNearMemoryLimit"]


def test_who_uses_a_gpu_without_an_allocation_is_named() -> None:
    made = document()
    pod = next(pod for pod in made["pods"] if pod["pod"].startswith("chat"))
    part = pod["containers"][0]["devices"][0]
    del part["allocation_info"]
    part["processes"] = 1

    found = {rule.name: found for rule, found in holding(made)}
    assert any(each.startswith("inference/chat") for each in found["MgpuGpuUsedWithoutAllotment"])


def test_rules_of_the_exporter_hold_for_its_sources_and_its_age() -> None:
    made = document()
    made["snapshot"]["age_seconds"] = 61
    made["exporter"]["config_last_reload_successful"] = 0
    for source in made["sources"]:
        source["up"] = False

    assert {
        *("MgpuExporterStuck", "MgpuExporterBlind", "MgpuExporterStale"),
        "MgpuExporterConfigReloadFailed",
    } <= names(made)


def test_the_page_names_the_rule_links_its_runbook_and_says_what_is_not_evaluated() -> None:
    made = api.snapshot(failing(), About("n"), 0)

    markup = alerts(made)

    assert markup is not None
    assert "/docs/runbooks/MgpuGpu" in markup
    assert "MgpuBooksOutOfBalance" in markup
    assert "fires after" in markup.lower()


def test_nothing_is_shown_where_no_rule_holds() -> None:
    made = document()
    made["devices"], made["pods"] = [], []

    assert alerts(made) is None


def test_the_page_says_that_thresholds_are_the_shipped_ones_and_conditions_may_be_pending() -> None:
    markup = alerts(api.snapshot(failing(), About("n"), 0))

    assert markup is not None
    assert "shipped thresholds" in markup
    assert "pending" in markup
