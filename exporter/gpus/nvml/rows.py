"""Arrays of C structs that the driver fills: allocated once, decoded all at once.

Field-by-field access through ctypes costs ten times what ``struct.iter_unpack`` does.
"""

import ctypes
import mmap
from collections.abc import Callable

from exporter.gpus.nvml import errors

FIRST_CAPACITY = 4096  # what recent drivers ask for, whatever the number of processes
MOST_ROWS = 1 << 16


class Rows:
    """A buffer for up to ``capacity`` structs of ``size`` bytes. One caller at a time.

    ``place`` and ``count`` are arguments for the driver; they stay the same objects.
    """

    def __init__(self, size: int, capacity: int = FIRST_CAPACITY) -> None:
        self.count = ctypes.c_uint(0)
        self.place = ctypes.c_void_p()
        self._size = size
        self._filled = 0  # bytes of the last answer
        self._allocate(capacity)

    def read(self, name: str, call: Callable[..., int], *arguments: object) -> bytes:
        """Let the driver write rows; gives their bytes.

        One call, no size probe: between a probe and the call a process may start, and what probes
        answer differs between functions. A buffer that is too small grows, within bounds. "Not
        found" is the normal answer of an idle device.

        Raises:
            NvmlError: for the function ``name``, by its return code.

        """
        if self._filled:
            # Some drivers count rows that they have not written (nvtop#110): nothing old may stay.
            self._buffer[: self._filled] = bytes(self._filled)
        self.count.value = self.capacity
        code = call(*arguments)
        while code == errors.INSUFFICIENT_SIZE and self.capacity < MOST_ROWS:
            self._allocate(min(max(self.count.value, 2 * self.capacity), MOST_ROWS))
            self.count.value = self.capacity
            code = call(*arguments)
        if code != errors.SUCCESS:
            if code == errors.NOT_FOUND:
                return b""
            raise errors.error_of(code, name)
        self._filled = min(self.count.value, self.capacity) * self._size
        return self._buffer[: self._filled]

    def _allocate(self, capacity: int) -> None:
        self.capacity = capacity
        # Pages of its own: those that the driver never writes to take no memory.
        self._buffer = mmap.mmap(-1, capacity * self._size)
        # Nobody resizes it: it stays where it is.
        self.place.value = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._filled = 0
