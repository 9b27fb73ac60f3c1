"""XID events: the driver is waited for in a thread of its own, which counts what it reports.

Stands on NVML's event sets. What happened before a board was registered is not reported. To ask
once a cycle would spare the thread, and miss causes: of several XIDs that come before the call,
many drivers give the last for all (nvml.h; on Linux no longer in the newest).
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import closing
from ctypes import Structure, byref, c_uint, c_ulonglong, c_void_p, cast
from threading import Condition, Thread
from typing import Any, NamedTuple

from exporter.model import Clock, Unmeasured, XidCount
from exporter.sources.gpus.nvml import errors
from exporter.sources.gpus.nvml.library import CFunction, Library
from exporter.sources.gpus.nvml.refusals import retry_of
from exporter.sources.gpus.xids import ACTED_ON, XidCounts

logger = logging.getLogger(__name__)

XID = "xid"  # the group of metric families, and the quantity

CREATE = "nvmlEventSetCreate"
FREE = "nvmlEventSetFree"
REGISTER = "nvmlDeviceRegisterEvents"
WAIT = "nvmlEventSetWait_v2"

XID_EVENT = 8  # nvmlEventTypeXidCriticalError
FIRST_WAIT_MS = 50
LONGEST_WAIT_MS = 700  # a call under way cannot be ended: a stop waits that long, within a deadline
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
    """An event set of the driver. To be closed before the driver is."""

    def __init__(self, library: Library) -> None:
        create = _required(library, CREATE, c_void_p)
        self._free = _required(library, FREE, c_void_p)
        self._register = _required(library, REGISTER, c_void_p, c_ulonglong, c_void_p)
        self._wait = _required(library, WAIT, c_void_p, c_void_p, c_uint)
        self._data = _EventData()
        self._wait_ms = FIRST_WAIT_MS
        self._set = c_void_p()
        _check(create(byref(self._set)), CREATE)

    def register(self, address: int) -> None:
        """Report a board's XIDs from now on."""
        _check(self._register(address, XID_EVENT, self._set), REGISTER)

    def wait(self) -> _EventData | None:
        """The next event; None: none came for a while, which is the usual case.

        The longer nothing happens, the longer is a while: each costs a thread that is woken.
        """
        code = self._wait(self._set, byref(self._data), self._wait_ms)
        self._wait_ms = min(2 * self._wait_ms, LONGEST_WAIT_MS)
        if code == errors.TIMEOUT:
            return None
        _check(code, WAIT)
        return self._data

    def close(self) -> None:
        """Give the set back."""
        self._free(self._set)


def _required(library: Library, name: str, *argtypes: Any) -> CFunction:  # noqa: ANN401 - ctypes types
    function = library.function(name, *argtypes)
    if function is None:
        raise errors.error_of(errors.FUNCTION_NOT_FOUND, name)
    return function


def _check(code: int, name: str) -> None:
    if code != errors.SUCCESS:
        raise errors.error_of(code, name)


class Xids(NamedTuple):
    """The XIDs of a board, empty where none can be told; and why it does not tell, if it does not.

    While there is no reason and no count, it may yet tell.
    """

    counts: Mapping[str, XidCount]
    refusal: Unmeasured | None


NO_XIDS = Xids({}, None)


class XidWatch:
    """Counts the XIDs of the boards that it is told of. For any number of threads.

    The counts outlive a driver that is restarted or let go of, but are told only while the driver
    is watched: a count that cannot rise is not one.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._counts: dict[str, XidCounts] = {}
        self._refused: dict[str, Unmeasured] = {}
        self._retry = retry_of(clock)
        self._retrying = False  # those that refuse are asked again
        self._failing: set[str] = set()
        self._boards: Mapping[str, int] | None = None  # None: the end
        self._anew = False
        self._pause_s = FIRST_PAUSE_S
        self._thread: Thread | None = None

    def of(self, uuid: str) -> Xids:
        """The XIDs of a board, also of one that is lost."""
        counts = self._counts.get(uuid)  # once there, it stays; what it holds never changes
        refusal = self._refused.get(uuid)
        told = counts.snapshot() if counts and self._running and not refusal else {}
        return Xids(told, refusal)

    def watch(self, library: Library, boards: Mapping[str, Any] | None) -> None:
        """Watch these boards, handle by UUID; those that have failed so far are tried again.

        None: nothing is to be told of any; where there is none, what was told of lost ones stays.
        """
        addresses = boards and {u: cast(h, c_void_p).value or 0 for u, h in boards.items()}
        with self._changed:
            running = self._running
            again = bool(self._refused) and self._retry.due
            if running and addresses == self._boards and not (self._failing or again):
                return
            self._retrying = again
            self._boards = addresses
            self._failing.clear()
            self._anew = True
            self._changed.notify_all()
            if addresses and not running:
                self._refused.clear()
                self._retry.reset()
                self._thread = Thread(
                    target=self._run, args=(library,), name="nvml events", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Wait until no call is under way, so that the driver can be closed.

        Raises:
            NvmlError: a call hangs.

        """
        with self._changed:
            thread = self._thread
            self._boards = None
            self._anew = True
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
                logger.debug("XIDs are not told of for a moment: %s", error)
                self._rest(self._pause_s)
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)

    def _begin(self) -> Mapping[str, int] | None:
        """The boards to watch now; None: the end."""
        with self._changed:
            self._anew = False
            if self._boards is None:
                return None
            out = set(self._failing)
            if not self._retrying:
                out |= self._refused.keys()
            self._retrying = False
            return {uuid: board for uuid, board in self._boards.items() if uuid not in out}

    def _listen(self, library: Library, boards: Mapping[str, int]) -> None:
        """Count what comes until the boards change; a board that cannot be watched is left out."""
        with closing(_EventSet(library)) as events:
            watched = {
                address: uuid
                for uuid, address in boards.items()
                if self._register(events, uuid, address)
            }
            if not watched:
                self._rest(None)
            while not self._anew:
                event = events.wait()
                self._pause_s = FIRST_PAUSE_S
                if self._refused:
                    self._admit(watched.values())
                if event is not None and event.kind == XID_EVENT:
                    self._count(watched.get(event.device), event.xid)

    def _register(self, events: _EventSet, uuid: str, address: int) -> bool:
        try:
            events.register(address)
        except errors.DriverGoneError:
            raise
        except errors.UnmeasurableError as error:
            self._refuse([uuid], error)
            return False
        except errors.NvmlError as error:
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
            if self._retry.due:  # else another board has put it off already
                self._retry.failed()
            self._changed.notify_all()
        logger.info("XIDs of %s are not told of: %s", ", ".join(uuids), error)

    def _admit(self, uuids: Iterable[str]) -> None:
        """Forget the refusals of boards that are watched now."""
        with self._changed:
            for uuid in uuids:
                if self._refused.pop(uuid, None):
                    logger.info("XIDs of %s are reported again", uuid)
            if not self._refused:
                self._retry.reset()
            self._changed.notify_all()

    def _rest(self, seconds: float | None) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._anew, seconds)

    def _count(self, uuid: str | None, xid: int) -> None:
        if uuid is None:
            return
        with self._changed:
            first = self._counts[uuid].add(xid)
            self._changed.notify_all()
        if first:
            meaning = ACTED_ON.get(xid, "see NVIDIA's catalogue of XIDs")
            logger.warning("device %s reports XID %d: %s; see the kernel log", uuid, xid, meaning)
