"""All facts of a cycle, built when somebody asks: most cycles have no reader."""

from collections.abc import Callable
from functools import cache

from exporter.agent.facts.devices import device_facts
from exporter.agent.facts.holdings import container_holdings, group_holdings
from exporter.agent.facts.pods import group_kind_facts, namespace_facts, pod_facts
from exporter.agent.facts.view import CycleFacts, View
from exporter.agent.ledger.ledger import Ledger
from exporter.model import Facts

MAX_OF_DEVICE = 128  # series of one family: labels of devices are closed lists
MAX_REASONS = 16  # series of one owner's ``unmeasured``


def facts_of(ledger: Ledger, cycle: CycleFacts) -> Callable[[], Facts]:
    """What builds the facts, once. They are those of this cycle, whenever it is called.

    Thread-safe: two threads that call it at the same moment may both build, and get equal facts.
    """
    frozen = ledger.frozen()

    @cache
    def build() -> Facts:
        view = View(frozen, cycle)
        return Facts(
            tuple(device_facts(view)),
            tuple(container_holdings(view)),
            tuple(group_holdings(view)),
            tuple(pod_facts(view)),
            tuple(namespace_facts(view)),
            tuple(group_kind_facts(view)),
        )

    return build


def at_most(ledger: Ledger, cycle: CycleFacts) -> int:
    """An upper bound of the series that any family has in ``facts_of``; mostly far too high."""
    owners, waited, sums = len(ledger.unplaced), 0, [0, 0]
    for device_ledger in ledger.devices.values():
        owners += len(device_ledger.owners)
        waited += sum([len(others) for others in device_ledger.waited.values()])
        sums = [
            so_far + len(of) for so_far, of in zip(sums, device_ledger.closed.values(), strict=True)
        ]
    return max(
        MAX_OF_DEVICE * len(ledger.devices),
        MAX_REASONS * owners + len(cycle.allocated),
        waited,
        len(ledger.pods),
        len(ledger.namespaces) + max(sums),
    )
