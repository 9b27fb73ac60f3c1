"""Alerts as values: thresholds, times, severities, XIDs and links."""

import json
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import alerts
from exporter.model.alerts import PROGRAM, XIDS, codes
from rules.parameters import NUMBER, PARAMETERS, TIME, Parameter
from rules.xids import pattern
from tests.chart.rendering import ROOT, Object, Refused, render
from tests.rules.cases import CASES
from tests.rules.run import Case, raised, written
from tools.demo.fleet import OF_ALERT

pytestmark = pytest.mark.program("helm")

SOURCE = ROOT / "rules" / "mgpu-alerts.yaml"


def _other(one: Parameter, number: int) -> Any:
    """Another value than the default."""
    others = {NUMBER: round(0.42 + number / 1000, 3), TIME: f"{17 + number}m"}
    return others.get(one.kind, f"one|another{number}")


NEW = {one: _other(one, number) for number, one in enumerate(PARAMETERS)}  # no two are the same


@cache
def shipped() -> list[Object]:
    groups = yaml.load(SOURCE.read_text(), yaml.CSafeLoader)["groups"]
    return [rule for group in groups for rule in group["rules"]]


ON_GITHUB = "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/docs/runbooks/{alert}.md"


def groups(chart: Mapping[str, Any] = {}, **values: Any) -> list[Object]:
    """The chart's groups of rules with these values, and these of `prometheusRule`."""
    given = {**chart, "prometheusRule": {"enabled": True, "runbookUrl": ON_GITHUB, **values}}
    found: list[Object] = render(given).one("PrometheusRule")["spec"]["groups"]
    return found


def rendered(**values: Any) -> list[Object]:
    """The chart's alerts with these values of `prometheusRule`."""
    found = groups(**values)
    return [rule for group in found for rule in group["rules"] if "alert" in rule]


def named(rules: list[Object], name: str) -> list[Object]:
    return [rule for rule in rules if rule["alert"] == name]


def as_values(parameters: Sequence[Parameter]) -> dict[str, dict[str, Any]]:
    """These parameters with their other values, as values of the chart."""
    found: dict[str, dict[str, Any]] = {}
    for one in parameters:
        found.setdefault(one.alert, {})[one.name] = NEW[one]
    return found


def test_what_is_not_set_is_as_in_the_rule_files() -> None:
    files = sorted(SOURCE.parent.glob("*.yaml"))
    found = groups()
    assert found == [g for file in files for g in yaml.safe_load(file.read_text())["groups"]]
    # The operator's CRD lists groups by name: the API server refuses a second one.
    assert len({group["name"] for group in found}) == len(found)


@pytest.mark.parametrize("half", [PARAMETERS[::2], PARAMETERS[1::2]], ids=["these", "the others"])
def test_parameters_change_their_places_and_nothing_else(half: Sequence[Parameter]) -> None:
    found = rendered(rules=as_values(half))
    expected = [dict(rule) for rule in shipped()]
    for one in half:
        place = f"{one.before}{NEW[one]}{one.after}"
        for rule in named(expected, one.alert):
            rule["expr"] = rule["expr"].replace(one.found, place)
        assert all(place in rule["expr"] for rule in named(found, one.alert))
    assert found == expected


