"""One node in each world of labels: rules, boards, autoscalers and answers say the same of it.

A real Prometheus holds what it would have scraped. What it is asked is compared with the world in
which every label has its own name.
"""

import json
import re
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest
import yaml

from exporter.answers.reading.feeds import view_of
from exporter.answers.reading.feeds.prometheus import PrometheusFeed
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.why.sentences import sentences
from exporter.answers.why.seriescase import SeriesCase
from exporter.cli import main
from tests.agent.simulation.clock import SECOND, START, ManualClock
from tests.autoscaling.adapter import EXAMPLES, discovered, rules
from tests.dashboards.grafana import PATHS, fill, load, panels, queries, resolve
from tests.pages import SCRAPE_S, Scraped, pages
from tests.rules.run import RECORDING
from tests.store import Store, Target
from tests.worlds import REPORTED, WORLDS, World, slow_worlds

SCENARIO = str(Path(__file__).parents[2] / "rules" / "starved.yaml")
MINUTES = 20
END = START // SECOND + MINUTES * 60
QUARTER, HOUR = 900, 3600  # each quarter of an hour the rules for advice record
HONORED = WORLDS["honored"]
NODE = {"job": "mgpu-exporter", "instance": "gpu-node-1"}
CLUSTER = "".join(  # as kube-state-metrics has it: the second node has no exporter
    f'kube_node_info{{node="{node}"}} 1\n'
    f'kube_node_status_capacity{{node="{node}",resource="nvidia_com_gpu"}} 3\n'
    f'kube_node_status_condition{{node="{node}",condition="Ready",status="true"}} 1\n'
    for node in ("gpu-node-1", "gpu-node-2")
)
FIXED = {"datasource": "", "__rate_interval": "1m", "__range": "10m", "__range_s": "600"}
EVERY = dict.fromkeys(("node", "namespace", "pod"), ".*")
FIRING = {"MgpuContainerStarved", "MgpuGpuUsedWithoutAllocation", "MgpuExporterMissing"}

pytestmark = pytest.mark.slow

Said = Mapping[str, object]
Honored = Callable[[str], Said]


@pytest.fixture(scope="module")
def told() -> list[Scraped]:
    return list(pages(SCENARIO, MINUTES, cycle_s=1))


@pytest.fixture(scope="module")
def honored(told: list[Scraped], tmp_path_factory: pytest.TempPathFactory) -> Honored:
    """By program: what version 3 takes for a range begins a sample later."""
    return cache(lambda program: said(told, HONORED, tmp_path_factory.mktemp(program), program))


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("title", slow_worlds("honored"))
def test_every_reader_says_the_same_in_slow_worlds(
    honored: Honored, told: list[Scraped], tmp_path: Path, title: str
) -> None:
    check(said(told, WORLDS[title], tmp_path), honored("prometheus"))


@pytest.mark.program("prometheus3")
@pytest.mark.parametrize("title", [*REPORTED, "namespace-pod-container"])
def test_so_does_every_reader_of_a_prometheus_3(
    honored: Honored, told: list[Scraped], tmp_path: Path, title: str
) -> None:
    check(said(told, WORLDS[title], tmp_path, "prometheus3"), honored("prometheus3"))


def check(found: Said, honored: Said) -> None:
    assert found.keys() == honored.keys()
    differs = {name: (found[name], honored[name]) for name in found if found[name] != honored[name]}
    assert differs == {}


@pytest.mark.program("prometheus")
def test_the_node_gives_every_reader_something_to_say(honored: Honored) -> None:
    found = honored("prometheus")
    assert all(found[f"alert {name}"] for name in FIRING)
    assert all(found[name] for name in found if name.startswith(("adapter", "keda", "why")))
    assert all(found[name] for name in ("advise", "bill by namespace", "bill by pod", "top"))


def said(
    told: list[Scraped], world: World, folder: Path, program: str = "prometheus"
) -> dict[str, object]:
    """What all readers find in a Prometheus with the labels of a world."""
    exporter = Target({**NODE, **world.exporter}, honors=False)
    with Store(folder, program=program) as store:
        for scraped in told:
            store.scrape(exporter, scraped.page, scraped.at)
        state = Target({"job": "ksm", **world.kube_state_metrics}, honors=False)
        for at in range(END - QUARTER, END + 1, SCRAPE_S):
            store.scrape(state, CLUSTER, at)
        store.record(RECORDING, END - QUARTER, END, "1m")
        found = {
            **of_rules(store, world),
            **of_boards(store, world),
            **of_autoscalers(store, world),
            **of_answers(store),
        }
        now = time.time()
        for ago in (SCRAPE_S, 0):  # the terminal asks for now
            store.scrape(exporter, told[-1].page, now - ago)
        return {**found, "top": of_top(store), "top of a namespace": of_top(store, "inference")}


def values(store: Store, expression: str, world: World) -> dict[frozenset[tuple[str, str]], str]:
    """What an expression finds, by the exporter's own names of labels."""
    return {
        frozenset(world.own(one["metric"]).items()): f"{float(one['value'][1]):.9g}"
        for one in store.query(expression, END)
    }


