"""Busy time of each process by the driver's own sums: accounting, since driver 610.

The driver sums the samples of each process without rounding and without losing any (OGKM
gpu_acct.c). The result here is the ratio of two differences, of the sum and of the number of
samples, because the driver may count the whole ring twice in both. It sums once a second, at times
of its own: in a window of a second the sums may lag behind the samples by one.

Only processes that began while accounting mode was on are known. If a process is not, the window
uses the rows of ``nvmlDeviceGetProcessUtilization``.
"""

import logging
from collections.abc import Mapping
from ctypes import Structure, byref, c_uint, c_ulonglong, c_void_p, cast
from typing import Any, NamedTuple

from exporter.model import Clock, Engines, ProcessActivity, Window
from exporter.sources.gpus.nvml import errors
from exporter.sources.gpus.nvml.library import Library
from exporter.sources.gpus.nvml.refusals import Backoff

logger = logging.getLogger(__name__)

STATS = "nvmlDeviceGetAccountingStats_v2"
AUTO = "samples"  # what --nvml.shares=auto means
ENABLED = 1  # nvmlEnableState_t
FULL = 10_000  # sums are in hundredths of a percent


class AccountingChoice(NamedTuple):
    """Whether shares come from accounting, and whether its mode is switched on for that."""

    use: bool = False
    enable: bool = False


NO_ACCOUNTING = AccountingChoice()


def choice_of(shares: str, *, enable: bool) -> AccountingChoice:
    """The choice of the settings ``nvml.shares`` and ``nvml.enable-accounting``."""
    return AccountingChoice((AUTO if shares == "auto" else shares) == "accounting", enable)


class _AccountingStats(Structure):
    """``nvmlAccountingStats_v2_t``."""

    _fields_ = (
        ("pid", c_uint),
        ("is_running", c_uint),
        ("gpu_percent", c_uint),
        ("memory_percent", c_uint),
        ("most_memory", c_ulonglong),
        ("samples", c_uint),
        ("core", c_ulonglong),
        ("memory_active", c_ulonglong),
        ("time_ms", c_ulonglong),
        ("start_us", c_ulonglong),
    )


class Sums(NamedTuple):
    """The driver's sums for a process, in hundredths of a percent of a sample."""

    start_us: int
    running: bool
    samples: int
    core: int
    memory_active: int


