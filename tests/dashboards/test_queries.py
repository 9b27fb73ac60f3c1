"""Every query of every panel, asked of a real Prometheus that scrapes simulated nodes."""

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from exporter.scenario.load import shipped
from tests.dashboards.grafana import PATHS, Ask, fill, load, options, queries, resolve
from tests.e2e.programs import Exporter, Prometheus, eventually
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Gpu, Scenario

SCENARIOS = [*shipped(), str(Path(__file__).parent / "node.yaml")]
JOB = """\
  - job_name: {job}
    honor_labels: {honors}
    static_configs:
{targets}"""
TARGET = """\
      - targets: ['{address}']
        labels: {{instance: node-{number}, namespace: monitoring, pod: mgpu-{number}, container: c}}
"""
WORLDS = {"honored": "pod", "exported": "exported_pod"}  # job → the label of a pod
FIXED = {
    "datasource": "",
    "__rate_interval": "20s",
    "__range": "1h",
}  # the lost device was lost at the beginning


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        flags = [(f"--simulate={name}", "--collection.budget=50%") for name in SCENARIOS]
        nodes = [stack.enter_context(Exporter(*given)) for given in flags]
        nodes.append(stack.enter_context(_with_a_driver(folder)))
        addresses = [node.ready().url.partition("://")[2] for node in nodes]
        targets = "".join(
            TARGET.format(address=address, number=number)
            for number, address in enumerate(addresses)
        )
        jobs = "".join(
            JOB.format(job=job, honors=str(job == "honored").lower(), targets=targets)
            for job in WORLDS
        )
        # the first target is scraped by a job of its own, whose series no dashboard is to show
        prometheus = Prometheus(nodes[0].url, folder, "1s", job=jobs)
        yield stack.enter_context(prometheus).query


def _with_a_driver(folder: Path) -> Exporter:
    """An exporter with a driver's library: calls of it, and all that a Hopper board can tell."""
    scenario = folder / "gpus.txt"
    Scenario(gpus=[Gpu(0, garbage=2)], loaded=0.0).write(scenario)
    return Exporter(
        f"--nvml.library={library()}",
        "--pods.source=none",
        environment={"FAKENVML_SCENARIO": str(scenario)},
    )


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("job", WORLDS)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_query_finds_something(ask: Ask, path: Path, job: str) -> None:
    dashboard = load(path)
    pod = f"count(mgpu_pod_info{{job='{job}'}})"
    eventually(lambda: ask(pod), "the first scrape")
    values = resolve(dashboard, ask, {**FIXED, "job": job})
    assert values.get("pod_label", WORLDS[job]) == WORLDS[job]
    waiting = {(query.panel, fill(query.expr, values)) for query in queries(dashboard)}

    def look() -> bool:
        waiting.difference_update([one for one in waiting if ask(one[1])])
        return not waiting

    with suppress(AssertionError):  # the one below says more
        eventually(look, "all queries have an answer")
    assert waiting == set()


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("job", WORLDS)
def test_what_can_be_chosen_is_the_workloads(ask: Ask, job: str) -> None:
    dashboard = load(next(path for path in PATHS if path.stem == "mgpu-pod"))
    eventually(lambda: ask(f"mgpu_pod_info{{job='{job}'}}"), "the first scrape")
    values = resolve(dashboard, ask, {**FIXED, "job": job})

    assert "inference" in options(dashboard, "namespace", ask, values)
    assert "chat-0" in options(dashboard, "pod", ask, {**values, "namespace": "inference"})
    assert "monitoring" not in options(dashboard, "namespace", ask, values)
    assert options(dashboard, "node", ask, values)[0] == "node-0"


@pytest.mark.program("prometheus", "cc")
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_legend_names_labels_that_the_query_keeps(ask: Ask, path: Path) -> None:
    dashboard = load(path)
    eventually(lambda: ask("count(mgpu_pod_info{job='honored'})"), "the first scrape")
    values = resolve(dashboard, ask, {**FIXED, "job": "honored"})
    for query in queries(dashboard):
        expr, legend = fill(query.expr, values), fill(query.legend, values)
        named = {part.partition("}}")[0].strip() for part in legend.split("{{")[1:]}
        for one in ask(expr):
            assert named <= one["metric"].keys() | {"gpu"}, query
