"""An hour of three simulated nodes, whose descriptions are the truth: the bill and the board.

One real Prometheus scrapes them twice: each 15 s, and each 60 s as another cluster. The exporter of
``lively`` is away for 20 s and begins anew; ``dying`` goes for good.
"""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
import yaml

from exporter.agent.collector.cycle import Collector
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.answers.bill.parts import METHODS, Part
from exporter.cli import main
from exporter.metrics.text import Format, Renderer
from rules.generate import FOLDER as RULES
from tests.agent.simulation.clock import ManualClock
from tests.dashboards.grafana import FOLDER as BOARDS
from tests.dashboards.grafana import fill, queries, resolve
from tests.dashboards.grafana import load as board
from tests.store import Store, Target

POD = """
  - name: {name}
    namespace: {name}
    annotations: {{vke.volcengine.com/gpu-index-container-main: "{card}"}}
    {life}
    containers:
      - name: main
        limits: {{vke.volcengine.com/mgpu-core: "{core}", vke.volcengine.com/mgpu-memory: "1024"}}
        processes:
          - {{device: {card}, duty: {duty}, phase: {phase}, period: {period}, memory: 512MiB}}
"""

HINT = 0.0002  # the driver cuts off to whole percents: 0.1999 would be 0.19


def pod(
    name: str,
    card: int,
    core: int,
    duty: float,
    phase: str = "0s",
    life: str = "",
    period: str = "2s",
) -> str:
    """A pod in a namespace of its own: its share in percent, and how much it uses.

    Those of a card run one after another, so that the driver's samples name them rightly. Use is
    held against the share in windows of a second: who is to use more than its share works in each.
    """
    return POD.format(
        name=name, card=card, core=core, duty=duty + HINT, phase=phase, life=life, period=period
    )


EACH_38_S = "every: 38s\n    for: 10s"
NODES = {
    "quiet": """
node:
  name: quiet
  labels: {nvidia.com/gpu.replicas: "4", nvidia.com/gpu.sharing-strategy: time-slicing}
devices:
  - {model: NVIDIA H100 80GB HBM3, memory: 80GiB}
  - {parent: 0, profile: 3g.40gb, memory: 40GiB, uuid: MIG-a}
  - {parent: 0, profile: 1g.10gb, memory: 10GiB, uuid: MIG-b}
  - {parent: 0, profile: 1g.10gb, memory: 10GiB}
  - {model: NVIDIA A10, memory: 24GiB, sharing: time-slicing,
     uuid: GPU-2673131d-0ceb-47ba-9be3-62d3140ca543}
pods:
  - name: a
    namespace: mig
    containers:
      - name: main
        limits: {nvidia.com/mig-3g.40gb: "1"}
        granted: {nvidia.com/mig-3g.40gb: [MIG-a]}
        processes: [{device: 1, duty: 0.5, memory: 8GiB}]
  - name: b
    namespace: mig
    containers:
      - name: main
        limits: {nvidia.com/mig-1g.10gb: "1"}
        granted: {nvidia.com/mig-1g.10gb: [MIG-b]}
        processes: [{device: 2, duty: 0.5, memory: 4GiB}]
  - name: c
    namespace: slice
    containers:
      - name: main
        limits: {nvidia.com/gpu: "1"}
        granted: {nvidia.com/gpu: ["GPU-2673131d-0ceb-47ba-9be3-62d3140ca543::0"]}
        processes: [{device: 4, duty: 0.2, period: 1s, memory: 4GiB}]
""",
    "lively": f"""
node: {{name: lively}}
devices:
  - {{model: NVIDIA L40S, memory: 48GiB}}
  - {{model: NVIDIA L4, memory: 24GiB}}
pods:
{pod("borrow", 0, 30, 0.5, period="1s")}
{pod("jobs", 0, 40, 0.2, "0.35s", EACH_38_S, "1s")}
{pod("over", 1, 60, 0.55, period="1s")}
{pod("commit", 1, 60, 0)}
""",
    "dying": f"""
node: {{name: dying}}
devices:
  - {{model: NVIDIA A30, memory: 24GiB}}
  - {{model: NVIDIA T4, memory: 16GiB}}
pods:
{pod("greedy", 0, 30, 0.7, period="1s")}
{pod("lender", 0, 70, 0.1, "0.2s", period="1s")}
{pod("keeper", 1, 80, 0.1)}
processes:
  - cgroup: /system.slice/slurmstepd.scope/job_7/step_0/user/task_0
    device: 1
    duty: 0.3002
    period: 2s
    phase: 0.7s
    memory: 4GiB
""",
}
BEGIN = 1_700_007_200  # no midnight is in the range: a bill is the sum of its days
BEFORE_S, LENGTH_S, CYCLE_S, EVALUATED_S = 300, 3600, 2, 120
SINCE, UNTIL = BEGIN + BEFORE_S, BEGIN + BEFORE_S + LENGTH_S
INTERVALS = (15, 60)
SCRAPED_AT, RECORDED_AT = 7, 10  # seconds after a whole interval
AWAY = {"lively": range(1550, 1570), "dying": range(2740, BEFORE_S + LENGTH_S + 1)}
CARDS = {"quiet": ("H100", "A10"), "lively": ("L40S", "L4"), "dying": ("A30", "T4")}

