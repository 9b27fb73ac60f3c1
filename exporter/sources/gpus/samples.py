"""What a driver's ring holds, and which of it cannot be true.

Ring semantics: NVML's ``nvmlDeviceGetSamples`` and ``nvmlDeviceGetProcessUtilization``. The clock
of the timestamps is the driver's own: epoch time on the GPUs seen, time since boot on others.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

NO_PID = frozenset({0, 0xFFFFFFFF})
FUTURE_US = 5_000_000  # a timestamp further ahead than this is garbage, or the clock was set
WHOLE = 100  # percent


BusySample = tuple[int, float]
"""A ``Sample`` or a bare tuple of the same: tens of them are made of each device each second."""


class Sample(NamedTuple):
    """How busy one engine of a device was during one sample, in percent."""

    timestamp_us: int
    percent: float


class ProcessSample(NamedTuple):
    """One process's average over the samples asked for, in integer percent per engine."""

    pid: int
    timestamp_us: int
    core: int
    memory_active: int
    encoder: int
    decoder: int


ProcessRow = tuple[int, int, int, int, int, int]
"""A ``ProcessSample`` or a bare tuple of the same."""


class SampleReader(Protocol):
    """The driver calls for one device."""

    def busy_samples(self, engine: str, newer_than_us: int) -> Sequence[BusySample] | None:
        """Samples of the whole device, oldest first; None: this device keeps none."""
        ...

    def utilization(self, engine: str) -> float | None:
        """Percent of the newest sample only; None: this device does not tell."""
        ...

    def process_samples(self, newer_than_us: int) -> Sequence[ProcessRow] | None:
        """Rows of processes active since then; None: this device does not tell."""
        ...


def credible(samples: Sequence[BusySample], start_us: int, latest_us: int) -> Sequence[BusySample]:
    """Keep the samples after ``start_us``, of those given oldest first, that can be true.

    ``latest_us`` is from before the driver was asked. After a call that hung, the samples lead past
    it without a gap. A percentage that is none, NaN too, is the driver's blank value.
    """
    if samples and start_us < samples[0][0] and samples[-1][0] <= latest_us:
        for _, percent in samples:
            if not 0 <= percent <= WHOLE:
                break
        else:
            return samples  # nearly always
    kept = []
    for sample in samples:
        timestamp_us, percent = sample
        if start_us < timestamp_us <= latest_us and 0 <= percent <= WHOLE:
            kept.append(sample)
            latest_us = max(latest_us, timestamp_us + FUTURE_US)
    return kept


def sift(
    rows: Iterable[ProcessRow], start_us: int, latest_us: int
) -> tuple[list[ProcessRow], Mapping[str, int]]:
    """Keep the newest row of each pid; count the rows that cannot be true, by reason.

    Uninitialised rows have been seen in the wild: percentages far over 100, pids that are not on
    the device, timestamps older than asked for (nvtop#110); pid 4294967295 is the driver's "none".
    """
    kept: dict[int, ProcessRow] = {}
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
            if pid not in kept or kept[pid][1] < timestamp_us:
                kept[pid] = row
            continue
        rejected[reason] = rejected.get(reason, 0) + 1
    return list(kept.values()), rejected


def stamps_of(rows: Iterable[ProcessRow]) -> frozenset[int]:
    """The timestamps of the rows that can be true, if any clock is allowed."""
    return frozenset(
        timestamp_us
        for pid, timestamp_us, *percents in rows
        if pid not in NO_PID and max(percents) <= WHOLE
    )
