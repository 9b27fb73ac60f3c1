"""What the shipped alerts say over series that others' stores and clocks have made."""

import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

from tests.field.report import report
from tests.rules.run import Alert, Case, raised_alone
from tests.rules.test_alerts import FILES

pytestmark = pytest.mark.program("promtool")
NODE = 'job="mgpu-exporter",instance="gpu-node-1"'
GPU = f'{NODE},gpu="0",uuid="GPU-a"'
MINUTES = 60


def raised(
    tmp_path: Path, alert: str, series: Mapping[str, str], minutes: int = MINUTES, every: int = 5
) -> list[Alert]:
    """What is raised in an hour of these series, which have a value each minute."""
    case = Case(series, [alert], range(0, minutes, every))
    return raised_alone(FILES[1], FILES[0], {alert: case}, tmp_path)


def exporter(ahead_s: int = 0, cycles: str = "0+60x60") -> dict[str, str]:
    """What an exporter says of itself each minute, by a clock that is ahead."""
    return {
        f"mgpu_exporter_snapshot_timestamp_seconds{{{NODE}}}": f"{ahead_s}+60x60",
        f"mgpu_exporter_cycles_total{{{NODE}}}": cycles,
        f"up{{{NODE}}}": "1x60",
    }


@report(
    source="prometheus#12183",
    seen="The clocks of two machines differ by hours.",
    first="wrong",
    kind="The node's clock is believed against the store's",
    group="series",
)
def test_a_node_whose_clock_is_behind_measures_all_the_same(tmp_path: Path) -> None:
    assert raised(tmp_path, "MgpuExporterStuck", exporter(ahead_s=-600)) == []


@report(
    source="prometheus#3059",
    seen="A clock that is ahead makes what is old look new, and nobody is told.",
    first="wrong",
    kind="The node's clock is believed against the store's",
    group="series",
)
def test_an_exporter_that_hangs_is_told_also_where_its_clock_is_ahead(tmp_path: Path) -> None:
    hangs = exporter(cycles="0+60x20 1200x40")
    hangs |= {key: "7200+60x20 8400x40" for key in hangs if "snapshot" in key}
    found = raised(tmp_path, "MgpuExporterStuck", hangs)
    assert [one.minute for one in found] == list(range(30, 60, 5))


@report(
    source="mimir#6939",
    seen="Samples are refused since a clock was shifted: each host's own time is to be compared "
    "with that of its scrape.",
    first="wrong",
    kind="The node's clock is believed against the store's",
    group="series",
)
def test_an_xid_is_told_when_it_comes_whatever_the_nodes_clock_says(tmp_path: Path) -> None:
    """It came in minute 20; the node's clock is an hour behind."""
    xid = f'mgpu_device_xid_last_timestamp_seconds{{{GPU},xid="79"}}'
    series = exporter(ahead_s=-3600) | {xid: "_x20 -2400x39"}
    found = raised(tmp_path, "MgpuXidHardware", series)
    assert [one.minute for one in found] == [20, 25, 30]


@report(
    source="VictoriaMetrics#2976",
    seen="A series that is scraped seldom is taken for absent, and a false alert is raised.",
    first="wrong",
    kind="A time between scrapes that is fixed",
    group="series",
)
def test_an_exporter_that_is_scraped_each_five_minutes_is_not_stuck(tmp_path: Path) -> None:
    times = range(0, MINUTES * 60, 300)
    series = {
        f"mgpu_exporter_snapshot_timestamp_seconds{{{NODE}}}": " _x4 ".join(map(str, times)),
        f"mgpu_exporter_cycles_total{{{NODE}}}": " _x4 ".join(map(str, times)),
    }
    assert raised(tmp_path, "MgpuExporterStuck", series, every=1) == []


@report(
    source="kube-state-metrics#401",
    seen="With two replicas each series of a node is there twice, and joins are refused.",
    first="right",
    group="series",
)
def test_two_replicas_of_kube_state_metrics_miss_one_exporter_once(tmp_path: Path) -> None:
    series = {
        f"mgpu_exporter_build_info{{{NODE}}}": "1x60",
        f"up{{{NODE}}}": "1x60",
    }
    for address, node in product(("10.0.0.7:8080", "10.0.0.8:8080"), ("gpu-node-1", "gpu-node-2")):
        at = f'job="kube-state-metrics",instance="{address}",node="{node}"'
        series |= {
            f'kube_node_status_capacity{{{at},resource="nvidia_com_gpu"}}': "8x60",
            f'kube_node_status_condition{{{at},condition="Ready",status="true"}}': "1x60",
            f"kube_node_info{{{at}}}": "1x60",
        }
    found = raised(tmp_path, "MgpuExporterMissing", series, minutes=26)
    assert [(one.minute, one.labels["node"]) for one in found] == [
        (15, "gpu-node-2"),
        (20, "gpu-node-2"),
        (25, "gpu-node-2"),
    ]


@report(
    source="prometheus#4082",
    seen="Federated series have no stale markers: when a label changes, both are there for five "
    "minutes, and joins are refused.",
    first="right",
    group="series",
)
def test_labels_that_change_without_a_stale_marker_let_no_alert_fail(tmp_path: Path) -> None:
    """A container's allocation is of another policy from minute 20 on."""
    of = f'{GPU},namespace="n",pod="p",container="c"'
    series = {
        f"mgpu_container_core_seconds_total{{{of}}}": "0+54x60",
        f"mgpu_container_allocated_core_seconds_total{{{of}}}": "0+30x60",
        f'mgpu_container_allocation_info{{{of},scheme="hami",policy="default"}}': "1x20 _x40",
        f'mgpu_container_allocation_info{{{of},scheme="hami",policy="fixed-share"}}': "_x20 1x40",
    }
    found = raised(tmp_path, "MgpuContainerOverCoreShare", series)
    assert [one.minute for one in found] == [50, 55]


@report(
    source="cortex#1723",
    seen="Rules are evaluated now, and what remote write brings is late: some of the series more "
    "than others.",
    first="right",
    group="series",
)
def test_books_balance_where_a_part_of_the_series_is_late(tmp_path: Path) -> None:
    """What containers used is two minutes late, by steady use and by a start in minute 20."""
    device = f"mgpu_device_busy_seconds_total{{{GPU}}}"
    namespace = f'mgpu_namespace_core_seconds_total{{{NODE},namespace="n",uuid="GPU-a"}}'
    container = f'mgpu_container_core_seconds_total{{{GPU},namespace="n",pod="p",container="c"}}'
    late = "0+6x21 126+54x37"
    series = {
        f"up{{{NODE}}}": "1x60",
        device: "0+6x19 114+54x39",
        namespace: f"_x2 {late}",
        container: f"_x2 {late}",
    }
    assert raised(tmp_path, "MgpuBooksOutOfBalance", series) == []


@report(
    source="prometheus#10484",
    seen="A page with more samples than its job may have is refused whole, and its target is down.",
    first="wrong",
    kind="A remedy for one cause applied to others",
    group="series",
)
def test_the_runbook_of_a_target_that_is_down_names_the_limits_of_its_job() -> None:
    text = Path("docs/runbooks/MgpuExporterDown.md").read_text()
    assert "sample_limit" in text
    assert "label_value_length_limit" in text


@report(
    source="prometheus-engine#1601",
    seen="Managed Prometheus refuses a pattern of metric names, so rules with one never alert.",
    first="wrong",
    kind="What every store was thought to answer",
    group="series",
)
def test_no_rule_has_a_pattern_of_metric_names() -> None:
    for file in FILES:
        assert not re.search(r"__name__\s*=~", file.read_text())