TRUTH = {  # of a second that was observed: by allocation, and by use
    # kept in the MIG board: the larger of 3/7 and 4/8, and 1/7
    ("H100", "mig", "used"): (0.5 * 4 / 7, 0.5 * 4 / 7),
    ("H100", "mig", "allocated_idle"): (0.5 + 1 / 7 - 0.5 * 4 / 7,) * 2,
    ("H100", "", "unallocated"): (1 - 0.5 - 1 / 7,) * 2,
    ("A10", "slice", "used"): (0.2,) * 2,
    ("A10", "slice", "allocated_idle"): (0.05,) * 2,
    ("A10", "", "unallocated"): (0.75, 0.75),
    ("L40S", "borrow", "used"): (0.3, 0.5),
    ("L40S", "jobs", "used"): (0.2 * 10 / 38, 0.2 * 10 / 38),
    # a job is bound 2 s before it runs
    ("L40S", "jobs", "allocated_idle"): (0.4 * 12 / 38 - 0.2 * 10 / 38,) * 2,
    ("L40S", "", "unallocated"): (1 - 0.3 - 0.4 * 12 / 38, 1 - 0.5 - 0.4 * 12 / 38),
    # 1.2 cards are allocated: each share is scaled to a half
    ("L4", "over", "used"): (0.5, 0.55),
    ("L4", "commit", "allocated_idle"): (0.5, 0.45),
    ("A30", "greedy", "used"): (0.3, 0.7),
    ("A30", "lender", "used"): (0.1, 0.1),
    ("A30", "lender", "allocated_idle"): (0.6, 0.2),  # by use the rest is what greedy used
    ("T4", "keeper", "used"): (0.1, 0.1),
    ("T4", "keeper", "allocated_idle"): (0.7, 0.6),
    ("T4", "slurm", "used"): (0.2, 0.3),  # it has no share: nobody had 0.2
}
PRICES = {"NVIDIA L4": "0.8"}
PRICE = "0.333333"
PRICE_RULES = [
    {"record": "model:mgpu_gpu_hour:price", "labels": {"model": model}, "expr": f"vector({price})"}
    for model, price in PRICES.items()
]

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]
Run = Callable[..., str]


