"""All facts of a cycle, built when somebody asks: most cycles have no reader."""

from collections.abc import Callable, Collection
from functools import cache

from exporter.agent.facts.devicefacts import device_facts
from exporter.agent.facts.factsview import CycleFacts, FactsView
from exporter.agent.facts.holdings import container_holdings, group_holdings
from exporter.agent.facts.podfacts import group_kind_facts, namespace_facts, pod_facts
from exporter.agent.ledger.device_ledger import DeviceLedger
from exporter.agent.ledger.ledger import Ledger
from exporter.model import ContainerKey, Facts, GroupKey, PodName

MAX_OF_DEVICE = 128  # series of one family: labels of devices are closed lists
MAX_REASONS = 16  # series of one owner's ``unmeasured``
MAX_LIMITS = 3  # those of them that are about its limits
WAITING_ON = "mgpu_container_core_waiting_on_seconds_total"  # one for each that ran meanwhile


def facts_of(ledger: Ledger, cycle: CycleFacts) -> Callable[[], Facts]:
    """What builds the facts, once, of a ledger that does not change any more.

    Thread-safe: two threads that call it at the same moment may both build, and get equal facts.
    """

    @cache
    def build() -> Facts:
        view = FactsView(ledger, cycle)
        return Facts(
            tuple(device_facts(view)),
            tuple(container_holdings(view)),
            tuple(group_holdings(view)),
            tuple(pod_facts(view)),
            tuple(namespace_facts(view)),
            tuple(group_kind_facts(view)),
        )

    return build


def at_most(ledger: Ledger, cycle: CycleFacts, left_out: Collection[str] = ()) -> int:
    """An upper bound of the series of any family in ``facts_of``, without those ``left_out``."""
    # It is close to the truth, because all facts are built in each cycle in which it is above the
    # limit.
    devices, elsewhere = ledger.devices.values(), len(ledger.unplaced) + len(cycle.undecoded)
    unplaced = {key.pod_name for key, _ in ledger.unplaced}.union(cycle.undecoded)
    owners, reasons, sums = elsewhere, MAX_REASONS * elsewhere, [0, 0]
    for device_ledger in devices:
        owners += len(device_ledger.owners)
        reasons += _reasons(device_ledger, ledger, unplaced)
        sums = [
            so_far + len(of) for so_far, of in zip(sums, device_ledger.closed.values(), strict=True)
        ]
    waited = 0
    if WAITING_ON not in left_out:
        waited = sum([len(others) for each in devices for others in each.waited.values()])
    return max(
        MAX_OF_DEVICE * len(devices),
        # Each owner has one; of its allocations one for each, and one for what its cgroup enforces.
        owners + len(cycle.allocated) + len(cycle.ended) * len(devices),
        reasons,
        sum([len(jobs) for jobs in cycle.jobs.values()]),
        waited,
        len(ledger.pods),
        len(ledger.namespaces) + max(sums),
    )


def _reasons(device_ledger: DeviceLedger, ledger: Ledger, unplaced: Collection[PodName]) -> int:
    """An upper bound of the reasons why something of a device's owners is unmeasured."""
    # Of nearly all owners nothing is unmeasured. A bound for all would be far above the truth, so
    # each is looked at.
    owners = device_ledger.owners
    if device_ledger.stale or ledger.unidentified or device_ledger.uncertain:
        return MAX_REASONS * len(owners)
    most = len(device_ledger.unattributable) * len(owners)
    for account in owners.values():
        most += account.held is None or account.held.used_bytes is None
    # Limits of unknown place are missing with a reason, on each device that the pod is on. A
    # container is withheld while its use may stand under its pod as a whole.
    whole = {key.pod_name for key in owners if isinstance(key, ContainerKey) and not key.container}
    if whole or unplaced:
        pods = [key.pod_name for key in owners if isinstance(key, ContainerKey)]
        of_limits = sum([name in unplaced and name not in whole for name in pods])
        most += MAX_REASONS * sum([name in whole for name in pods]) + MAX_LIMITS * of_limits
    return most + MAX_LIMITS * sum(
        isinstance(key, GroupKey) and key.kind == "pod" for key in owners
    )
