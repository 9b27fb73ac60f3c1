"""The status of one device: whether it can be read, what is measured, and why the rest is not."""

from collections.abc import Container, Iterator, Mapping
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple

from exporter.agent.ledger.accounts import ENERGY, Moment
from exporter.model import (
    COUNTED,
    QUANTITIES,
    Device,
    DeviceReading,
    DeviceState,
    DeviceUsage,
    Methods,
    Owner,
    Sampling,
    Unattributed,
    Unmeasured,
)


class _Uncertainty(NamedTuple):
    reason: Unmeasured
    last_mono_ns: int


class UncertainOwners:
    """The owners of one device whose part of its core cannot be measured; immutable.

    If the driver reports nothing about an owner in a window, the owner is uncertain at once. It
    stays so until the averages have nothing of that window, because they would show it as idle; and
    for ever if it ends meanwhile, because its counters lack that use. The key None stands for the
    device itself: of its busy time only the sum of its owners is known.
    """

    __slots__ = ("_newest_mono_ns", "_uncertain")

    def __init__(
        self,
        uncertain: Mapping[Owner | None, _Uncertainty] = MappingProxyType({}),
        newest_mono_ns: int = 0,
    ) -> None:
        self._uncertain = uncertain
        self._newest_mono_ns = newest_mono_ns

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._uncertain)

    def __iter__(self) -> Iterator[Owner | None]:
        """The owners that are uncertain."""
        return iter(self._uncertain)

    def __contains__(self, owner: Owner | None) -> bool:
        """Whether the owner is uncertain."""
        return owner in self._uncertain

    def then(self, usage: DeviceUsage, mono_ns: int) -> "UncertainOwners":
        """The uncertain owners after one more window."""
        before = self._uncertain
        if not (before or usage.unmeasured or usage.is_lower_bound):  # as nearly always
            return self
        # Where processes could not be identified, this window says nothing about anybody. Whoever
        # was uncertain before stays so for as long again.
        if usage.unmeasured is None:
            return UncertainOwners(
                {o: d._replace(last_mono_ns=mono_ns) for o, d in before.items()}, mono_ns
            )
        reasons: dict[Owner | None, Unmeasured] = dict(usage.unmeasured.items())
        if usage.is_lower_bound:
            reasons[None] = Unmeasured.READ_FAILED
        now = {owner: _Uncertainty(reason, mono_ns) for owner, reason in reasons.items()}
        return UncertainOwners({**before, **now}, mono_ns)

    def lately(self, mono_ns: int, ended: Container[Owner | None]) -> "UncertainOwners":
        """The uncertain owners without those of windows that ended before the given moment.

        Those of the newest window, and those that have ended, are kept in any case.
        """
        kept = {
            owner: uncertainty
            for owner, uncertainty in self._uncertain.items()
            if uncertainty.last_mono_ns > mono_ns
            or uncertainty.last_mono_ns == self._newest_mono_ns
            or owner in ended
        }
        return UncertainOwners(kept, self._newest_mono_ns)

    def reason(self, owner: Owner) -> Unmeasured | None:
        """Why the owner's part is unknown; None if known."""
        uncertainty = self._uncertain.get(owner)
        return uncertainty.reason if uncertainty else None


UNREAD_NS = 2_500_000_000  # three cycles of a second: a single failed reading says nothing yet
LEAST_FAILED = 2  # readings, however long a cycle is
IDLE_ENERGY = "idle_energy"
BOARDS = frozenset({ENERGY, IDLE_ENERGY})  # what is measured of a board until it says otherwise
OF_WINDOWS = frozenset({*QUANTITIES, ENERGY})
OWNED = (*QUANTITIES, ENERGY, "memory")  # quantities that are divided among owners
UNNAMED_NS = 10_000_000_000  # a device busy this long with nobody named: any owner may be at work
REJECTED_NS = 10_000_000_000  # after so long with impossible rows only, no row is trusted


