"""What autoscalers were told: by prometheus-adapter and by KEDA, on a real Prometheus."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tests.autoscaling.adapter import EXAMPLES, Rule, discovered, rules
from tests.field.report import report
from tests.store import Store, Target

pytestmark = pytest.mark.program("prometheus")

BEGIN, STEP, MINUTES = 1_700_000_000, 15, 30
SHARE, DEVICE = "mgpu_pod_core_limit_utilization", "mgpu_pod_core_device_utilization"
PODS = ("chat-7b-6f9d5c7b8-abcde", "chat-7b-6f9d5c7b8-fghij")
JOB = {"job": "mgpu-exporter", "instance": "n1"}


class Load(NamedTuple):
    """A pod: its use and share of a card, and when it is there, in minutes."""

    name: str
    use: float
    share: float
    since: float = 0
    until: float = MINUTES


def page(loads: Sequence[Load], minute: float) -> str:
    """What an exporter shows of them at a minute."""
    lines = [f'mgpu_device_busy_seconds_total{{gpu="0",uuid="G"}} {minute * 30}']
    for load in loads:
        if not load.since <= minute < load.until:
            continue
        labels, seconds = f'namespace="inference",pod="{load.name}"', (minute - load.since) * 60
        held = f'{labels},container="c",gpu="0",uuid="G"'
        lines += [
            f"mgpu_pod_info{{{labels}}} 1",
            f"mgpu_pod_core_seconds_total{{{labels}}} {load.use * seconds}",
            f"mgpu_pod_limited_core_seconds_total{{{labels}}} {load.use * seconds}",
            f"mgpu_pod_allocated_core_seconds_total{{{labels}}} {load.share * seconds}",
            f"mgpu_container_core_waiting_seconds_total{{{held}}} 0",
            f"mgpu_container_allocation_info{{{held}}} 1",
        ]
    return "\n".join(lines) + "\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path) as store:
        yield store


def scraped(store: Store, loads: Sequence[Load], *targets: Target) -> None:
    """Half an hour of them, as each of the targets."""
    for at in range(0, MINUTES * 60, STEP):
        for target in targets:
            store.scrape(target, page(loads, at / 60), BEGIN + at)


def of_adapter(store: Store, metric: str, minute: float) -> dict[str, float]:
    """What the adapter tells of the pods."""

    def has(series: str) -> object:
        span = {"start": str(BEGIN), "end": str(BEGIN + MINUTES * 60)}
        return store.get("series", **{"match[]": series}, **span)

    rule: Rule = discovered({metric: rules()[metric]}, has)[metric]
    query = rule.of_pods("inference", PODS)
    found = store.values(query, BEGIN + minute * 60, rule.labels["pod"])
    return {pod: value for (pod,), value in found.items()}


def of_keda(store: Store, minute: float) -> list[float]:
    """What KEDA's first trigger of the example is answered; nothing is an error there."""
    scaled = yaml.safe_load((EXAMPLES / "keda-core.yaml").read_text())
    trigger = scaled["spec"]["triggers"][0]["metadata"]
    assert trigger["ignoreNullValues"] == "false"
    found = store.query(trigger["query"], BEGIN + minute * 60)
    return [float(one["value"][1]) for one in found]


@report(
    source="kubernetes-sigs/prometheus-adapter#24",
    seen="Two Services, and so two ServiceMonitors, selected a pod: the autoscaler's value was the "
    "sum of both scrapes.",
    first="right",
    group="configuration",
)
def test_a_pod_that_is_scraped_twice_counts_once(store: Store) -> None:
    loads = [Load(name, 0.25, 0.5) for name in PODS]
    scraped(store, loads, Target(JOB), Target({**JOB, "job": "other", "service": "second"}))
    told = of_adapter(store, SHARE, MINUTES - 1)
    assert told == dict.fromkeys(PODS, pytest.approx(0.5, abs=0.01))
    assert of_keda(store, MINUTES - 1) == [pytest.approx(1.0, abs=0.02)]


@report(
    source="kedacore/keda#7475",
    seen="A query that divided 0 by 0 answered NaN, which became a number far below zero: the "
    "workload lost all replicas.",
    first="right",
    group="configuration",
)
def test_a_share_of_nothing_is_no_number(store: Store) -> None:
    scraped(store, [Load(PODS[0], 0.0, 0.0)], Target(JOB))
    assert of_adapter(store, SHARE, MINUTES - 1) == {}
    assert of_keda(store, MINUTES - 1) == []


