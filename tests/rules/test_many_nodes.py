"""All shipped expressions in a Prometheus with two clusters of two nodes, and pods that moved.

The two nodes of a cluster have the same pods, as Prometheus has them for some minutes after a pod
came back on another node under its name. The clusters have the same nodes and even the same GPUs.
In the east two jobs scrape each node, and in the west the exporters' pods were replaced: for some
scrapes Prometheus has both.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from rules.generate import FOLDER
from tests.agent.simulation.clock import SECOND, START
from tests.autoscaling.adapter import EXAMPLES, rules
from tests.dashboards.grafana import PATHS, fill, load, queries, resolve
from tests.pages import pages
from tests.rules.test_recording import RECORDING
from tests.rules.test_runbooks import blocks
from tests.store import Store, Target

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))
MINUTES = 7
JOB = "mgpu-exporter"
TWICE = {
    "east": [{"job": JOB}, {"job": "second"}],
    "west": [{"job": JOB}, {"pod": "mgpu-exporter-new"}],
}
END = START // SECOND + MINUTES * 60
EXPORTER = {"namespace": "monitoring", "pod": "mgpu-exporter-x7k2p", "container": "exporter"}
FIXED = {"datasource": "", "__rate_interval": "1m", "__range": "5m", "__range_s": "300"}

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]


class Worlds(NamedTuple):
    """A Prometheus that honours the labels of the pages, and one that renames them."""

    honored: Store
    renamed: Store


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    folders = (tmp_path_factory.mktemp(name) for name in Worlds._fields)
    honored, renamed = map(Store, folders)
    with honored, renamed:
        for scenario, nodes in (("demo", ("a", "b")), ("hpc", ("c", "d"))):
            for at, page in pages(scenario, MINUTES, cycle_s=3):
                for cluster, node in product(TWICE, nodes):  # each with its own cards
                    named = page.replace('uuid="GPU-', f'uuid="GPU-{node}-')
                    for more in TWICE[cluster]:
                        own = {"job": JOB, "cluster": cluster, "instance": node, **more}
                        if "pod" not in own:  # with honor_labels a scrape has no pod
                            honored.scrape(Target(own), named, at)
                        renamed.scrape(Target({**EXPORTER, **own}, honors=False), named, at)
        honored.record(RECORDING, END, END, "1m")
        renamed.record(RECORDING, END, END, "1m")
        yield Worlds(honored, renamed)


def of_rules(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*.yaml")):
        groups = yaml.safe_load(path.read_text())["groups"]
        yield from (rule["expr"] for group in groups for rule in group["rules"])


def of_documents() -> Iterator[str]:
    values = {"INSTANCE": "a", "UUID": "GPU-a", "NAMESPACE": "inference", "POD": "chat", "JOB": "j"}
    for path in DOCS:
        if path.parent.name == "runbooks":
            found = blocks(path, "promql")
        else:
            text = "\n".join(re.findall(r"```promql\n(.*?)```", path.read_text(), re.DOTALL))
            found = re.split(r"\n\n+|\n(?=#)", text)
        for one in found:
            expression = "\n".join(x for x in one.splitlines() if not x.startswith("#")).strip()
            if expression:
                yield re.sub(r"\$([A-Z]+)", lambda m: values.get(m[1], "x"), expression)


def of_adapter() -> Iterator[str]:
    for name, each in rules().items():
        is_external = name.startswith("mgpu_namespace")
        for rule in each:
            yield rule.external("media") if is_external else rule.of_pods("media", ["transcode-0"])


def of_keda() -> Iterator[str]:
    triggers = yaml.safe_load((EXAMPLES / "keda-core.yaml").read_text())["spec"]["triggers"]
    yield from (str(trigger["metadata"]["query"]) for trigger in triggers)


def of_boards(store: Store) -> Iterator[str]:
    for path in PATHS:
        dashboard = load(path)
        values = resolve(dashboard, lambda expr: store.query(expr, END), {**FIXED, "job": JOB})
        yield from (fill(query.expr, values) for query in queries(dashboard))


def refused(store: Store, expressions: Iterable[str]) -> list[str]:
    """What Prometheus does not answer, in its words."""
    found = []
    for expression in expressions:
        try:
            store.query(expression, END)
        except AssertionError as error:
            found.append(str(error))
    return found


def test_no_expression_of_the_rules_is_refused(worlds: Worlds) -> None:
    assert refused(worlds.honored, of_rules(FOLDER)) == []
    assert refused(worlds.renamed, of_rules(FOLDER)) == []


def test_no_expression_of_the_documents_is_refused(worlds: Worlds) -> None:
    assert len(list(of_documents())) > 100
    assert refused(worlds.honored, of_documents()) == []


def test_no_expression_of_the_autoscalers_is_refused(worlds: Worlds) -> None:
    assert refused(worlds.honored, of_adapter()) == []
    assert refused(worlds.renamed, of_adapter()) == []
    assert refused(worlds.honored, of_keda()) == []


@pytest.mark.parametrize("world", Worlds._fields)
def test_no_expression_of_the_boards_is_refused(worlds: Worlds, world: str) -> None:
    store = getattr(worlds, world)
    assert refused(store, of_boards(store)) == []


def test_an_expression_that_matches_many_to_many_is_refused(worlds: Worlds) -> None:
    wrong = "mgpu_device_allocated_memory_bytes > on (uuid) mgpu_device_memory_total_bytes"

    assert "many-to-many" in refused(worlds.honored, [wrong])[0]
