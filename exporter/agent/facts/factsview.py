"""The view that facts are built from: the ledger at the end of one cycle, and the cycle's facts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from exporter.agent.facts.shownlimits import Limits
from exporter.agent.ledger.accounts import ENERGY, NEVER, Account, Counters, Moment
from exporter.agent.ledger.device_ledger import DeviceLedger, OwnerKey, since
from exporter.agent.ledger.ledger import Allocated, Ledger
from exporter.model import (
    COUNTED,
    NO_AVERAGES,
    NOTHING_USED,
    QUANTITIES,
    Averages,
    ContainerKey,
    DeviceReading,
    Engines,
    GroupFacts,
    GroupKey,
    HeldMemory,
    InnerJobs,
    Pod,
    PodName,
    Unmeasured,
    Used,
)

K = TypeVar("K", ContainerKey, GroupKey)


@dataclass(frozen=True, slots=True)
class CycleFacts:
    """The facts of one cycle beside the ledger.

    ``limits`` are ``allocated`` summed up for the ledger's devices; None: not done yet.
    ``undecoded`` are pods whose allocations are not known, with the reason.
    """

    now: Moment
    readings: Mapping[str, DeviceReading] = field(default_factory=dict)  # by device UUID
    allocated: Sequence[Allocated] = ()
    ended: Sequence[Allocated] = ()  # the last allocations of pods that have ended
    pods: Mapping[PodName, Pod] = field(default_factory=dict)  # by namespace, name
    replicas: Mapping[str, int] = field(default_factory=dict)  # of divided devices, by UUID
    shown: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # of pods, by uid
    groups: Mapping[GroupKey, GroupFacts] = field(default_factory=dict)
    limits: Limits | None = None
    sandboxed: Collection[str] = ()  # pods, by uid
    undecoded: Mapping[PodName, Unmeasured] = field(default_factory=dict)
    jobs: InnerJobs = field(default_factory=dict)


BY_CORE = ("core", "memory_active", ENERGY)  # known together: by the same samples, or by core

BY_CLIENT = (*QUANTITIES, *COUNTED, ENERGY)  # measured for each client of an owner


class DeviceView:
    """A device's accounts at the end of one cycle, with what all its owners have in common.

    ``withheld`` is the reason why the series of its owners are withheld. ``unattributable`` are the
    quantities that cannot be attributed to any owner, with reasons; ``attributable`` are the
    others, except for uncertain owners. ``known`` are the quantities known of the device itself.
    ``newcomers`` have no averages yet: no window has ended since they came or were identified.
    ``lately`` are the windows that averages are of. What is allocated is shown until
    ``until_mono_ns``.
    """

    def __init__(self, device_ledger: DeviceLedger, ledger: Ledger, facts: CycleFacts) -> None:
        self.device_ledger = device_ledger
        self.uuid, self.index = device_ledger.device.uuid, device_ledger.device.index
        self.stale = device_ledger.stale
        self.withheld = self.stale or ledger.unidentified
        self.known = device_ledger.known
        self.unattributable = device_ledger.unattributable
        self.attributable = device_ledger.measured.difference(self.unattributable)
        self.until_mono_ns = device_ledger.until_mono_ns(facts.now.mono_ns)
        self._since = facts.now.mono_ns - ledger.window_ns
        self.lately = since(device_ledger.pasts, self._since)
        self.observed_ns = self.lately.observed_ns
        self.newcomers = device_ledger.newcomers
        self._facts = facts
        self._uncertain = device_ledger.uncertain or None
        self._without_id: dict[str, set[str]] = {}  # containers, by their pod's uid
        # Whether some use stands under no container of its pod.
        self._has_whole_pods = any(
            isinstance(key, ContainerKey) and not key.container for key in device_ledger.owners
        )

    def live(self, account: Account) -> bool:
        """Whether the owner is live in this cycle; otherwise only its counters are shown."""
        # Without a process list, activity is the only sign of life, and a window does not name all
        # that are there. So an owner that was active lately is live.
        if account.last_live_ns(self._facts.now.mono_ns) == self._facts.now.mono_ns:
            return True
        return not self.device_ledger.lists_holders and account.live_mono_ns > self._since

    def under_pod(self, key: OwnerKey) -> Unmeasured | None:
        """Why a container's use may stand under its pod as a whole; None if it cannot."""
        if not self._has_whole_pods or not isinstance(key, ContainerKey) or not key.container:
            return None
        whole_pod = self.device_ledger.owners.get(key.whole)
        pod = self._facts.pods.get(key.pod_name)
        if whole_pod is None or pod is None or not self.live(whole_pod):
            return None
        is_sandboxed = pod.uid in self._facts.sandboxed
        without_id = self._without_id.get(pod.uid)
        if without_id is None:  # looked up for each of its containers
            without_id = {c.name for c in pod.containers if not c.container_ids}
            self._without_id[pod.uid] = without_id
        # The pod's status does not name the id of a container yet: the use is that container's. In
        # a sandbox all containers run in one process, which no status will ever name.
        if without_id and not is_sandboxed:
            return Unmeasured.CONTAINER_PENDING if key.container in without_id else None
        # Where all have their ids, one of them was restarted and has a new one: any without a
        # process. In a sandbox, too, the use is of any that has no process of its own.
        held = self.device_ledger.owners[key].held
        if held and held.processes:
            return None
        return Unmeasured.CONTAINER_UNKNOWN if is_sandboxed else Unmeasured.CONTAINER_PENDING

    def unattributable_of(self, owner: OwnerKey) -> Mapping[str, Unmeasured]:
        """The quantities that are unknown of an owner of the device, with reasons."""
        uncertainty = self._uncertain.reason(owner) if self._uncertain is not None else None
        if uncertainty is None:
            return self.unattributable
        # Where a client's figures could not be read, nothing that is measured by client is known.
        # Otherwise only the core is uncertain, with what follows from it.
        by_client = uncertainty is Unmeasured.READ_FAILED
        lost = [q for q in BY_CLIENT if q in self.device_ledger.measured] if by_client else BY_CORE
        return {**dict.fromkeys(lost, uncertainty), **self.unattributable}

    def known_of(self, owner: OwnerKey | None) -> frozenset[str]:
        """The quantities known of an owner of the device, or of the device itself (None)."""
        if owner is None:
            return self.known
        if self._uncertain is None:
            return self.attributable
        return self.device_ledger.measured.difference(self.unattributable_of(owner))

    def average_of(
        self, owner: OwnerKey | None, account: Account, known: frozenset[str]
    ) -> Averages:
        """The averages of an owner, or of the device itself (None); None of what is not known."""
        # Windows in which no process could be given to its owner say nothing of an owner. With
        # them, it would seem to have idled.
        observed_ns = self.observed_ns if owner is None else self.lately.owned_ns
        if not observed_ns or not known:
            return NO_AVERAGES
        then = self.lately.before(owner, account)
        now, known_now = account.counters, known.__contains__
        return Averages(
            (now.core - then.core) / observed_ns if known_now("core") else None,
            (now.memory_active - then.memory_active) / observed_ns
            if known_now("memory_active")
            else None,
            (now.encoder - then.encoder) / observed_ns if known_now("encoder") else None,
            (now.decoder - then.decoder) / observed_ns if known_now("decoder") else None,
            (now.waiting - then.waiting) / observed_ns
            if known_now("core") and isinstance(owner, ContainerKey)
            else None,
        )


