"""Workloads of known need for two days, in a real Prometheus: the truth, the advice, the board."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from math import sin
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from exporter.answers.reading.ranges import written
from exporter.cli import main
from rules.generate import FOLDER as RULES
from tests.dashboards.grafana import FOLDER as BOARDS
from tests.dashboards.grafana import LARGEST, fill, load, panels
from tests.store import Store, Target

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]

GIB = 1 << 30
SCRAPE_S, DAYS_S = 150, 2 * 86_400
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
    pods: int = 1  # the first uses least
    on_full_card: bool = False  # a neighbour takes the rest
    life: tuple[float, float] = (0, 1)  # parts of the two days
    dark: float = 0  # part of the time in which its core is not measured
    scheme: str = "hami"


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
    Load("full-vllm", 0.5, 16, (steady(0.4),), steady(14.4)),
    Load("sliced-jax", None, None, (steady(0.3),), steady(19)),
    Load("card", 1, 23, (steady(1),), waves(20, 22.5)),
    Load("service", 0.6, 16, (steady(0.3),), waves(3, 4), pods=3),
    Load("bare", 0.5, 16, (steady(0.2),), waves(3, 4), ""),
    Load("new", 0.5, 16, (steady(0.2),), waves(3, 4), life=(0.6, 1)),
    Load("short", 0.2, 16, (steady(0.2),), steady(12), life=(0.6, 1)),
    Load("ended", 0.5, 16, (steady(0.2),), waves(3, 4), life=(0, 0.8)),
    Load("stepped", 0.5, 16, (steady(0.2),), waves(11, 13), scheme="tke-qgpu"),
    Load("on-step", 0.25, 16, (steady(0.2),), waves(11, 13), scheme="tke-qgpu"),
    Load("mig", 1 / 7, 10, (steady(0.001),), waves(0.5, 1), scheme="nvidia-device-plugin"),
    Load("unknown-step", 0.5, 16, (steady(0.2),), waves(3, 4), scheme="aliyun-ack"),
    Load("smallest", 0.5, 0.25, (steady(0.4),), steady(0.1), scheme="vke-mgpu"),
    Load("dark", 0.5, 16, (steady(0.2),), waves(11, 13), dark=0.2),
)
# Of vLLM's cache: its size, and how full it is by the second of two hours.
CACHES: dict[str, tuple[int | None, Callable[[int], float]]] = {
    "vllm": (8, lambda second: 0.25 if second < 600 else 0.1),
    "full-vllm": (None, lambda _: 0.97),
}
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
    # Nothing is smaller than a MIG instance; of ACK no document says the step of the core.
    ("mig", "core"): ("keep", "no_step", 1 / 7),
    ("mig", "memory"): ("keep", "no_step", 10),
    ("unknown-step", "core"): ("keep", "no_step", 0.5),
    ("unknown-step", "memory"): ("lower", None, 5),
    ("smallest", "core"): ("keep", None, 0.5),
    ("smallest", "memory"): ("keep", None, 0.25),  # 256 MiB are the least that mGPU gives
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
    ("full-vllm", "core"): ("keep", None, 0.5),
    ("full-vllm", "memory"): ("at_least", "at_limit", 16.56),
    ("sliced-jax", "core"): ("refused", "not_promised", None),
    ("sliced-jax", "memory"): ("refused", "preallocated", None),
    ("card", "core"): ("at_least", "at_limit", 1),
    ("card", "memory"): ("at_least", "at_limit", 23),  # what programs can have of it
    ("service", "core"): ("lower", None, 0.35),
    ("service", "memory"): ("lower", None, 4.6),
    ("bare", "core"): ("lower", None, 0.23),
    ("bare", "memory"): ("lower", None, 4.6),
    ("new", "core"): ("refused", "too_early", None),
    ("new", "memory"): ("refused", "too_early", None),
    ("short", "core"): ("raise", "too_early", 0.23),  # it is at its share: no day is needed
    ("short", "memory"): ("refused", "too_early", None),
    ("ended", "core"): ("lower", None, 0.23),
    ("ended", "memory"): ("lower", None, 4.6),
    ("stepped", "core"): ("lower", None, 0.25),  # 0.23, in steps of 5 %
    ("stepped", "memory"): ("keep", None, 16),
    ("on-step", "core"): ("keep", None, 0.25),
    ("on-step", "memory"): ("keep", None, 16),
    ("dark", "core"): ("refused", "unmeasured", None),
    ("dark", "memory"): ("keep", None, 16),
}
PANELS = {"core": "Core to ask for", "memory": "Memory to ask for"}
SUMS = {"core": "Core that could be freed", "memory": "Memory that could be freed"}
KEYS = {"namespace", "owner_kind", "owner_name", "container", "chosen"}  # the last is for a link
HEADS = {
    "To free": "freed",
    "Allocated": "allocated",
    "Typical": "typical",
    "Peak": "peak",
    "Ask for": "recommended",
}


class Node:
    """All workloads, each pod on cards of its own."""

    def __init__(self) -> None:
        self._counted: dict[str, float] = defaultdict(float)

    def page(self, second: int) -> str:
        """What its exporter shows."""
        lines: list[str] = []
        for one in LOADS:
            number = second // 1800 if one.kind == "CronJob" else 0  # 20 minutes in each 30
            begin, end = one.life
            there = second % 1800 < 1200 or one.kind != "CronJob"
            if not there or not begin <= second / DAYS_S <= end:
                continue
            for pod in range(number, number + one.pods):
                named = f'namespace="team",pod="{one.name}-{pod}"'
                owner = f'owner_kind="{one.kind}",owner_name="{one.name if one.kind else ""}"'
                lines.append(f"mgpu_pod_info{{{named},{owner}}} 1")
                part = (pod - number + 1) / one.pods
                for card in range(len(one.cores)):
                    lines += self._card(one, card, named, part, second)
        return "\n".join(lines)

    def _card(self, one: Load, card: int, named: str, part: float, second: int) -> Iterator[str]:
        uuid, at = f"GPU-{named}-{card}".replace('"', ""), second / DAYS_S
        of_card, own = f'{{uuid="{uuid}"}}', f'{{{named},container="main",gpu="0",uuid="{uuid}"}}'
        used = one.cores[card](at) * part
        rates = {f"mgpu_device_busy_seconds_total{of_card}": 1.0 if one.on_full_card else used}
        if at * 10 % 1 >= one.dark:
            rates[f"mgpu_container_core_seconds_total{own}"] = used
        for name, rate in rates.items():
            self._counted[name] += rate * SCRAPE_S
            yield f"{name} {self._counted[name]!r}"
        yield f"mgpu_device_memory_total_bytes{of_card} {24 * GIB}"
        yield f"mgpu_device_memory_reserved_bytes{of_card} {GIB}"
        yield f'mgpu_container_allocation_info{own[:-1]},scheme="{one.scheme}"}} 1'
        yield f"mgpu_container_memory_used_bytes{own} {one.memory_gib(at) * GIB!r}"
        if one.share is not None and one.limit_gib is not None:
            yield f"mgpu_container_core_limit_ratio{own} {one.share}"
            yield f"mgpu_container_memory_limit_bytes{own} {one.limit_gib * GIB!r}"


def caches(second: int) -> str:
    """What the vLLM programs show, by the labels that their own scrape gives them."""
    lines = []
    for name, (size_gib, fullness) in CACHES.items():
        named = f'namespace="team",pod="{name}-0"'
        lines.append(f"vllm:kv_cache_usage_perc{{{named}}} {fullness(second % 7200)}")
        size = "None" if size_gib is None else size_gib * GIB
        lines.append(f'vllm:cache_config_info{{{named},kv_cache_memory_bytes="{size}"}} 1')
    return "\n".join(lines)


def filled(folder: Path, rules: Path | None, *, honors: bool) -> Iterator[Store]:
    """A Prometheus that scraped the workloads, and recorded by these rules, if there are any."""
    node = Node()
    labels = {"job": "mgpu", "instance": "n1", "namespace": "gpu", "pod": "e", "container": "e"}
    exporter, vllm = Target(labels, honors), Target({"job": "vllm", "instance": "v1"})
    with Store(folder) as store:
        for second in range(0, DAYS_S + 1, SCRAPE_S):
            store.scrape(exporter, node.page(second), BEGIN + second)
            store.scrape(vllm, caches(second), BEGIN + second)
        if rules is not None:
            store.record(rules, BEGIN, BEGIN + DAYS_S, "5m")
        yield store


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("prometheus")
    yield from filled(folder, RULES / "mgpu-recording.yaml", honors=True)


@pytest.fixture(scope="module")
def unrecorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    yield from filled(tmp_path_factory.mktemp("unrecorded"), None, honors=False)


def advise(store: Store, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    status = main(["advise", f"--prometheus=http://{store.address}", *(flags or RANGE)])
    said = capsys.readouterr()
    assert status == 0, said.err
    return said.out


def rows(store: Store, capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], Any]:
    """The advice by owner and resource."""
    document = json.loads(advise(store, capsys, *RANGE, "--format=json", "-n=team"))
    assert (document["since"], document["until"]) == tuple(one.split("=")[1] for one in RANGE)
    found = {(one["owner"], one["resource"]): one for one in document["advice"]}
    assert len(found) == len(document["advice"])
    return found


def test_the_advice_is_the_truth(prometheus: Store, capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(prometheus, capsys)
    truth = {(f"{name}-0" if name == "bare" else name, of): TRUTH[name, of] for name, of in TRUTH}
    assert found.keys() == truth.keys()
    cards = {one.name: one.pods * len(one.cores) for one in LOADS}
    for key, (verdict, reason, amount) in truth.items():
        one = found[key]
        unit = {"gpus": 1, "bytes": GIB}[one["unit"]]
        assert (one["verdict"], one["reason"]) == (verdict, reason), key
        close = amount if amount is None else pytest.approx(amount * unit, rel=0.005)
        assert one["recommended"] == close, key
        freed = None
        if verdict == "lower" and key[0] != "ended":  # which holds nothing now
            freed = (one["allocated"] - one["recommended"]) * cards.get(key[0], 1)
        assert one["freed"] == (freed if freed is None else pytest.approx(freed)), key
    assert found["steady", "core"] == {
        "cluster": "",
        "namespace": "team",
        "owner_kind": "Deployment",
        "owner": "steady",
        "container": "main",
        "resource": "core",
        "allocated": 0.5,
        "typical": pytest.approx(0.2),
        "peak": pytest.approx(0.2, rel=0.05),
        "recommended": 0.23,
        "freed": pytest.approx(0.27),
        "unit": "gpus",
        "resource_name": "nvidia.com/gpucores",
        "resource_quantity": 23,
        "is_step_known": True,
        "verdict": "lower",
        "reason": None,
        "confidence": pytest.approx(2, abs=0.02),
        "observed_ratio": pytest.approx(1, abs=0.01),  # a rate needs two scrapes
    }
    assert found["bare-0", "core"]["owner_kind"] == "Pod"


@pytest.mark.parametrize("resource", PANELS)
def test_the_board_shows_the_advice_row_for_row(
    prometheus: Store, resource: str, capsys: pytest.CaptureFixture[str]
) -> None:
    board = {one["title"]: one for one in panels(load(BOARDS / "mgpu-overview.json"))}
    advice = {owner: one for (owner, of), one in rows(prometheus, capsys).items() if of == resource}
    table = board[PANELS[resource]]
    (heads,) = (
        one["options"]["renameByName"]
        for one in table["transformations"]
        if one["id"] == "organize"
    )
    shown: dict[str, dict[str, Any]] = {heads[f"Value #{ref}"]: {} for ref in "ABCDEF"}
    for target in table["targets"]:
        found = asked(prometheus, target["expr"])
        if head := heads.get(f"Value #{target['refId']}"):
            assert {key for one in found for key in one["metric"]} == KEYS  # or rows fall apart
            shown[head] = {one["metric"]["owner_name"]: one["value"][1] for one in found}
        else:
            assert found == []  # it has rows, and so none that says why not
    words = words_of(table, "Advice")
    assert {owner: words[code] for owner, code in shown.pop("Advice").items()} == {
        owner: one["verdict"] + (f" ({one['reason']})" if one["reason"] else "")
        for owner, one in advice.items()
    }
    assert {
        head: {owner: pytest.approx(float(value)) for owner, value in column.items()}
        for head, column in shown.items()
    } == {
        head: {owner: one[name] for owner, one in advice.items() if one[name] is not None}
        for head, name in HEADS.items()
    }
    ((total),) = asked(prometheus, board[SUMS[resource]]["targets"][0]["expr"])
    assert float(total["value"][1]) == pytest.approx(
        sum(one["freed"] for one in advice.values() if one["verdict"] == "lower" and one["freed"])
    )


def test_no_sum_is_zero_where_all_advice_is_refused(prometheus: Store) -> None:
    board = {one["title"]: one for one in panels(load(BOARDS / "mgpu-overview.json"))}
    expr = board[SUMS["core"]]["targets"][0]["expr"]

    def total(owner: str) -> list[float]:
        of_one = expr.replace('"$namespace"', f'"$namespace",owner_name="{owner}"')
        return [float(one["value"][1]) for one in asked(prometheus, of_one)]

    assert total("dark") == []
    assert total("on-step") == [0]


def words_of(table: dict[str, Any], head: str) -> dict[str, str]:
    """What a column shows instead of its values."""
    return {
        value: shown["text"]
        for each in table["fieldConfig"]["overrides"]
        if each["matcher"]["options"] == head
        for one in each["properties"]
        if one["id"] == "mappings"
        for mapping in one["value"]
        if mapping["type"] == "value"
        for value, shown in mapping["options"].items()
    }


def asked(store: Store, expression: str) -> list[dict[str, Any]]:
    """What a panel's query finds for the range, with everything chosen."""
    every = {"cluster": ".*", "namespace": ".*", **LARGEST}
    every |= {f"{label}_label": label for label in ("namespace", "container")}
    return store.query(fill(expression, {**every, "__range": f"{DAYS_S}s"}), BEGIN + DAYS_S)