@report(
    source="kedacore/keda#3065, kedacore/keda-docs#1812",
    seen="Prometheus lost its targets, each query was empty, KEDA took that for 0 and every "
    "deployment went to its minimum at the busiest hour.",
    first="right",
    group="configuration",
)
def test_lost_targets_are_an_error_and_no_zero(store: Store) -> None:
    scraped(store, [Load(name, 0.45, 0.5, until=20) for name in PODS], Target(JOB))
    assert of_keda(store, 19) == [pytest.approx(1.8, abs=0.05)]
    assert of_keda(store, 25) == []
    assert of_adapter(store, SHARE, 25) == {}


@report(
    source="kubernetes-sigs/prometheus-adapter#644, zalando-incubator/kube-metrics-adapter#597",
    seen="While a pod of two was replaced the metric came and went, and the autoscaler kept the "
    "replicas of a peak.",
    first="right",
    group="configuration",
)
def test_a_pod_that_is_replaced_hides_no_other(store: Store) -> None:
    old, other = PODS
    scraped(store, [Load(old, 0.4, 0.5, until=15), Load(other, 0.2, 0.5)], Target(JOB))
    assert of_adapter(store, SHARE, 14) == {
        old: pytest.approx(0.8, abs=0.02),
        other: pytest.approx(0.4, abs=0.02),
    }
    for minute in (15.5, 16, 20):
        assert of_adapter(store, SHARE, minute) == {other: pytest.approx(0.4, abs=0.02)}


@report(
    source="nonokangwei/Stable-Diffusion-on-GCP#12",
    seen="Two deployments shared a card by time-slicing and scaled on the node's duty cycle: each "
    "was scaled for the other's work.",
    first="right",
    group="configuration",
)
def test_who_shares_a_card_is_told_by_his_own_work(store: Store) -> None:
    busy, idle = PODS
    scraped(store, [Load(busy, 0.9, 0.0), Load(idle, 0.05, 0.0)], Target(JOB))
    assert of_adapter(store, DEVICE, MINUTES - 1) == {
        busy: pytest.approx(0.9, abs=0.02),
        idle: pytest.approx(0.05, abs=0.02),
    }


@report(
    round=3,
    source="kubernetes/kubernetes#123325",
    seen="Each rolling update added replicas: the new pods' values were not known or not their "
    "own yet, while the old ones' were.",
    first="right",
    group="configuration",
)
def test_a_pod_that_has_only_begun_is_told_by_its_own_time(store: Store) -> None:
    """It is as busy as its predecessor; its first minute is not thinned over three."""
    old, new = PODS
    scraped(store, [Load(old, 0.3, 0.5, until=20), Load(new, 0.3, 0.5, since=20)], Target(JOB))
    for minute in (19.75, 20.5, 21, 22, 25):
        told = of_adapter(store, SHARE, minute)
        assert set(told) <= set(PODS)
        assert all(value == pytest.approx(0.6, abs=0.05) for value in told.values()), minute
    assert of_adapter(store, SHARE, 22).keys() == {new}


@report(
    round=3,
    source="zalando-incubator/kube-metrics-adapter#255, kubernetes-sigs/prometheus-adapter#282",
    seen="Autoscalers of one name in two namespaces were told the same external value, the sum or "
    "the other's.",
    first="right",
    group="configuration",
)
def test_an_external_value_is_of_the_namespace_that_asks(store: Store) -> None:
    name = "mgpu_namespace_core_usage"
    for at in range(0, MINUTES * 60, STEP):
        lines = [f'mgpu_device_busy_seconds_total{{gpu="0",uuid="G"}} {at}']
        lines += [
            f'mgpu_namespace_core_seconds_total{{namespace="{namespace}",uuid="G"}} {at * part}'
            for namespace, part in (("alpha", 0.2), ("beta", 0.7))
        ]
        store.scrape(Target(JOB), "\n".join(lines) + "\n", BEGIN + at)
    span = {"start": str(BEGIN), "end": str(BEGIN + MINUTES * 60)}
    rule = discovered(
        {name: rules()[name]}, lambda series: store.get("series", **{"match[]": series}, **span)
    )[name]
    for namespace, part in (("alpha", 0.2), ("beta", 0.7), ("gamma", None)):
        found = store.query(rule.external(namespace), BEGIN + (MINUTES - 1) * 60)
        values = [float(one["value"][1]) for one in found]
        assert values == ([] if part is None else [pytest.approx(part, abs=0.01)])
