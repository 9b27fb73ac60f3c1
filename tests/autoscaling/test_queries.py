"""What autoscalers are told, by the example files' queries on a real Prometheus."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.agent.simulation.clock import SECOND, START
from tests.autoscaling.adapter import EXAMPLES, Rule, discovered, rules
from tests.pages import Scraped, pages
from tests.store import Store, Target

SCENARIO = str(Path(__file__).parent / "node.yaml")
MINUTES = 30
EXPORTER = {"namespace": "monitoring", "pod": "mgpu-exporter-x7k2p", "container": "exporter"}
NODE = {"job": "mgpu-exporter", "instance": "gpu-node-1"}

SHARE = "mgpu_pod_core_limit_utilization"
DEVICE = "mgpu_pod_core_device_utilization"
PRESSURE = "mgpu_pod_core_pressure"
MEMORY = "mgpu_pod_memory_limit_utilization"
NAMESPACE = "mgpu_namespace_core_usage"

OF_CHAT = "chat-7b-[0-9a-z]+-[0-9a-z]{5}"  # KEDA's selector

pytestmark = [pytest.mark.program("prometheus"), pytest.mark.slow]


WORLDS = {
    "honored": Target(NODE),
    "honored beside labels of the target": Target({**NODE, **EXPORTER}),
    "exported": Target({**NODE, **EXPORTER}, honors=False),
    "the namespace alone": Target({**NODE, "namespace": "monitoring"}, honors=False),
    "the pod alone": Target({**NODE, "pod": "mgpu-exporter-x7k2p"}, honors=False),
}


class Asked(NamedTuple):
    """A Prometheus and the rules that the adapter takes for its labels."""

    store: Store
    rules: dict[str, Rule]

    def pods(self, metric: str, namespace: str, minute: float, *pods: str) -> dict[str, float]:
        """A metric of pods at a minute."""
        rule = self.rules[metric]
        found = self.store.values(rule.of_pods(namespace, pods), at(minute), rule.labels["pod"])
        return {pod: value for (pod,), value in found.items()}

    def external(self, namespace: str, minute: float) -> float | None:
        """The namespace's metric at a minute; None if it is missing."""
        found = self.store.query(self.rules[NAMESPACE].external(namespace), at(minute))
        assert len(found) <= 1
        return float(found[0]["value"][1]) if found else None


def at(minute: float) -> float:
    """Unix time of a minute of the scenario."""
    return START / SECOND + minute * 60


@pytest.fixture(scope="module")
def told() -> list[Scraped]:
    return list(pages(SCENARIO, MINUTES, cycle_s=5))


@pytest.fixture(scope="module", params=WORLDS)
def asked(
    request: pytest.FixtureRequest,
    told: list[Scraped],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Asked]:
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        for scraped in told:
            store.scrape(WORLDS[request.param], scraped.page, scraped.at)
        yield of_adapter(store)


def of_adapter(store: Store, cluster: str = ".*", job: str = ".+") -> Asked:
    """What the adapter asks of a store, when it has found its series."""

    def has(series: str) -> object:
        span = {"start": str(at(0)), "end": str(at(MINUTES))}
        return store.get("series", **{"match[]": series}, **span)

    return Asked(store, discovered(rules(cluster, job), has))


def test_a_pods_core_use_is_told_against_its_share(asked: Asked) -> None:
    assert asked.pods(SHARE, "inference", 9, "chat-a", "chat-b") == {
        "chat-a": pytest.approx(0.6, abs=0.05)
    }
    assert asked.pods(SHARE, "inference", 14, "chat-a")["chat-a"] > 0.85


def test_a_young_pod_is_told_right_from_its_second_scrape_on(asked: Asked) -> None:
    # It wants 0.2 of the GPU, gets 0.165 beside the others, and has a share of 0.4. Thirty seconds
    # are 180 samples: the standard error is 0.07.
    assert asked.pods(SHARE, "inference", 10.5, "chat-b")["chat-b"] == pytest.approx(0.41, abs=0.14)