def test_renamed_labels_change_nothing_not_even_what_is_known_of_vllm(
    prometheus: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its series keep the plain names of labels, because its page has none of them."""
    rules = RULES / "mgpu-recording.yaml"
    (found,) = (rows(store, capsys) for store in filled(tmp_path, rules, honors=False))
    assert found == rows(prometheus, capsys)


def test_without_recording_rules_the_advice_is_the_same_but_for_what_vllm_says_of_itself(
    prometheus: Store, unrecorded: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    found, recorded = rows(unrecorded, capsys), rows(prometheus, capsys)
    assert found.keys() == recorded.keys()
    of_vllm = {(name, "memory") for name in CACHES}
    for key in recorded.keys() - of_vllm:
        one, other = found[key], recorded[key]
        assert (one["verdict"], one["reason"]) == (other["verdict"], other["reason"]), key
        for amount in ("allocated", "recommended", "freed", "confidence"):
            expected = other[amount]
            close = expected if expected is None else pytest.approx(expected, rel=0.03)
            assert one[amount] == close, (key, amount)
    assert {found[key]["reason"] for key in of_vllm} == {"preallocated"}


def test_the_first_minutes_are_enough_where_use_is_at_the_share_and_say_since_when(
    unrecorded: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    early = ("--since=2026-05-28T00:00:00Z", "--until=2026-05-29T00:20:00Z")
    found = json.loads(advise(unrecorded, capsys, *early, "--format=json"))
    by_key = {(one["owner"], one["resource"]): one for one in found["advice"]}
    assert found["first_data"].startswith("2026-05-29T00:0")
    limited = by_key["limited", "core"]
    assert (limited["verdict"], limited["reason"]) == ("raise", "too_early")
    assert limited["recommended"] == pytest.approx(0.29)
    assert limited["confidence"] < 0.05
    assert by_key["steady", "core"]["reason"] == "too_early"
    assert by_key["steady", "core"]["recommended"] is None
    said = main(["advise", f"--prometheus=http://{unrecorded.address}", *early])
    out, err = capsys.readouterr()
    assert said == 0
    assert "of which nothing is known before 2026-05-29T00:0" in out
    assert "mgpu-recording.yaml" in err


def test_yaml_and_the_table_say_the_same(
    prometheus: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(advise(prometheus, capsys, *RANGE, "--format=json", "-n=team"))
    assert yaml.safe_load(advise(prometheus, capsys, *RANGE, "--format=yaml")) == document
    table = advise(prometheus, capsys)
    lines = [line.split() for line in table.splitlines()]
    row = ["team/Deployment/steady", "main", "core", "50%", "20%", "20%", "23%", "lower", "2.0"]
    row += ["nvidia.com/gpucores:", "23"]
    assert row in lines
    assert "short_lived: its pods, or the group, live for less than an hour" in table
    freed = {
        resource: sum(
            one["freed"] or 0 for one in document["advice"] if one["resource"] == resource
        )
        for resource in PANELS
    }
    assert f"give back {freed['core']:.2f} GPUs and {freed['memory'] / GIB:.1f} GiB." in table


def test_a_namespace_without_gpus_is_said(
    prometheus: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [f"--prometheus=http://{prometheus.address}", *RANGE, "-n=nobody"]
    assert main(["advise", *flags]) == 2
    assert "knows no container of namespace nobody" in capsys.readouterr().err


def test_bursts_between_scrapes_that_are_far_apart_are_seen_without_rules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bursts, counted = range(0, 600, 120), defaultdict[int, float](float)
    with Store(tmp_path) as store:
        for second in range(0, 25 * 3600, 120):
            lines = []
            for burst in bursts:  # each works in another two minutes of ten
                counted[burst] += 60.0 if second % 600 == burst else 0.0
                pod = f'namespace="team",pod="b{burst}-0"'
                own = f'{{{pod},container="main",gpu="0",uuid="GPU-{burst}"}}'
                lines += [
                    f'mgpu_pod_info{{{pod},owner_kind="Job",owner_name="b{burst}"}} 1',
                    f'mgpu_container_allocation_info{own[:-1]},scheme="hami"}} 1',
                    f"mgpu_container_core_limit_ratio{own} 0.5",
                    f"mgpu_container_core_seconds_total{own} {counted[burst]}",
                ]
            store.scrape(Target({"job": "mgpu", "instance": "n"}), "\n".join(lines), BEGIN + second)
        flags = (f"--since={written(BEGIN)}", f"--until={written(BEGIN + 25 * 3600)}")
        found = json.loads(advise(store, capsys, *flags, "--format=json"))
    typical = {one["owner"]: one["typical"] for one in found["advice"] if one["resource"] == "core"}
    assert len(typical) == len(bursts)
    assert min(typical.values()) > 0.15, typical


def test_a_group_is_advised_on_the_memory_that_the_kernel_holds_it_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = {"docker": ("a" * 64, 16), "slurm": ("4711", 5), "user": ("dave", None)}
    with Store(tmp_path) as store:
        for second in range(0, DAYS_S + 1, 600):
            if second > DAYS_S / 2:  # the container was made anew, by the same name
                limits["docker"] = ("b" * 64, 16)
            lines = [
                'mgpu_device_memory_total_bytes{uuid="GPU-0"} 8e10',
                f'mgpu_group_info{{kind="docker",group="{limits["docker"][0]}",name="llm"}} 1',
            ]
            for kind, (group, limit_gib) in limits.items():
                own = f'{{kind="{kind}",group="{group}",gpu="0",uuid="GPU-0"}}'
                used = waves(3, 4)(second / DAYS_S) * GIB
                lines.append(f"mgpu_group_memory_used_bytes{own} {used!r}")
                if limit_gib is not None:
                    lines.append(f"mgpu_group_memory_limit_bytes{own} {limit_gib * GIB}")
            for at in range(second, second + 600, 150):
                store.scrape(Target({"job": "mgpu", "instance": "n"}), "\n".join(lines), BEGIN + at)
        found = json.loads(advise(store, capsys, *RANGE, "--format=json"))["advice"]
        table = advise(store, capsys)

    said = {(one["owner_kind"], one["owner"], one["resource"]): one for one in found}
    assert said.keys() == {("docker", "llm", "memory"), ("slurm", "4711", "memory")}
    assert {key[0]: one["verdict"] for key, one in said.items()} == {
        "docker": "lower",
        "slurm": "keep",
    }
    assert said["docker", "llm", "memory"]["recommended"] == pytest.approx(4.6 * GIB, rel=0.005)
    assert "docker/llm" in table
