"""Counts XID errors: a thread waits for the events of NVML's event sets.

XIDs from before a board was registered are not reported. Reading once a cycle would need no thread
but lose causes: if several XIDs come before the call, many drivers return the last one for all
(nvml.h; the newest drivers on Linux do not).
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from ctypes import Structure, byref, c_uint, c_ulonglong, c_void_p, cast
from threading import Condition, Thread
from typing import Any, NamedTuple

from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.refusals import retry_of
from exporter.agent.sources.gpus.xids import XidCounts, log_first
from exporter.model import Clock, Unmeasured, XidCount

logger = logging.getLogger(__name__)

XID = "xid"  # the group of metric families, and the quantity

CREATE = "nvmlEventSetCreate"
FREE = "nvmlEventSetFree"
REGISTER = "nvmlDeviceRegisterEvents"
WAIT = "nvmlEventSetWait_v2"

XID_EVENT = 8  # nvmlEventTypeXidCriticalError
FIRST_WAIT_MS = 50
LONGEST_WAIT_MS = 1500  # a stop waits so long, because a call in progress cannot be ended
STOP_WITHIN_S = 2.0
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 5.0


class _EventData(Structure):
    """``nvmlEventData_t``."""

    _fields_ = (
        ("device", c_void_p),
        ("kind", c_ulonglong),
        ("xid", c_ulonglong),
        ("gpu_instance", c_uint),
        ("compute_instance", c_uint),
    )


class _EventSet:
    """An event set of the driver. It must be closed before the driver is."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._data = _EventData()
        self.wait_ms = FIRST_WAIT_MS
        self._set = c_void_p()
        library.call(CREATE, byref(self._set))

    def register(self, address: int) -> None:
        self._library.call(REGISTER, c_void_p(address), c_ulonglong(XID_EVENT), self._set)

    def wait(self) -> _EventData | None:
        """The next event, or None after a wait without one, which is the usual case.

        The wait doubles each time, because every wait wakes a thread.
        """
        wait_ms, self.wait_ms = self.wait_ms, min(2 * self.wait_ms, LONGEST_WAIT_MS)
        try:
            self._library.call(WAIT, self._set, byref(self._data), c_uint(wait_ms))
        except errors.NvmlError as error:
            if error.code == errors.TIMEOUT:
                return None
            raise
        return self._data

    def close(self) -> None:
        self._library.call(FREE, self._set)


class Xids(NamedTuple):
    """The XIDs of a board, or the reason why they are not measured.

    Both are empty before the board is registered.
    """

    counts: Mapping[str, XidCount]
    refusal: Unmeasured | None


NO_XIDS = Xids({}, None)


