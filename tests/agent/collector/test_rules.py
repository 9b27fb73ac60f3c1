"""What may change of the cycle while it runs is taken up whole, between two cycles."""

from collections.abc import Mapping

from exporter.agent.allocations.rules import make
from exporter.agent.collector import CycleRules
from exporter.agent.sources.gpus.gpusource import Demand
from exporter.agent.sources.pods.decode import KeyPrefixes
from exporter.agent.sources.pods.labels import LabelAllowList
from exporter.model import CgroupIdentity, LastReload, Pod
from tests.agent.collector.bench import CID, POD, SECOND, Bench, row
from tests.rows import rows_of

RULES = CycleRules(
    interval_ns=2 * SECOND,
    window_ns=4 * SECOND,
    retention_ns=7 * SECOND,
    demand=Demand(disabled=frozenset({"power"})),
    keep=KeyPrefixes(annotations=("x/",)),
)


def working() -> Bench:
    bench = Bench()
    bench.use(7, SECOND // 2)
    bench.name_pod()
    bench.processes.identities = {7: CgroupIdentity(POD.uid, CID, "containerd")}
    return bench


def test_rules_are_taken_up_at_the_next_cycle_and_not_before() -> None:
    bench = working()
    bench.cycle()
    bench.collector.follow(RULES)
    before = (bench.gpus.demand, bench.pods.keep, bench.ledger.window_ns)
    bench.cycle()

    assert before == (CycleRules().demand, CycleRules().keep, 15 * SECOND)
    assert (bench.gpus.demand, bench.pods.keep) == (RULES.demand, RULES.keep)
    assert (bench.ledger.window_ns, bench.ledger.retention_ns) == (4 * SECOND, 7 * SECOND)
    assert bench.collector.pulse.interval_ns == 2 * SECOND


def test_rules_that_are_not_new_are_not_taken_up_again() -> None:
    bench = working()
    bench.collector.follow(RULES)
    bench.cycle()
    bench.gpus.demand = None
    bench.cycle()

    assert bench.gpus.demand is None


def test_counters_go_on_over_a_change() -> None:
    bench = working()
    counts = []
    for rules in (CycleRules(), RULES, CycleRules()):
        bench.collector.follow(rules)
        container = row(bench.cycle(), "container", "ml", "train", "main", "0", "GPU-0")
        counts.append(container.values["core_seconds_total"])

    assert counts == [SECOND // 2, SECOND, 3 * SECOND // 2]


def test_a_gauge_is_averaged_over_the_new_window() -> None:
    bench = working()
    for _ in range(10):
        bench.cycle()
    bench.use(7, 0)
    for _ in range(2):
        bench.cycle()
    wide = row(bench.cycle(), "device", "0", "GPU-0").values["utilization_ratio"]
    bench.collector.follow(RULES)
    narrow = row(bench.cycle(), "device", "0", "GPU-0").values["utilization_ratio"]

    assert isinstance(wide, float)
    assert wide > 0.3
    assert narrow == 0


def test_a_source_that_fails_to_follow_costs_only_itself() -> None:
    bench = working()

    def refuse(demand: Demand) -> None:
        raise OSError(demand)

    bench.gpus.follow = refuse  # type: ignore[method-assign] # a source that fails
    bench.collector.follow(RULES)
    snapshot = bench.cycle()

    assert bench.pods.keep == RULES.keep
    assert bench.ledger.window_ns == 4 * SECOND
    assert all(source.up for source in snapshot.sources)
    assert row(snapshot, "container", "ml", "train", "main", "0", "GPU-0").values


def test_allocations_are_read_by_the_new_rules() -> None:
    bench = working()
    limits = []
    for rules in (CycleRules(), CycleRules(allocations=make((), {"vke-mgpu": "minor"}))):
        bench.collector.follow(rules)
        limits.append(row(bench.cycle(), "pod", "ml", "train").values["core_limit_gpus"])

    assert limits == [0.5, 0.5]
    assert bench.collector._accounting._allocations.rules.index_bases == {"vke-mgpu": "minor"}


def test_labels_are_shown_by_the_new_list() -> None:
    bench = Bench()
    pod = Pod(POD.uid, POD.namespace, POD.name, phase="Running", labels={"app": "x", "team": "y"})
    bench.name_pod(pod)
    bench.use(7, SECOND)
    bench.processes.identities = {7: CgroupIdentity(POD.uid, CID, "containerd")}
    shown = []
    for labels in ((), ("app",), ("team",), ()):
        bench.collector.follow(CycleRules(allowed=LabelAllowList(labels)))
        [own] = rows_of(bench.cycle())["pod"]
        shown.append(dict(own.more.get("info", {})))

    assert shown == [{}, {"label_app": "x"}, {"label_team": "y"}, {}]


def test_how_the_last_reload_ended_is_published() -> None:
    bench = working()
    assert "config_last_reload_successful" not in rows_of(bench.cycle())["exporter"][0].values
    bench.collector.last_reload = lambda: LastReload(successful=False, success_unix_ns=SECOND)
    values: Mapping[str, object] = rows_of(bench.cycle())["exporter"][0].values

    assert values["config_last_reload_successful"] == 0
    assert values["config_last_reload_success_timestamp_seconds"] == SECOND