class SimulatedExporter:
    """The exporter of a node: in some seconds there is none, and the next begins anew."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._clock = ManualClock(BEGIN * 10**9, (BEGIN - 1) * 10**9)
        scenario = folder / f"{name}.yaml"
        scenario.write_text(f"sample_period: 100ms{NODES[name]}")
        self._flags = {
            "simulate": [str(scenario)],
            "simulate.start": [str(BEGIN)],
            "collection.interval": [f"{CYCLE_S}s"],
            "collection.sensors-interval": ["1m"],
        }
        self._collector: Collector | None = None

    def second(self, second: int) -> None:
        """Let a second pass."""
        if second in AWAY.get(self._name, ()):
            self._collector = None
        elif second % CYCLE_S == 0:
            if self._collector is None:
                settings = load(self._flags, {})
                sources = open_sources(settings, self._clock)
                self._collector = make_collector(settings, sources, self._clock)
            self._collector.cycle()
        self._clock.move(1)

    def page(self) -> str | None:
        """Its page now; None without an exporter."""
        if self._collector is None:
            return None
        return Renderer().render(self._collector.snapshot, Format.TEXT).decode()


def scrapes(folder: Path) -> Iterator[tuple[Target, str | None, int]]:
    """Each scrape of each node. The UUIDs of the clusters differ, as those of real cards do."""
    exporters = {name: SimulatedExporter(name, folder) for name in NODES}
    for second in range(BEFORE_S + LENGTH_S + 1):
        due = [interval for interval in INTERVALS if second % interval == SCRAPED_AT]
        for name, exporter in exporters.items():
            exporter.second(second)
            page = exporter.page() if due else None
            for interval in due:
                node = {"node": f"{name}-{interval}", "instance": f"{name}-{interval}:10045"}
                target = Target({"job": "mgpu-exporter", "cluster": str(interval), **node})
                own = page and re.sub(r'(uuid="[^"]+)', rf"\1-{interval}", page)
                yield target, own, BEGIN + second


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A Prometheus that scraped the nodes and evaluated the rules at their interval."""
    folder = tmp_path_factory.mktemp("fleet")
    groups = yaml.safe_load((RULES / "mgpu-recording.yaml").read_text())["groups"]
    rules = [rule for group in groups if group["name"] == "mgpu-cost" for rule in group["rules"]]
    record_s = BEGIN + RECORDED_AT
    with Store(folder) as store:
        for target, page, at_s in scrapes(folder):
            while record_s < at_s:
                store.evaluate([*rules, *PRICE_RULES], record_s)
                record_s += EVALUATED_S
            store.scrape(target, page, at_s)
        yield store


