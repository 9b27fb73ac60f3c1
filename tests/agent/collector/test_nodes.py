"""Sources of facts about the node: put together, guarded, timed, and each for itself."""

from collections.abc import Mapping

import pytest

from exporter.model import Container, Grant, NodeFacts, Pod, Snapshot, SourceStatus
from tests.agent.collector.bench import CID, SECOND, Bench, row
from tests.agent.collector.sources import SetNode
from tests.rows import Value, rows_of

HELD = NodeFacts(grants={"uid-1": (Grant("main", "nvidia.com/gpu", ("GPU-0",)),)})
KNOWN = NodeFacts(labels={"nvidia.com/gpu.count": "1"})
WHOLE = Pod(
    "uid-1",
    "ml",
    "train",
    phase="Running",
    containers=(Container("main", container_ids=(CID,), limits={"nvidia.com/gpu": "1"}),),
)


class Nodes(Bench):
    """A pod of a whole GPU, of which the kubelet and the API server each know a part."""

    def __init__(self) -> None:
        self.kubelet, self.api = SetNode("podresources"), SetNode("node_api")
        super().__init__(nodes=(self.kubelet, self.api))
        self.kubelet.known, self.api.known = HELD, KNOWN
        self.use(7, SECOND // 2)
        self.name_pod(WHOLE)


@pytest.fixture
def bench() -> Nodes:
    return Nodes()


def exporter(snapshot: Snapshot, name: str) -> Mapping[tuple[str, ...], Value]:
    values = row(snapshot, "exporter").values[name]
    assert isinstance(values, Mapping)
    return values


def limit(snapshot: Snapshot) -> Value:
    return row(snapshot, "container", "ml", "train", "main", "0", "GPU-0").values[
        "core_limit_ratio"
    ]


def test_decoders_know_what_all_sources_know_together(bench: Nodes) -> None:
    assert limit(bench.cycle()) == 1.0
    assert bench.kubelet.asked == [bench.pods.current]


def test_each_source_has_its_own_state_time_and_rejections(bench: Nodes) -> None:
    bench.kubelet.now = SourceStatus("podresources", up=False, detail="no socket", duration_ns=5)
    snapshot = bench.cycle()

    up, took = (exporter(snapshot, f"source_{what}") for what in ("up", "duration_seconds"))
    assert (up[("podresources",)], up[("node_api",)], up[("pods",)]) == (0, 1, 1)
    assert took[("podresources",)] == 5
    last = exporter(snapshot, "source_last_success_timestamp_seconds")
    assert ("node_api",) in last
    assert ("podresources",) not in last
    assert exporter(snapshot, "rejected_samples_total")[("odd_fact",)] == 2
    assert [status.name for status in snapshot.sources[-2:]] == ["podresources", "node_api"]


def test_a_source_that_fails_keeps_what_it_said_last_and_costs_only_itself(bench: Nodes) -> None:
    bench.cycle()
    bench.kubelet.error = OSError("gone")
    snapshot = bench.cycle()

    assert limit(snapshot) == 1.0
    assert exporter(snapshot, "source_up")[("podresources",)] == 0
    assert exporter(snapshot, "source_up")[("node_api",)] == 1
    bench.kubelet.error = None
    assert exporter(bench.cycle(), "source_up")[("podresources",)] == 1


def test_a_source_that_never_answered_contributes_nothing(bench: Nodes) -> None:
    bench.kubelet.error = OSError("gone")
    snapshot = bench.cycle()

    assert row(snapshot, "pod", "ml", "train").values["core_limit_gpus"] == 1.0
    assert [r for r in rows_of(snapshot)["container"] if "core_limit_ratio" in r.values] == []


def test_what_a_source_does_not_know_any_more_is_forgotten(bench: Nodes) -> None:
    bench.cycle()
    bench.kubelet.known = NodeFacts()

    rows = rows_of(bench.cycle())["container"]
    assert [r for r in rows if "core_limit_ratio" in r.values] == []
