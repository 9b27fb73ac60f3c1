"""The alerts of rules/: each is raised by what it is for, and by nothing like it."""

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.agent.allocations.registry import SCHEMES
from exporter.model.alerts import HARDWARE, PROGRAM, WATCH, codes, what_to_do
from rules import parameters
from tests.rules.cases import CASES
from tests.rules.run import LEVELS, Alert, Case, raised, raised_alone, simulated, written

ROOT = Path(__file__).parent.parent.parent
RULES = ROOT / "rules"
FILES = [RULES / "mgpu-recording.yaml", RULES / "mgpu-alerts.yaml"]
RUNBOOKS = ROOT / "docs" / "runbooks"
HEALTHY = Path(__file__).parent / "healthy.yaml"
HEALTHY_MINUTES = 45
STARVED = Path(__file__).parent / "starved.yaml"


@cache
def alerts() -> list[dict[str, Any]]:
    """The alerting rules."""
    groups = yaml.safe_load(FILES[1].read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


NAMES = sorted({rule["alert"] for rule in alerts()})
QUIET = [(title, why) for title, case in CASES.items() for why in case.quiet]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Alert]]:
    """What is raised in each case that is to raise something."""
    return _found({title: _case(title) for title in CASES}, tmp_path_factory.mktemp("alerts"))


@pytest.fixture(scope="module")
def found_quiet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Alert]]:
    """What is raised in each case that only resembles it: three of four cases, so a slow test."""
    cases = {f"{title}: {why}": _case(title, why) for title, why in QUIET}
    return _found(cases, tmp_path_factory.mktemp("quiet"))


def _found(cases: Mapping[str, Case], folder: Path) -> dict[str, list[Alert]]:
    found: dict[str, list[Alert]] = {title: [] for title in cases}
    for alert in raised_alone(FILES[1], FILES[0], cases, folder):
        found[alert.case].append(alert)
    return found


def _case(title: str, why: str = "") -> Case:
    known = CASES[title]
    series = {**known.firing, **(known.quiet[why] if why else {})}
    given = {key: values for key, values in series.items() if values is not None}
    return Case(given, [title.partition(" ")[0]], [known.minute])


@pytest.mark.program("promtool")
@pytest.mark.parametrize("title", CASES)
def test_an_alert_is_raised_by_what_it_is_for(found: dict[str, list[Alert]], title: str) -> None:
    (alert,) = found[title]

    name, _, rest = title.partition(" ")
    rule = next(rule for rule in alerts() if rule["alert"] == name)
    assert alert.labels["severity"] == rule["labels"]["severity"]
    assert alert.labels.get("quantity") in {rest, "device", None}
    assert not re.search(r"no value|%!|<error|of ,|\(\)", alert.annotations)


@pytest.mark.program("promtool")
def test_an_alert_of_a_node_counts_its_containers_and_names_the_worst(
    found: dict[str, list[Alert]],
) -> None:
    (alert,) = found["MgpuContainerUnmeasured"]
    assert alert.labels["reason"] == "no_hostpid"
    assert "is not known (no_hostpid): 2." in alert.annotations
    assert "On most GPUs: n/p (c), on 2." in alert.annotations


@pytest.mark.program("promtool")
@pytest.mark.parametrize(
    ("title", "culprit"),
    [
        ("MgpuContainerStarved", "Most of it is for user/bob."),
        (
            "MgpuContainerStarved without a share",
            "Of the others there, n/neighbour uses most: 80% of the GPU.",
        ),
        (
            "MgpuContainerStarved by a group",
            "Of the others there, user/bob uses most: 70% of the GPU.",
        ),
    ],
)
def test_an_alert_has_the_victims_labels_and_names_who_ran_instead(
    found: dict[str, list[Alert]], title: str, culprit: str
) -> None:
    (alert,) = found[title]
    assert alert.labels["pod"] == "p"
    assert culprit in alert.annotations


@pytest.mark.program("promtool")
@pytest.mark.parametrize(
    ("title", "said"),
    [
        (
            "MgpuGpuLost with its XID",
            ("XID 79: it has fallen off the bus. To do: restart the node.", "n/p", "slurm/4711"),
        ),
        (
            "MgpuGpuLost with its instances",
            ("GPU-a", "XID 79: it has fallen off the bus. To do: restart the node.", "n/p"),
        ),
        ("MgpuGpuLost of an instance alone", ("MIG-a", "To do: reset the GPU", "n/p")),
        (
            "MgpuGpuLost of another vendor",
            ("To do: look for amdgpu in the kernel's log; if it stays lost, restart the node.",),
        ),
    ],
)
def test_a_lost_gpus_alert_names_its_last_xid_what_to_do_and_who_was_on_it(
    found: dict[str, list[Alert]], title: str, said: tuple[str, ...]
) -> None:
    (alert,) = found[title]
    assert all(words in alert.annotations for words in said), alert.annotations
    assert ("On it: " in alert.annotations) == (len(said) > 1)


