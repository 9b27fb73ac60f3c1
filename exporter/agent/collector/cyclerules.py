"""The rules of the cycle: those that may change while it runs, and who pays for idle energy."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from exporter.agent.allocations import rules
from exporter.agent.allocations.registry import NODE_ANNOTATION_PREFIXES
from exporter.agent.allocations.rules import Rules
from exporter.agent.ledger import Allocated
from exporter.agent.settings import Settings
from exporter.agent.sources.gpus.gpusource import VIEWED_NS, Demand, demand_of
from exporter.agent.sources.pods.decode import KEEP_NOTHING, KeyPrefixes
from exporter.agent.sources.pods.labels import ALLOW_NOTHING, LabelAllowList
from exporter.model import Owner, Unattributed

MAX_SERIES = 10_000
PARTS = 1_000_000  # of idle energy: the whole device's


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleRules:
    """The rules of the cycle. Frozen, so that they are applied as a whole between two cycles.

    ``window_ns`` and ``retention_ns`` are the ledger's; ``allocations`` are the rules of decoding.
    No family that is served has more series than ``most_series``; ``left_out`` are the others.
    ``demand`` is what GPU sources read, ``keep`` what the source of pods keeps, ``allowed`` what is
    shown of that. ``by_step``: each step of a Slurm job is a group of its own. ``mps_servers`` are
    the namespaces and systemd units whose MPS servers work for others.
    """

    interval_ns: int = 10**9
    window_ns: int = 15 * 10**9
    retention_ns: int = 300 * 10**9
    most_series: int = MAX_SERIES
    left_out: frozenset[str] = frozenset()
    allocations: Rules = field(default_factory=Rules)
    allowed: LabelAllowList = ALLOW_NOTHING
    keep: KeyPrefixes = KEEP_NOTHING
    demand: Demand = field(default_factory=Demand)
    by_step: bool = False
    mps_servers: frozenset[str] = frozenset()

    @property
    def watched(self) -> "CycleRules":
        """The same while somebody looks: rings are read as often as the page is made."""
        # A cycle that takes longer reads the rings each time, which is 0.
        viewed_ns = VIEWED_NS if self.interval_ns < VIEWED_NS else 0
        every_ns = min(self.demand.samples_every_ns, viewed_ns)
        return replace(self, demand=replace(self.demand, samples_every_ns=every_ns))


def cycle_rules(settings: Settings) -> CycleRules:
    """The rules that may change while the cycle runs."""
    return CycleRules(
        interval_ns=settings.collection_interval_ns,
        window_ns=settings.collection_window_ns,
        retention_ns=settings.ledger_retention_ns,
        most_series=settings.metrics_max_series_per_family,
        left_out=settings.metrics_left_out,
        allocations=rules_of(settings),
        allowed=allowed_of(settings),
        keep=keep_of(settings),
        demand=demand_of(settings),
        by_step=settings.groups_slurm == "step",
        mps_servers=frozenset(settings.collection_mps_servers),
    )


def rules_of(settings: Settings) -> rules.Rules:
    """The rules by which allocations are decoded.

    Raises:
        RulesError: these settings did not come from ``read_settings``.

    """
    return rules.make(
        settings.allocations_schemes,
        dict(settings.allocations_index_basis),
        dict(settings.allocations_hami),
        volcano_factor=settings.allocations_volcano_memory_factor,
        kai_namespaces=settings.allocations_kai_namespaces,
    )


def allowed_of(settings: Settings) -> LabelAllowList:
    """The labels and annotations of pods that are shown."""
    return LabelAllowList(settings.pods_labels, settings.pods_annotations)


def keep_of(settings: Settings) -> KeyPrefixes:
    """The labels and annotations of pods and nodes that are kept, since something reads them."""
    followed = rules_of(settings)
    needed = KeyPrefixes(followed.annotations, followed.labels, NODE_ANNOTATION_PREFIXES)
    return allowed_of(settings).keep(needed)


class IdlePolicy(StrEnum):
    """Who is charged for the energy that a board uses without work: values of ``--energy.idle``."""

    UNATTRIBUTED = "unattributed"
    EQUAL = "equal"
    ALLOCATION = "allocation"


def idle_weights(
    policy: IdlePolicy, uuid: str, residents: Iterable[Owner], allocated: Iterable[Allocated]
) -> dict[Owner, int]:
    """How the idle energy of the device ``uuid`` is divided, for ``join.account``.

    Equal: each container and group among the residents, which hold a context on the device now, has
    the same part. Allocation: each container has its allocated share of the core there, at work or
    not, and none without one. The part that is not allocated stays unattributed. Where more than
    the whole is allocated, the parts are in proportion.
    """
    weights: dict[Owner, int] = {}
    if policy is IdlePolicy.EQUAL:
        weights = {owner: 1 for owner in residents if not isinstance(owner, Unattributed)}
    elif policy is IdlePolicy.ALLOCATION:
        for key, allocation in allocated:
            if allocation.device == uuid:
                weights[key] = weights.get(key, 0) + round((allocation.core or 0.0) * PARTS)
        weights[Unattributed.IDLE] = max(PARTS - sum(weights.values()), 0)
    return weights