class XidWatch:
    """Counts XID errors of the watched boards. Thread-safe.

    The counts survive a restart or release of the driver. They are reported only while the driver
    is watched, because otherwise they could not rise.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._counts: dict[str, XidCounts] = {}
        self._refused: dict[str, Unmeasured] = {}
        self._retry = retry_of(clock)
        self._retrying = False  # boards that refused are tried again
        self._failing: set[str] = set()
        self._boards: Mapping[str, int] | None = None  # None: the thread ends
        self._is_changed = False
        self._pause_s = FIRST_PAUSE_S
        self._thread: Thread | None = None

    def of(self, uuid: str) -> Xids:
        """The XIDs of a board, also of one that is lost."""
        counts = self._counts.get(uuid)  # once there, it stays; what it holds never changes
        refusal = self._refused.get(uuid)
        shown = counts.snapshot() if counts and self._running and not refusal else {}
        return Xids(shown, refusal)

    def watch(self, library: Library, boards: Mapping[str, Any] | None) -> None:
        """Watches these boards (handle by UUID); those that have failed are tried again.

        None: XIDs are not wanted, and the watch ends. An empty mapping keeps the counts of lost
        boards.
        """
        addresses = boards and {u: cast(h, c_void_p).value or 0 for u, h in boards.items()}
        with self._changed:
            running = self._running
            # Each change ends the event set that the thread waits on, and begins another one. So
            # the thread hears only of what changes something for it.
            again = bool(self._refused) and self._retry.due
            if running and addresses == self._boards and not (self._failing or again):
                return
            self._retrying = again
            self._boards = addresses
            self._failing.clear()
            self._is_changed = True
            self._changed.notify_all()
            if addresses and not running:
                self._refused.clear()
                self._retry.reset()
                self._thread = Thread(
                    target=self._run, args=(library,), name="nvml events", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Ends the watch and waits until no call is in progress, so that the driver can be closed.

        Raises:
            NvmlError: a call hangs.

        """
        with self._changed:
            thread = self._thread
            self._boards = None
            self._is_changed = True
            self._changed.notify_all()
        if thread is not None:
            thread.join(STOP_WITHIN_S)
            if thread.is_alive():
                raise errors.error_of(errors.TIMEOUT, WAIT)

    @property
    def _running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self, library: Library) -> None:
        while (boards := self._begin()) is not None:
            try:
                self._listen(library, boards)
            except errors.DriverGoneError:
                return  # watched again as soon as the driver is back
            except errors.UnmeasurableError as error:
                self._refuse(boards, error)
                self._rest(None)
            except errors.NvmlError as error:
                logger.debug("XIDs are not reported for a moment: %s", error)
                self._rest(self._pause_s)
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _begin(self) -> Mapping[str, int] | None:
        """The boards to watch now; None: the thread ends."""
        with self._changed:
            self._is_changed = False
            if self._boards is None:
                return None
            out = set(self._failing)
            if not self._retrying:
                out |= self._refused.keys()
            self._retrying = False
            return {uuid: board for uuid, board in self._boards.items() if uuid not in out}

    def _listen(self, library: Library, boards: Mapping[str, int]) -> None:
        """Counts events until the boards change. A board that cannot be watched is left out."""
        with closing(_EventSet(library)) as events:
            watched = {
                address: uuid
                for uuid, address in boards.items()
                if self._register(events, uuid, address)
            }
            if not watched:
                self._rest(None)
            while not self._is_changed:
                asked_ns, wait_ms = self._clock.monotonic_ns(), events.wait_ms
                event = events.wait()
                waited_ms = (self._clock.monotonic_ns() - asked_ns) / 1e6
                self._pause_s = FIRST_PAUSE_S
                if self._refused:
                    self._admit(watched.values())
                if event is not None and event.kind == XID_EVENT and event.device in watched:
                    uuid = watched[event.device]
                    with self._changed:
                        is_first = self._counts[uuid].add(event.xid)
                        self._changed.notify_all()
                    if is_first:
                        log_first(uuid, event.xid)
                elif waited_ms < wait_ms / 2:
                    # Some drivers say at once that nothing came, without having waited for it.
                    # Asked again at once, they would keep this thread at work all the time.
                    self._rest(FIRST_PAUSE_S)

    def _register(self, events: _EventSet, uuid: str, address: int) -> bool:
        try:
            events.register(address)
        except errors.UnmeasurableError as error:
            self._refuse([uuid], error)
            return False
        except (errors.DeviceLostError, errors.CallError) as error:
            with self._changed:
                self._failing.add(uuid)
            if error.code == errors.UNKNOWN:
                raise  # the set is then undefined (nvml.h)
            return False
        with self._changed:
            self._counts.setdefault(uuid, XidCounts(self._clock))
            self._changed.notify_all()
        return True

    def _refuse(self, uuids: Iterable[str], error: errors.UnmeasurableError) -> None:
        with self._changed:
            self._refused.update(dict.fromkeys(uuids, error.reason))
            if self._retry.due:  # else another board has postponed it already
                self._retry.failed()
            self._changed.notify_all()
        logger.info("XIDs of %s are not reported: %s", ", ".join(uuids), error)

    def _admit(self, uuids: Iterable[str]) -> None:
        """Forgets the refusals of boards that are watched now."""
        with self._changed:
            for uuid in uuids:
                if self._refused.pop(uuid, None):
                    logger.info("XIDs of %s are reported again", uuid)
            if not self._refused:
                self._retry.reset()
            self._changed.notify_all()

    def _rest(self, seconds: float | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_changed, seconds)