def test_a_pod_without_a_share_is_told_by_device_and_not_against_a_share(asked: Asked) -> None:
    assert asked.pods(SHARE, "research", 9, "spread") == {}
    assert asked.pods(DEVICE, "research", 9, "spread") == {"spread": pytest.approx(0.3, abs=0.03)}


def test_a_starved_pod_looks_idle_by_its_use_and_not_by_its_pressure(asked: Asked) -> None:
    for minute in (5, 9, 25):
        assert asked.pods(SHARE, "crowd", minute, "starved")["starved"] == pytest.approx(
            0.5, abs=0.1
        )
        pressure = asked.pods(PRESSURE, "crowd", minute, "starved", "hog")
        assert pressure["starved"] == pytest.approx(0.75, abs=0.05)
        assert pressure["hog"] == pytest.approx(0.25, abs=0.05)


def test_who_has_a_card_with_room_waits_for_nobody(asked: Asked) -> None:
    assert asked.pods(PRESSURE, "inference", 9, "chat-a") == {"chat-a": 0}
    assert asked.pods(PRESSURE, "research", 9, "spread") == {"spread": 0}


def test_use_by_device_is_missing_while_its_window_is_not_full(asked: Asked) -> None:
    assert asked.pods(DEVICE, "inference", 12.5, "chat-b") == {}
    assert asked.pods(DEVICE, "inference", 13.5, "chat-b") != {}


def test_memory_is_told_against_its_allocation(asked: Asked) -> None:
    assert asked.pods(MEMORY, "inference", 9, "chat-a") == {"chat-a": 0.75}


def test_a_namespace_is_told_as_a_whole(asked: Asked) -> None:
    assert asked.external("inference", 9) == pytest.approx(0.3, abs=0.03)
    assert asked.external("research", 9) == pytest.approx(1.0, abs=0.05)


def test_what_is_blind_is_missing_at_once_and_until_it_is_known_again(asked: Asked) -> None:
    assert asked.pods(SHARE, "research", 11.9, "train") != {}

    for minute in (12.5, 13, 14, 16, 19.9, 23.9):
        assert asked.pods(SHARE, "research", minute, "train") == {}
        assert asked.pods(DEVICE, "research", minute, "train", "spread").keys() == {"spread"}
        assert asked.pods(PRESSURE, "research", minute, "train", "spread").keys() == {"spread"}
        assert asked.external("research", minute) is None

    assert asked.external("research", 26) is None
    assert asked.pods(SHARE, "research", 25, "train")["train"] == pytest.approx(0.5, abs=0.05)
    assert asked.external("research", 28) == pytest.approx(1.0, abs=0.05)


def test_a_namespace_does_not_miss_what_concerns_others(asked: Asked) -> None:
    for minute in (12.5, 16, 23, 25):
        assert asked.external("inference", minute) is not None


@pytest.mark.parametrize("metric", [SHARE, DEVICE, PRESSURE, MEMORY])
def test_the_adapter_finds_the_series_of_each_metric(asked: Asked, metric: str) -> None:
    rule = asked.rules[metric]
    span = {"start": str(at(0)), "end": str(at(MINUTES))}
    found = asked.store.get("series", **{"match[]": rule.series}, **span)
    assert "chat-a" in {series[rule.labels["pod"]] for series in found}
    assert {series[rule.labels["namespace"]] for series in found} == {
        *("inference", "research", "crowd")
    }