def used(counters: Counters, known: frozenset[str]) -> Used:
    """The counters of these quantities; None of the others."""
    return Used(
        Engines(
            counters.core if "core" in known else None,
            counters.memory_active if "memory_active" in known else None,
            counters.encoder if "encoder" in known else None,
            counters.decoder if "decoder" in known else None,
        ),
        counters.energy if ENERGY in known else None,
        counters.copy if "copy" in known else None,
        counters.evicted if "evicted" in known else None,
    )


class Times(NamedTuple):
    """The time that was allocated to an account. ``has_gpus``: a part of a GPU is kept for it."""

    core_ns: int
    gpu_ns: int
    has_gpus: bool


NO_TIMES = Times(0, 0, has_gpus=False)


class OwnerView(NamedTuple, Generic[K]):
    """One owner on one device, whether or not anything of it is shown.

    ``live`` as in the glossary. ``under_pod``: its use may stand under its pod as a whole.
    ``withheld``: why its figures are withheld, None if they are shown. ``known`` are its known
    quantities, ``unattributable`` the others with reasons. ``times`` were allocated to its account.
    """

    device: DeviceView
    key: K
    account: Account
    live: bool
    under_pod: bool
    withheld: Unmeasured | None
    known: frozenset[str]
    unattributable: Mapping[str, Unmeasured]
    average: Averages
    times: Times

    @property
    def has_gauges(self) -> bool:
        """Whether its gauges are shown, beside its counters."""
        return self.live and self.withheld is None

    @property
    def ended(self) -> bool:
        """Whether it is not there any more; whether it was, while its device cannot be read."""
        # Of a device that cannot be read the last list is all that there is: nobody on it has ended
        # because of that.
        is_held = self.withheld is not None and self.key in (self.device.device_ledger.held or ())
        return not (self.live or is_held)

    @property
    def ended_core(self) -> float | None:
        """What it used of the core lately, if it has ended and its device can be read."""
        return self.average.core if self.ended and not self.withheld else None

    @property
    def memory_bytes(self) -> int | None:
        """The device memory that it holds now; None: unknown."""
        return self.account.held.used_bytes if self.account.held else None

    @property
    def memory(self) -> HeldMemory:
        """The memory that it holds now."""
        account = self.account
        if account.held is None:
            return HeldMemory(peak_bytes=account.peak_bytes)
        held = account.held
        return HeldMemory(
            held.used_bytes, account.peak_bytes, held.processes, held.cgroup, held.is_charge
        )

    @property
    def used(self) -> Used:
        """Its known counters, unless they are withheld."""
        return NOTHING_USED if self.withheld else used(self.account.counters, self.known)


