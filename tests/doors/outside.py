"""What the agent asks of the operating system below one folder, and what goes wrong with it.

It stands where the calls of Python's ``os`` are, below the agent's own door: so it also sees what
goes by that door. It takes part only within ``asking``, so that a test may write its files freely.
"""

import errno
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Self

import pytest

READ, LIST, LINK, STAT = "read", "list", "link", "stat"
_LATE = {errno.EIO, errno.ENODEV}  # what a driver says when a file that is open is read
_KINDS = (
    (re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d"), "PCI"),
    (re.compile(r"[0-9a-f]{8}[0-9a-f_-]{8,}"), "ID"),
    (re.compile(r"(?:kubepods|job|task|step)[a-z_]*"), "GROUP"),
    (re.compile(r"(?<![a-z])\d+|\d{2,}"), "N"),
)


class Kind(NamedTuple):
    """A kind of thing that is asked: how, and its path with numbers and ids left out."""

    how: str
    path: str


@dataclass(frozen=True)
class Fault:
    """What goes wrong with all of one kind, or with those whose path has one of some parts.

    ``kind`` None: with all that takes a descriptor. ``effect``: an errno, or a name of ``EFFECTS``.
    """

    kind: Kind | None
    effect: int | str
    parts: tuple[str, ...] = ()

    def meets(self, kind: Kind, path: str) -> bool:
        if self.kind is None:
            return kind.how in {READ, LIST}
        names = path.split("/")
        return kind == self.kind and (not self.parts or not set(self.parts).isdisjoint(names))


def _numbers(change: Callable[[int], int]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        if b"\xff" in content:  # a table of numbers in binary
            return content[:8] + bytes(min(change(byte), 0xFE) for byte in content[8:])
        lines = content.splitlines(keepends=True)
        return b"".join(line if IDENTITY.match(line) else _amounts(line, change) for line in lines)

    return changed


def _amounts(line: bytes, change: Callable[[int], int]) -> bytes:
    return re.sub(rb"(?<![\w.])\d+(?![\w.])", lambda found: b"%d" % change(int(found[0])), line)


IDENTITY = re.compile(rb"drm-client-id:")  # another number there is another client, and no amount
STAT_LINE = re.compile(rb"(\d+ \(.*\) \S(?: -?\d+){18} )(\d+)")  # up to its start time
CLIENT_ID = re.compile(rb"(drm-client-id:\t)\d+")


def reused(content: bytes) -> bytes:
    """What says who it is says that it is another one: a pid, a client's or a board's number."""
    if STAT_LINE.match(content):
        return STAT_LINE.sub(lambda found: found[1] + b"%d" % (int(found[2]) + 900), content)
    if CLIENT_ID.search(content):
        return CLIENT_ID.sub(rb"\g<1>1", content)
    return b"%016x\n" % 0xABC999


SAYS_WHO = ("proc/N/stat", "proc/N/fdinfo/N", "unique_id")
EFFECTS: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) // 2],
    "empty": lambda _content: b"",
    "garbled": lambda _content: b"\x00\xfe?! not what it was\n",
    "enormous": _numbers(lambda number: number + 10**18),
    "back": _numbers(lambda number: number // 2),
    "little": _numbers(lambda number: number // 100),
    "half": lambda content: b"".join(content.splitlines(keepends=True)[::2]),
    "twice": lambda content: content + content,
    "reused": reused,
}
STALE = "stale"  # what was read first is read again
MANY = 5000


class Outside:
    """``with Outside(root).installed(): ...``; what is asked is in ``asked``."""

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._lock = RLock()
        self._files: dict[int, str] = {}  # by descriptor
        self._contents: dict[int, bytes] = {}
        self._first: dict[str, bytes] = {}
        self._is_on = False
        self.asked: dict[Kind, set[str]] = {}
        self.met = 0  # how often the fault was met
        self.fault: Fault | None = None

    @contextmanager
    def asking(self, fault: Fault | None) -> Iterator[None]:
        """The agent works, with this fault."""
        if fault is None:
            self._first = {}
        self.fault, self._is_on = fault, True
        try:
            yield
        finally:
            self._is_on = False

    @contextmanager
    def installed(self) -> Iterator["Outside"]:
        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", "read", "close", "scandir", "listdir", "readlink", "stat"):
                patch.setattr(os, name, getattr(self, f"_{name}")(getattr(os, name)))
            yield self

    def _meet(self, how: str, path: str) -> int | str | None:
        """What goes wrong with this call; raises what the system would at once."""
        kind = Kind(how, path.removeprefix(self._root))
        for pattern, name in _KINDS:
            kind = kind._replace(path=pattern.sub(name, kind.path))
        with self._lock:
            self.asked.setdefault(kind, set()).add(path)
            if self.fault is None or not self.fault.meets(kind, path):
                return None
            self.met += 1
            effect = self.fault.effect
        if isinstance(effect, int) and not (how == READ and effect in _LATE):
            raise OSError(effect, os.strerror(effect), path)
        return effect

    def _path(self, path: Any, folder: int | None = None) -> str | None:
        """The path if it is below the root while the agent works."""
        if not self._is_on:
            return None
        named = self._files.get(path) if isinstance(path, int) else os.fspath(path)
        if isinstance(named, bytes):
            return None
        if folder is not None and named is not None and not named.startswith("/"):
            named = f"{self._files.get(folder, '')}/{named}"
        return named if named is not None and named.startswith(self._root) else None

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            named = self._path(path, more.get("dir_fd"))
            if named is None:
                return real(path, flags, *rest, **more)
            effect = self._meet(LIST if flags & os.O_DIRECTORY else READ, named)
            descriptor = real(path, flags, *rest, **more)
            with self._lock:
                self._files[descriptor] = named
            if effect is not None and not flags & os.O_DIRECTORY:
                self._contents[descriptor] = self._told(effect, named, descriptor)
            return descriptor

        return opened

    def _told(self, effect: int | str, path: str, descriptor: int) -> bytes:
        content = Path(path).read_bytes() if isinstance(effect, str) else b""
        if effect == STALE:
            return self._first.setdefault(path, content)
        if isinstance(effect, int):
            self._files[descriptor] = str(effect)
            return b""
        return EFFECTS[effect](content)

    def _read(self, real: Callable[[int, int], bytes]) -> Callable[[int, int], bytes]:
        def read(descriptor: int, most: int) -> bytes:
            content = self._contents.get(descriptor)
            if content is None:
                return real(descriptor, most)
            code = self._files[descriptor]
            if code.isdecimal():
                raise OSError(int(code), os.strerror(int(code)))
            self._contents[descriptor] = content[most:]
            return content[:most]

        return read

    def _close(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def close(descriptor: int) -> None:
            self._files.pop(descriptor, None)
            self._contents.pop(descriptor, None)
            real(descriptor)

        return close

    def _scandir(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def scandir(path: Any = ".") -> Any:
            named = self._path(path)
            effect = None if named is None else self._meet(LIST, named)
            listing = real(path)
            return listing if effect is None else _Listing(listing, effect)

        return scandir

    def _listdir(self, real: Callable[..., list[str]]) -> Callable[..., list[str]]:
        def listdir(path: Any = ".") -> list[str]:
            named = self._path(path)
            effect = None if named is None else self._meet(LIST, named)
            return _fewer_or_more(sorted(real(path)), effect, str)

        return listdir

    def _readlink(self, real: Callable[..., str]) -> Callable[..., str]:
        def readlink(path: Any, **more: Any) -> str:
            named = self._path(path, more.get("dir_fd"))
            effect = None if named is None else self._meet(LINK, named)
            return real(path, **more) if effect is None else "/dev/null"

        return readlink

    def _stat(self, real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def stat(path: Any, **more: Any) -> os.stat_result:
            named = self._path(path, more.get("dir_fd"))
            if named is not None:
                self._meet(STAT, named)
            return real(path, **more)

        return stat


def _fewer_or_more(
    entries: list[Any], effect: int | str | None, made: Callable[[str], Any]
) -> list[Any]:
    if effect in {"half", "cut"}:
        return entries[::2]
    if effect == "twice":
        return [*entries, *entries]
    if effect == "enormous":
        return [*(made(str(10**6 + number)) for number in range(MANY)), *entries]
    return entries


class _Entry:
    """An entry of a folder that is gone by the time it is looked at."""

    def __init__(self, name: str) -> None:
        self.name = self.path = name

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002 - as of os.DirEntry
        return True


class _Listing:
    def __init__(self, listing: Any, effect: int | str) -> None:
        with listing:
            entries = sorted(listing, key=lambda entry: str(entry.name))
        self._left = iter(_fewer_or_more(entries, effect, _Entry))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None: ...

    def close(self) -> None: ...

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._left)
