"""A recording as a file: gzip, with one line of JSON for the head and one for each cycle.

The writer keeps every written cycle readable, whatever happens next, and stays within a size. The
reader treats the file as hostile: every length is bounded, and an error names its line.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from types import TracebackType
from typing import BinaryIO, Self, TypeVar

from exporter.agent.recording.codec import CodecError, from_json, to_json
from exporter.agent.recording.recordedcycle import FORMAT, Cycle, Head
from exporter.inputs.files import opened

T = TypeVar("T", Head, Cycle)

# Both bounds are of what is unpacked: gzip packs zeros to a thousandth.
LONGEST_LINE = 16 << 20
MAX_BYTES = 4 << 30  # unpacked
GZIP = 31  # zlib's wbits: a gzip head and tail around it
TAIL = 16  # bytes: the last, empty block and gzip's tail


class RecordingError(Exception):
    """A recording cannot be used. The text says where and why."""


class RecordingWriter:
    """Writes a recording of at most ``most_bytes`` to an open file. It does not close the file."""

    def __init__(self, file: BinaryIO, most_bytes: int, head: Head) -> None:
        self.cycles = 0
        self.bytes = 0
        self._file = file
        self._most = most_bytes
        self._packer = zlib.compressobj(wbits=GZIP)
        if not self._write(head):
            raise RecordingError(f"{most_bytes} bytes are too few for a recording")

    def write(self, cycle: Cycle) -> bool:
        """Writes a cycle. Returns False if there is no room for it; then the recording is over."""
        written = self._write(cycle)
        self.cycles += written
        return written

    def end(self) -> None:
        """Writes the end of the file."""
        self._put(self._packer.flush(zlib.Z_FINISH))

    def _write(self, value: Head | Cycle) -> bool:
        line = json.dumps(to_json(value), separators=(",", ":")).encode() + b"\n"
        # On trial: whether a cycle has room is known once it is packed, and a packer takes nothing
        # back.
        packer = self._packer.copy()
        packed = packer.compress(line) + packer.flush(zlib.Z_SYNC_FLUSH)
        if len(line) > LONGEST_LINE or self.bytes + len(packed) + TAIL > self._most:
            return False
        self._packer = packer
        self._put(packed)
        return True

    def _put(self, packed: bytes) -> None:
        self._file.write(packed)
        # What is written survives the end of this process, as by the kernel when memory is short.
        self._file.flush()
        self.bytes += len(packed)


class RecordingReader:
    """Reads a recording. ``broken_off``: the file is cut off; all before that was read."""

    def __init__(self, path: str) -> None:
        self.broken_off = False
        self._path = path
        self._line = 0
        self._bytes = 0
        try:
            self._packed = opened(path)
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}") from error
        self._file = gzip.GzipFile(fileobj=self._packed)
        try:
            self.head = self._read_head()
        except RecordingError:
            self.close()
            raise

    def _read_head(self) -> Head:
        line = self._next_line()
        if not line:
            raise RecordingError(f"{self._path}: no recording: the file is empty or cut off")
        head = self._decode(Head, line)
        if head.mgpu_recording != FORMAT:
            raise RecordingError(
                f"{self._path}: format {head.mgpu_recording}; this version reads {FORMAT}"
            )
        return head

    def cycles(self) -> Iterator[Cycle]:
        """Yields the cycles in order.

        Raises:
            RecordingError: a line is malformed.

        """
        while line := self._next_line():
            cycle = self._decode(Cycle, line)
            if len(cycle.moments) != len(cycle.gpus) + 1:
                raise self._wrong("a moment for the beginning and each GPU source expected")
            yield cycle

    def _next_line(self) -> bytes:
        """Returns the next whole line, b"" at the end."""
        self._line += 1
        try:
            line = self._file.readline(LONGEST_LINE + 1)
        # gzip's tail is not there: the recording was ended from outside, or goes on.
        except EOFError:
            line, self.broken_off = b"", True
        except (OSError, zlib.error) as error:
            is_other = str(error).startswith("Not a gzipped file")
            said = "mgpu-exporter record writes recordings" if is_other else error
            raise self._wrong(f"not gzip, or damaged: {said}") from error
        self._bytes += len(line)
        if len(line) > LONGEST_LINE or self._bytes > MAX_BYTES:
            raise self._wrong("too long to be a recording")
        # A cycle that was being written as the node went down: half of it is not read.
        if not line.endswith(b"\n"):
            self.broken_off = self.broken_off or bool(line)
            return b""
        return line

    def _decode(self, kind: type[T], line: bytes) -> T:
        try:
            return from_json(kind, json.loads(line))
        except CodecError as error:
            raise self._wrong(str(error)) from error
        except RecursionError as error:
            raise self._wrong("nested too deeply") from error
        except ValueError as error:
            raise self._wrong(f"not JSON: {error}") from error

    def _wrong(self, what: str) -> RecordingError:
        return RecordingError(f"{self._path}, line {self._line}: {what}")

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
        self._packed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def digest(page: bytes) -> str:
    """Returns the digest of a page, by which a replay compares pages."""
    return blake2b(page, digest_size=16).hexdigest()
