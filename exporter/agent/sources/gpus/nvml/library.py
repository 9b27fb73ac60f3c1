"""Finds, loads and calls the driver's library, and counts its calls. The only importer of pynvml.

The library, ``libnvidia-ml.so.1``, comes with the driver, never with the exporter. Rare calls go
through pynvml, the calls of each cycle through ``function`` (see ``calls``). pynvml uses one
library for the whole process and finds it by soname: the one that is loaded first.
"""

import ctypes
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pynvml

from exporter.agent.sources import door
from exporter.agent.sources.gpus.nvml import errors
from exporter.model import CallCount, Clock

logger = logging.getLogger(__name__)

SONAME = "libnvidia-ml.so.1"
ROOTS = (Path("/"), Path("/host"))
PLACES = (
    "run/nvidia/driver/usr/lib64",  # the GPU operator's driver container
    "run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "run/nvidia/driver/usr/lib/aarch64-linux-gnu",
    "home/kubernetes/bin/nvidia/lib64",  # GKE
    "var/lib/nvidia/lib64",  # Container-Optimized OS
    "usr/local/nvidia/lib64",
    "usr/local/glibc/usr/lib",  # Talos
    "usr/local/lib",
    "usr/lib/wsl/lib",  # WSL
    "run/opengl-driver/lib",  # NixOS
    "usr/lib/x86_64-linux-gnu",  # Debian, Ubuntu
    "usr/lib/aarch64-linux-gnu",
    "usr/lib/x86_64-linux-gnu/nvidia/current",
    "usr/lib/aarch64-linux-gnu/nvidia/current",
    "usr/lib64",  # Fedora, RHEL, SUSE, Amazon Linux
    "usr/lib64/nvidia",
    "usr/lib",  # Arch
    "usr/lib/nvidia",
)

NEVER = CallCount(0, 0)

Note = Callable[[int], object]
"""Takes the duration of a call in nanoseconds. Cheap: there are tens of calls a second."""


class CallTally:
    """The number and duration of driver calls, by function. Thread-safe: reads are parallel."""

    def __init__(self) -> None:
        self._new: dict[str, list[int]] = {}  # durations that are not counted yet
        self._counts: dict[str, CallCount] = {}

    def of(self, name: str) -> Note:
        # An append is one step of Python's, so that the threads that read need no lock.
        return self._new.setdefault(name, []).append

    def snapshot(self) -> Mapping[str, CallCount]:
        """Counts since the start, by function name."""
        for name, new in tuple(self._new.items()):
            if new:
                took_ns = new[:]
                del new[: len(took_ns)]  # what is appended meanwhile is counted next time
                before = self._counts.get(name, NEVER)
                self._counts[name] = CallCount(
                    before.calls + len(took_ns), before.duration_ns + sum(took_ns)
                )
        return self._counts.copy()


class CFunction(Protocol):
    """A C function of the library; returns NVML's return code."""

    def __call__(self, *args: object) -> int:
        """Calls it, timed and counted."""
        ...


def candidates(path: str | None, roots: Sequence[Path]) -> Iterator[str]:
    """File names of the library, the best first; only ``path`` if it is given."""
    if path:
        yield path
        return
    yield SONAME  # the loader's own search: ld.so.cache, LD_LIBRARY_PATH, the container toolkit
    for root in roots:
        for place in PLACES:
            found = root / place / SONAME
            if not door.is_gone(found):
                yield str(found)


def searched(roots: Sequence[Path]) -> str:
    """The places of ``candidates`` without a path, as text."""
    below = " and ".join(map(str, roots))
    return f"by the loader's own search, then below {below} in {', '.join(PLACES)}"


def load(path: str | None, roots: Sequence[Path] = ROOTS) -> ctypes.CDLL:
    """Loads the first library that can be loaded.

    Raises:
        LibraryError: none could be; its detail has the loader's message.

    """
    complaints = []
    for name in candidates(path, roots):
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            complaints.append(str(error))
    raise errors.LibraryError("; ".join(complaints))


def _ignore(_took_ns: int) -> None:
    pass


