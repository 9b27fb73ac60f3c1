"""Who looks, and what that changes: each cycle reads."""

from exporter.agent.collector import Collector, Sources
from exporter.agent.collector.cyclerules import cycle_rules
from exporter.agent.collector.viewers import Viewers
from exporter.agent.ledger import Ledger
from exporter.agent.settings import load
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.pods.podsource import SimulatedPods
from tests.agent.simulation.clock import ManualClock

SECOND = 10**9


def test_a_request_of_a_person_counts_at_once_and_for_a_minute() -> None:
    clock = ManualClock()
    viewers = Viewers(clock)
    assert not viewers.are_there()
    viewers.look()
    clock.move(59)
    assert viewers.are_there()
    clock.move(1)
    assert not viewers.are_there()


def test_scrapes_count_if_one_client_comes_more_often_than_readings() -> None:
    clock = ManualClock()
    viewers = Viewers(clock)
    for _ in range(3):
        viewers.scrape("10.0.0.1", "one")
        clock.move(2.5)
        viewers.scrape("10.0.0.2", "another")  # two replicas, each every five seconds
        clock.move(2.5)
        assert not viewers.are_there()
    viewers.scrape("10.0.0.1", "one")
    clock.move(1)
    viewers.scrape("10.0.0.1", "one")
    assert viewers.are_there()


def test_a_cycle_reads_before_a_scrape_is_due() -> None:
    clock = ManualClock()
    viewers = Viewers(clock)
    viewers.scrape("10.0.0.1", "one")
    clock.move(15)
    viewers.scrape("10.0.0.1", "one")
    there = []
    for _ in range(17):
        clock.move(1)
        there.append(viewers.are_there())
    assert [second for second, is_there in enumerate(there, 1) if is_there] == [14]


def test_clients_are_forgotten() -> None:
    clock = ManualClock()
    viewers = Viewers(clock)
    viewers.scrape("10.0.0.1", "first")
    for number in range(100):
        viewers.scrape("10.0.0.1", str(number))
    viewers.scrape("10.0.0.1", "first")
    assert not viewers.are_there()


def test_a_peer_of_many_names_makes_nobody_else_forgotten() -> None:
    clock = ManualClock()
    viewers = Viewers(clock)
    viewers.scrape("10.0.0.1", "Prometheus")
    clock.move(3)
    for number in range(1000):
        viewers.scrape("10.0.0.9", str(number))
    assert not viewers.are_there()
    viewers.scrape("10.0.0.1", "Prometheus")
    assert viewers.are_there()


def test_while_somebody_looks_rings_are_read_as_often_as_the_page_is_made() -> None:
    clock = ManualClock()
    node = Node(
        describe({"devices": [{"model": "NVIDIA A10", "memory": "24GiB"}], "pods": []}, "one"),
        clock,
    )
    sources = Sources(
        (SimulatedGpus(node, clock),),
        SimulatedProcesses(node.cgroup_paths),
        SimulatedPods(node.pod_table, clock=clock),
    )
    ledger = Ledger(300 * SECOND, 15 * SECOND)
    collector = Collector(sources, ledger, clock, cycle_rules(load({}, {})))
    viewers = Viewers(clock)
    collector.is_watched = viewers.are_there

    def grows(cycles: int) -> list[bool]:
        found = []
        for _ in range(cycles):
            clock.move(1)
            before = {uuid: each.span for uuid, each in ledger.devices.items()}
            collector.cycle()
            found.append(before != {uuid: each.span for uuid, each in ledger.devices.items()})
        return found

    grows(8)
    assert sum(grows(12)) == 3  # of a ring of 12 s a third
    viewers.look()
    assert sum(grows(10)) == 5


def test_who_gives_an_interval_gets_a_reading_in_each() -> None:
    assert cycle_rules(load({}, {})).demand.samples_every_ns == 5 * SECOND
    each = cycle_rules(load({"collection.interval": ["1s"]}, {}))
    assert each.demand.samples_every_ns == 0
    short = cycle_rules(load({"collection.window": ["9s"]}, {}))
    assert short.demand.samples_every_ns == 3 * SECOND