def test_a_stopped_exporter_lets_everything_be_missing(told: list[Scraped], tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for scraped in told:
            down = scraped.at > at(8)
            store.scrape(WORLDS["honored"], None if down else scraped.page, scraped.at)
        asked = of_adapter(store)

        assert asked.pods(SHARE, "inference", 7.9, "chat-a") != {}
        for minute in (8.5, 9, 11, 25):
            assert asked.pods(SHARE, "inference", minute, "chat-a") == {}
            assert asked.pods(DEVICE, "research", minute, "spread") == {}
            assert asked.pods(PRESSURE, "crowd", minute, "starved") == {}
            assert asked.pods(MEMORY, "inference", minute, "chat-a") == {}
            assert asked.external("inference", minute) is None


def test_a_namespace_on_two_nodes_is_missing_while_one_of_their_exporters_is_down(
    told: list[Scraped], tmp_path: Path
) -> None:
    with Store(tmp_path) as store:
        for scraped in told:
            other = scraped.page.replace("GPU-", "GPU-2-")
            down = scraped.at > at(5)
            store.scrape(Target(NODE), scraped.page, scraped.at)
            node = Target({**NODE, "instance": "gpu-node-2"})
            store.scrape(node, None if down else other, scraped.at)
        asked = of_adapter(store)

        assert asked.external("inference", 5) == pytest.approx(0.6, abs=0.05)
        for minute in (5.5, 7, 9, 19, 25):
            assert asked.external("inference", minute) is None


def test_cards_of_one_name_in_two_nodes_are_two(told: list[Scraped], tmp_path: Path) -> None:
    """A card without a number of its own has the name of its place, the same in equal nodes."""
    with Store(tmp_path) as store:
        for scraped in told:
            if scraped.at <= at(9):
                for node in ("gpu-node-1", "gpu-node-2"):
                    store.scrape(Target({**NODE, "instance": node}), scraped.page, scraped.at)
        asked = of_adapter(store)

        assert asked.external("inference", 9) == pytest.approx(0.6, abs=0.05)


def test_a_page_scraped_by_two_jobs_counts_once(told: list[Scraped], tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        for scraped in told:
            if scraped.at <= at(9):
                store.scrape(Target(NODE), scraped.page, scraped.at)
                store.scrape(Target({**NODE, "job": "other"}), scraped.page, scraped.at)
        asked = of_adapter(store)

        assert asked.pods(SHARE, "inference", 9, "chat-a")["chat-a"] < 0.7
        assert asked.pods(PRESSURE, "crowd", 9, "starved")["starved"] < 0.85
        assert asked.external("inference", 9) == pytest.approx(0.3, abs=0.03)


def keda() -> list[dict[str, Any]]:
    """The triggers of the KEDA example: use of the share, and pressure."""
    example = yaml.safe_load((EXAMPLES / "keda-core.yaml").read_text())
    return [dict(trigger["metadata"]) for trigger in example["spec"]["triggers"]]


def test_keda_is_told_sums_of_its_pods_and_nothing_while_one_is_blind(
    told: list[Scraped], tmp_path: Path
) -> None:
    use, pressure = (trigger["query"] for trigger in keda())
    of_chats = use.replace(OF_CHAT, "chat-.*")
    starved = pressure.replace(OF_CHAT, "starved|hog").replace("inference", "crowd")
    blind = [
        query.replace(OF_CHAT, "train").replace("inference", "research")
        for query in (use, pressure)
    ]
    with Store(tmp_path) as store:
        for scraped in told:
            down = scraped.at > at(22)
            store.scrape(Target(NODE), None if down else scraped.page, scraped.at)

        assert store.values(of_chats, at(15)) == {(): pytest.approx(1.3, abs=0.1)}
        assert store.values(starved, at(15)) == {(): pytest.approx(1, abs=0.1)}
        assert store.values(blind[0], at(11)) == {(): pytest.approx(0.5, abs=0.05)}
        assert store.values(blind[1], at(11)) == {(): 0}
        for minute in (12.5, 15, 19):
            assert [store.query(query, at(minute)) for query in blind] == [[], []]
        for minute in (22.5, 24, 25.9):
            assert store.query(of_chats, at(minute)) == store.query(starved, at(minute)) == []


def test_keda_selects_the_pods_of_its_deployment_alone() -> None:
    own = re.compile(OF_CHAT)

    assert all(OF_CHAT in trigger["query"] for trigger in keda())
    assert own.fullmatch("chat-7b-6c9f7d9c5b-x2lqz")
    others = ("chat-7b-canary-6c9f7d9c5b-x2lqz", "chat-7b-canary-0", "chat-7b-batch-0")
    assert not any(map(own.fullmatch, others))


def test_keda_keeps_a_pod_whose_use_can_bring_others() -> None:
    example = yaml.safe_load((EXAMPLES / "keda-core.yaml").read_text())
    assert example["spec"]["minReplicaCount"] >= 1  # KEDA's own is 0, and without pods no use


def test_keda_takes_an_empty_answer_for_an_error() -> None:
    assert [trigger["ignoreNullValues"] for trigger in keda()] == ["false", "false"]


def test_what_another_job_shows_of_our_series_scales_nobody_where_the_job_is_written(
    told: list[Scraped], tmp_path: Path
) -> None:
    """A tenant's page names a pod of another, on a card of its own making."""
    forged = 'namespace="inference",pod="chat-a"'
    used, allocated = (f"mgpu_pod_{name}_core_seconds_total" for name in ("limited", "allocated"))
    by_namespace = 'mgpu_namespace_core_seconds_total{namespace="inference",uuid="GPU-x"}'
    with Store(tmp_path) as store:
        for scraped in told:
            if scraped.at > at(15):
                break
            second = scraped.at - at(0)
            page = "\n".join(
                (
                    f"mgpu_pod_info{{{forged}}} 1",
                    f"{used}{{{forged}}} {second * 4}",
                    f"{allocated}{{{forged}}} {second}",
                    f"{by_namespace} {second * 4}",
                )
            )
            store.scrape(Target(NODE), scraped.page, scraped.at)
            store.scrape(Target({"job": "kubernetes-pods", "instance": "x"}), page, scraped.at)
        believed, trusted = of_adapter(store), of_adapter(store, job="mgpu-exporter")

        assert believed.pods(SHARE, "inference", 15, "chat-a")["chat-a"] > 3
        assert trusted.pods(SHARE, "inference", 15, "chat-a")["chat-a"] < 1
        assert (believed.external("inference", 15) or 0) > 3
        assert (trusted.external("inference", 15) or 9) < 1


def test_of_two_clusters_an_autoscaler_is_told_of_its_own_and_of_none_until_it_says_which(
    told: list[Scraped], tmp_path: Path
) -> None:
    use, pressure = (
        trigger["query"].replace(OF_CHAT, pods).replace("inference", namespace)
        for trigger, pods, namespace in zip(
            keda(), ("chat-.*", "starved|hog"), ("inference", "crowd"), strict=True
        )
    )
    with Store(tmp_path) as store:
        for scraped in told:
            for cluster in ("east", "west"):  # the west is some minutes behind
                at_s = scraped.at + (240 if cluster == "west" else 0)
                if at_s <= at(20):
                    store.scrape(Target({**NODE, "cluster": cluster}), scraped.page, at_s)

        def figures(cluster: str) -> list[object]:
            asked = of_adapter(store, cluster)
            keda = (one.replace('.*",', f'{cluster}",') for one in (use, pressure))
            return [
                asked.pods(SHARE, "inference", 15, "chat-a"),
                asked.pods(DEVICE, "inference", 15, "chat-a"),
                asked.pods(PRESSURE, "crowd", 15, "starved"),
                asked.pods(MEMORY, "inference", 15, "chat-a"),
                asked.external("inference", 15),
                *(store.values(query, at(15)) for query in keda),
            ]

        both, east, west = (figures(cluster) for cluster in (".*", "east", "west"))
        alone = tmp_path / "alone"
        alone.mkdir()
        with Store(alone) as other:
            for scraped in told:
                other.scrape(Target(NODE), scraped.page, scraped.at)
            asked = of_adapter(other)
            expected = asked.pods(SHARE, "inference", 15, "chat-a")

    assert both == [{}, {}, {}, {}, None, {}, {}]
    assert east[0] == expected
    assert all(east)
    assert all(west)
    assert east != west


def test_every_autoscaler_asks_for_a_metric_that_the_adapter_has() -> None:
    known = rules().keys()
    for path in sorted(EXAMPLES.glob("hpa-*.yaml")):
        for metric in yaml.safe_load(path.read_text())["spec"]["metrics"]:
            assert metric[metric["type"].lower()]["metric"]["name"] in known