class Accounting:
    """Reads the sums of one device's processes at each window. One thread at a time."""

    def __init__(self, library: Library, choice: AccountingChoice, clock: Clock) -> None:
        self._library = library
        self._choice = choice
        self._retry = Backoff(clock)
        self._function = library.function(STATS, c_void_p, c_void_p)
        self._said = ""

    def bind(self, handle: Any, uuid: str) -> None:  # noqa: ANN401 - pynvml's pointer
        """Uses another handle from now on. Earlier sums are dropped."""
        self._handle, self._uuid = handle, uuid
        self._forget()
        self._retry.reset()

    def _forget(self) -> None:
        self._ready = False
        self._known: dict[int, Sums] = {}
        self._since_us: int | None = None

    def processes(self, window: Window) -> tuple[ProcessActivity, ...] | None:
        """Busy time of each process in the window; None: the window keeps its rows.

        Raises:
            DriverGoneError: the driver is not there.
            DeviceLostError: the device is not there.

        """
        if not (self._ready or self._make_ready()) or not self._choice.use:
            return None
        if self._since_us is None:
            self._since_us = window.start_unix_ns // 1000
        try:
            added = self._added({process.pid for process in window.processes})
        except (errors.DriverGoneError, errors.DeviceLostError):
            raise
        except errors.NvmlError as error:
            self._fail(str(error))
            return None
        return None if added is None else accounted_activities(window, added)

    def _added(self, named: set[int]) -> dict[int, Sums] | None:
        """The increase of each process; None if that of a named process is unknown."""
        added: dict[int, Sums] = {}
        before, known = self._known, {}
        for pid in named | before.keys():
            sums = self._ask(pid)
            if sums is None:
                continue
            more = self._more(sums, before.get(pid))
            if more is not None:
                added[pid] = more
            if sums.running or pid in named:
                known[pid] = sums
        self._known = known
        return added if named <= added.keys() else None

    def _more(self, sums: Sums, before: Sums | None) -> Sums | None:
        """The increase since the last window; None if it is unknown.

        A new process counts from 0 if it began since reading began. Another start time means
        another process with the same pid.
        """
        if before is None or before.start_us != sums.start_us:
            if self._since_us is None or sums.start_us < self._since_us:
                return None
            before = sums._replace(samples=0, core=0, memory_active=0)
        more = sums._replace(
            samples=sums.samples - before.samples,
            core=sums.core - before.core,
            memory_active=sums.memory_active - before.memory_active,
        )
        return None if min(more.samples, more.core, more.memory_active) < 0 else more

    def _ask(self, pid: int) -> Sums | None:
        """The sums of a process; None if the driver keeps none for it."""
        stats = _AccountingStats(pid=pid)
        code = errors.FUNCTION_NOT_FOUND
        if self._function is not None:
            code = self._function(cast(self._handle, c_void_p), byref(stats))
        if code == errors.NOT_FOUND:
            return None
        if code != errors.SUCCESS:
            raise errors.error_of(code, STATS)
        return Sums(
            *(stats.start_us, bool(stats.is_running)),
            *(stats.samples, stats.core, stats.memory_active),
        )

    def _make_ready(self) -> bool:
        """Whether accounting is on now. It is checked with a back-off."""
        if not any(self._choice) or not self._retry.due:
            return False
        obstacle = self._obstacle()
        self._ready = not obstacle
        if obstacle:
            self._fail(obstacle)
        return self._ready

    def _obstacle(self) -> str:
        """Why there are no sums, and what to do about it; "" if there are."""
        if self._choice.use and self._function is None:
            return "the driver keeps no sums per process before release 610"
        try:
            if self._library.ask("nvmlDeviceGetAccountingMode", self._handle):
                return ""
            if not self._choice.enable:
                return "accounting mode is off; --nvml.enable-accounting switches it on"
            self._library.ask("nvmlDeviceSetAccountingMode", self._handle, ENABLED)
        except (errors.DriverGoneError, errors.DeviceLostError):
            raise
        except errors.NvmlError as error:
            if error.code == errors.NO_PERMISSION:
                return "only root may switch accounting mode on, as with nvidia-smi -am 1"
            return str(error)
        logger.info("device %s: accounting mode is on for processes that begin now", self._uuid)
        return ""

    def _fail(self, why: str) -> None:
        self._forget()
        self._retry.failed()
        if why != self._said:
            self._said = why
            logger.warning(
                "device %s: no accounting: %s; shares come from process samples", self._uuid, why
            )


def accounted_activities(
    window: Window, added: Mapping[int, Sums]
) -> tuple[ProcessActivity, ...] | None:
    """Busy time of each process out of sums; None if the sums have no samples yet.

    All samples count for the same time. Every live process counts every sample, so the largest
    count is their number. If no process lived through the window, all figures are too high by the
    same factor, which does not matter for shares. Encoder and decoder come from the window's rows.
    """
    rows = {process.pid: process.busy for process in window.processes}
    samples = max((more.samples for more in added.values()), default=0)
    if not samples:
        return None if rows else ()
    if any(busy.core for busy in rows.values()) and not any(m.core for m in added.values()):
        return None
    parts = samples * FULL
    return tuple(
        ProcessActivity(
            pid,
            rows.get(pid, Engines(encoder=0, decoder=0))._replace(
                core=more.core * window.observed_ns // parts,
                memory_active=None
                if window.busy.memory_active is None
                else more.memory_active * window.observed_ns // parts,
            ),
        )
        for pid, more in added.items()
        if pid in rows or more.core or more.memory_active
    )
