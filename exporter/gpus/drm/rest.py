"""Whether a device may be read now without being woken, or kept from falling asleep.

Runtime power management of the kernel (Documentation/power/runtime_pm.rst): ``power/control`` is
``auto`` where the device may be suspended, ``runtime_status`` says whether it is. Both can be read
without waking it.
"""

from enum import Enum, auto

from exporter.gpus.drm.files import number, text

MS = 10**6
LONGEST_PAUSE_NS = 5 * 10**9
_DEFAULT_DELAY_MS = 1000


class State(Enum):
    """What reading a device would do to it now."""

    AWAKE = auto()
    DROWSY = auto()  # idle when it was asked last: it would be kept awake
    ASLEEP = auto()  # it would be woken


class Rest:
    """The sleep of one device. ``power``: the directory of that name in sysfs."""

    def __init__(self, power: str, longest_pause_ns: int = LONGEST_PAUSE_NS) -> None:
        self._power = power
        self._longest_ns = longest_pause_ns
        self._was_idle = False
        self._read_ns = 0

    def note(self, mono_ns: int, *, idle: bool) -> None:
        """It was read now, and had, or had not, worked since the time before."""
        self._was_idle, self._read_ns = idle, mono_ns

    def state(self, mono_ns: int) -> State:
        """How it is."""
        if text(f"{self._power}/control") != "auto":
            return State.AWAKE
        if text(f"{self._power}/runtime_status") == "suspended":
            return State.ASLEEP
        delay_ms = number(f"{self._power}/autosuspend_delay_ms")
        pause_ns = 2 * MS * (_DEFAULT_DELAY_MS if delay_ms is None else max(delay_ms, 0))
        pause_ns = min(pause_ns, self._longest_ns)
        is_resting = self._was_idle and mono_ns - self._read_ns < pause_ns
        return State.DROWSY if is_resting else State.AWAKE
