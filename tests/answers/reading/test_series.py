"""Facts from series: what the metrics say, turned back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text

from exporter.answers.reading.feeds import FeedResult, view_of
from exporter.answers.reading.feeds.nodedocument import moment_of_document, node_of_document
from exporter.answers.reading.feeds.prometheus import PrometheusFeed
from exporter.answers.reading.feeds.series import FamilySeries, facts_from
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.top.topreport import report
from exporter.httpclient import NoAnswerError
from exporter.metrics.text import Format, Renderer
from exporter.model import DeviceState, Facts, Snapshot, Unmeasured
from tests.agent.api.nodes import demo
from tests.answers.reading.views import document, everything
from tests.snapshots import with_every_family

ROOT = Path(__file__).parents[3]


def series_of(snapshot: Snapshot) -> Iterator[FamilySeries]:
    """The page of a snapshot, read as a Prometheus reads it."""
    page = Renderer().render(snapshot, Format.TEXT).decode()
    for family in read_text(page):
        for sample in family.samples:
            yield FamilySeries(sample.name, sample.labels, sample.value)


def owners(facts: Facts) -> list[Any]:
    made_up = any(pod.name == "train" for pod in facts.pods)  # has counters that no pod has
    found = [*facts.containers, *facts.groups, *(() if made_up else facts.pods)]
    return sorted(found, key=lambda fact: str([getattr(fact, "owner", ""), fact]))


@pytest.mark.parametrize("made", [with_every_family, demo, lambda: demo(20, "hpc")])
def test_containers_groups_and_pods_come_back_as_they_were(made: Any) -> None:
    snapshot: Snapshot = made()

    found = owners(facts_from(series_of(snapshot)))

    for back, fact in zip(found, owners(snapshot.facts), strict=True):
        assert type(back) is type(fact)
        for name in get_type_hints(type(fact)):
            said, own = getattr(back, name), getattr(fact, name)
            if name == "waiting":  # who ran instead is not shown
                said, own = said.waited_ns, own.waited_ns
            if name == "ended_core":  # no gauge of what has ended is shown
                continue
            assert said == own, (name, fact)


@pytest.mark.parametrize("made", [demo, lambda: demo(20, "mixed")])
def test_devices_come_back_with_all_that_is_shown_of_them(made: Any) -> None:
    snapshot: Snapshot = made()

    found = {device.uuid: device for device in facts_from(series_of(snapshot)).devices}

    for device in snapshot.facts.devices:
        back = found[device.uuid]
        for name in ("state", "unmeasured", "average", "used", "memory", "allocated", "methods"):
            assert getattr(back, name) == getattr(device, name), name
        assert back.device.model == device.device.model
        assert back.sensors.numbers.keys() == device.sensors.numbers.keys()
        assert back.sensors.labelled.keys() == device.sensors.labelled.keys()


def test_the_json_of_an_exporter_says_the_same_as_its_metrics() -> None:
    snapshot = demo()

    by_json = view_of(FeedResult([node_of_document(document(snapshot), {})]), "x")
    by_series = facts_from(series_of(snapshot))

    cores = {line.key[-2:]: line.core.value for line in everything(by_json.lines)}
    for pod in by_series.pods:
        if (pod.namespace, pod.name) in cores:
            assert cores[pod.namespace, pod.name] == pytest.approx(pod.core)


def test_reasons_and_states_of_another_version_are_left_out() -> None:
    labels = {"gpu": "0", "uuid": "GPU-1", "quantity": "device", "reason": "eaten"}
    known = {**labels, "quantity": "core", "reason": "mps"}
    name = "mgpu_device_unmeasured"

    found = facts_from(
        [
            *(
                FamilySeries(name, labels, 1),
                FamilySeries(name, known, 1),
                FamilySeries("mgpu_new", {}, 1),
            ),
            FamilySeries("mgpu_device_up", labels, 0),
        ]
    )

    assert found.devices[0].unmeasured == {"core": Unmeasured.MPS}
    assert found.devices[0].state is DeviceState.FAILED


def asked(http: HttpClient, namespace: str = "") -> PrometheusFeed:
    return PrometheusFeed(Prometheus(http), namespace)


class SetPrometheus(HttpClient):
    """Answers queries from a list of series."""

    def __init__(self, series: list[FamilySeries]) -> None:
        super().__init__("http://prometheus:9090")
        self._series = series

    def json(self, path: str, query: Any = None) -> dict[str, Any]:
        """All series of the levels and of the namespace that the query names."""
        asked = query["query"]
        named = {"node": "n"}
        result = [
            {"metric": named | {"__name__": s.family} | dict(s.labels), "value": [0, str(s.value)]}
            for s in self._series
            if s.family in asked and ("namespace=" not in asked or "research" in s.labels.values())
        ]
        return {"status": "success", "data": {"result": result if "range" not in path else []}}


def test_a_namespace_has_its_own_sums_and_the_rest_of_each_card_is_said_to_be_others() -> None:
    feed = asked(SetPrometheus(list(series_of(demo()))), "research")

    view = view_of(feed.read(), feed.name)

    pods = [line for line in everything(view.lines) if line.name.startswith("research/")]
    assert pods
    assert len(view.lines) > 1
    here = [line.core.value for line in pods if not line.ended]
    assert view.totals.core == pytest.approx(sum(core or 0 for core in here))
    for device in view.lines:
        there = [child for child in device.children if not child.ended]
        parts = [child.core.value for child in there if child.core.value is not None]
        assert "others, not shown to you" in [child.name for child in there]
        assert sum(parts) == pytest.approx(device.core.value)
    said = report(view, 140, coloured=False).splitlines()
    assert said[1].startswith("research: core ")
    assert "unattributed" not in said[1]


def test_a_lost_card_leaves_the_sums_of_its_namespace_what_the_others_tell() -> None:
    trouble = demo(120, str(ROOT / "examples/demo/trouble.yaml"))
    own = list(series_of(demo()))
    lost = [one._replace(labels={**one.labels, "node": "m"}) for one in series_of(trouble)]
    before, after = (
        view_of(asked(SetPrometheus(each), "research").read(), "x") for each in (own, [*own, *lost])
    )
    [card] = [line for line in after.lines if line.core.value is None]
    assert after.totals == before.totals._replace(gpus=before.totals.gpus + 1, lost=1)
    assert [line.name for line in card.children] == ["research/train-0"]


def test_nodes_of_two_clusters_that_have_one_name_are_two() -> None:
    each = [
        one._replace(labels={**one.labels, "cluster": cluster})
        for cluster in ("a", "b")
        for one in series_of(demo())
    ]
    found = asked(SetPrometheus(each)).read()
    assert [node.name for node in found.nodes] == ["a/n", "b/n"]


def test_what_two_jobs_scrape_under_two_names_of_a_node_is_shown_once() -> None:
    """One job takes the node's name from the pod, the other one has an address only."""
    own = [*series_of(demo()), FamilySeries("process_start_time_seconds", {}, 1_780_000_000)]
    other = {"node": "", "instance": "10.0.0.1:10045", "job": "second"}
    twice = [*own, *(one._replace(labels={**one.labels, **other}) for one in own)]
    views = [view_of(asked(SetPrometheus(each)).read(), "x") for each in (own, twice)]
    assert len(views[0].lines) == len(views[1].lines)
    assert views[0].totals == views[1].totals
    third = [one._replace(labels={**one.labels, "node": "", "instance": "b:1"}) for one in own]
    third[-1] = third[-1]._replace(value=1_780_000_001)
    found = asked(SetPrometheus([*own, *third])).read()  # another life, of the same cards
    assert [node.name for node in found.nodes] == ["b:1", "n"]
    assert "two exporters have the card GPU-" in found.troubles[0]


