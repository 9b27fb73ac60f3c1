"""Every runbook is walked by its commands as they stand, about a card of the demo and of hpc."""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest

from exporter.agent.web.runbooks import KNOWN
from exporter.cli import main
from tests.rules.run import Case, Series, raised, simulated, written
from tests.rules.test_alerts import RUNBOOKS
from tests.rules.test_runbooks import OF_ALERTS, blocks, section, words_of

MINUTES = 6
LEVELS = ("mgpu_",)
OF_NOBODY = {  # what a well node has not: nothing is found by these
    *("MgpuContainerCrowdsOutNeighbour", "MgpuContainerStarved", "MgpuGpuMissing"),
    *("MgpuContainerUnmeasured", "MgpuExporterOverrun", "MgpuExporterConfigReloadFailed"),
    *("MgpuExporterMissing", "MgpuBillDayOpen"),  # ask kube-state-metrics
}
OF_SHARES = {"MgpuDeviceOvercommitted", "MgpuNamespaceOverwritten", "MgpuPodNearMemoryLimit"}
OF_PODS = {"MgpuAllocatedGpuIdle", *OF_SHARES}


LASTING = {"demo": 'pod="chat-7b-6c9f7d9c5b-x2lqz",container', "hpc": 'group="4711",gpu'}


def filled(line: str, scene: Mapping[str, str]) -> str:
    """A line of a runbook, with the names of the scene in the places of its variables."""
    line = re.sub(r"\$([A-Z]+)\b", lambda found: scene.get(found[1], found[0]), line)
    # In the alert's instance is its node; written series have no other label of their target.
    return line.replace(f'instance="{scene["INSTANCE"]}"', 'instance=""')


@pytest.fixture(scope="module")
def series() -> dict[str, Series]:
    return {name: simulated(name, MINUTES, 5, LEVELS) for name in ("demo", "hpc")}


def scene_of(scenario: str, series: Series) -> dict[str, str]:
    """A card and who is on it, as an alert has them."""
    who = LASTING[scenario]
    busy = next(name for name in series if "_core_seconds_total" in name and who in name)
    labels = dict(re.findall(r'(\w+)="([^"]*)"', busy))
    found = {name.upper(): labels.get(name, "") for name in KNOWN}
    return {**found, "NODE": "n1", "INSTANCE": "n1", "QUANTITY": "energy"}


@pytest.mark.slow
@pytest.mark.program("promtool")
@pytest.mark.parametrize("scenario", ["demo", "hpc"])
def test_every_runbooks_queries_find_who_is_hit(
    scenario: str, series: dict[str, Series], tmp_path: Path
) -> None:
    scene = scene_of(scenario, series[scenario])
    queries = {
        f"{path.stem} {number}": filled(line, scene)
        for path in OF_ALERTS
        for number, line in enumerate(blocks(path, "promql"))
    }
    rules = [{"alert": title, "expr": f"count({query})"} for title, query in queries.items()]
    given = {name: " ".join(values) for name, values in series[scenario].items()}
    case = Case(given, queries, [MINUTES])

    found = {alert.title for alert in raised([written(rules, tmp_path)], {"": case}, tmp_path)}

    silent = {path.stem for path in OF_ALERTS if f"{path.stem} 0" not in found}
    assert silent <= OF_NOBODY | (OF_PODS if scenario == "hpc" else set())


@pytest.mark.program("promtool")
@pytest.mark.parametrize("minute", [220, 700])
def test_without_exporters_only_those_who_were_there_last_are_hit(
    minute: int, tmp_path: Path
) -> None:
    (query,) = blocks(RUNBOOKS / "MgpuExporterAbsent.md", "promql")
    given = {
        'mgpu_exporter_cycles_total{instance="n1"}': "0+60x200",
        'mgpu_pod_info{namespace="n",pod="last"}': "1x200",
        'mgpu_pod_info{namespace="n",pod="just-ended"}': "1x195 stale",
        'mgpu_pod_info{namespace="n",pod="long-ended"}': "1x180 stale",
        'mgpu_group_info{kind="slurm",group="last"}': "1x200",
        'mgpu_group_info{kind="slurm",group="long-ended"}': "1x9 stale",
    }
    rules = [{"alert": "hit", "expr": query}]

    case = Case(given, ["hit"], [minute])
    found = raised([written(rules, tmp_path)], {"": case}, tmp_path, "1m", "20m")

    hit = {(one.labels.get("pod"), one.labels.get("group")) for one in found}
    assert hit == {("last", None), ("just-ended", None), (None, "last")}


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["demo", "hpc"])
def test_every_command_of_the_exporter_answers(
    scenario: str, series: dict[str, Series], capsys: pytest.CaptureFixture[str]
) -> None:
    scene = scene_of(scenario, series[scenario])
    typed: dict[str, set[str]] = {}
    for path in OF_ALERTS:
        for line in blocks(path, "sh"):
            words = words_of(filled(line, scene))
            of_pod = "kubectl" in words[:1]
            if of_pod and "--" in words:
                words = words[words.index("--") + 1 :]
            if words[0] == "mgpu-exporter" and not (of_pod and scenario == "hpc"):
                typed.setdefault(shlex.join(words[1:]), set()).add(path.stem)
    assert {command.split()[0] for command in typed} >= {"top", "check"}

    for command, pages in typed.items():
        with patch.dict(os.environ, {"MGPU_SIMULATE": scenario}):
            status = main(command.split())
        said = capsys.readouterr()
        assert status == 0, (command, pages, said)
        if command == "top --once":
            assert (scene["POD"] or "llm-server") in said.out, (pages, said.out)


def test_who_is_hit_asks_for_groups_wherever_it_asks_for_containers() -> None:
    for path in OF_ALERTS:
        for query in re.findall(r"```promql\n(.*)\n```", section(path, "Who is hit")):
            if "container_processes" in query or "|unmeasured" in query:
                assert "mgpu_group_processes" in query or "(container|group)" in query, path
    assert len(list(RUNBOOKS.glob("Mgpu*.md"))) == len(OF_ALERTS)
