"""The alert rules on the live page: they are those of the rules file, and hold when it says so."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter import api
from exporter.api import About
from exporter.ledger import Moment
from exporter.model import HeldCondition, Row, Snapshot
from exporter.rows.alerts import MOST_HELD, NOT_HERE, RULES, AlertFacts, held
from exporter.web.page.alerts import Holding, alerts, holding, visible
from tests.api.nodes import demo, failing

FILE = Path(__file__).parents[2] / "rules" / "mgpu-alerts.yaml"
SHIPPED = [rule for group in yaml.safe_load(FILE.read_text())["groups"] for rule in group["rules"]]
SECOND, MINUTE = 10**9, 60 * 10**9
NOW = Moment(MINUTE, 10**18)


def with_values(place: int, level: str = "device", **values: Any) -> Snapshot:
    """The demo node, one row of which has these values too; None takes one away."""
    node = demo()
    rows = list(node.rows[level])
    own = {
        name: value for name, value in {**rows[place].values, **values}.items() if value is not None
    }
    rows[place] = rows[place]._replace(values=own)
    return replace(node, rows={**{name: node.rows[name] for name in node.rows}, level: tuple(rows)})


def found(
    node: Snapshot, before: Sequence[HeldCondition] = (), now: Moment = NOW
) -> Sequence[HeldCondition]:
    return held(before, AlertFacts(node.rows, node.sources, node.unix_ns), now)


def affected(node: Snapshot, rule: str) -> set[str]:
    return {each.subject.replace("\u00a0", " ") for each in found(node) if each.rule == rule}


def living(node: Snapshot) -> tuple[int, Row]:
    """The only container of a pod, on one device, and not ended."""
    rows = node.rows["container"]
    pods = [row.labels[:2] for row in rows]
    return next(
        (place, row)
        for place, row in enumerate(rows)
        if "core_utilization_ratio" in row.values and pods.count(row.labels[:2]) == 1
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_is_that_of_the_rules_file(rule: Any) -> None:
    [shipped] = [each for each in SHIPPED if each["alert"] == rule.name]

    assert rule.severity == shipped["labels"]["severity"]
    assert rule.summary == shipped["annotations"]["summary"]
    assert shipped.get("for", "0m") == f"{rule.wait}m"


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
    ("name", "values"),
    [
        ("MgpuGpuLost", {"unmeasured": {("device", "gpu_lost"): 1}}),
        ("MgpuGpuUnreadable", {"unmeasured": {("device", "driver_stuck"): 1}}),
        ("MgpuRowRemapping", {"row_remapping": {("pending",): 1}}),
        ("MgpuRowRemappingFailed", {"row_remapping": {("failed",): 1}}),
        ("MgpuRetiredPagesPending", {"retired_pages_pending": 1}),
        ("MgpuGpuRecoveryAction", {"recovery_action": 2}),
        ("MgpuPcieLinkDegraded", {"pcie_link_width": 8, "pcie_link_max_width": 16}),
        ("MgpuDeviceOvercommitted", {"allocated_core_ratio": 1.2}),
        ("MgpuDeviceOvercommitted", {"allocated_memory_bytes": 2**50}),
    ],
)
def test_a_rule_of_devices_holds_for_the_device(name: str, values: Mapping[str, Any]) -> None:
    node = with_values(1, **values)
    device = f"GPU {node.rows['device'][1].labels[0]}"

    assert device not in {each.partition(":")[0] for each in affected(demo(), name)}
    assert device in {each.partition(":")[0] for each in affected(node, name)}


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
    at_ns = demo().unix_ns - ago * SECOND
    node = with_values(0, xid_last_timestamp_seconds={(xid,): at_ns})

    assert {each.rule for each in found(node) if "Xid" in each.rule} == ({name} if name else set())


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("MgpuPlacementMismatch", {"placement_mismatch": 1}),
        ("MgpuContainerUnmeasured", {"unmeasured": {("core", "no_hostpid"): 1}}),
        ("MgpuGpuUsedWithoutAllotment", {"allocation_info": None, "processes": 1}),
    ],
)
def test_a_rule_of_containers_holds_for_the_container(name: str, values: Mapping[str, Any]) -> None:
    place, row = living(demo())
    namespace, pod, container, *_ = row.labels
    who = f"{namespace}/{pod} ({container})"

    assert not any(each.startswith(who) for each in affected(demo(), name))
    assert any(
        each.startswith(who) for each in affected(with_values(place, "container", **values), name)
    )


def test_a_container_on_a_gpu_that_cannot_be_read_is_said_of_the_gpu_alone() -> None:
    place, row = living(demo())
    node = with_values(place, "container", unmeasured={("core", "gpu_lost"): 1})
    devices = tuple(
        each._replace(values={**each.values, "unmeasured": {("device", "gpu_lost"): 1}})
        if each.labels[1] == row.labels[-1]
        else each
        for each in node.rows["device"]
    )
    rows = {name: node.rows[name] for name in node.rows} | {"device": devices}
    lost = {each.rule for each in found(replace(node, rows=rows))}

    assert "MgpuContainerUnmeasured" in {each.rule for each in found(node)}
    assert "MgpuGpuLost" in lost
    assert "MgpuContainerUnmeasured" not in lost


def test_a_reason_that_is_expected_raises_nothing() -> None:
    place, _ = living(demo())
    expected = {"unmeasured": {("core", "container_pending"): 1}}

    assert not affected(with_values(place, "container", **expected), "MgpuContainerUnmeasured")


def test_a_pod_near_its_memory_limit_is_named() -> None:
    node = with_values(0, "pod", memory_limit_utilization_ratio=0.99)

    assert "/".join(node.rows["pod"][0].labels) in affected(node, "MgpuPodNearMemoryLimit")


def test_rules_of_the_exporter_hold_for_its_sources() -> None:
    node = with_values(0, "exporter", config_last_reload_successful=0)
    node = replace(node, sources=tuple(each._replace(up=False) for each in node.sources))

    assert {
        *("MgpuExporterBlind", "MgpuExporterStale"),
        "MgpuExporterConfigReloadFailed",
    } <= {each.rule for each in found(node)}


def to_be_reset() -> Snapshot:
    return with_values(0, recovery_action=2)


def shown(conditions: Sequence[HeldCondition], at: Moment, age_ns: int = 0) -> list[Holding]:
    return holding(api.snapshot(demo(), About("n"), age_ns), conditions, at.mono_ns)


def test_a_condition_is_remembered_since_it_was_first_found_and_forgotten_when_it_ends() -> None:
    later, last = Moment(4 * MINUTE, NOW.unix_ns), Moment(5 * MINUTE, NOW.unix_ns)

    first = found(to_be_reset())
    second = found(to_be_reset(), first, later)
    ended = found(demo(), second, later)
    again = found(to_be_reset(), ended, last)

    since = [
        {each.since_mono_ns for each in of if each.rule == "MgpuGpuRecoveryAction"}
        for of in (first, second, again)
    ]
    assert since == [{MINUTE}, {MINUTE}, {5 * MINUTE}]


@pytest.mark.parametrize(
    ("minutes", "fires", "words"),
    [(3, False, "Pending, for 2 of 5 min."), (13, True, "Firing for 7 min.")],
)
def test_a_rule_is_pending_until_its_time_is_over(minutes: int, *, fires: bool, words: str) -> None:
    own = [each for each in found(to_be_reset()) if each.rule == "MgpuGpuRecoveryAction"]
    at = Moment(minutes * MINUTE, NOW.unix_ns)

    [one] = shown(own, at)
    markup = alerts(api.snapshot(demo(), About("n"), 0), own, at.mono_ns)

    assert one.fires is fires
    assert markup is not None
    assert words in markup


def test_more_conditions_than_the_bound_are_not_remembered() -> None:
    node = demo()
    reasons = {("core", f"reason_{n}"): 1 for n in range(MOST_HELD + 9)}
    place, _ = living(node)

    assert len(found(with_values(place, "container", unmeasured=reasons))) == MOST_HELD


def test_while_nothing_is_measured_the_exporter_is_stuck_and_nothing_else_is_known() -> None:
    [stuck] = shown(found(to_be_reset()), NOW, age_ns=90 * SECOND)

    assert (stuck.rule.name, stuck.for_s) == ("MgpuExporterStuck", 30)


def test_a_client_sees_the_conditions_of_its_namespaces_and_of_the_devices() -> None:
    conditions = tuple(
        HeldCondition("MgpuPodNearMemoryLimit", str(of), of, 0) for of in (None, "", "a", "b")
    )
    node = Snapshot(held=conditions)

    assert [each.namespace for each in visible(node)] == [None, "", "a", "b"]
    assert [each.namespace for each in visible(node, {"a"})] == [None, "a"]


def test_the_page_links_runbooks_and_says_which_thresholds_and_what_is_not_evaluated() -> None:
    markup = alerts(api.snapshot(demo(), About("n"), 0), found(failing()), MINUTE)

    assert markup is not None
    assert "/docs/runbooks/MgpuGpu" in markup
    assert "MgpuBooksOutOfBalance" in markup
    assert "shipped thresholds" in markup


def test_nothing_is_shown_where_no_rule_holds() -> None:
    assert alerts(api.snapshot(demo(), About("n"), 0), (), 0) is None


def test_the_cycle_keeps_since_when_conditions_hold() -> None:
    node = demo()

    assert node.held
    assert all(0 <= node.mono_ns - each.since_mono_ns <= MINUTE for each in node.held)
    assert {each.rule for each in node.held} <= {rule.name for rule in RULES}


def test_rules_of_pods_may_wait_and_keep_what_they_found() -> None:
    place, _ = living(demo())
    node = with_values(place, "container", placement_mismatch=1)
    before = found(node)
    facts = AlertFacts(demo().rows, demo().sources, demo().unix_ns)

    waiting = held(before, facts, Moment(2 * MINUTE, NOW.unix_ns), whole=False)

    assert [each for each in before if "Placement" in each.rule] == [
        each for each in waiting if "Placement" in each.rule
    ]