def of_rules(store: Store, world: World, folder: Path = RECORDING.parent) -> dict[str, object]:
    found: dict[str, object] = {}
    for file in sorted(folder.glob("*.yaml")):
        for group in yaml.safe_load(file.read_text())["groups"]:
            for number, rule in enumerate(group["rules"]):
                name = f"alert {rule['alert']}" if "alert" in rule else f"{rule['record']} {number}"
                found[name] = values(store, rule["expr"], world)
    return found


SELECTOR = re.compile(r'(?<![\w:"])((?:\w+:)?(?:mgpu|kube|scrape)_[\w:]+|vllm:\w+|up)(?![\w:])')
ENFORCED = '{namespace="monitoring"'
UNSEEN = {"alert MgpuExporterMissing"}  # kube-state-metrics is another namespace's


@pytest.mark.program("prometheus")
def test_rules_say_the_same_where_openshift_enforces_their_namespace(
    honored: Honored, told: list[Scraped], tmp_path: Path
) -> None:
    """The operator gives every selector, and all that is recorded, the namespace of the rule."""
    world = WORLDS["namespace"]  # the chart's monitor drops the others of the target
    for file in sorted(RECORDING.parent.glob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        for rule in (rule for group in document["groups"] for rule in group["rules"]):
            expr = SELECTOR.sub(rf"\1{ENFORCED}}}", rule["expr"]).replace(
                f"{ENFORCED}}}{{", f"{ENFORCED},"
            )
            rule["expr"] = expr.replace("{__name__", f"{ENFORCED},__name__")
            rule["labels"] = {**rule.get("labels", {}), "namespace": "monitoring"}
        (tmp_path / file.name).write_text(json.dumps(document))
    folder = tmp_path / "tsdb"
    folder.mkdir()
    with Store(folder) as store:
        for scraped in told:
            store.scrape(Target({**NODE, **world.exporter}, honors=False), scraped.page, scraped.at)
        store.record(tmp_path / RECORDING.name, END - QUARTER, END, "1m")
        found = of_rules(store, world, tmp_path)
    known = {name: value for name, value in honored("prometheus").items() if name in found}
    differs = {name for name in found if found[name] != known[name]}
    assert differs == UNSEEN


def of_boards(store: Store, world: World) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in PATHS:
        board = load(path)
        chosen = resolve(
            board,
            lambda expr: store.query(expr, END),
            {**FIXED, **EVERY, "job": NODE["job"]},
        )
        tables = {panel["title"] for panel in panels(board) if panel["type"] == "table"}
        for query in queries(board):
            name = f"{path.stem} {query.panel} {query.letter}"
            expression = fill(query.expr, chosen)
            found[name] = values(store, expression, world)
            if query.panel in tables:  # both names of a label would be two columns of one head
                labels = {label for one in store.query(expression, END) for label in one["metric"]}
                assert not {label for label in labels if f"exported_{label}" in labels}, name
    return found


def of_autoscalers(store: Store, world: World) -> dict[str, object]:
    def has(series: str) -> object:
        return store.get("series", **{"match[]": series}, start=str(END - 60), end=str(END))

    found: dict[str, object] = {}
    for name, rule in discovered(rules(), has).items():
        query = (
            rule.external("inference")
            if name.startswith("mgpu_namespace")
            else rule.of_pods("inference", ["chat", "bursty", "requests"])
        )
        found[f"adapter {name}"] = values(store, query, world)
    example = yaml.safe_load((EXAMPLES / "keda-core.yaml").read_text())
    for number, trigger in enumerate(example["spec"]["triggers"]):
        query = trigger["metadata"]["query"].replace("chat-7b-[0-9a-z]+-[0-9a-z]{5}", "chat")
        for name in set(world.exporter) & {"namespace", "pod"}:  # as its head says
            query = query.replace(f"{name}=", f"exported_{name}=").replace(
                f"{name})", f"exported_{name})"
            )
            query = query.replace(f" {name},", f" exported_{name},")
        found[f"keda {number}"] = values(store, query, world)
    return found


def of_answers(store: Store) -> dict[str, object]:
    asks = Prometheus(HttpClient(f"http://{store.address}"))
    found: dict[str, object] = {
        f"why {pod}": sentences(SeriesCase(asks, END, 600).read("inference", pod))
        for pod in ("chat", "bursty", "requests")
    }
    found["why is there"] = SeriesCase(asks, END, 600).pods()
    for name, command, begin in (
        ("advise", ["advise"], END - HOUR),
        ("advise of a namespace", ["advise", "-n=inference"], END - HOUR),
        ("bill by namespace", ["bill", "--price=2", "--by=namespace"], END - QUARTER),
        ("bill by pod", ["bill", "--price=2", "--by=pod"], END - QUARTER),
        ("bill by owner", ["bill", "--price=2", "--by=owner"], END - QUARTER),
    ):
        since, until = (time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)) for at in (begin, END))
        flags = [f"--prometheus=http://{store.address}", f"--since={since}", f"--until={until}"]
        with redirect_stdout(StringIO()) as output:
            assert main([*command, *flags, "--format=json"]) == 0
        found[name] = output.getvalue().replace(store.address, "its address")
    return found


def of_top(store: Store, namespace: str = "") -> object:
    feed = PrometheusFeed(
        Prometheus(HttpClient(f"http://{store.address}")), namespace, ManualClock(END * SECOND)
    )
    return list(view_of(feed.read(), "").lines)
