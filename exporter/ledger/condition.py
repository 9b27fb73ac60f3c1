"""How a device fares: whether it can be read, what is measured of it, and why the rest is not."""

from collections.abc import Mapping
from itertools import compress

from exporter.ledger.accounts import ENERGY, Moment
from exporter.ledger.doubts import Doubts
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

        Idle for as long, it is all forgotten: then nobody works.
        """
        if any(map(_is_named, usage.shares.items())):
            self.nameless_ns = self.idle_ns = 0
        elif usage.total.busy.core:
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
