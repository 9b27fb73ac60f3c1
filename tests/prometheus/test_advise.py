"""Eleven workloads of known need for two days, in a real Prometheus: the truth and the advice."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from math import sin
from typing import Any, NamedTuple

import pytest
import yaml

from exporter.cli import main
from tests.store import Store, Target

GIB = 1 << 30
SCRAPE_S, DAYS_S = 120, 2 * 86_400
BEGIN = 1_780_012_800
RANGE = ("--since=2026-05-29T00:00:00Z", "--until=2026-05-31T00:00:00Z")

Curve = Callable[[float], float]  # by the part of the two days


class Load(NamedTuple):
    """A workload: its share and its limit of memory on each card, and what it uses of each."""

    name: str
    share: float | None
    limit_gib: float | None
    cores: tuple[Curve, ...]
    memory_gib: Curve
    kind: str = "Deployment"
    on_full_card: bool = False  # a neighbour takes the rest


def steady(value: float) -> Curve:
    return lambda _: value


def waves(low: float, high: float) -> Curve:
    return lambda at: low + (high - low) * (sin(at * 300) + 1) / 2


LOADS = (
    Load("steady", 0.5, 16, (steady(0.2),), waves(3, 4)),
    Load("bursty", 0.5, 16, (lambda at: 0.4 if at * 24 % 1 < 0.2 else 0.02,), waves(11, 13)),
    Load("growing", 0.28, 16, (lambda at: 0.05 + 0.214 * at,), lambda at: 1 + 13 * at),
    Load("jax", 0.5, 16, (steady(0.4),), steady(12)),
    Load("vllm", 0.5, 16, (steady(0.4),), steady(14.4)),
    Load("limited", 0.25, 16, (steady(0.25),), waves(10, 15.9)),
    Load("nightly", 0.5, 16, (steady(0.4),), waves(3, 4), "CronJob"),
    Load("two-cards", 0.5, 16, (steady(0.1), steady(0.4)), waves(11, 13)),
    Load("sliced", None, None, (steady(0.3),), waves(3, 4)),
    Load("idle", 0.3, 16, (steady(0),), steady(0.5)),
    Load("crowded", 0.5, 16, (steady(0.4),), waves(11, 13), on_full_card=True),
)
TRUTH: dict[tuple[str, str], tuple[str, str | None, float | None]] = {
    ("steady", "core"): ("lower", None, 0.23),
    ("steady", "memory"): ("lower", None, 4.6),
    ("bursty", "core"): ("keep", None, 0.5),
    ("bursty", "memory"): ("keep", None, 16),
    ("growing", "core"): ("raise", None, 0.3),
    ("growing", "memory"): ("raise", None, 16.1),
    ("jax", "core"): ("keep", None, 0.5),
    ("jax", "memory"): ("refused", "preallocated", None),
    ("vllm", "core"): ("keep", None, 0.5),
    ("vllm", "memory"): ("lower", None, 9.66),  # 6.4 of weights, and a quarter of 8 of KV cache
    ("limited", "core"): ("at_least", "at_limit", 0.29),
    ("limited", "memory"): ("at_least", "at_limit", 18.3),
    ("nightly", "core"): ("refused", "short_lived", None),
    ("nightly", "memory"): ("refused", "short_lived", None),
    ("two-cards", "core"): ("keep", None, 0.5),
    ("two-cards", "memory"): ("keep", None, 16),
    ("sliced", "core"): ("refused", "not_promised", None),
    ("sliced", "memory"): ("at_least", "not_promised", 4.6),
    ("idle", "core"): ("lower", None, 0.01),
    ("idle", "memory"): ("lower", None, 0.575),
    ("crowded", "core"): ("at_least", "full_card", 0.5),
    ("crowded", "memory"): ("keep", None, 16),
}


class Node:
    """All workloads, each on cards of its own."""

    def __init__(self) -> None:
        self._counted: dict[str, float] = defaultdict(float)

    def page(self, second: int) -> str:
        """What its exporter and its vLLM show."""
        lines = []
        for load in LOADS:
            number = second // 1800  # of the night's job: 20 minutes in each 30
            if load.kind == "CronJob" and second % 1800 >= 1200:
                continue
            pod = f"{load.name}-{number if load.kind == 'CronJob' else 0}"
            named = f'namespace="team",pod="{pod}"'
            lines.append(
                f'mgpu_pod_info{{{named},owner_kind="{load.kind}",owner_name="{load.name}"}} 1'
            )
            for card, core in enumerate(load.cores):
                lines += self._card(load, core, named, f"GPU-{load.name}-{card}", second)
        vllm = 'namespace="team",pod="vllm-0"'
        lines += [
            f"vllm:kv_cache_usage_perc{{{vllm}}} {0.25 if second % 7200 < 600 else 0.1}",
            f'vllm:cache_config_info{{{vllm},kv_cache_memory_bytes="{8 * GIB}"}} 1',
        ]
        return "\n".join(lines)

    def _card(self, load: Load, core: Curve, named: str, uuid: str, second: int) -> Iterator[str]:
        of_card, own = f'{{uuid="{uuid}"}}', f'{{{named},container="main",gpu="0",uuid="{uuid}"}}'
        at = second / DAYS_S
        used = core(at)
        for name, rate in (
            (f"mgpu_container_core_seconds_total{own}", used),
            (f"mgpu_device_busy_seconds_total{of_card}", 1.0 if load.on_full_card else used),
        ):
            self._counted[name] += rate * SCRAPE_S
            yield f"{name} {self._counted[name]!r}"
        yield f"mgpu_device_memory_total_bytes{of_card} {24 * GIB}"
        yield f"mgpu_device_memory_reserved_bytes{of_card} {GIB}"
        yield f'mgpu_container_allocation_info{own[:-1]},scheme="hami"}} 1'
        yield f"mgpu_container_memory_used_bytes{own} {load.memory_gib(at) * GIB!r}"
        if load.share is not None and load.limit_gib is not None:
            yield f"mgpu_container_core_limit_ratio{own} {load.share}"
            yield f"mgpu_container_memory_limit_bytes{own} {load.limit_gib * GIB!r}"


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    node = Node()
    target = Target({"job": "mgpu", "instance": "n1:10045"})
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        for second in range(0, DAYS_S + 1, SCRAPE_S):
            store.scrape(target, node.page(second), BEGIN + second)
        yield store


def advise(store: Store, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    status = main(["advise", f"--prometheus=http://{store.address}", *RANGE, *flags])
    said = capsys.readouterr()
    assert status == 0, said.err
    return said.out


def test_the_advice_is_the_truth(prometheus: Store, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(advise(prometheus, capsys, "--format=json"))
    assert (document["since"], document["until"]) == tuple(one.split("=")[1] for one in RANGE)
    found: dict[tuple[str, str], Any] = {}
    for one in document["advice"]:
        unit = {"gpus": 1, "bytes": GIB}[one["unit"]]
        amount = None if one["recommended"] is None else one["recommended"] / unit
        found[one["owner"], one["resource"]] = one["verdict"], one["reason"], amount
    assert found.keys() == TRUTH.keys()
    for key, (verdict, reason, amount) in TRUTH.items():
        close = amount if amount is None else pytest.approx(amount, rel=0.005)
        assert found[key] == (verdict, reason, close), key
    [steady_core] = [
        one for one in document["advice"] if (one["owner"], one["resource"]) == ("steady", "core")
    ]
    assert steady_core == {
        "namespace": "team",
        "owner_kind": "Deployment",
        "owner": "steady",
        "container": "main",
        "resource": "core",
        "allocated": 0.5,
        "typical": pytest.approx(0.2),
        "peak": pytest.approx(0.2, rel=0.05),
        "recommended": 0.23,
        "unit": "gpus",
        "resource_name": "nvidia.com/gpucores",
        "resource_quantity": 23,
        "verdict": "lower",
        "reason": None,
        "confidence": 2.0,
        "observed_ratio": 1.0,
    }


def test_yaml_and_the_table_say_the_same(
    prometheus: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(advise(prometheus, capsys, "--format=json", "-n=team"))
    assert yaml.safe_load(advise(prometheus, capsys, "--format=yaml")) == document
    table = advise(prometheus, capsys)
    rows = [line.split() for line in table.splitlines()]
    row = ["team/Deployment/steady", "main", "core", "50%", "20%", "20%", "23%", "lower", "2.0"]
    row += ["nvidia.com/gpucores:", "23"]
    assert row in rows
    assert "short_lived: its pods live for less than an hour" in table


def test_by_pod_each_job_stands_alone(
    prometheus: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(advise(prometheus, capsys, "--format=json", "--by=pod"))
    jobs = [one for one in document["advice"] if one["owner"].startswith("nightly-")]
    assert len(jobs) == 2 * 97
    assert {one["reason"] for one in jobs} <= {"short_lived", "too_early"}


def test_a_namespace_without_gpus_is_said(
    prometheus: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--prometheus=http://{prometheus.address}", *RANGE, "-n=nobody"]
    assert main(["advise", *flags]) == 2
    assert "knows no container of namespace nobody" in capsys.readouterr().err