class DeviceStatus:
    """The status of one device, from its readings and windows."""

    def __init__(self, device: Device, now: Moment) -> None:
        self.device = device
        self.state = DeviceState.UP
        self.was_read = False
        self.read_mono_ns = now.mono_ns
        self.failed_readings = 0  # in a row
        self.listed_mono_ns: int | None = now.mono_ns  # None: the list is refused
        self.observed_mono_ns = now.mono_ns
        self.measured: frozenset[str] = frozenset()
        self.uncertain = UncertainOwners()
        self.unmeasured: Mapping[str, Unmeasured] = {}
        self.rejected_ns = 0  # windows in a row with impossible rows
        self.has_residents = True  # until a process list is empty
        self.unnamed_ns = 0  # busy windows since the last one that named a process
        self.idle_ns = 0  # idle windows since the last busy one
        self.methods = Methods()
        self.sampling = Sampling()
        self._quantities: tuple[object, ...] = ()  # which of QUANTITIES, and what else was counted

    def observe(self, reading: DeviceReading, now: Moment) -> None:
        """Records the device's state in this cycle.

        Raises:
            ValueError: a reason is not in the closed list.

        """
        self.device, self.state = reading.device, reading.state
        if reading.unmeasured != self.unmeasured:
            reasons = {q: Unmeasured(reason) for q, reason in reading.unmeasured.items()}
            # A reading that did not measure a quantity leaves its earlier reason. Without it, a
            # quantity that was never measured would be shown as 0.
            if reading.state is not DeviceState.UP:
                reasons = {**self.unmeasured, **reasons}
            elif reading.window is None:
                earlier = {q: why for q, why in self.unmeasured.items() if q in OF_WINDOWS}
                reasons = {**earlier, **reasons}
            self.unmeasured = reasons
        if reading.unmeasured:
            self.measured -= BOARDS.intersection(reading.unmeasured)
        self.observed_mono_ns = now.mono_ns
        if reading.state is not DeviceState.UP:
            self.failed_readings += 1
            return
        self.was_read, self.failed_readings, self.read_mono_ns = True, 0, now.mono_ns
        if reading.window is not None:
            self.sampling = reading.window.sampling
        memory = reading.memory
        if memory is not None:
            # A refused list counts as missing at once: it will not come soon.
            self.listed_mono_ns = None if memory.processes is None else now.mono_ns
            self.has_residents = memory.processes is None or bool(memory.processes)

    def measure(self, usage: DeviceUsage, now: Moment) -> None:
        """Records which quantities the newest window has, and how they were measured."""
        self.methods = usage.methods
        self.uncertain = self.uncertain.then(usage, now.mono_ns)
        self.rejected_ns = self.rejected_ns + usage.length_ns if usage.rejected else 0
        # On a device that is busy for long with nobody named, any owner may be at work. Less than
        # one percent counts as idle: the driver reports whole percents, and may name nobody then.
        # A driver that names nobody does not begin to because the device idled for a moment.
        shares = usage.shares.items()
        if any(owner is not Unattributed.NO_PID and any(spent.busy) for owner, spent in shares):
            self.unnamed_ns = self.idle_ns = 0
        elif 100 * (usage.total.busy.core or 0) >= max(usage.observed_ns, 1):
            self.unnamed_ns += usage.observed_ns
            self.idle_ns = 0
        else:
            self.idle_ns += usage.observed_ns
            if self.idle_ns >= UNNAMED_NS:
                self.unnamed_ns = 0
        quantities = (*[ns is not None for ns in usage.total.busy], *usage.counted)
        if quantities != self._quantities:
            self._quantities = quantities
            board = self.measured & BOARDS
            self.measured = board.union(compress(QUANTITIES, quantities), usage.counted)
        if usage.total.energy_uj is not None and ENERGY not in self.measured:
            self.measured |= {ENERGY}
        if usage.idle_energy_uj is not None and IDLE_ENERGY not in self.measured:
            self.measured |= {IDLE_ENERGY}

    @property
    def unlisted(self) -> bool:
        """Whether the driver has not listed the processes for some seconds."""
        listed_ns = self.listed_mono_ns
        return listed_ns is None or self.observed_mono_ns - listed_ns >= UNREAD_NS

    @property
    def stale(self) -> Unmeasured | None:
        """Why its series are withheld: it could not be read for seconds, or never could be."""
        # A single failed reading says nothing yet: series that come and go break every rate. A
        # device that was never read has no series yet that could break.
        unread_ns = self.observed_mono_ns - self.read_mono_ns
        is_long = self.failed_readings >= LEAST_FAILED and unread_ns >= UNREAD_NS
        is_stale = is_long if self.was_read else self.failed_readings > 0
        return Unmeasured(self.state) if is_stale else None

    @property
    def is_lower_bound(self) -> bool:
        """Whether the device may have been busier lately than its owners together."""
        return None in self.uncertain

    @property
    def lower_bounds(self) -> frozenset[str]:
        """The quantities whose sum over the owners is known: the device may have had more."""
        return self.measured & {*QUANTITIES, *COUNTED} if self.is_lower_bound else frozenset()

    @property
    def known(self) -> frozenset[str]:
        """The quantities that are known of the device as a whole."""
        return self.measured - self.lower_bounds

    @property
    def unattributable(self) -> Mapping[str, Unmeasured]:
        """The quantities that cannot be attributed to the device's owners, with reasons.

        The device itself may have them.
        """
        reasons: dict[str, Unmeasured] = {}
        if self.unnamed_ns >= UNNAMED_NS and self.has_residents:
            reasons = {q: Unmeasured.NOT_NAMED for q in QUANTITIES if q in self.measured}
        if self.rejected_ns >= REJECTED_NS:
            reasons = {q: Unmeasured.REJECTED_SAMPLES for q in QUANTITIES if q in self.measured}
        reasons |= {q: r for q, r in self.unmeasured.items() if q in OWNED}
        if self.is_lower_bound:
            # Energy is divided by core time, and not all of it is known.
            reasons.setdefault(ENERGY, Unmeasured.READ_FAILED)
        return {ENERGY: reasons["core"], **reasons} if "core" in reasons else reasons
