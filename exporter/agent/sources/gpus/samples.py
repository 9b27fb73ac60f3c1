"""A driver's ring: its rows and samples, filters for those that cannot be true, and its clock.

Ring semantics: NVML's ``nvmlDeviceGetSamples`` and ``nvmlDeviceGetProcessUtilization``. The clock
of the timestamps is the driver's own: epoch time on the GPUs seen, time since boot on others. The
driver does not say which. ``RingClock`` keeps how far that clock is ahead of the monotonic clock,
which nobody can set. The offset becomes uncertain when the wall clock was set, or when the ring has
new stamps at impossible times. It is then found by comparing the whole ring with an earlier read of
it: the newest of the new stamps is the ring's time now.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

STEP_US = 1_000_000  # the wall clock moved by this much against the monotonic one: it was set
UNCERTAIN_TTL_US = 30_000_000  # without a new stamp for so long, the old offset holds again


class RingChange(NamedTuple):
    """What changed in a ring between two reads of all its stamps.

    ``newest_us`` is the newest stamp if it is new: the ring's time now. It is None while older
    samples have later stamps, as after a step back of the clock: the driver would return those as
    newer than any time of now.
    """

    is_first: bool  # there is no earlier read since stamps were last as expected
    has_new: bool
    was_empty: bool  # at the earlier read: all that the ring holds now is new
    newest_us: int | None


class RingClock:
    """The clock of one ring. ``ahead_us``: how far it is ahead of the monotonic clock."""

    def __init__(self) -> None:
        self.ahead_us = 0
        self._wall_us: int | None = None  # the wall clock, ahead of the monotonic one
        self._uncertain_us = 0  # until the old offset holds again; 0: it is certain
        self._was_just_set = False  # the wall clock; the next stamp may be from before that
        self._seen: frozenset[int] | None = None

    @property
    def is_uncertain(self) -> bool:
        """Whether ``ahead_us`` may be wrong."""
        return self._uncertain_us > 0

    def observe_wall(self, wall_us: int) -> None:
        """Takes how far the wall clock is ahead of the monotonic one now."""
        before, self._wall_us = self._wall_us, wall_us
        if before is not None and abs(wall_us - before) > STEP_US:
            self._uncertain_us = UNCERTAIN_TTL_US
            self._was_just_set = True

    def confirm(self, stamp_us: int, mono_us: int, slack_us: float) -> bool:
        """Whether the newest stamp fits the offset. If it does, the offset is certain again.

        The first fitting stamp after a step may be of a sample from before it, so the offset stays
        uncertain. A stamp that was seen before does not count: it fits because time has passed.
        """
        off_us = abs(stamp_us - mono_us - self.ahead_us)
        was_seen = self._seen is not None and stamp_us in self._seen
        if self.is_uncertain and (was_seen or off_us > STEP_US + slack_us):
            return False
        if not self._was_just_set:
            self._uncertain_us = 0
        self._was_just_set, self._seen = False, None
        return True

    def compare(self, stamps_us: frozenset[int], after_us: int, latest_us: int) -> RingChange:
        """Compares all stamps with the earlier ones. New ones should lie in the given span."""
        before, self._seen = self._seen, stamps_us
        new = frozenset() if before is None else stamps_us - before
        if any(not after_us < stamp_us <= latest_us for stamp_us in new):
            self._uncertain_us = UNCERTAIN_TTL_US
        newest_us = max(stamps_us) if new and max(stamps_us) in new else None
        return RingChange(before is None, bool(new), before is not None and not before, newest_us)

    def set(self, now_us: int, mono_us: int) -> None:
        """Sets the offset: it is ``now_us`` in the ring's clock now."""
        self.ahead_us = now_us - mono_us
        self._uncertain_us = 0

    def add_silence(self, us: int) -> None:
        """Counts time in which the offset was uncertain and the ring had nothing new."""
        self._uncertain_us = max(self._uncertain_us - us, 0)


NO_PID = frozenset({0, 0xFFFFFFFF})
FUTURE_US = 5_000_000  # a timestamp further ahead than this is garbage, or the clock was set
WHOLE = 100  # percent


BusySample = tuple[int, float]
"""A ``Sample`` or a bare tuple of the same. Bare ones cost less: a device has tens a second."""

ProcessRow = tuple[int, int, int, int, int, int]
"""A ``ProcessSample`` or a bare tuple of the same."""


class SampleReader(Protocol):
    """The driver calls for one device."""

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[BusySample] | None:
        """Samples of the whole device, oldest first; None: this device keeps none."""
        ...

    def utilization(self, engine: str) -> float | None:
        """Percent of the newest sample only; None: this device does not report it."""
        ...

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessRow] | None:
        """Rows of processes active since then; None: this device does not report them."""
        ...


def plausible_samples(
    samples: Sequence[BusySample], start_us: int, latest_us: int
) -> Sequence[BusySample]:
    """The samples after ``start_us`` that can be true. The input is sorted, oldest first.

    ``latest_us`` is from before the call: after a call that hung, samples go on past it without a
    gap. A percentage outside 0-100, or NaN, is the driver's blank value.
    """
    if samples and start_us < samples[0][0] and samples[-1][0] <= latest_us:
        for _, percent in samples:
            if not 0 <= percent <= WHOLE:
                break
        else:
            return samples  # nearly always
    plausible = []
    for sample in samples:
        timestamp_us, percent = sample
        if start_us < timestamp_us <= latest_us and 0 <= percent <= WHOLE:
            plausible.append(sample)
            latest_us = max(latest_us, timestamp_us + FUTURE_US)
    return plausible


def newest_rows(
    rows: Iterable[ProcessRow], start_us: int, latest_us: int
) -> tuple[list[ProcessRow], Mapping[str, int]]:
    """The newest row of each pid, and the number of rows that cannot be true, by reason.

    Drivers have returned uninitialised rows: percentages far over 100, pids that are not on the
    device, timestamps older than asked for (nvtop#110). Pid 4294967295 is the driver's "none".
    """
    newest: dict[int, ProcessRow] = {}
    rejected: dict[str, int] = {}
    for row in rows:
        pid, timestamp_us, core, memory, encoder, decoder = row
        if pid in NO_PID:
            reason = "pid"
        elif core > WHOLE or memory > WHOLE or encoder > WHOLE or decoder > WHOLE:
            reason = "percentage"
        elif not start_us < timestamp_us <= latest_us:
            reason = "timestamp"
        else:
            if pid not in newest or newest[pid][1] < timestamp_us:
                newest[pid] = row
            continue
        rejected[reason] = rejected.get(reason, 0) + 1
    return list(newest.values()), rejected


def stamps_of(rows: Iterable[ProcessRow]) -> frozenset[int]:
    """The timestamps of the rows that can be true in whatever clock."""
    return frozenset(
        timestamp_us
        for pid, timestamp_us, *percents in rows
        if pid not in NO_PID and max(percents) <= WHOLE
    )
