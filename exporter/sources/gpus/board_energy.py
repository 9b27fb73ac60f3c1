"""The energy of a board: by its counter while that moves, or else by its power, integrated.

A board that is on draws power. So a counter that stands still, or a power of 0, says nothing: some
boards have counters that never move (MI100), or that their driver fills in for one of two dies only
(MI250: ``aldebaran_ppt.c``), and boards in virtual machines may have either.
"""

from collections.abc import Callable

from exporter.sources.gpus.energy import EnergyMeter, EnergyUse, PowerIntegral

STILL_NS = 2_000_000_000  # boards update their counter about ten times a second
MOVES = 3  # so often in a row a counter moves before it is accepted again
COUNTER, POWER, NEITHER = "counter", "power", "none"


class _Counter:
    """Whether a counter is to be accepted: it moves for as long as its board is on."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.is_moving = False  # it has moved since the last reading
        self.stands = False  # it has not for too long
        self._moved_ns = 0
        self._moves, self._needed = 0, 1

    def see(self, value: int | None, mono_ns: int) -> None:
        self.is_moving = self.stands = False
        if value is None:
            return
        before, self.value = self.value, value
        self.is_moving = before is not None and value != before
        if before is None or self.is_moving:
            self._moved_ns = mono_ns
            self._moves += self.is_moving
        self.stands = mono_ns - self._moved_ns >= STILL_NS

    def doubt(self) -> None:
        """Lets it prove itself again: what it says when it moves now and then, power has said."""
        self._moves, self._needed = 0, MOVES

    @property
    def has_moved(self) -> bool:
        """Whether it has moved often enough."""
        return self._moves >= self._needed


class BoardEnergy:
    """The energy of one board between two windows. ``method``: a value of ``Methods.energy``."""

    def __init__(self) -> None:
        self.method = NEITHER
        self.begun = False
        self._slept = False  # since the last reading
        self._counter = _Counter()
        self._meter, self._power = EnergyMeter(), PowerIntegral()
        # The values from which each method would count now, and when they were read.
        self._since: dict[str, tuple[int, int]] = {}

    def take(
        self,
        counter_uj: int | None,
        power_mw: Callable[[], int | None],
        mono_ns: int,
        busy_ns: int | None,
    ) -> EnergyUse:
        """Energy since the last window. ``power_mw`` is asked while the counter does not move."""
        slept, self._slept, self.begun = self._slept, False, True
        if slept:  # a board that is off draws nothing
            self._counter.value = None
        fresh = counter_uj is not None and self._counter.value is None
        self._counter.see(counter_uj, mono_ns)
        is_away = counter_uj is None and self.method == COUNTER  # for a moment, or it is given up
        power_uj = None
        if self.method == POWER or not (self._counter.is_moving or fresh or is_away):
            milliwatts = power_mw()
            power_uj = self._power.add(milliwatts, mono_ns) if milliwatts else None
        if self._counter.stands and power_uj is not None:
            self._counter.doubt()
        method = COUNTER if is_away else self._method(power_uj, fresh=fresh)
        is_accepted = (self._counter.has_moved or fresh) and not self._counter.stands
        value = {COUNTER: counter_uj if is_accepted else None, POWER: power_uj}.get(method)
        if method != self.method:
            self.method = method
            self._meter.restart()  # the two do not count from the same zero
            if method in self._since:
                self._meter.take(*self._since[method], None)
        self._remember(counter_uj, power_uj, mono_ns)
        energy = self._meter.take(value, mono_ns, None if slept else busy_ns)
        return energy.as_idle() if slept else energy

    def _method(self, power_uj: int | None, *, fresh: bool) -> str:
        if self.method != POWER and fresh:
            return COUNTER
        if self._counter.has_moved and (self.method == COUNTER or COUNTER in self._since):
            return COUNTER
        if self.method == COUNTER and not self._counter.stands:
            return COUNTER
        return NEITHER if power_uj is None and self.method != POWER else POWER

    def _remember(self, counter_uj: int | None, power_uj: int | None, mono_ns: int) -> None:
        """Keeps where each method would begin: power where the counter began to stand still."""
        self._since.pop(COUNTER, None)
        if counter_uj is not None:
            self._since[COUNTER] = counter_uj, mono_ns
        if self._counter.is_moving:
            self._since.pop(POWER, None)
        if power_uj is not None:
            self._since.setdefault(POWER, (power_uj, mono_ns))

    def sleep(self) -> None:
        """Notes that the board sleeps. Its power is unknown meanwhile; a counter goes on."""
        self._slept, self._power = True, PowerIntegral()
        self._since.clear()

    def restart(self) -> None:
        """Leaves out what was used since the last reading."""
        self.begun = False
        self._counter.value = None
        self._since.clear()
        self._meter.restart()

    def lose_counter(self) -> None:
        """Lets power be asked: the driver refuses the counter now."""
        if self.method == COUNTER:
            self.method = NEITHER