def test_a_copied_page_that_counts_differently_is_said_by_both_names() -> None:
    """A tenant's page says when the exporter started and which cards it has."""
    start = FamilySeries("process_start_time_seconds", {}, 1_780_000_000)
    used = "mgpu_container_core_seconds_total"
    own = [
        one._replace(value=one.value + 5000) if one.family == used else one
        for one in (*series_of(demo()), start)
    ]
    there = {one.labels["pod"] for one in own if one.family == "mgpu_pod_info"}
    victim = next(
        one.labels["pod"] for one in own if one.family == used and one.labels["pod"] in there
    )
    tenant = {"node": "", "instance": "10.0.0.9:80", "job": "tenant"}

    def beside(more: float, *, whole: bool) -> tuple[str, ...]:
        copied = [
            one._replace(
                labels={**one.labels, **tenant},
                value=one.value + more * (one.family == used),
            )
            for one in own
            if whole or one.labels.get("pod") != victim
        ]
        return tuple(asked(SetPrometheus([*own, *copied])).read().troubles)

    assert beside(30, whole=True) == ()
    for said in (beside(2000, whole=True), beside(0, whole=False)):
        assert len(said) == 1
        assert "say that they are one exporter, but count differently" in said[0]
        assert "tenant" in said[0]


def test_a_label_of_a_prometheus_cannot_act_on_the_terminal() -> None:
    each = [
        one._replace(labels={**one.labels, "cluster": "\x1b[31m\u202e"})
        for one in series_of(demo())
    ]
    said = report(view_of(asked(SetPrometheus(each)).read(), "x"), 120, coloured=True)
    assert "\x1b[31m" not in said
    assert "\u202e" not in said


def test_nodes_of_one_name_are_separated_by_whatever_a_store_calls_its_clusters() -> None:
    each = [
        one._replace(labels={**one.labels, "k8s_cluster": name})
        for name in ("west", "east")
        for one in series_of(demo())
    ]
    found = asked(SetPrometheus(each)).read()
    names = [node.name for node in found.nodes]
    assert names == ["n (k8s_cluster=east)", "n (k8s_cluster=west)"]