class FactsView:
    """The ledger at the end of one cycle, once settled. ``devices`` are by UUID."""

    def __init__(self, ledger: Ledger, facts: CycleFacts) -> None:
        self.ledger = ledger
        self.facts = facts
        self.devices = {
            u: DeviceView(device_ledger, ledger, facts)
            for u, device_ledger in ledger.devices.items()
        }

    @cached_property
    def limits(self) -> Limits:
        """The allocations summed up."""
        return self.facts.limits or Limits(self.facts.allocated, self.ledger.devices)

    @cached_property
    def ended(self) -> Limits:
        """The last allocations of pods that have ended."""
        return Limits(self.facts.ended, ())

    @cached_property
    def containers(self) -> list[OwnerView[ContainerKey]]:
        """Each container on each device."""
        return self._owners(ContainerKey)

    @cached_property
    def groups(self) -> list[OwnerView[GroupKey]]:
        """Each group on each device."""
        return self._owners(GroupKey)

    @cached_property
    def has_instances(self) -> bool:
        """Whether any device is a part of a board."""
        return any(device.device_ledger.device.parent_uuid for device in self.devices.values())

    @cached_property
    def has_stale(self) -> bool:
        """Whether any device cannot be read."""
        return any(device.stale for device in self.devices.values())

    def until_mono_ns(self, uuid: str) -> int:
        """Until when what was allocated on a device is shown; "": on no known device."""
        device = self.devices.get(uuid)
        return self.facts.now.mono_ns if device is None else device.until_mono_ns

    def times_of(self, account: Account, uuid: str) -> Times:
        """What was allocated to an account on a device."""
        if account.cores is NEVER and account.gpus is NEVER:
            return NO_TIMES
        device = self.devices.get(uuid)
        if device is None:
            until_ns = of_board_ns = self.facts.now.mono_ns
        else:
            # The parts of a card, its instances included, are those of one moment.
            until_ns, board = device.until_mono_ns, device.device_ledger.device.parent_uuid
            of_board_ns = self.until_mono_ns(board) if board else until_ns
        cores, gpus = account.cores, account.gpus
        return Times(cores.at(until_ns), gpus.at(of_board_ns), any(gpus.shares))

    def live(self, account: Account) -> bool:
        """Whether the owner of a pod's account is live in this cycle, on any device."""
        return account.last_live_ns(self.facts.now.mono_ns) == self.facts.now.mono_ns

    def _owners(self, kind: type[K]) -> list[OwnerView[K]]:
        found: list[OwnerView[K]] = []
        for device in self.devices.values():
            for key, account in device.device_ledger.owners.items():
                if not isinstance(key, kind):
                    continue
                live, why_under_pod = device.live(account), device.under_pod(key)
                # The counters of one that has ended are final: what stands under the pod now is of
                # another container.
                withheld = device.withheld or (why_under_pod if live else None)
                known = device.known_of(key)
                is_new = key in device.newcomers
                average = NO_AVERAGES if is_new else device.average_of(key, account, known)
                states = live, why_under_pod is not None, withheld
                reasons = device.unattributable_of(key)
                of = reasons, average, self.times_of(account, device.uuid)
                found.append(OwnerView(device, key, account, *states, known, *of))
        return found