class Library:
    """NVML, initialised. Safe to call from several threads, as NVML itself is (nvml.h).

    ``note`` gets the duration of every call, as the tally does.
    """

    def __init__(
        self, cdll: ctypes.CDLL, clock: Clock, tally: CallTally, note: Note = _ignore
    ) -> None:
        self._cdll = cdll
        self.clock = clock
        self._tally = tally
        self._note = note
        self._functions: dict[str, CFunction | None] = {}
        self.driver_version = ""

    def initialise(self) -> None:
        """Opens the driver. Once, not per cycle: repeated init has hung drivers (go-nvml#152).

        Raises:
            NvmlError: the driver's answer.

        """
        self.ask("nvmlInit")
        try:
            # The loader gives one handle to one library. Another one is of a second library, by the
            # soname: rare calls would go to that one, and all others to this.
            if pynvml.nvmlLib._handle != self._cdll._handle:  # noqa: SLF001 - dlopen's, no other name
                raise errors.LibraryError(f"{self._cdll._name} does not call itself {SONAME}")  # noqa: SLF001
            self.driver_version = self._version()
        except errors.NvmlError:
            self.shutdown()  # each init needs its own
            raise
        logger.info("driver %s opened through %s", self.driver_version, self._cdll._name)  # noqa: SLF001

    def _version(self) -> str:
        """The driver's version; "" where it does not say it, which costs nothing else."""
        try:
            version: str = self.ask("nvmlSystemGetDriverVersion")
        except (errors.DeviceLostError, errors.CallError) as error:
            logger.warning("the driver does not say its version: %s", error)
            return ""
        return version

    def shutdown(self) -> None:
        """Closes the driver and its device files; all handles become void. Never raises."""
        try:
            self.ask("nvmlShutdown")
        except errors.NvmlError as error:
            logger.debug("driver closed: %s", error)

    def ask(self, name: str, *args: object) -> Any:  # noqa: ANN401 - pynvml is untyped
        """Calls a pynvml function.

        Raises:
            NvmlError: or a subclass, by the code that the driver answered.

        """
        started = self.clock.monotonic_ns()
        try:
            call = getattr(pynvml, name, None)
            if call is None:  # an older pynvml
                raise errors.error_of(errors.FUNCTION_NOT_FOUND, name)
            return call(*args)
        except pynvml.NVMLLibraryMismatchError:  # not an NVMLError: the newest symbol is missing
            raise errors.error_of(errors.FUNCTION_NOT_FOUND, name) from None
        except pynvml.NVMLError as error:
            raise errors.error_of(int(error.value), name) from None
        except UnicodeDecodeError:  # a text of other bytes: pynvml decodes it
            raise errors.error_of(errors.UNKNOWN, name) from None
        finally:
            took_ns = self.clock.monotonic_ns() - started
            self._tally.of(name)(took_ns)
            self._note(took_ns)

    def noted_by(self, note: Note) -> "Library":
        """The same library, whose calls are also reported to ``note``."""
        library = Library(self._cdll, self.clock, self._tally, note)
        library.driver_version = self.driver_version
        return library

    def has(self, name: str) -> bool:
        return hasattr(self._cdll, name)

    def call(self, name: str, *args: object) -> None:
        """Calls a C function with arguments of ctypes.

        Raises:
            NvmlError: or a subclass, by the code that the driver answered.

        """
        if name not in self._functions:
            self._functions[name] = self.function(name)
        function = self._functions[name]
        code = errors.FUNCTION_NOT_FOUND if function is None else function(*args)
        if code != errors.SUCCESS:
            raise errors.error_of(code, name)

    def function(self, name: str, *argtypes: Any) -> CFunction | None:  # noqa: ANN401 - ctypes types
        """A C function with its argument types set; None if the driver lacks it."""
        if not self.has(name):
            return None
        pointer = self._cdll[name]  # a new object, so that its argtypes are not shared
        pointer.argtypes = argtypes
        pointer.restype = ctypes.c_int
        now, count, note = self.clock.monotonic_ns, self._tally.of(name), self._note

        def timed(*args: object) -> int:
            started = now()
            code: int = pointer(*args)
            took_ns = now() - started
            count(took_ns)
            note(took_ns)
            return code

        return timed
