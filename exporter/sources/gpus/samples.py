"""The rows and samples of a driver's ring, and filters for those that cannot be true.

Ring semantics: NVML's ``nvmlDeviceGetSamples`` and ``nvmlDeviceGetProcessUtilization``. The clock
of the timestamps is the driver's own: epoch time on the GPUs seen, time since boot on others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

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