@pytest.fixture
def bill(store: Store, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs the command over the hour; returns what it prints."""
    prices = tmp_path / "prices.yaml"
    prices.write_text(json.dumps({"default": PRICE, "models": PRICES}))
    since, until = (datetime.fromtimestamp(at, UTC).isoformat() for at in (SINCE, UNTIL))

    def run(method: str, form: str = "json", *more: str) -> str:
        flags = [f"--since={since}", f"--until={until}", f"--method={method}", f"--format={form}"]
        flags += more
        where = f"--prometheus=http://{store.address}"
        assert main(["bill", where, f"--prices={prices}", *flags]) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("interval", INTERVALS)
@pytest.mark.parametrize("method", METHODS)
def test_each_part_is_what_the_description_says(bill: Run, method: str, interval: int) -> None:
    found: dict[str, dict[tuple[str, str], float]] = defaultdict(lambda: defaultdict(float))
    for row in json.loads(bill(method))["rows"]:
        if row["node"].endswith(f"-{interval}"):
            payer = row["namespace"] or row["owner"]
            found[row["model"].split()[1]][payer, row["part"]] += row["gpu_seconds"]

    for node, models in CARDS.items():
        away_s = len(AWAY.get(node, ()))
        for model in models:
            # What was counted after the last scrape before an exporter went is not known, and what
            # was counted after the last scrape before the range is in it.
            unobserved_s = found[model].pop(("", Part.UNOBSERVED), 0.0)
            assert abs(unobserved_s - away_s) <= (interval + CYCLE_S if away_s else 0)
            expected = {
                (payer, part): rates[METHODS.index(method)] * (LENGTH_S - unobserved_s)
                for (of, payer, part), rates in TRUTH.items()
                if of == model
            }
            # Of a job of 10 s the driver cuts off more: a row may begin or end within its work.
            jobs = {key: found[model].pop(key) for key in expected if key[0] == "jobs"}
            assert jobs == pytest.approx({key: expected.pop(key) for key in jobs}, rel=0.03)
            assert found[model] == pytest.approx(expected, rel=0.01, abs=0.1)
            assert sum([*found[model].values(), *jobs.values()]) + unobserved_s == pytest.approx(
                LENGTH_S, abs=1e-6
            )


@pytest.mark.parametrize("method", METHODS)
def test_every_format_adds_up_to_the_price_to_the_last_unit(bill: Run, method: str) -> None:
    hours = LENGTH_S // 3600
    of_models = [Decimal(PRICES.get(f"NVIDIA {m}", PRICE)) for each in CARDS.values() for m in each]
    price = sum(hours * hourly for hourly in of_models) * len(INTERVALS)
    document = json.loads(bill(method))
    of_csv, of_focus = (csv.DictReader(io.StringIO(bill(method, f))) for f in ("csv", "focus"))
    *_, last = (line for line in bill(method, "table").splitlines() if line.startswith("all "))

    assert sum(Decimal(row["cost"]) for row in document["rows"]) == price
    assert Decimal(document["totals"]["cost"]) == price
    assert sum(Decimal(row["cost"]) for row in of_csv) == price
    assert sum(Decimal(row["BilledCost"]) for row in of_focus) == price
    assert last.split()[-2:] == [f"{hours * len(of_models) * 2:.2f}", f"{price:.2f}"]


@pytest.mark.parametrize("method", METHODS)
def test_an_estimate_is_the_bill_within_a_per_cent(bill: Run, method: str) -> None:
    exact, found = (
        defaultdict[tuple[str, ...], float](float),
        defaultdict[tuple[str, ...], float](float),
    )
    for sums, flags in ((exact, ()), (found, ("--estimate",))):
        for row in json.loads(bill(method, "json", *flags))["rows"]:
            key = tuple(row[name] for name in ("namespace", "owner", "model", "part"))
            sums[key] += row["gpu_seconds"]

    # The rules look each two minutes: they see an exporter that goes or comes so much later.
    late_s = sum(len(CARDS[node]) for node in AWAY) * EVALUATED_S * len(INTERVALS)
    assert sum(found.values()) == pytest.approx(sum(exact.values()), rel=1e-3)
    for key in found.keys() | exact.keys():
        close = pytest.approx(exact.get(key, 0.0), rel=0.01, abs=late_s)
        assert found.get(key, 0.0) == close, key


@pytest.mark.parametrize("method", METHODS)
def test_the_board_says_what_the_bill_says(store: Store, bill: Run, method: str) -> None:
    cost = board(BOARDS / "mgpu-cost.json")
    chosen = {"method": method, "price_gpu_hour": PRICE, "__range": f"{LENGTH_S}s"}
    labels = {"datasource": "", "job": ".+", "node": ".*", "__rate_interval": "5m"}
    values = resolve(cost, partial(store.query, at=UNTIL), labels | chosen)
    columns: dict[str, dict[tuple[str, ...], float]] = {}
    for query in queries(cost):
        if query.panel == "What each namespace pays":
            expression = fill(query.expr, values)
            column = store.values(expression, UNTIL, "cluster", "namespace", "kind")
            columns[query.letter] = {  # "(none)" is the board's word for no namespace and no kind
                tuple("" if text == "(none)" else text for text in key): value
                for key, value in column.items()
            }
    billed: dict[str, dict[tuple[str, ...], float]] = defaultdict(lambda: defaultdict(float))
    for row in json.loads(bill(method))["rows"]:
        payer = (row["node"].rpartition("-")[2], row["namespace"], row["owner"])
        billed["price"][payer] += float(row["cost"])
        billed["hours"][payer] += row["gpu_seconds"] / 3600
        billed[row["part"]][payer] += row["gpu_seconds"] / 3600

    # The rules look each two minutes: they see an exporter that goes or comes so much later.
    late = sum(len(CARDS[node]) for node in AWAY) * EVALUATED_S / 3600
    step, stays = EVALUATED_S / 3600, {"mig", "slice"}  # the payers of `quiet`
    for letter, what in zip("ABCDEFG", ("price", "hours", *Part), strict=True):
        shown, expected = columns[letter], billed[what]
        if what in {"price", "hours"}:
            assert sum(shown.values()) == pytest.approx(sum(expected.values()), rel=1e-5)
        for key in shown.keys() | expected.keys():
            within = late if not any(key[1:]) else 0.001 if key[1] in stays else step
            close = pytest.approx(expected[key], rel=0.01, abs=within)
            assert shown.get(key, 0.0) == close, (what, key)
