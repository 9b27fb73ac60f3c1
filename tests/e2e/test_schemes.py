"""Nodes shared in every way under one real Prometheus: use, limit and ratio by their own sums.

With ``--long`` every node of tests/scenario/shared_nodes.py; else one for each sharing system. The
node of the shipped scenario ``eight-schemes`` is always there.
"""

import contextlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from exporter.simulation.description import Scheme
from exporter.simulation.load import load
from exporter.simulation.node import Node
from tests.e2e.programs import Exporter, Prometheus, eventually
from tests.rules.run import documented
from tests.scenario.arithmetic import check_limits, check_use
from tests.scenario.shared_nodes import NODES
from tests.scenario.truth import Truth, truth_of

MIXED = "eight-schemes"
WINDOW_S = 16
SCRAPE_S = 2
BEGUN_S = 60  # what is measured began so long ago

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.timeout(300), pytest.mark.slow]


class Seen:
    """What Prometheus says of one node at one moment, and the truth of the time before it."""

    def __init__(self, prometheus: Prometheus, name: str, node: Node, at: float) -> None:
        self._prometheus, self._name, self._at = prometheus, name, at
        [(_, moment)] = self.read("mgpu_exporter_snapshot_timestamp_seconds", ()).items()
        end_ns = int(moment * 1e9)
        self.truth: Truth = truth_of(node, end_ns - WINDOW_S * 10**9, end_ns)

    def read(self, family: str, by: Sequence[str]) -> dict[tuple[str, ...], float]:
        """A family of this node by these labels."""
        return self.query(f'{family}{{node="{self._name}"}}', by)

    def query(self, expression: str, by: Sequence[str]) -> dict[tuple[str, ...], float]:
        """An expression by these labels, at the moment of this node's truth."""
        return self._prometheus.values(expression, by, self._at)


@pytest.fixture(scope="module")
def names(pytestconfig: pytest.Config) -> list[str]:
    chosen = NODES if pytestconfig.getoption("--long") else (name.value for name in Scheme)
    return [MIXED, *chosen]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, names: list[str]) -> Iterator[dict[str, Seen]]:
    folder = tmp_path_factory.mktemp("schemes")
    start = int(time.time()) - BEGUN_S
    files = {name: _file(folder, name) for name in names}
    nodes = {name: Node(load(file), time, start * 10**9) for name, file in files.items()}
    with contextlib.ExitStack() as stack:
        exporters = {
            name: stack.enter_context(
                Exporter(
                    f"--simulate={file}",
                    f"--simulate.start={start}",
                    f"--collection.window={WINDOW_S}s",
                )
            )
            for name, file in files.items()
        }
        stack.callback(_end, exporters.values())
        urls = {name: exporter.ready().url for name, exporter in exporters.items()}
        prometheus = stack.enter_context(Prometheus(urls, folder, f"{SCRAPE_S}s"))
        covered = f"mgpu_device_utilization_ratio offset {WINDOW_S + SCRAPE_S}s"
        enough = f"count(count by (node) ({covered})) == {len(names)}"
        eventually(lambda: bool(prometheus.query(enough)), "enough scrapes", WINDOW_S + 60)
        at = time.time()
        yield {name: Seen(prometheus, name, node, at) for name, node in nodes.items()}


def _end(exporters: Iterable[Exporter]) -> None:
    """ContainerRequest all of them to end before one is waited for."""
    for exporter in exporters:
        exporter.process.terminate()


def _file(folder: Path, name: str) -> str:
    if name == MIXED:
        return name
    file = folder / f"{name}.yaml"
    file.write_text(json.dumps(NODES[name]))
    return str(file)


def test_limits_and_memory_of_every_node_are_as_its_systems_count_them(
    seen: dict[str, Seen],
) -> None:
    for name, node in seen.items():
        if name != MIXED:  # some of its pods state their limits themselves
            check_limits(node.truth, node.read)


def test_core_use_and_its_ratio_to_the_limit_are_what_happened(seen: dict[str, Seen]) -> None:
    for node in seen.values():
        check_use(node.truth, node.read)


def test_eight_sharing_systems_are_told_apart_on_one_node(seen: dict[str, Seen]) -> None:
    schemes = seen[MIXED].read("mgpu_container_allocation_info", ("scheme",))
    assert {scheme for (scheme,) in schemes} == {
        "aliyun-ack",
        "hami",
        "kai",
        "koordinator",
        "nvidia-device-plugin",
        "tke-qgpu",
        "vke-mgpu",
        "volcano-vgpu",
    }


def test_a_pod_whose_device_nobody_tells_has_a_limit_and_its_container_a_reason(
    seen: dict[str, Seen],
) -> None:
    unplaced = {"namespace": "media", "pod": "speech-1"}
    by = ("pod", "quantity")
    reasons = seen[MIXED].query(
        f'mgpu_container_unmeasured{{reason="placement",node="{MIXED}"}}', by
    )
    limits = seen[MIXED].read("mgpu_pod_core_limit_gpus", tuple(unplaced))
    assert limits[tuple(unplaced.values())] == 0.25
    # of the other, its system tells what the pod has, and not which container
    assert {pod for pod, _ in reasons} == {"speech-1", "summarize-0"}


def test_a_reservation_is_nobody_s_use_and_nobody_s_allocation(seen: dict[str, Seen]) -> None:
    reserved = f'{{namespace="kai-resource-reservation",node="{MIXED}"}}'
    families = {name for (name, *_) in seen[MIXED].query(reserved, ("__name__",))}
    assert families <= {"mgpu_pod_info"}


def test_an_offline_pod_that_its_online_neighbour_pauses_is_found(seen: dict[str, Seen]) -> None:
    assert _alerts(seen, "offline, and paused by others on the card") == {"scoring-0"}


def test_a_pod_over_its_share_while_its_neighbour_waits_is_found(seen: dict[str, Seen]) -> None:
    assert _alerts(seen, "over its share while a neighbour waits for its own") == {"crawl-0"}


def _alerts(seen: dict[str, Seen], title: str) -> set[str]:
    """The pods of the mixed node that an expression of docs/metrics.md names, in this time."""
    expression = re.sub(r"\[\d+m\]", f"[{WINDOW_S}s]", documented("Allocations in PromQL")[title])
    found = seen[MIXED].query(expression, ("node", "pod"))
    return {pod for node, pod in found if node == MIXED}
