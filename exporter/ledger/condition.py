"""How a device fares: whether it can be read, what is measured of it, and why the rest is not.

Owners whose part of a device's core cannot be told from the others' parts, and since when.
"""

from collections.abc import Iterator, Mapping
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple

from exporter.ledger.accounts import ENERGY, Moment
from exporter.model import (
    COUNTED,
    QUANTITIES,
    Device,
    DeviceReading,
    DeviceState,
    DeviceUsage,
    Methods,
    Owner,
    Spent,
    Unattributed,
    Unmeasured,
)


class _Doubt(NamedTuple):
    reason: Unmeasured
    began_mono_ns: int
    last_mono_ns: int


class Doubts:
    """Those of one device: a value, which a window with news makes another of.

    Where the driver tells nothing of an owner, doubt holds at once, and until the averages hold
    nothing of that time: they would take it for idleness. None stands for the device itself, where
    it is told by its owners. Where the driver names one process of many at a time (MPS), it takes
    as long without being named as the averages go back: an owner who is named now and then is
    measured. A window in which nobody was busy raises no such doubt and settles none.
    """

    __slots__ = ("_doubts", "_newest_mono_ns")

    def __init__(
        self,
        doubts: Mapping[Owner | None, _Doubt] = MappingProxyType({}),
        newest_mono_ns: int = 0,
    ) -> None:
        self._doubts = doubts
        self._newest_mono_ns = newest_mono_ns

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._doubts)

    def __iter__(self) -> Iterator[Owner | None]:
        """The owners in doubt, or nearly so."""
        return iter(self._doubts)

    def __contains__(self, owner: Owner | None) -> bool:
        """Whether the owner is in doubt, or nearly so."""
        return owner in self._doubts

    def then(self, usage: DeviceUsage, mono_ns: int) -> "Doubts":
        """Those after one window."""
        before = self._doubts
        if not (before or usage.unmeasured or usage.is_lower_bound):  # as nearly always
            return self
        if usage.unmeasured is None:
            return Doubts({o: d._replace(last_mono_ns=mono_ns) for o, d in before.items()}, mono_ns)
        reasons: dict[Owner | None, Unmeasured] = dict(usage.unmeasured.items())
        if usage.is_lower_bound:
            reasons[None] = Unmeasured.READ_FAILED
        doubts = {
            owner: _Doubt(
                reason, before[owner].began_mono_ns if owner in before else mono_ns, mono_ns
            )
            for owner, reason in reasons.items()
        }
        for owner, doubt in before.items():
            if doubt.reason != Unmeasured.MPS or not usage.total.busy.core:
                doubts.setdefault(owner, doubt)
        return Doubts(doubts, mono_ns)

    def lately(self, mono_ns: int) -> "Doubts":
        """Without what no window raised that is the newest, or ended after the given moment.

        It is not for this to say when one about an MPS client is settled.
        """
        kept = {
            owner: doubt
            for owner, doubt in self._doubts.items()
            if doubt.last_mono_ns > mono_ns
            or doubt.last_mono_ns == self._newest_mono_ns
            or doubt.reason == Unmeasured.MPS
        }
        return Doubts(kept, self._newest_mono_ns)

    def reason(self, owner: Owner, since_mono_ns: int) -> Unmeasured | None:
        """Why the owner's part is not known, on average since then; None if it is."""
        doubt = self._doubts.get(owner)
        if doubt is None or doubt.reason != Unmeasured.MPS:
            return doubt.reason if doubt else None
        holds = doubt.began_mono_ns <= since_mono_ns < doubt.last_mono_ns
        return doubt.reason if holds else None


BLIND_CYCLES = 3  # a single failed reading says nothing yet
IDLE_ENERGY = "idle_energy"
BOARDS = frozenset({ENERGY, IDLE_ENERGY})  # what is measured of a board until it says otherwise
OF_WINDOWS = frozenset({*QUANTITIES, ENERGY})
OWNED = (*QUANTITIES, ENERGY, "memory")  # what an owner has a part of
NAMELESS_NS = 10_000_000_000  # busy for so long without a name, its processes may be those at work
REJECTED_WINDOWS = 10  # so many in a row with rows that cannot be true, and the others are doubted