@pytest.mark.parametrize("value", [1e308, 10**400, -1e308, "9" * 5000])
def test_a_document_with_absurd_numbers_is_shown_without_them(value: Any) -> None:
    made = {**document(demo()), "node": "n"}
    made["snapshot"] |= {"timestamp_seconds": value, "age_seconds": value}
    made["devices"][0] |= {"memory_used_bytes": value, "index": value, "energy_joules_total": value}
    past = {"series": [{"labels": [value, "GPU-1"], "core_utilization_ratio": [value]}]}

    view = view_of(FeedResult([node_of_document(made, past)]), "x")

    assert len(view.lines) == len(demo().facts.devices)
    assert moment_of_document(made).unix_ns == 0


def test_series_with_absurd_numbers_are_left_out() -> None:
    labels = {"gpu": "9" * 5000, "uuid": "GPU-1", "role": "figure"}
    energy = FamilySeries("mgpu_device_energy_joules_total", labels, 1e308)

    [device] = facts_from([FamilySeries("mgpu_device_up", labels, 1), energy]).devices

    assert (device.device.index, device.used.energy_uj) == (-1, None)


def test_a_charge_that_two_jobs_tell_differently_is_that_of_the_figure() -> None:
    name, labels = "mgpu_container_memory_charged_bytes", {"container": "c", "uuid": "GPU-1"}
    said = [
        FamilySeries(name, {**labels, "evidence": "kernel", "role": role}, value)
        for role, value in (("other", 1.0), ("figure", 2.0))
    ]
    for series in (said, said[::-1]):
        [held] = facts_from(series).containers
        assert held.memory.cgroup is not None
        assert (held.memory.cgroup.charged_bytes, held.memory.is_charge) == (2, True)


def test_a_namespace_without_a_pod_on_a_gpu_is_told_so() -> None:
    said = report(view_of(FeedResult([], namespace="mine"), "4 nodes"), 100, coloured=False)
    assert "no pod of namespace mine with a GPU is known" in said
    assert "mine: on no GPU that is known\n" in said
    assert "no GPU is known" not in said


def test_nodes_and_gpus_without_a_pod_of_the_namespace_are_left_out() -> None:
    """Each exporter has series of its own, with which Prometheus answers who looks at any."""
    own = list(series_of(demo()))
    names = {"research": "other", "GPU-": "GPX-"}
    others = []
    for one in own:
        labels = {**one.labels, "node": "m"}
        for before, after in names.items():
            labels = {name: value.replace(before, after) for name, value in labels.items()}
        others.append(one._replace(labels=labels))
    shown = [asked(SetPrometheus(each), "research").read() for each in (own, own + others)]
    assert [node.name for node in shown[1].nodes] == ["n"]
    trees = [[device.uuid for node in one.nodes for device in node.tree.devices] for one in shown]
    assert trees[0] == trees[1]


def test_the_figures_are_shown_without_the_last_minutes_where_these_do_not_come() -> None:
    class WithoutPast(SetPrometheus):
        def json(self, path: str, query: Any = None) -> dict[str, Any]:
            if "range" in path:
                raise NoAnswerError("no whole answer within 10 s")
            return super().json(path, query)

    assert asked(WithoutPast(list(series_of(demo())))).read().nodes


def test_a_lost_card_is_one_with_its_instances(tmp_path: Path) -> None:
    mig = tmp_path / "mig.yaml"
    lost = "faults: [{device: 0, state: lost, from: 3s}]"
    mig.write_text(f"{(ROOT / 'examples/demo/mig.yaml').read_text()}\n{lost}\n")
    made = demo(20, str(mig))
    # The second node's cards have the first one's UUIDs, as where these are places.
    nodes = [node_of_document(document(made, name), {}) for name in ("node-1", "node-2")]

    for count in (1, 2):
        totals = view_of(FeedResult(nodes[:count]), "x").totals
        assert (totals.gpus, totals.lost) == (count, count)
    own = [node_of_document(document(made, name, {"search"}), {}) for name in ("node-1", "node-2")]
    of_pods = view_of(FeedResult(own, namespace="search"), "x").totals
    assert (of_pods.gpus, of_pods.lost) == (2, 2)
    by_series = view_of(asked(SetPrometheus(list(series_of(made)))).read(), "x").totals
    assert (by_series.gpus, by_series.lost) == (1, 1)


def test_what_nobody_owns_is_unknown_while_no_use_of_a_card_is_known() -> None:
    """As after the first scrape: 0.00 beside ? said that all use has an owner."""
    series = [one for one in series_of(demo()) if not one.family.endswith("_utilization_ratio")]
    totals = view_of(asked(SetPrometheus(series)).read(), "x").totals
    assert (totals.core, totals.unattributed) == (None, None)
    assert totals.gpus == totals.unmeasured == 4
    known = view_of(asked(SetPrometheus(list(series_of(demo())))).read(), "x").totals
    assert known.unattributed is not None
