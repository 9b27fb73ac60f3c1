"""Opens the driver, and opens it again after it was restarted or let go."""

import logging
from collections.abc import Sequence
from ctypes import CDLL
from pathlib import Path
from typing import NamedTuple

from exporter.gpus.nvml import errors
from exporter.gpus.nvml.discovery import Discovery, discover
from exporter.gpus.nvml.library import SONAME, Library, load, searched
from exporter.gpus.nvml.tally import CallTally
from exporter.gpus.source import RestartRequiredError
from exporter.model import Clock

logger = logging.getLogger(__name__)

FATAL_TRIES = 3
UPGRADED = (
    "the NVIDIA driver was upgraded under us: the kernel module and the library in this process "
    "are of different versions; a restart loads the one that fits"
)


class Look(NamedTuple):
    """What one look at the driver found. ``session`` rises each time it is opened."""

    library: Library
    session: int
    discovery: Discovery


class Driver:
    """The library and whether it is initialised. ``look`` and ``shut`` never run at once."""

    def __init__(self, path: str | None, roots: Sequence[Path], clock: Clock) -> None:
        self.tally = CallTally()
        self.is_open = False
        self._path = path
        self._roots = roots
        self._clock = clock
        self._library: Library | None = None
        self._session = 0
        self._blocked = 0
        self._told = False

    def look(self) -> Look:
        """Open the driver unless it is open, and list its devices.

        Raises:
            NvmlError: the driver is not there, or does not answer; look again later.
            RestartRequiredError: only a new process can open it.

        """
        library = self._opened()
        return Look(library, self._session, discover(library))

    def shut(self) -> None:
        """Close the driver and its device files; no call may be under way. Handles become void."""
        self.is_open = False
        if self._library:
            self._library.shutdown()

    def _opened(self) -> Library:
        if self._library is None:
            self._library = Library(self._loaded(), self._clock, self.tally)
        if not self.is_open:
            self._initialise(self._library)
            self.is_open = True
            self._session += 1
        return self._library

    def _loaded(self) -> CDLL:
        try:
            return load(self._path, self._roots)
        except errors.LibraryError:
            if not (self._told or self._path):
                self._told = True
                logger.info("%s was looked for %s", SONAME, searched(self._roots))
            raise

    def _initialise(self, library: Library) -> None:
        try:
            library.initialise()
        except errors.NvmlError as error:
            self._give_up_where_hopeless(error)
            raise
        self._blocked = 0

    def _give_up_where_hopeless(self, error: errors.NvmlError) -> None:
        if error.code == errors.VERSION_MISMATCH:
            raise RestartRequiredError(UPGRADED) from error
        blocked = error.code in {errors.OPERATING_SYSTEM, errors.UNKNOWN}
        self._blocked = self._blocked + 1 if blocked else 0
        if self._blocked >= FATAL_TRIES:
            raise RestartRequiredError(
                f"{error}, {self._blocked} times: this container has lost its access to the device "
                "files (as after systemctl daemon-reload); a restart gives it anew"
            ) from error
