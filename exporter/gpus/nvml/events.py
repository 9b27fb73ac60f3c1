"""XID events: once a cycle the driver is asked for those that it holds ready, and they are counted.

Stands on NVML's event sets. What happened before a board was registered is not reported.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from ctypes import Structure, byref, c_uint, c_ulonglong, c_void_p, cast
from functools import partial
from typing import Any, NamedTuple

from exporter.gpus.nvml import errors
from exporter.gpus.nvml.backoff import Backoff
from exporter.gpus.nvml.library import Library
from exporter.gpus.xids import ACTED_ON, XidCounts
from exporter.model import Clock, Unmeasured, XidCount

logger = logging.getLogger(__name__)

XID = "xid"  # the group of metric families, and the quantity
WAIT = "nvmlEventSetWait_v2"
XID_EVENT = 8  # nvmlEventTypeXidCriticalError
MOST_EVENTS = 100  # in one cycle: what is left is counted in the next
FIRST_PAUSE_S = 0.5  # between a set that fails and
LONGEST_PAUSE_S = 5.0  # the next, which may as well


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
        wait = library.function(WAIT, c_void_p, c_void_p, c_uint)
        if wait is None:
            raise errors.error_of(errors.FUNCTION_NOT_FOUND, WAIT)
        self._ask = library.ask
        self._set = library.ask("nvmlEventSetCreate")
        self._data = _EventData()
        # With 0 ms for a timeout the call does not wait: it gives what is ready or says TIMEOUT, at
        # once (measured: https://github.com/NVIDIA/cuda-python/pull/2924). Until it is asked, the
        # driver keeps what happens, on Linux each XID with its own data (nvml.h).
        self._wait = partial(wait, self._set, byref(self._data), 0)

    def register(self, address: int) -> None:
        """Report a board's XIDs from now on."""
        self._ask("nvmlDeviceRegisterEvents", c_void_p(address), XID_EVENT, self._set)

    def next(self) -> _EventData | None:
        """The next event; None: there is no other, which is the usual case."""
        code = self._wait()
        if code == errors.TIMEOUT:
            return None
        if code != errors.SUCCESS:
            raise errors.error_of(code, WAIT)
        return self._data

    def close(self) -> None:
        """Give the set back."""
        with suppress(errors.NvmlError):
            self._ask("nvmlEventSetFree", self._set)


class Xids(NamedTuple):
    """The XIDs of a board, empty where none can be told; and why it does not tell, if it does not.

    While there is no reason and no count, it may yet tell.
    """

    counts: Mapping[str, XidCount]
    refusal: Unmeasured | None


NO_XIDS = Xids({}, None)


class _Boards(NamedTuple):
    """What to watch: UUIDs by the addresses of handles. Who cannot be watched is taken out."""

    library: Library
    uuids: dict[int, str]


class XidWatch:
    """Counts the XIDs of the boards that it is told of.

    The counts outlive a driver that is restarted or let go of, but are told only while the driver
    is watched: a count that cannot rise is not one. ``ask`` runs in one thread at a time, ``close``
    never beside it; ``of`` and ``watch`` are for any, also while ``ask`` hangs.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: dict[str, XidCounts] = {}
        self._refused: dict[str, Unmeasured] = {}
        self._wanted: _Boards | None = None
        self._boards: _Boards | None = None  # those of the event set; None: it is to be made
        self._events: _EventSet | None = None
        self._retry = Backoff(clock, FIRST_PAUSE_S, LONGEST_PAUSE_S)

    def of(self, uuid: str) -> Xids:
        """The XIDs of a board, also of one that is lost."""
        counts = self._counts.get(uuid)  # once there, it stays; what it holds never changes
        refusal = self._refused.get(uuid)
        told = counts.snapshot() if counts and self._wanted and not refusal else {}
        return Xids(told, refusal)

    def watch(self, library: Library, boards: Mapping[str, Any]) -> None:
        """Watch these boards, handle by UUID; those that have failed so far are tried again."""
        uuids = {
            cast(handle, c_void_p).value or 0: uuid
            for uuid, handle in boards.items()
            if uuid not in self._refused
        }
        wanted = self._wanted
        if wanted is None or wanted.uuids != uuids:
            self._retry.reset()
            self._wanted = _Boards(library, uuids)

    def ask(self) -> None:
        """Count what has come since the last time; see to it that the boards are watched."""
        for step in (self._take, self._begin):
            try:
                step()
            except errors.DriverGoneError:
                self.close()  # watched again as soon as the driver is back
            except errors.UnmeasurableError as error:
                self._free()
                if self._boards:
                    self._refuse(self._boards, error, *self._boards.uuids)
            except errors.NvmlError as error:
                logger.debug("XIDs are not told of for a moment: %s", error)
                self._free()
                self._boards = None

    def close(self) -> None:
        """Give back what the driver's library holds, so that the driver can be closed."""
        self._free()
        self._wanted = self._boards = None
        self._refused.clear()

    def _take(self) -> None:
        if self._events is None or self._boards is None:
            return
        for _ in range(MOST_EVENTS):
            event = self._events.next()
            if event is None:
                return
            uuid = self._boards.uuids.get(event.device)
            if uuid and event.kind == XID_EVENT:
                self._count(uuid, event.xid)

    def _begin(self) -> None:
        """Make the set anew if boards have changed or it has failed.

        One board that is lost fails it for all: at once, then, and without those that fail again.
        """
        wanted = self._wanted
        if wanted is None or wanted is self._boards or not self._retry.due:
            return
        self._retry.failed()  # in case it does
        self._free()
        self._boards = wanted
        if wanted.uuids:
            self._events = events = _EventSet(wanted.library)
            for address in tuple(wanted.uuids):
                self._register(events, wanted, address)
        if not wanted.uuids:
            self._free()

    def _register(self, events: _EventSet, boards: _Boards, address: int) -> None:
        try:
            events.register(address)
        except errors.DriverGoneError:
            raise
        except errors.UnmeasurableError as error:
            self._refuse(boards, error, address)
        except errors.NvmlError as error:
            del boards.uuids[address]
            if error.code == errors.UNKNOWN:
                raise  # the set is then undefined (nvml.h)
        else:
            self._counts.setdefault(boards.uuids[address], XidCounts(self._clock))

    def _refuse(self, boards: _Boards, error: errors.UnmeasurableError, *addresses: int) -> None:
        uuids = [boards.uuids.pop(address) for address in addresses]
        self._refused.update(dict.fromkeys(uuids, error.reason))
        logger.info("XIDs of %s are not told of: %s", ", ".join(uuids), error)

    def _free(self) -> None:
        if self._events:
            self._events.close()
            self._events = None

    def _count(self, uuid: str, xid: int) -> None:
        if self._counts[uuid].add(xid):
            meaning = ACTED_ON.get(xid, "see NVIDIA's catalogue of XIDs")
            logger.warning("device %s reports XID %d: %s; see the kernel log", uuid, xid, meaning)
