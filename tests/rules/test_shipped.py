"""The alerts over the shipped scenarios, as a Prometheus would see them without any patience."""

from pathlib import Path

import pytest

from tests.rules.run import LEVELS, Alert, Case, raised, simulated, written
from tests.rules.test_alerts import alerts

MINUTES = 6
UNALLOCATED, OUTSIDE = "MgpuGpuUsedWithoutAllocation", "MgpuGpuUsedOutsidePods"

pytestmark = [pytest.mark.program("promtool"), pytest.mark.slow]


def pending(name: str, scenario: str, folder: Path) -> list[Alert]:
    """What an alert is pending for at any scrape of a scenario."""
    rules = [{**rule, "for": "0s"} for rule in alerts() if rule["alert"] == name]
    series = simulated(scenario, MINUTES, levels=(*LEVELS, "mgpu_exporter_source_up"))
    told = {key: " ".join(values) for key, values in series.items()}
    case = Case(told, [name], range(MINUTES + 1))
    return raised([written(rules, folder)], {"demo": case}, folder)


def test_pods_that_have_just_ended_do_not_use_gpus_without_an_allocation(tmp_path: Path) -> None:
    """Processes are listed every 5 s only: they are shown for so long after their pod has ended."""
    found = {alert.labels["pod"] for alert in pending(UNALLOCATED, "demo", tmp_path)}

    assert "debug-shell" in found
    assert not {pod for pod in found if pod.startswith(("embed", "thumbnail"))}


def test_jobs_of_a_scenario_without_pods_are_not_outside_of_pods(tmp_path: Path) -> None:
    assert pending(OUTSIDE, "hpc", tmp_path) == []
