"""The books while pods are told by one source after another: nothing falls, nothing doubles."""

from dataclasses import replace
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.collector import Collector, CycleRules, Sources
from exporter.agent.sources.pods.chain import ChainedPods
from exporter.agent.sources.pods.labels import LabelAllowList
from exporter.agent.sources.pods.podtable import VERSIONS, indexed
from exporter.model import (
    CgroupIdentity,
    Container,
    Pod,
    PodTable,
    Snapshot,
    SourceStatus,
)
from tests.agent.collector.bench import CID, PLACED, POD, SECOND, Bench, row
from tests.agent.collector.sources import SetPods
from tests.rows import Row, rows_of

HASH = "c" * 32
LABELLED = replace(POD, annotations=PLACED, labels={"app": "web", "team": "a"})
MIRROR = Pod(
    "uid-2",
    "ml",
    "static",
    static_hash=HASH,
    containers=(Container("main", container_ids=("b" * 64,)),),
)
NAMES_ONLY = Pod(POD.uid, POD.namespace, POD.name, containers=(Container("main", "app", (CID,)),))
EVERYWHERE = {
    "pods_api": (LABELLED, MIRROR),
    "pods_kubelet": (LABELLED, replace(MIRROR, uid=HASH)),
    "pods_files": (NAMES_ONLY, Pod(HASH, "ml", "static", containers=MIRROR.containers)),
}


class StandIn(SetPods):
    """A source that is up when it is told to be, and wanted."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.up, self.wanted = name, False, True

    def want(self, wanted: bool) -> None:  # noqa: FBT001 - the protocol's
        """Note it."""
        self.wanted = wanted

    def adopt(self, table: PodTable) -> None:
        """Keep nothing of another's."""

    def turn(self, *, up: bool) -> None:
        """Be up, with all pods, or be down with what was known."""
        self.up = up
        if up and not self.current.version:
            self.current = indexed({p.uid: p for p in EVERYWHERE[self.name]}, next(VERSIONS))

    def status(self) -> SourceStatus:
        """Down while it rests."""
        return SourceStatus(self.name, up=self.up and self.wanted)


class Chain(Bench):
    """A bench whose pods are told by three sources."""

    def __init__(self, allowed: LabelAllowList | None = None) -> None:
        super().__init__()
        self.api, self.kubelet, self.files = map(StandIn, EVERYWHERE)
        readers: list[Any] = [self.api, self.kubelet]
        chain = ChainedPods(readers, cast("Any", self.files), clock=self.clock)
        sources = Sources((self.gpus,), self.processes, chain, others=chain.others)
        rules = CycleRules(allowed=allowed or LabelAllowList())
        self.collector = Collector(sources, self.ledger, self.clock, rules)
        self.use(7, SECOND // 2)
        self.processes.identities = {7: CgroupIdentity(POD.uid, CID, "containerd")}


def core(snapshot: Snapshot) -> dict[tuple[str, ...], float]:
    """Core time by the labels of containers and groups."""
    rows: list[Row] = [*rows_of(snapshot)["container"], *rows_of(snapshot)["group"]]
    values = ((r.labels, r.values.get("core_seconds_total")) for r in rows)
    return {labels: value for labels, value in values if isinstance(value, int | float)}


STATES = st.tuples(st.booleans(), st.booleans(), st.booleans())


@given(st.lists(STATES, min_size=1, max_size=25), st.sampled_from([POD.uid, HASH]))
def test_whoever_tells_of_a_pod_its_account_is_one_and_never_falls(
    states: list[tuple[bool, bool, bool]], uid: str
) -> None:
    bench = Chain()
    cid = CID if uid == POD.uid else "b" * 64
    pod = "train" if uid == POD.uid else "static"
    bench.processes.identities = {7: CgroupIdentity(uid, cid, "containerd")}
    mine = ("ml", pod, "main", "0", "GPU-0")
    before: dict[tuple[str, ...], float] = {}
    known = False
    for api, kubelet, files in states:
        bench.api.turn(up=api)
        bench.kubelet.turn(up=kubelet)
        bench.files.turn(up=files)
        snapshot = bench.cycle()
        accounts = core(snapshot)
        known = known or api or files
        assert all(accounts.get(labels, 0) >= value for labels, value in before.items())
        device = row(snapshot, "device", "0", "GPU-0").values["busy_seconds_total"]
        assert sum(accounts.values()) == device
        if known:
            assert accounts[mine] - before.get(mine, 0) == SECOND // 2
        before = accounts


def test_names_are_right_from_the_first_cycle_with_files_alone() -> None:
    bench = Chain()
    bench.files.turn(up=True)
    assert core(bench.cycle()) == {("ml", "train", "main", "0", "GPU-0"): SECOND // 2}


def test_an_outage_costs_no_limits_though_files_know_none() -> None:
    bench = Chain()
    bench.api.turn(up=True)
    bench.files.turn(up=True)
    bench.cycle()
    bench.api.turn(up=False)
    for _ in range(10):
        snapshot = bench.cycle()
    assert row(snapshot, "pod", "ml", "train").values["core_limit_gpus"] == 0.5
    up = row(snapshot, "exporter").values["source_up"]
    assert up == {
        ("set",): 1,
        ("cgroups",): 1,
        ("pods_api",): 0,
        ("pods_kubelet",): 0,
        ("pods_files",): 1,
    }
    bench.api.turn(up=True)
    up = row(bench.cycle(), "exporter").values["source_up"]
    assert up == {("set",): 1, ("cgroups",): 1, ("pods_api",): 1}


def test_the_last_state_of_a_deleted_pod_names_a_container_that_was_started_last() -> None:
    bench = Chain()
    bench.api.turn(up=True)
    bench.cycle()
    last = Container("main", container_ids=("d" * 64, CID))
    gone = replace(LABELLED, deleted=True, containers=(last, Container("side")))
    bench.api.current = replace(indexed({gone.uid: gone}), version=2)
    bench.processes.identities = {7: CgroupIdentity(POD.uid, "d" * 64, "containerd")}
    assert core(bench.cycle()) == {("ml", "train", "main", "0", "GPU-0"): SECOND}


def test_allowed_labels_stand_beside_the_pods_identity() -> None:
    bench = Chain(LabelAllowList(("app", "missing")))
    bench.api.turn(up=True)
    pod = row(bench.cycle(), "pod", "ml", "train")
    assert pod.more == {"info": {"label_app": "web"}}
    assert pod.values["info"] == {("uid-1", "", "", ""): 1}


def test_without_an_allow_list_nothing_more_is_shown() -> None:
    bench = Chain()
    bench.api.turn(up=True)
    assert row(bench.cycle(), "pod", "ml", "train").more == {}


def test_a_pod_of_a_table_that_is_empty_again_is_forgotten() -> None:
    bench = Chain(LabelAllowList(("*",)))
    bench.api.turn(up=True)
    bench.cycle()
    bench.api.current = PodTable(2)
    bench.clock.move(61)
    bench.cycle()
    bench.clock.move(61)
    assert not row(bench.cycle(), "pod", "ml", "train").more
