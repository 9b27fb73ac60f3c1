"""The energy of a board: by its counter while that moves as power says, or else by power.

A board that is on draws power. So a counter that stands still, or a power of 0, says nothing: some
boards have counters that never move (MI100), or that their driver fills in for one of two dies only
(MI250: ``aldebaran_ppt.c``), and boards in virtual machines may have either.
"""

from collections.abc import Callable, Mapping

from exporter.agent.sources.gpus.energy import EnergyMeter, EnergyUse, PowerIntegral
from exporter.agent.sources.gpus.heights import Rising
from exporter.model import Unmeasured

STILL_NS = 2_000_000_000  # boards update their counter about ten times a second
MOVES = 3  # so often in a row a counter moves before it is accepted again
COMPARED_NS, TIMES, ROUNDS = 15_000_000_000, 4, 2  # a counter that differs so much, so often
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


class _Comparison:
    """Whether a counter moves as power says, more or less: power is looked at now and then."""

    def __init__(self) -> None:
        self.agrees = True
        self._power = PowerIntegral()
        self._begun: tuple[int, int, int] | None = None  # the counter, the integral, the time
        self._wrong = 0

    def pause(self) -> None:
        """Notes that what comes next does not follow what came before."""
        self._power, self._begun = PowerIntegral(), None

    def add(self, counter_uj: int, milliwatts: int, mono_ns: int) -> None:
        said_uj = self._power.add(milliwatts, mono_ns)
        begun = self._begun
        if begun is None or counter_uj < begun[0] or said_uj < begun[1]:  # reset, or a long gap
            self._begun = counter_uj, said_uj, mono_ns
        elif mono_ns - begun[2] >= COMPARED_NS:
            counted_uj, said_uj = counter_uj - begun[0], said_uj - begun[1]
            is_alike = counted_uj <= said_uj * TIMES and said_uj <= counted_uj * TIMES
            self._wrong = 0 if is_alike else self._wrong + 1
            self.agrees = self._wrong < ROUNDS
            self._begun = counter_uj, said_uj + begun[1], mono_ns


class BoardEnergy:
    """The energy of one board between two windows. ``method``: a value of ``Methods.energy``.

    ``compares``: power is asked for each time, and the counter is compared with it. Else, for a
    driver whose calls are costly, it is asked for while the counter stands still.
    """

    def __init__(self, *, compares: bool = True) -> None:
        self.method = NEITHER
        self.begun = False
        self._is_away = False  # it is not known what was used in the last seconds
        self._away_ns: int | None = None  # since when
        self._slept = False  # since the last reading
        self._rising = Rising()
        self._counter = _Counter()
        self._meter, self._power = EnergyMeter(), PowerIntegral()
        # The values from which each method would count now, and when they were read.
        self._since: dict[str, tuple[int, int]] = {}
        self._compares, self._compared = compares, _Comparison()

    def take(
        self,
        counter_uj: int | None,
        power_mw: Callable[[], int | None],
        mono_ns: int,
        busy_ns: int | None,
    ) -> EnergyUse:
        """Energy since the last window, in which the core was busy for ``busy_ns``."""
        # Which of the two counts is decided at each window, by what is seen of both. A counter is
        # accepted while it moves, and as long as power says about the same. Power is a call of its
        # own, so a driver whose calls are costly is asked for it only in doubt.
        slept, self._slept, self.begun = self._slept, False, True
        is_read = counter_uj is not None
        counter_uj = self._rising.take(counter_uj)
        has_stepped_back = is_read and counter_uj is None
        if slept:  # a board that is off draws nothing
            self._counter.value = None
        fresh = counter_uj is not None and self._counter.value is None
        self._counter.see(counter_uj, mono_ns)
        is_away = counter_uj is None and self.method == COUNTER
        power_uj = None
        is_sure = self._counter.is_moving and self.method == COUNTER
        if not is_away and (self._compares or not (is_sure or fresh)):
            milliwatts = power_mw()
            power_uj = self._power.add(milliwatts, mono_ns) if milliwatts else None
            if milliwatts and counter_uj is not None:
                self._compared.add(counter_uj, milliwatts, mono_ns)
        if self._counter.stands and power_uj is not None:
            self._counter.doubt()
        method = COUNTER if is_away else self._method(power_uj, fresh=fresh)
        # A counter that cannot be read goes on, so nothing is lost. But the sum may not be shown as
        # one that stands still; nor may one by power, while that is unknown.
        lacks = {COUNTER: counter_uj, POWER: power_uj}.get(method, 0) is None
        self._away_ns = (self._away_ns or mono_ns) if lacks else None
        self._is_away = self._away_ns is not None and mono_ns - self._away_ns >= STILL_NS
        is_doubtful = self._counter.stands or has_stepped_back
        self._is_away = self._is_away or (method == COUNTER and is_doubtful)
        is_accepted = (self._counter.has_moved or fresh) and not self._counter.stands
        value = {COUNTER: counter_uj if is_accepted else None, POWER: power_uj}.get(method)
        # The other method goes on from where it would have begun. So a change of method neither
        # loses energy nor counts any twice.
        if method != self.method:
            self.method = method
            self._meter.restart()  # the two do not count from the same zero
            if method in self._since:
                self._meter.take(*self._since[method], None)
        self._remember(counter_uj, power_uj, mono_ns)
        energy = self._meter.take(value, mono_ns, None if slept else busy_ns)
        return energy.as_idle() if slept else energy

    @property
    def unmeasured(self) -> Mapping[str, Unmeasured]:
        """Why energy is not known, if it is not known what was used in the last seconds."""
        return {"energy": Unmeasured.READ_FAILED} if self._is_away else {}

    def _method(self, power_uj: int | None, *, fresh: bool) -> str:
        # A counter that is seen for the first time is accepted: it has had no time to move.
        if self.method != POWER and fresh:
            return COUNTER
        if self._compared.agrees:
            has_figure = not self._counter.stands or (power_uj is None and self._counter.has_moved)
            if self.method == COUNTER and has_figure:
                return COUNTER
            if self.method != COUNTER and self._counter.has_moved and COUNTER in self._since:
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
        self._compared.pause()
        self._since.clear()

    def restart(self) -> None:
        """Leaves out what was used since the last reading."""
        self.begun = False
        self._rising = Rising()
        self._counter.value = None
        self._compared.pause()
        self._since.clear()
        self._meter.restart()

    def lose_counter(self) -> None:
        """Lets power be asked: the driver refuses the counter now."""
        if self.method == COUNTER:
            self.method = NEITHER