@pytest.mark.program("promtool")
def test_with_every_parameter_set_the_rules_are_promql(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    found = rendered(rules=as_values(PARAMETERS), xids={"warning": [], "ignored": [1]})
    file.write_text(json.dumps({"groups": [{"name": "all", "rules": found}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def firing(
    quiet: Mapping[str, str], folder: Path, *, asked: Iterable[str] = (), **values: Any
) -> set[tuple[str, str]]:
    """Which alerts of the chart are raised over quiet cases of the rules' tests.

    ``quiet``: the alert of each case, by why it is quiet. With ``asked``, these alerts may be
    raised in each case, without it the case's own.
    """
    cases = {}
    for why, title in quiet.items():
        series = {**CASES[title].firing, **CASES[title].quiet[why]}
        known = {k: v for k, v in series.items() if v is not None}
        cases[why] = Case(known, asked or [title], [CASES[title].minute])
    wanted = {title for case in cases.values() for title in case.titles}
    rules = [rule for rule in rendered(**values) if rule["alert"] in wanted]
    found = raised([written(rules, folder)], cases, folder, "1m")
    return {(alert.title, alert.case) for alert in found}


@pytest.mark.slow
@pytest.mark.program("promtool")
@pytest.mark.parametrize(
    "moved",
    [
        {
            ("MgpuPodNearMemoryLimit", "it has room"): {"threshold": 0.85},
            ("MgpuContainerOverCoreShare", "within its share"): {"threshold": 1.01},
            ("MgpuAllocatedGpuIdle", "it has come lately"): {"window": "30m"},
            ("MgpuGpuThrottled", "now and then"): {"threshold": 0.01},
            ("MgpuUseUnobserved", "once"): {"threshold": -1},
        },
        {
            ("MgpuPodNearMemoryLimit", "it soon gave it back"): {"for": "5m", "threshold": 0.4},
            ("MgpuGpuThrottled", "at its power limit, as is normal under load"): {
                "reasons": "sw_power_cap"
            },
        },
    ],
    ids=["once", "in another way"],
)
def test_another_threshold_raises_what_was_quiet(
    moved: dict[tuple[str, str], dict[str, Any]], tmp_path: Path
) -> None:
    quiet = {why: title for title, why in moved}
    assert firing(quiet, tmp_path) == set()
    rules = {title: values for (title, _), values in moved.items()}
    assert firing(quiet, tmp_path, rules=rules) == set(moved)


@pytest.mark.slow
@pytest.mark.program("promtool")
def test_an_xid_is_of_the_alert_whose_list_has_it(tmp_path: Path) -> None:
    def of(**values: Any) -> set[str]:
        quiet = {"contained in a program": "MgpuXidHardware"}
        asked = ["MgpuXidHardware", "MgpuXidWarning", "MgpuXidError"]
        return {title for title, _ in firing(quiet, tmp_path, asked=asked, **values)}

    nowhere: dict[str, Any] = {"critical": [], "warning": []}
    assert of() == {"MgpuXidWarning"}
    assert of(xids={"critical": [79, 94], "warning": []}) == {"MgpuXidHardware"}
    assert of(xids=nowhere) == {"MgpuXidError"}
    assert of(xids={**nowhere, "ignored": [94]}) == set()


def test_a_list_of_xids_may_be_what_another_list_was() -> None:
    """The lists are put into the expressions as text."""
    ignored = codes(alerts.LISTS["ignored"])
    found = rendered(xids={"critical": ignored, "ignored": []})
    assert f'xid=~"{"|".join(map(str, ignored))}"' in named(found, "MgpuXidHardware")[0]["expr"]


def test_the_rules_have_the_lists_of_the_catalogue() -> None:
    for alert in ("MgpuXidHardware", "MgpuXidWarning"):
        assert f'xid=~"{pattern(alert)}"' in named(shipped(), alert)[0]["expr"]
    known = "|".join(pattern(alert) for alert in alerts.LISTS.values())
    assert f'xid!~"{known}"' in named(shipped(), "MgpuXidError")[0]["expr"]


def test_no_xid_is_in_two_lists() -> None:
    found = [code for alert in (*alerts.LISTS.values(), PROGRAM) for code in codes(alert)]
    assert len(set(found)) == len(found) == sum(len(xid.codes) for xid in XIDS)


@pytest.mark.parametrize("code", [92, 94])
def test_no_node_is_drained_for_what_is_corrected_or_contained(code: int) -> None:
    assert code in codes("MgpuXidWarning")
    assert code not in codes("MgpuXidHardware")


def test_time_severity_and_labels_can_be_set() -> None:
    found = rendered(
        rules={"MgpuGpuLost": {"for": "3m", "severity": "page"}}, alertLabels={"team": "gpu"}
    )
    (lost,) = named(found, "MgpuGpuLost")
    assert (lost["for"], lost["labels"]) == ("3m", {"severity": "page", "team": "gpu"})
    assert named(found, "MgpuGpuUnreadable")[0]["labels"]["severity"] == "warning"
    recording = yaml.safe_load(SOURCE.with_name("mgpu-recording.yaml").read_text())["groups"]
    labelled = groups(alertLabels={"team": "gpu"})
    assert [group for group in labelled if "alert" not in group["rules"][0]] == recording
    assert groups(alerts=False) == recording  # their groups have gone with them


def test_an_alert_can_be_switched_off_by_either_value() -> None:
    for values in ({"disabled": ["MgpuGpuLost"]}, {"rules": {"MgpuGpuLost": {"enabled": False}}}):
        found = {rule["alert"] for rule in rendered(**values)}
        assert found == set(alerts.names()) - {"MgpuGpuLost"}


def test_the_link_to_runbooks_is_the_sites() -> None:
    found = rendered(runbookUrl="https://wiki.example.com/{alert}.html#{alert}")
    for rule in found:
        name = rule["alert"]
        assert rule["annotations"]["runbook_url"] == f"https://wiki.example.com/{name}.html#{name}"


@pytest.mark.slow
def test_runbooks_that_the_exporter_serves_are_about_the_alerts_node_and_gpu() -> None:
    for address in (
        "http://localhost:10045/runbooks/{alert}",
        "https://gpu.example.com/runbooks/{alert}",
    ):
        for rule in rendered(runbookUrl=address):
            link = rule["annotations"]["runbook_url"]
            installed = "&daemonset=gpus-mgpu-exporter&exporters=observing"
            assert link == address.format(alert=rule["alert"]) + OF_ALERT + installed
    unset = render({"prometheusRule": {"enabled": True}}).one("PrometheusRule")
    assert "http://localhost:10045/runbooks/MgpuGpuLost?node={{ $labels.instance }}" in str(unset)
    assert "github.com" not in str(unset)
    asked = "https://gpu.example.com/runbooks/{alert}?node=x"
    assert all(
        rule["annotations"]["runbook_url"].endswith("?node=x")
        for rule in rendered(runbookUrl=asked)
    )


def test_an_empty_link_leaves_the_rest() -> None:
    assert all("runbook_url" not in rule["annotations"] for rule in rendered(runbookUrl=""))
    assert all(rule["annotations"]["summary"] for rule in rendered(runbookUrl=""))


@pytest.mark.parametrize(
    "rules",
    [
        {"MgpuGpuLots": {"for": "1m"}},
        {"MgpuGpuLost": {"threshold": 1}},
        {"MgpuGpuLost": {"for": "soon"}},
        {"MgpuPodNearMemoryLimit": {"threshold": "0.9) or vector(1"}},
        {"MgpuGpuThrottled": {"reasons": 'x"} or vector(1) #'}},
        {"MgpuEccUncorrected": {"window": ""}},
    ],
    ids=str,
)
def test_what_no_alert_has_or_would_change_its_sense_is_refused(rules: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="prometheusRule"):
        rendered(rules=rules)


MONITOR = {"podMonitor": {"enabled": True}}
RAW = re.compile(r'(?<![\w:"])mgpu_\w+|\{[^{}]*(?=__name__=~"mgpu)')  # what no rule recorded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chart", "jobs"),
    [
        (MONITOR, ".*mgpu-exporter.*"),
        ({"serviceMonitor": {"enabled": True}}, ".*mgpu-exporter.*"),
        ({**MONITOR, "fullnameOverride": "gpus"}, ".*mgpu-exporter.*|observing-gpus"),
        ({"trustedJobs": "kubernetes-pods"}, "kubernetes-pods"),
        ({**MONITOR, "trustedJobs": "gpus|more"}, "gpus|more"),
    ],
)
def test_rules_and_boards_believe_the_jobs_of_the_monitor_or_those_that_are_named(
    chart: Mapping[str, Any], jobs: str
) -> None:
    texts = [rule["expr"] for group in groups(chart) for rule in group["rules"]]
    texts += [rule["annotations"]["description"] for rule in rendered_of(chart)]
    asked = [text[at.start() :] for text in texts for at in RAW.finditer(text)]
    own = re.compile(r"(mgpu_\w+)?\{job=~" + re.escape(f'"{jobs}"') + "[,}]")
    assert len(asked) > 100
    assert [text[:80] for text in asked if not own.match(text)] == []
    assert all(
        f'up{{job=~"{jobs}"' in named(rendered_of(chart), name)[0]["expr"]
        for name in ("MgpuExporterDown", "MgpuExporterMissing")
    )
    boards = render({**chart, "dashboards": {"enabled": True}}).of("ConfigMap")
    for board in (text for one in boards for name, text in one["data"].items() if "json" in name):
        (variable,) = (v for v in json.loads(board)["templating"]["list"] if v["name"] == "job")
        assert variable["allValue"] == jobs
        assert f'{{job=~"{jobs}"}}' in variable["query"]


def rendered_of(chart: Mapping[str, Any]) -> list[Object]:
    return [rule for group in groups(chart) for rule in group["rules"] if "alert" in rule]


FORGED = ("MgpuPodNearMemoryLimit", "MgpuContainerStarved", "MgpuXidHardware", "MgpuExporterBlind")


@pytest.mark.slow
@pytest.mark.program("promtool")
@pytest.mark.parametrize(("chart", "raised_by_it"), [(MONITOR, []), ({}, sorted(FORGED))])
def test_what_another_job_shows_of_our_series_raises_nothing(
    chart: Mapping[str, Any], raised_by_it: list[str], tmp_path: Path
) -> None:
    """A tenant's pod that is scraped by its annotations, and shows what we do."""
    cases = {
        title: Case(
            {
                name.replace('job="mgpu-exporter"', 'job="kubernetes-pods"'): values
                for name, values in CASES[title].firing.items()
            },
            [title],
            [CASES[title].minute],
        )
        for title in FORGED
    }
    rules = [rule for group in groups(chart) for rule in group["rules"]]
    recording = tmp_path / "recording.yaml"
    recorded = [rule for rule in rules if "record" in rule]
    recording.write_text(json.dumps({"groups": [{"name": "all", "rules": recorded}]}))
    file = written([one for one in rules if one.get("alert") in FORGED], tmp_path, recording)
    found = raised([file], cases, tmp_path, "1m")
    assert sorted({alert.title for alert in found}) == raised_by_it
