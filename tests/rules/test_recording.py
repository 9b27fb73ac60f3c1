"""What the recording rules make of series, and the rules in each world of labels."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from rules.generate import FOLDER
from tests.rules.cases import CASES, GPU, HOURS, MAIN, NODE, OTHER, POD
from tests.rules.run import Case, raised, raised_alone
from tests.worlds import REPORTED, WORLDS, World

RECORDING = FOLDER / "mgpu-recording.yaml"
ALERTS = FOLDER / "mgpu-alerts.yaml"
MINUTE = 60
ANOTHER = f'{NODE},namespace="n",pod="q"'
NAMESPACE = f'{NODE},namespace="n",uuid="GPU-a"'

EXPECTED: dict[
    str, dict[str, float]
] = {  # series, and what each rule makes of them: a fifth of a GPU, half of what is allocated
    "namespace_pod_container_uuid:mgpu_core_seconds:rate5m": {
        f"mgpu_container_core_seconds_total{{{MAIN}}}": 0.2
    },
    "namespace_pod_container_uuid:mgpu_allocated_core_seconds:rate5m": {
        f"mgpu_container_allocated_core_seconds_total{{{MAIN}}}": 0.4
    },
    "namespace_pod_container_uuid:mgpu_core_waiting_seconds:rate5m": {
        f"mgpu_container_core_waiting_seconds_total{{{MAIN}}}": 0.6
    },
    "namespace_pod:mgpu_pod:named": {f"mgpu_pod_info{{{POD}}}": 1},
    "namespace_pod:mgpu_core_limit_utilization:ratio_rate5m": {
        f"mgpu_pod_limited_core_seconds_total{{{POD}}}": 0.2,
        f"mgpu_pod_allocated_core_seconds_total{{{POD}}}": 0.4,
    },
    "namespace_pod:mgpu_core_pressure:max_rate5m": {
        f"mgpu_container_core_waiting_seconds_total{{{MAIN}}}": 0.6,
        f"mgpu_device_busy_seconds_total{{{GPU}}}": 1,
        # that it waits more on another card counts for nothing, because that is not full
        f"mgpu_container_core_waiting_seconds_total{{{OTHER}}}": 0.8,
        f"mgpu_device_busy_seconds_total{{{GPU.replace('GPU-a', 'GPU-b')}}}": 0.9,
    },
    "namespace:mgpu_core_seconds:sum_rate5m": {
        f"mgpu_namespace_core_seconds_total{{{NAMESPACE}}}": 0.2,
        f"mgpu_namespace_core_seconds_total{{{NAMESPACE.replace('GPU-a', 'GPU-b')}}}": 0.3,
        # the same page, scraped by a second job
        f"mgpu_namespace_core_seconds_total{{{NAMESPACE.replace('mgpu-exporter', 'x')}}}": 0.2,
    },
    "namespace:mgpu_allocated_core_seconds:sum_rate5m": {
        f"mgpu_namespace_allocated_core_seconds_total{{{labels}}}": 0.4
        for labels in (NAMESPACE, NAMESPACE.replace("mgpu-exporter", "x"))
    },
    "namespace:mgpu_energy_joules:sum_rate5m": {
        f"mgpu_namespace_energy_joules_total{{{NAMESPACE}}}": 250,
    },
    **{
        f"namespace_workload:mgpu_{name}": {
            f"{family}{{{POD}}}": rate,
            f'mgpu_pod_info{{{POD},owner_kind="Job",owner_name="j"}}': 1,
            # its name was borne by another pod, which is still there
            f'mgpu_pod_info{{{POD},owner_kind="Job",owner_name="i"}}': 1,
        }
        for name, family, rate in (
            ("core_seconds:sum_rate5m", "mgpu_pod_core_seconds_total", 0.2),
            ("allocated_core_seconds:sum_rate5m", "mgpu_pod_allocated_core_seconds_total", 0.4),
            ("limited_core_seconds:sum_rate5m", "mgpu_pod_limited_core_seconds_total", 0.1),
            ("memory_used_bytes:sum", "mgpu_pod_memory_used_bytes", 7),
        )
    },
    "namespace_pod:mgpu_pod:owner": {
        f'mgpu_pod_info{{{POD},owner_kind="Job",owner_name="j"}}': 1,
        f'mgpu_pod_info{{{POD},owner_kind="Job",owner_name="i"}}': 1,
    },
    "namespace_workload:mgpu_pods:count": {
        f'mgpu_pod_info{{{POD},owner_kind="Job",owner_name="j"}}': 1,
        f'mgpu_pod_info{{{ANOTHER},owner_kind="Job",owner_name="j"}}': 1,
    },
    "namespace_workload:mgpu_core_waiting_seconds:max_rate5m": {
        f"mgpu_container_core_waiting_seconds_total{{{MAIN}}}": 0.6,
        f'mgpu_pod_info{{{POD},owner_kind="Job",owner_name="j"}}': 1,
    },
    "uuid:mgpu_busy_seconds:rate5m": {f"mgpu_device_busy_seconds_total{{{GPU}}}": 0.8},
    "uuid:mgpu_unattributed_core_seconds:sum_rate5m": {
        f'mgpu_device_unattributed_core_seconds_total{{{GPU},reason="{reason}"}}': rate
        for reason, rate in (("exited", 0.1), ("host_process", 0.1), ("mps", 0.3))
    },
}
VALUES = {
    **{record: next(iter(series.values())) for record, series in EXPECTED.items()},
    "namespace_pod:mgpu_core_limit_utilization:ratio_rate5m": 0.5,
    "namespace:mgpu_core_seconds:sum_rate5m": 0.5,
    "uuid:mgpu_unattributed_core_seconds:sum_rate5m": 0.2,
    "namespace_workload:mgpu_pods:count": 2,
}


def recorded(file: Path) -> set[str]:
    """The names that a file's rules record, without those of advice and of cost.

    Advice is made of the first (test_advise), a fleet holds the others to the bill (test_fleet).
    """
    groups = yaml.safe_load(file.read_text())["groups"]
    of_others = {"mgpu-sizing", "mgpu-advice", "mgpu-cost"}
    others = [group for group in groups if group["name"] not in of_others]
    return {rule["record"] for group in others for rule in group["rules"]}


def test_every_recording_rule_has_its_series_here() -> None:
    assert recorded(RECORDING) == EXPECTED.keys()


@pytest.mark.program("promtool")
@pytest.mark.parametrize("record", EXPECTED)
def test_a_rule_records_what_it_says(record: str, tmp_path: Path) -> None:
    series = {
        name: f"0+{rate * 60}{HOURS}" if "_total{" in name else f"{rate}{HOURS}"
        for name, rate in EXPECTED[record].items()
    }
    expect(f"sum({record})", VALUES[record], series, tmp_path)


SCRAPED_BY = [NODE, NODE.replace("mgpu-exporter", "x"), 'job="x",instance="10.0.0.1:10045"']
OF_TWO_PODS = {
    f'{family}{{{node},namespace="n",pod="{pod}"{more}}}': f"1{HOURS}"
    for node in SCRAPED_BY
    for pod in ("p-1", "p-2")
    for family, more in (
        ("mgpu_pod_info", ',owner_kind="Deployment",owner_name="p"'),
        ("mgpu_container_allocation_info", ',container="c",uuid="GPU-a",scheme="hami"'),
        ("mgpu_container_allocation_info", ',container="c",uuid="GPU-b",scheme="hami"'),
    )
}


@pytest.mark.program("promtool")
@pytest.mark.parametrize(("record", "count"), [("allocations", 4), ("lasting_pods", 2)])
def test_pods_count_once_whatever_job_or_instance_scrapes_them(
    record: str, count: int, tmp_path: Path
) -> None:
    name = f"namespace_workload_container:mgpu_{record}:count"
    expect(name.join(("max(", ")")), count, OF_TWO_PODS, tmp_path)


# promtool evaluates all groups each minute, also one that says another interval
HOURLY = "sum_over_time(namespace:mgpu_billed_gpus:rate5m{method='use',part='used'}[59m]) / 60"


@pytest.mark.program("promtool")
@pytest.mark.parametrize("every", [2, 4])
def test_a_card_is_billed_in_each_minute_of_an_hour_at_each_scrape_interval(
    every: int, tmp_path: Path
) -> None:
    """In half minutes; the rules are evaluated between two scrapes."""

    def scraped(rate: float, begin: int = 0) -> str:
        values = (f"{begin + rate * 30 * at}" if at % every == 1 else "_" for at in range(240))
        return " ".join(values)

    series = {
        f'mgpu_device_info{{{GPU},model="NVIDIA A10"}}': scraped(0, 1),
        f"mgpu_namespace_core_seconds_total{{{NAMESPACE}}}": scraped(0.5),
        f"mgpu_device_unallocated_gpu_seconds_total{{{GPU}}}": scraped(1),
    }
    expect(f"sum({HOURLY})", 0.5, series, tmp_path, 90, "30s")


def expect(
    expression: str,
    value: float,
    series: Mapping[str, str],
    folder: Path,
    minute: int = MINUTE,
    interval: str = "1m",
) -> None:
    """Fails if an expression is not this number after the recording rules have seen the series."""
    test = {
        "interval": interval,
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"round({expression}, 0.0001)",
                "eval_time": f"{minute}m",
                "exp_samples": [{"labels": "{}", "value": value}],
            }
        ],
    }
    file = folder / "test.yaml"
    file.write_text(json.dumps({"rule_files": [str(RECORDING)], "tests": [test]}))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def in_world(world: World) -> dict[str, Case]:
    """The cases that fire, as Prometheus has their series in a world."""
    return {
        title: Case(
            {world.of(name): values for name, values in example.firing.items()},
            [title.partition(" ")[0]],
            [example.minute],
        )
        for title, example in CASES.items()
    }


@pytest.mark.slow
@pytest.mark.program("promtool")
@pytest.mark.parametrize("title", WORLDS)
def test_every_alert_is_raised_in_each_world_of_labels(title: str, tmp_path: Path) -> None:
    world = WORLDS[title]
    alerts = raised_alone(ALERTS, RECORDING, in_world(world), tmp_path)

    kept = {"MgpuNamespaceOverwritten"} if "namespace" in world.exporter else set()
    assert sorted(alert.case for alert in alerts) == sorted(CASES.keys() - kept)
    of_pods = [alert for alert in alerts if "pod" in world.own(alert.labels)]
    assert len(of_pods) == 9
    assert all("n/p" in alert.annotations for alert in of_pods)
    assert not any("mgpu-exporter-x7k2p" in alert.annotations for alert in of_pods)


@pytest.mark.program("promtool")
@pytest.mark.parametrize("title", REPORTED)
def test_a_starved_pod_raises_its_alert_where_some_labels_are_renamed(
    title: str, tmp_path: Path
) -> None:
    cases = {"MgpuContainerStarved": in_world(WORLDS[title])["MgpuContainerStarved"]}
    (alert,) = raised_alone(ALERTS, RECORDING, cases, tmp_path)
    assert {"namespace": "n", "pod": "p"}.items() <= WORLDS[title].own(alert.labels).items()


@pytest.mark.program("promtool")
@pytest.mark.parametrize("title", ["namespace-pod-container", *REPORTED])
def test_pods_are_told_apart_where_labels_are_renamed(title: str, tmp_path: Path) -> None:
    alert, why = "MgpuContainerOverCoreShare", "its policy lets it take what is free"
    example = CASES[alert]
    quiet = {**example.firing, **example.quiet[why]}
    series = {name: values for name, values in quiet.items() if values is not None}
    neighbour = MAIN.replace('"p"', '"q"')
    series[f'mgpu_container_allocation_info{{{neighbour},policy="fixed-share"}}'] = f"1{HOURS}"
    case = Case({WORLDS[title].of(n): v for n, v in series.items()}, [alert], [example.minute])

    assert raised([RECORDING, ALERTS], {"": case}, tmp_path, "1m") == []
