"""A board whose driver changes what it says while it runs: the books balance all the time."""

from exporter.agent.collector import Collector, Sources
from exporter.agent.ledger import Ledger
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.model import ContainerKey, ProcessSample, Unattributed
from tests.agent.simulation.clock import SECOND, ManualClock
from tests.agent.simulation.nodes import pod, process

SILENT_S = 60
KEY = ContainerKey("n", "p", "c")


class Board(Node):
    """A board that names nobody at first."""

    names = False

    def process_samples(self, device: int, newer_than_us: int) -> list[ProcessSample]:
        """The driver's rows, from some moment on."""
        return super().process_samples(device, newer_than_us) if self.names else []


def test_a_board_that_names_nobody_and_then_somebody_is_followed() -> None:
    clock = ManualClock()
    scenario = {
        "devices": [{"model": "NVIDIA A10", "memory": "24GiB"}],
        "pods": [pod("p", process(duty=0.4, period="230ms"))],
    }
    board = Board(describe(scenario, "f"), clock)
    ledger = Ledger(300 * SECOND, 15 * SECOND)
    sources = Sources(
        (SimulatedGpus(board, clock),),
        SimulatedProcesses(board.cgroup_paths),
        SimulatedPods(board.pod_table, clock=clock),
    )
    collector = Collector(sources, ledger, clock)
    namings: list[str] = []
    given: list[int] = []
    for second in range(4 * SILENT_S):
        board.names = second >= SILENT_S
        clock.move(1)
        collector.cycle()
        (book,) = ledger.devices.values()
        namings.append(book.sampling.labels[0])
        account = book.owners.get(KEY)
        own = account.counters.core if account else 0
        nobody = book.unattributed.get(Unattributed.NO_PID)
        assert own + (nobody.counters.core if nobody else 0) == book.total.counters.core
        given.append(own)

    assert given[SILENT_S - 1] == 0
    later = given[-1] / (3 * SILENT_S * SECOND)
    assert 0.35 < later < 0.45
    assert list(dict.fromkeys(namings)) == ["none", "never", "partly", "always"]