class Condition:
    """That of one device, as its readings and windows tell."""

    def __init__(self, device: Device, now: Moment) -> None:
        self.device = device
        self.state = DeviceState.UP
        self.was_read = False
        self.read_mono_ns = now.mono_ns
        self.blind_cycles = 0
        self.unlisted_cycles = 0
        self.met_mono_ns = now.mono_ns
        self.measured: frozenset[str] = frozenset()
        self.doubts = Doubts()
        self.unmeasured: Mapping[str, Unmeasured] = {}
        self.rejected_windows = 0
        self.has_residents = True  # until a list of processes says that there are none
        self.nameless_ns = 0  # busy windows since the last one that named somebody
        self.idle_ns = 0  # idle windows since the last busy one
        self.methods = Methods()
        self._told: tuple[object, ...] = ()  # which of QUANTITIES, and what else was counted

    def meet(self, reading: DeviceReading, now: Moment) -> None:
        """Note the device's state in this cycle.

        Raises:
            ValueError: a reason is none of the closed list.

        """
        self.device, self.state = reading.device, reading.state
        if reading.unmeasured != self.unmeasured:
            reasons = {q: Unmeasured(reason) for q, reason in reading.unmeasured.items()}
            self.unmeasured = {**self._reasons_that_stand(reading), **reasons}
        if reading.unmeasured:
            self.measured -= BOARDS.intersection(reading.unmeasured)
        self.met_mono_ns = now.mono_ns
        if reading.state is not DeviceState.UP:
            self.blind_cycles += 1
            return
        self.was_read, self.blind_cycles, self.read_mono_ns = True, 0, now.mono_ns
        memory = reading.memory
        self.unlisted_cycles += 1
        if memory is not None:  # a list that is refused will not come in the next cycle
            self.unlisted_cycles = BLIND_CYCLES if memory.processes is None else 0
            self.has_residents = memory.processes is None or bool(memory.processes)

    def _reasons_that_stand(self, reading: DeviceReading) -> Mapping[str, Unmeasured]:
        """The earlier reasons that this reading cannot end, because it measured nothing.

        Without them a quantity that was never measured would be shown at 0.
        """
        if reading.state is not DeviceState.UP:
            return self.unmeasured
        if reading.window is None:
            return {q: reason for q, reason in self.unmeasured.items() if q in OF_WINDOWS}
        return {}

    def miss(self) -> None:
        """Note that the device was not reported in this cycle."""
        self.state = DeviceState.FAILED
        self.blind_cycles += 1

    def measure(self, usage: DeviceUsage, now: Moment) -> None:
        """Note what the device measured in its newest window, and how."""
        self.methods = usage.methods
        self.doubts = self.doubts.then(usage, now.mono_ns)
        self.rejected_windows = self.rejected_windows + 1 if usage.rejected else 0
        self._look_for_names(usage)
        (core, memory_active, encoder, decoder), energy_uj = usage.total
        told = (
            core is not None,
            memory_active is not None,
            encoder is not None,
            decoder is not None,
            *usage.counted,
        )
        if told != self._told:
            self._told = told
            board = self.measured & BOARDS
            self.measured = board.union(compress(QUANTITIES, told), usage.counted)
        if energy_uj is not None and ENERGY not in self.measured:
            self.measured |= {ENERGY}
        if usage.idle_energy_uj is not None and IDLE_ENERGY not in self.measured:
            self.measured |= {IDLE_ENERGY}

    def _look_for_names(self, usage: DeviceUsage) -> None:
        """Note for how long the device has been busy without anybody named.

        Idle for as long, it is all forgotten: then nobody works. Less than one percent is idle
        here: the driver cuts processes' parts to whole percents, so it can name nobody.
        """
        if any(map(_is_named, usage.shares.items())):
            self.nameless_ns = self.idle_ns = 0
        elif 100 * (usage.total.busy.core or 0) >= max(usage.observed_ns, 1):
            self.nameless_ns += usage.observed_ns
            self.idle_ns = 0
        else:
            self.idle_ns += usage.observed_ns
            if self.idle_ns >= NAMELESS_NS:
                self.nameless_ns = 0

    @property
    def unlisted(self) -> bool:
        """Whether the driver has not listed the processes for some cycles."""
        return self.unlisted_cycles >= BLIND_CYCLES

    @property
    def blind(self) -> Unmeasured | None:
        """Why its series are withheld: the device could not be read for some cycles, or ever."""
        patience = BLIND_CYCLES if self.was_read else 1
        return Unmeasured(self.state) if self.blind_cycles >= patience else None

    @property
    def is_lower_bound(self) -> bool:
        """Whether it may have been busier lately than all that is told of its owners."""
        return None in self.doubts

    @property
    def undertold(self) -> frozenset[str]:
        """What its owners have, and the device at least as much as them together."""
        return self.measured & {*QUANTITIES, *COUNTED} if self.is_lower_bound else frozenset()

    @property
    def told(self) -> frozenset[str]:
        """What is known of the device as a whole."""
        return self.measured - self.undertold

    @property
    def unshared(self) -> Mapping[str, Unmeasured]:
        """What cannot be told of the device's owners, and why, though the device may have it.

        Energy goes by core: without it, nobody's part is known.
        """
        reasons: dict[str, Unmeasured] = {}
        if self.nameless_ns >= NAMELESS_NS and self.has_residents:
            reasons = {q: Unmeasured.NOT_NAMED for q in QUANTITIES if q in self.measured}
        if self.rejected_windows >= REJECTED_WINDOWS:
            reasons = {q: Unmeasured.REJECTED_SAMPLES for q in QUANTITIES if q in self.measured}
        reasons |= {q: r for q, r in self.unmeasured.items() if q in OWNED}
        if self.is_lower_bound:  # who used what of it goes by core, of which some is not told
            reasons.setdefault(ENERGY, Unmeasured.READ_FAILED)
        return {ENERGY: reasons["core"], **reasons} if "core" in reasons else reasons

    @property
    def shared(self) -> frozenset[str]:
        """What is known of each owner of the device."""
        return self.measured.difference(self.unshared)


def _is_named(share: tuple[Owner, Spent]) -> bool:
    """Whether somebody was busy, or a reason other than that the driver names nobody."""
    owner, spent = share
    return owner is not Unattributed.NO_PID and any(spent.busy)
