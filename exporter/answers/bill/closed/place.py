"""Where closed days stand: a folder, which may be an object store's mount, or a URL of fsspec."""

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

T = TypeVar("T")

_NO_RENAMES = {errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EXDEV}


class PlaceError(Exception):
    """A place cannot be read or written; it says which and why."""


class Place(Protocol):
    """A place for files, by paths below it."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder, in order; none if there is no such folder."""

    def open(self, path: str) -> BinaryIO:
        """A file to read from."""

    def write(self, path: str, data: bytes) -> None:
        """Writes a file whole, or not at all; the folders above it are made."""

    def remove(self, path: str) -> None:
        """Removes a file."""


def place_of(where: str) -> Place:
    """The place that a folder or a URL names.

    Raises:
        PlaceError: fsspec, or what it needs for this URL, is not installed or refuses it.

    """
    if "://" not in where:
        return _Folder(Path(where))
    try:
        fsspec = import_module("fsspec.core")
    except ModuleNotFoundError:
        install = f"{sys.executable} -m pip install fsspec"
        raise PlaceError(f"{where} needs the package fsspec: {install}") from None
    return _said(where, lambda: _Far(*fsspec.url_to_fs(where)))


def _said(where: str, does: Callable[[], T]) -> T:
    """What is done there; each error names the place."""
    try:
        return does()
    except (OSError, ImportError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise PlaceError(f"{where}: {why}") from None


class _Folder:
    """A folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        return _said(
            str(path), lambda: sorted(one.name for one in path.iterdir()) if path.is_dir() else []
        )

    def open(self, path: str) -> BinaryIO:
        return _said(str(self._root / path), lambda: (self._root / path).open("rb"))

    def write(self, path: str, data: bytes) -> None:
        _said(str(self._root / path), lambda: self._write(self._root / path, data))

    def remove(self, path: str) -> None:
        _said(str(self._root / path), (self._root / path).unlink)

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError as error:
            with suppress(OSError):
                draft.unlink()
            # An object store has no renames: there a file appears whole, once it is closed.
            if error.errno not in _NO_RENAMES:
                raise
            path.write_bytes(data)


class _Far:
    """A file system of fsspec."""

    def __init__(self, system: Any, root: str) -> None:  # noqa: ANN401 - of no type that is known
        self._system, self._root = system, root.rstrip("/")

    def names(self, folder: str) -> list[str]:
        path = self._path(folder)
        # What it listed before is not what is there now.
        self._system.invalidate_cache()
        try:
            found = _said(path, lambda: self._system.ls(path, detail=False))
        except PlaceError:
            if _said(path, lambda: self._system.exists(path)):
                raise
            return []
        return sorted(str(one).rstrip("/").rpartition("/")[2] for one in found)

    def open(self, path: str) -> BinaryIO:
        file: BinaryIO = _said(self._path(path), lambda: self._system.open(self._path(path), "rb"))
        return file

    def write(self, path: str, data: bytes) -> None:
        whole = self._path(path)

        def write() -> None:
            self._system.makedirs(whole.rpartition("/")[0], exist_ok=True)
            with self._system.transaction:  # it appears with the end of this
                self._system.pipe_file(whole, data)

        _said(whole, write)

    def remove(self, path: str) -> None:
        _said(self._path(path), lambda: self._system.rm_file(self._path(path)))

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/")
