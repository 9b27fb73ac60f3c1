"""Busy time of each process by the driver's own sums: accounting, since driver 610.

The driver adds up, for each process, the samples that name it, without rounding and without losing
any (OGKM gpu_acct.c). What counts is the ratio of two differences, the sum's and the number of
samples, because the driver may count the whole ring twice, in both alike. The driver adds up once a
second, at moments of its own: in a window of a second the sums lag behind its samples by up to one.

Only processes that began while accounting mode was on are known. One that is not leaves its window
to the rows of ``nvmlDeviceGetProcessUtilization``, from which these sums are made.
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
    """What the settings ``nvml.shares`` and ``nvml.enable-accounting`` ask for."""
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
    """What the driver has added up for a process, in hundredths of a percent of a sample."""

    start_us: int
    running: bool
    samples: int
    core: int
    memory_active: int


class Accounting:
    """The sums of one device's processes from window to window. One thread at a time."""

    def __init__(self, library: Library, choice: AccountingChoice, clock: Clock) -> None:
        self._library = library
        self._choice = choice
        self._retry = Backoff(clock)
        self._function = library.function(STATS, c_void_p, c_void_p)
        self._said = ""

    def bind(self, handle: Any, uuid: str) -> None:  # noqa: ANN401 - pynvml's pointer
        """Ask through another handle from now on; what was added up before is not compared."""
        self._handle, self._uuid = handle, uuid
        self._forget()
        self._retry.reset()

    def _forget(self) -> None:
        self._ready = False
        self._known: dict[int, Sums] = {}
        self._since_us: int | None = None

    def processes(self, window: Window) -> tuple[ProcessActivity, ...] | None:
        """Busy time of each process in the window, which its rows begin; None: the rows stand.

        Raises:
            DriverGoneError: the driver is not there.
            DeviceLostError: the device is not there.

        """
        if not (self._ready or self._made_ready()) or not self._choice.use:
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
        return None if added is None else activities(window, added)

    def _added(self, named: set[int]) -> dict[int, Sums] | None:
        """What was added for each process; None where one of the named cannot be told."""
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
        """What was added since the last window; None where that cannot be told.

        A process that is new to us counts from 0 if it began while we were looking. Another start
        is another process under the same pid.
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
        """The sums of a process; None where the driver keeps none of it."""
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

    def _made_ready(self) -> bool:
        """Whether accounting is on by now; it is looked for less and less often."""
        if not any(self._choice) or not self._retry.due:
            return False
        hindrance = self._hindrance()
        self._ready = not hindrance
        if hindrance:
            self._fail(hindrance)
        return self._ready

    def _hindrance(self) -> str:
        """Why there are no sums to be had, and what to do about it."""
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


def activities(window: Window, added: Mapping[int, Sums]) -> tuple[ProcessActivity, ...] | None:
    """Busy time out of sums: each sample stands for as long as any. None: they say nothing yet.

    Every process that lives counts every sample, so the most that one has counted is how many
    there were. Where none lived through the window, all figures are too high alike: they are
    shares. Encoder and decoder are not added up; they come from the window's own rows.
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