@pytest.mark.slow
@pytest.mark.program("promtool")
@pytest.mark.parametrize(("title", "why"), QUIET)
def test_an_alert_is_not_raised_where(
    found_quiet: dict[str, list[Alert]], title: str, why: str
) -> None:
    assert found_quiet[f"{title}: {why}"] == []


def test_every_alert_has_a_firing_and_a_quiet_case() -> None:
    assert {title.partition(" ")[0] for title in CASES} == set(NAMES)
    assert all(case.quiet for case in CASES.values())


def test_a_node_of_every_sharing_system_can_miss_its_exporter() -> None:
    """kube-state-metrics writes a resource with underscores for all that is no letter or digit."""
    (one,) = [one for one in parameters.of("MgpuExporterMissing") if one.name == "resources"]
    names = {name for scheme in SCHEMES for name in scheme.resources}
    whole = [name for name in names if not name.endswith(("-", "_", "/"))]
    assert len(whole) > 40
    for name in (*whole, "baidu.com/a100_40g_cgpu", "nvidia.com/mig-1g.10gb"):
        assert re.fullmatch(one.default, re.sub(r"[^A-Za-z0-9]", "_", name)), name


@pytest.mark.slow
@pytest.mark.program("promtool")
def test_a_healthy_node_raises_nothing(tmp_path: Path) -> None:
    series = simulated(str(HEALTHY), HEALTHY_MINUTES, cycle_s=5, levels=(*LEVELS, "mgpu_exporter"))
    told = {name: " ".join(values) for name, values in series.items()}
    told["up"] = f"1x{HEALTHY_MINUTES * 4}"
    assert len(told) > 300

    case = Case(told, NAMES, [10, 25, 35, HEALTHY_MINUTES])
    found = raised([written(alerts(), tmp_path)], {"healthy": case}, tmp_path)

    assert {(alert.title, alert.minute): alert.annotations for alert in found} == {}


@pytest.mark.slow
@pytest.mark.program("promtool")
def test_who_waits_on_a_full_gpu_is_starved_and_who_has_its_share_in_bursts_is_not(
    tmp_path: Path,
) -> None:
    series = simulated(str(STARVED), 36, cycle_s=5)
    told = {name: " ".join(values) for name, values in series.items()}

    rules = [rule for rule in alerts() if rule["alert"] == "MgpuContainerStarved"]
    case = Case(told, ["MgpuContainerStarved"], [25, 30, 35])
    found = raised([written(rules, tmp_path)], {"": case}, tmp_path)

    assert {(alert.minute, alert.labels["pod"]) for alert in found} == {
        (minute, pod) for minute in (25, 30, 35) for pod in ("chat", "requests")
    }
    said = {alert.labels["pod"]: alert.annotations for alert in found}
    assert "Most of it is for batch/crawl-" in said["chat"]
    assert "Most of it is for batch/train." in said["requests"]


@pytest.mark.program("promtool")
def test_promtool_has_nothing_to_say_against_the_rules() -> None:
    done = subprocess.run(
        ["promtool", "check", "rules", "--lint=all", "--lint-fatal", *map(str, FILES)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_is_one_rule() -> None:
    """Prometheus' page has a line for each rule, and of six lines of one name none is which."""
    assert len(NAMES) == len(alerts())


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_what_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert not any("{{" in value for value in rule["labels"].values())
    summary, description = rule["annotations"]["summary"], rule["annotations"]["description"]
    assert summary.endswith(".")
    assert "{{" not in summary  # the same of all of a group
    assert description.endswith(".")
    assert rule["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{rule['alert']}.md")


@pytest.mark.parametrize("alert", [HARDWARE, WATCH, PROGRAM])
def test_an_alert_of_xids_says_of_each_what_happened_and_what_to_do(alert: str) -> None:
    [rule] = [rule for rule in alerts() if rule["alert"] == alert]
    description = rule["annotations"]["description"]
    cases = re.findall(r"if eq \$labels\.xid ([\" \d]+) \}\}: (.*?)\{\{", description)
    said = {int(code.strip('"')): words for listed, words in cases for code in listed.split()}
    assert said == {code: what_to_do(code) for code in codes(alert)}
