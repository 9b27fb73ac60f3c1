"""Use of a pod's share is one number everywhere: of the containers that have a share."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest
import yaml

from exporter.agent import api
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.agent.simulation.load_scenario import load as load_scenario
from exporter.agent.simulation.node import Node
from exporter.agent.web.page import Choice, node_of, page
from exporter.metrics.text import Format, Renderer
from exporter.model import ContainerKey, Owner, Snapshot
from tests.agent.simulation.clock import SECOND, START, ManualClock
from tests.agent.simulation.truth import truth_of
from tests.answers.reading.views import find, view
from tests.autoscaling.adapter import EXAMPLES, rules
from tests.dashboards.grafana import FOLDER, LARGEST, fill, queries
from tests.dashboards.grafana import load as board
from tests.rules.test_recording import RECORDING
from tests.store import Store, Target

MINUTES = 8
END = START / SECOND + MINUTES * 60
PODS: dict[
    str, dict[str, tuple[int | None, float]]
] = {  # pod → its containers: share in percent (None: only memory), and how busy it is
    "one-6c9f7d9c5b-aaaaa": {"main": (20, 0.1)},
    "two-6c9f7d9c5b-bbbbb": {"main": (15, 0.15), "more": (15, 0.05)},
    "mixed-6c9f7d9c5b-ccccc": {"main": (20, 0.1), "side": (None, 0.15)},
}
PROCESS = {"device": 0, "period": "70ms", "jitter": 0.5, "memory": "1GiB"}


def pod(name: str, containers: dict[str, tuple[int | None, float]]) -> dict[str, object]:
    segments = (f"GPU-a,NVIDIA,2048,{core or 0}:;" for core, _ in containers.values())
    return {
        "name": name,
        "namespace": "inference",
        "annotations": {"hami.io/vgpu-devices-allocated": "".join(segments)},
        "containers": [
            {
                "name": container,
                "limits": {
                    "nvidia.com/gpu": "1",
                    "nvidia.com/gpumem": "2048",
                    **({} if core is None else {"nvidia.com/gpucores": str(core)}),
                },
                "processes": [PROCESS | {"duty": duty}],
            }
            for container, (core, duty) in containers.items()
        ],
    }


def ratios(core_ns: Mapping[tuple[Owner, str], int]) -> dict[str, float]:
    """Use of each pod's limited containers against their share, over 300 s."""
    found = {}
    for name, containers in PODS.items():
        limited = {container: core for container, (core, _) in containers.items() if core}
        used = sum(
            ns
            for (owner, _), ns in core_ns.items()
            if isinstance(owner, ContainerKey) and owner.pod == name and owner.container in limited
        )
        found[name] = used / (3 * SECOND) / sum(limited.values())
    return found


class World(NamedTuple):
    """A Prometheus after some minutes of the node, its newest Snapshot, and the truth by pod."""

    store: Store
    snapshot: Snapshot
    truth: dict[str, float]

    def values(self, expression: str) -> dict[str, float]:
        """By pod, at the end."""
        return {name: value for (name,), value in self.store.values(expression, END, "pod").items()}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    scenario = folder / "node.yaml"
    device = {"model": "NVIDIA A10", "memory": "24GiB", "uuid": "GPU-a"}
    pods = [pod(name, containers) for name, containers in PODS.items()]
    scenario.write_text(json.dumps({"sample_rule": "random", "devices": [device], "pods": pods}))
    clock, renderer = ManualClock(), Renderer()
    settings = load({"simulate": [str(scenario)]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    target = Target({"job": "mgpu-exporter", "instance": "node-a"})
    with Store(folder) as store:
        for second in range(MINUTES * 60 + 1):
            collector.cycle()
            if second % 15 == 0:
                page = renderer.render(collector.snapshot, Format.TEXT).decode()
                store.scrape(target, page, clock.time_ns() / SECOND)
            clock.move(1)
        node = Node(load_scenario(str(scenario)), clock, START)
        truth = truth_of(node, round(END - 300) * SECOND, round(END) * SECOND)
        yield World(store, collector.snapshot, ratios(truth.core_ns))


def recorded(name: str) -> str:
    groups = yaml.safe_load(RECORDING.read_text())["groups"]
    (expr,) = (r["expr"] for group in groups for r in group["rules"] if r["record"] == name)
    return str(expr)


def boards() -> Iterator[tuple[str, str]]:
    """The panels that show the ratio, each for single pods."""
    any_node = dict.fromkeys(("job", "cluster", "node", "namespace", "owner", "pod"), ".*")
    own = {"namespace_label": "namespace", "pod_label": "pod"}
    values = {**any_node, **own, **LARGEST, "__rate_interval": "5m"}
    overview = board(FOLDER / "mgpu-overview.json")
    yield from (
        ("overview", fill(query.expr, values))
        for query in queries(overview)
        if query.panel == "Pods now" and "limited_core" in query.expr and query.letter == "C"
    )
    own_page = board(FOLDER / "mgpu-pod.json")
    for query in queries(own_page):
        if query.panel == "Share used":
            now = query.expr.partition(" or NaN")[0]
            yield "pod", fill(now, values).replace("sum(", "sum by (pod) (")


def asked() -> dict[str, str]:
    """What Prometheus is asked for the ratio, by who asks."""
    adapter = rules()["mgpu_pod_core_limit_utilization"][0]
    keda = yaml.safe_load((EXAMPLES / "keda-core.yaml").read_text())["spec"]["triggers"][0]
    of_one = keda["metadata"]["query"].partition("\nunless")[0].partition(" unless on ()")[0]
    return {
        "recording rule": recorded("namespace_pod:mgpu_core_limit_utilization:ratio_rate5m"),
        "adapter": adapter.of_pods("inference", [*PODS]),
        "KEDA": of_one.replace("chat-7b", "(one|two|mixed)").replace("sum(", "sum by (pod) (", 1),
        **dict(boards()),
    }


@pytest.mark.slow
@pytest.mark.program("prometheus")
@pytest.mark.parametrize("name", ["recording rule", "adapter", "KEDA", "overview", "pod"])
def test_every_query_gives_the_same_ratio_as_the_gauge(world: World, name: str) -> None:
    window = "3m" if name in {"adapter", "KEDA"} else "5m"
    gauge = world.values(f"avg_over_time(mgpu_pod_core_limit_utilization_ratio[{window}])")

    assert gauge == pytest.approx(world.truth, abs=0.05)
    assert world.values(asked()[name]) == pytest.approx(gauge, abs=0.02)


@pytest.mark.slow
@pytest.mark.program("prometheus")
def test_json_page_and_terminal_show_the_gauge(world: World) -> None:
    gauge = world.values("mgpu_pod_core_limit_utilization_ratio")
    document = api.snapshot(world.snapshot, api.About(), 0)
    markup = page(node_of(world.snapshot, api.About(), 0), Choice(all=True), 0, "")
    markup = markup.partition('id="tree"')[2]
    lines = view(world.snapshot).lines
    for pod in document["pods"]:
        name, ratio = pod["pod"], gauge[pod["pod"]]
        assert pod["core_limit_utilization_ratio"] == pytest.approx(ratio)
        assert find(lines, name.partition("-")[0]).core.share == pytest.approx(ratio)
        limit = pod["core_limit_gpus"]
        shown = re.search(rf"{name}.*?Core in use ([\d.]+)\D+share ([\d.]+)", markup, re.DOTALL)
        assert shown is not None
        assert float(shown[1]) == pytest.approx(100 * ratio * limit, abs=0.6)
        assert float(shown[2]) == pytest.approx(100 * limit)
