"""What the recording rules make of series, and the rules in each world of labels."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import yaml

from rules.generate import FOLDER
from tests.rules.cases import CASES, GPU, HOURS, MAIN, NODE, OTHER, POD
from tests.rules.run import Alert, Case, raised_alone, read_by
from tests.worlds import OFTEN, REPORTED, WORLDS, World, slow_worlds

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
        f"namespace_instance:mgpu_{name}": {f"{family}{{{labels}}}": value}
        for name, family, labels, value in (
            ("core_seconds:sum_rate5m", "mgpu_namespace_core_seconds_total", NAMESPACE, 0.2),
            (
                "allocated_core_seconds:sum_rate5m",
                "mgpu_namespace_allocated_core_seconds_total",
                NAMESPACE,
                0.4,
            ),
            ("energy_joules:sum_rate5m", "mgpu_namespace_energy_joules_total", NAMESPACE, 250),
            ("limited_core_seconds:sum_rate5m", "mgpu_pod_limited_core_seconds_total", POD, 0.1),
            (
                "pods_allocated_core_seconds:sum_rate5m",
                "mgpu_pod_allocated_core_seconds_total",
                POD,
                0.4,
            ),
            ("memory_used_bytes:sum", "mgpu_pod_memory_used_bytes", POD, 7),
            ("memory_limit_bytes:sum", "mgpu_pod_memory_limit_bytes", POD, 9),
            ("pods:count", "mgpu_pod_info", POD, 1),
        )
    },
    # of two pods, the one with a limit
    "namespace_instance:mgpu_memory_of_limit_bytes:sum": {
        f"mgpu_pod_memory_used_bytes{{{POD}}}": 7,
        f"mgpu_pod_memory_limit_bytes{{{POD}}}": 9,
        f"mgpu_pod_memory_used_bytes{{{ANOTHER}}}": 5,
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
    "namespace_pod:mgpu_allocated_core_seconds:sum": {
        f"mgpu_pod_allocated_core_seconds_total{{{POD}}}": 0.5
    },
    "namespace_pod:mgpu_allocated_idle_core_seconds:sum": {
        f"mgpu_pod_allocated_idle_core_seconds_total{{{POD}}}": 0.25
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
    "instance:mgpu_pods:shown": {f'mgpu_exporter_source_up{{{NODE},source="pods_api"}}': 0},
    "uuid:mgpu_busy_seconds:rate5m": {f"mgpu_device_busy_seconds_total{{{GPU}}}": 0.8},
    "uuid:mgpu_unattributed_core_seconds:sum_rate5m": {
        f'mgpu_device_unattributed_core_seconds_total{{{GPU},reason="{reason}"}}': rate
        for reason, rate in (("exited", 0.1), ("host_process", 0.1), ("mps", 0.3))
    },
    "reason_instance:mgpu_unattributed_core_seconds:sum_rate5m": {
        f'mgpu_device_unattributed_core_seconds_total{{{GPU},reason="{reason}"}}': rate
        for reason, rate in (("exited", 0.1), ("mps", 0.3), ("no_pid", 0))
    },
    "reason_instance:mgpu_unattributed_energy_joules:sum_rate5m": {
        f'mgpu_device_unattributed_energy_joules_total{{{GPU},reason="{reason}"}}': rate
        for reason, rate in (("idle", 30), ("exited", 5), ("no_pid", 0))
    },
}
VALUES = {
    **{record: next(iter(series.values())) for record, series in EXPECTED.items()},
    "namespace_pod:mgpu_core_limit_utilization:ratio_rate5m": 0.5,
    "namespace:mgpu_core_seconds:sum_rate5m": 0.5,
    "namespace_pod:mgpu_allocated_core_seconds:sum": 0.5 * MINUTE * 60,  # they go on as counters
    "namespace_pod:mgpu_allocated_idle_core_seconds:sum": 0.25 * MINUTE * 60,
    "uuid:mgpu_unattributed_core_seconds:sum_rate5m": 0.2,
    "namespace_workload:mgpu_pods:count": 2,
    "instance:mgpu_pods:shown": 1,
    "reason_instance:mgpu_unattributed_core_seconds:sum_rate5m": 0.4,
    "reason_instance:mgpu_unattributed_energy_joules:sum_rate5m": 35,
}


def recorded(file: Path) -> set[str]:
    """The names that a file's rules record, without those of advice and of cost.

    Advice is made of the first (test_advise), a fleet holds the others to the bill (test_fleet).
    """
    groups = yaml.safe_load(file.read_text())["groups"]
    of_others = {"mgpu-sizing", "mgpu-advice", "mgpu-advice-apart", "mgpu-cost"}
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


COPIES = {
    "one": [NODE],
    "two containers": [NODE, f'{NODE},container="exporter"'],
    "two replicas": [f'{NODE},replica="{name}"' for name in "ab"],
    "two jobs and addresses": SCRAPED_BY,
    "a cluster's name and none": [NODE, f'{NODE},cluster="c"'],
}
PARTS = {"used": 0.5, "allocated_idle": 0.25, "unallocated": 0.25}


def _card(target: str, uuid: str = "GPU-a", end: str = "180") -> dict[str, str]:
    """What a target shows of a card: three quarters are kept for ``n``, which uses a half."""
    card = f'{target},gpu="0",uuid="{uuid}"'
    mine = f'{target},namespace="n",uuid="{uuid}"'
    return {
        f'mgpu_device_info{{{card},parent_uuid="",model="L4"}}': f"1x{end}",
        f"mgpu_device_unallocated_gpu_seconds_total{{{card}}}": f"0+15x{end}",
        f"mgpu_device_overcommitted_gpu_seconds_total{{{card}}}": f"0x{end}",
        f"mgpu_namespace_allocated_gpu_seconds_total{{{mine}}}": f"0+45x{end}",
        f"mgpu_namespace_core_seconds_total{{{mine}}}": f"0+30x{end}",
        f'mgpu_group_kind_core_seconds_total{{{target},kind="docker",uuid="{uuid}"}}': f"0x{end}",
        f"mgpu_exporter_cycles_total{{{target}}}": "0+60x180",
        f"up{{{target}}}": "1x180",
    }


@pytest.mark.program("promtool")
@pytest.mark.parametrize("copies", COPIES)
def test_a_card_costs_once_however_many_targets_show_it(copies: str, tmp_path: Path) -> None:
    series = {k: v for target in COPIES[copies] for k, v in _card(target).items()}
    parts = [  # each at a digit of its own
        f'sum(namespace:mgpu_billed_gpus:rate5m{{part="{part}",method="{method}"}}) * 10 ^ {2 * at}'
        for at, (method, part) in enumerate(product(("allocation", "use"), PARTS))
    ]
    worth = sum(share * 100**at for at, share in enumerate([*PARTS.values()] * 2))
    expect(f"({' + '.join(parts)})", round(worth, 4), series, tmp_path)


@pytest.mark.program("promtool")
def test_nobody_uses_what_a_rate_counts_beyond_a_card(tmp_path: Path) -> None:
    name = f'mgpu_device_unallocated_gpu_seconds_total{{{NODE},gpu="0",uuid="GPU-a"}}'
    used = 'namespace:mgpu_billed_gpus:rate5m{method="allocation",part="used"}'
    expect(f"count({used})", 1, {**_card(NODE), name: "0+15.5x180"}, tmp_path)


@pytest.mark.program("promtool")
def test_a_uuid_that_is_a_place_is_a_card_in_each_node(tmp_path: Path) -> None:
    place = "DRM-0000:50:00.0"
    other = NODE.replace("gpu-node-1", "gpu-node-2")
    series = {**_card(NODE, place), **_card(other, place)}
    series |= _card(NODE.replace("mgpu-exporter", "x"), place)
    expect("sum(card:mgpu_device:model)", 2, series, tmp_path)


@pytest.mark.program("promtool")
@pytest.mark.parametrize(
    ("what", "cards"),
    [
        ({}, 0),
        ({f"up{{{NODE}}}": "1x30 0x150"}, 1),
        ({f"mgpu_exporter_unreadable_devices{{{NODE}}}": "0x30 1x150"}, 1),
        ({f"mgpu_exporter_cycles_total{{{NODE}}}": "0+60x30 1800x150"}, 1),
    ],
    ids=["it answers without the card", "it does not answer", "it cannot read one", "it is stuck"],
)
@pytest.mark.parametrize("other", [True, False], ids=["one of two", "the only one"])
def test_a_card_ends_where_its_exporter_answers_without_it(
    what: dict[str, str], cards: int, tmp_path: Path, *, other: bool
) -> None:
    gone = {name: values if "up{" in name or "cycles" in name else f"{values} stale"
            for name, values in _card(NODE, end="30").items()}  # fmt: skip
    stays = _card(NODE, "GPU-b") if other and f"up{{{NODE}}}" not in what else {}
    expected = cards + bool(stays)
    expression = "count(card:mgpu_device:model) or vector(0)"
    expect(expression, expected, {**gone, **stays, **what}, tmp_path, 90)


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
    rules, file = folder / "rules.yaml", folder / "test.yaml"
    rules.write_text(
        json.dumps({"groups": [{"name": "recorded", "rules": read_by(expression, RECORDING)}]})
    )
    file.write_text(json.dumps({"rule_files": [str(rules)], "tests": [test]}))
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


@pytest.fixture(scope="module")
def raised_in(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Sequence[Alert]]:
    """What is raised in a world: promtool, which takes long to start, has many worlds at once."""

    @cache
    def found(*worlds: str) -> Mapping[str, Sequence[Alert]]:
        cases = {
            f"{world} / {title}": case
            for world in worlds
            for title, case in in_world(WORLDS[world]).items()
        }
        found: dict[str, list[Alert]] = {world: [] for world in worlds}
        for alert in raised_alone(ALERTS, RECORDING, cases, tmp_path_factory.mktemp("worlds")):
            world, _, title = alert.case.partition(" / ")
            found[world].append(alert._replace(case=title))
        return found

    return lambda world: found(*(one for one in WORLDS if (one in OFTEN) == (world in OFTEN)))[
        world
    ]


@pytest.mark.program("promtool")
@pytest.mark.parametrize("title", slow_worlds())
def test_every_alert_is_raised_in_slow_worlds_of_labels(
    title: str, raised_in: Callable[[str], Sequence[Alert]]
) -> None:
    world, alerts = WORLDS[title], raised_in(title)

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

    assert raised_alone(ALERTS, RECORDING, {"": case}, tmp_path) == []
