"""The web configuration in force, read again when it or a file that it names has changed."""

import logging
import ssl
from pathlib import Path
from typing import NamedTuple

from exporter.settings import Place, Problem
from exporter.web.tls import Material, TlsError, server_context
from exporter.web.webfile import TlsKeys, WebFile, WebFileError, parse

logger = logging.getLogger(__name__)

_MAX_BYTES = 1 << 20


class InForce(NamedTuple):
    """What connections and requests are judged by."""

    file: WebFile = WebFile()
    tls: ssl.SSLContext | None = None


class _Read(NamedTuple):
    """The contents that ``InForce`` was made from."""

    raw: bytes
    file: WebFile
    material: Material | None


class WebConfig:
    """What ``--web.config.file`` asks for, if there is one.

    Contents are compared, not times: a symlink that is swapped, as Kubernetes does, is a change.
    """

    def __init__(self, path: str = "") -> None:
        """Read the file at ``path``; "" stands for no file.

        Raises:
            WebFileError: it cannot be used.

        """
        self.in_force = InForce()
        self._path = Path(path) if path else None
        self._read: _Read | None = None
        self._problem = ""
        if self._path is not None:
            self._load(self._path)

    @property
    def has_file(self) -> bool:
        """Whether there is anything to read again."""
        return self._path is not None

    def refresh(self) -> None:
        """Take what has changed; what cannot be used is said once, and the old stays in force."""
        if self._path is None:
            return
        try:
            changed = self._load(self._path)
        except WebFileError as error:
            if str(error) != self._problem:
                logger.warning("%s; what was in force before stays", error)
            self._problem = str(error)
            return
        if changed or self._problem:
            logger.info("%s is in force", self._path)
        self._problem = ""

    def _load(self, path: Path) -> bool:
        """Read the files; whether any has changed."""
        raw = _contents(path)
        same = self._read is not None and raw == self._read.raw
        file = self._read.file if self._read and same else parse(_decoded(raw, path), str(path))
        material = _material(file.tls, path.parent) if file.tls else None
        read = _Read(raw, file, material)
        if read == self._read:
            return False
        try:
            tls = server_context(file.tls, material) if file.tls and material else None
        except TlsError as error:
            key, _, words = str(error).partition(": ")
            raise _refused(path, words, f"tls_server_config.{key}") from error
        self._read = read
        self.in_force = InForce(file, tls)
        return True


def _decoded(raw: bytes, path: Path) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _refused(path, "not UTF-8") from None


def _material(tls: TlsKeys, folder: Path) -> Material:
    """What the certificates are made from; files are found from the configuration's folder."""
    problems: list[Problem] = []

    def of(inline: str, name: str, key: str) -> bytes:
        if not name:
            return inline.encode(errors="replace")
        try:
            return _contents(folder / name, key)
        except WebFileError as error:
            problems.extend(error.problems)
            return b""

    material = Material(
        of(tls.cert, tls.cert_file, "cert_file"),
        of(tls.key, tls.key_file, "key_file"),
        of(tls.client_ca, tls.client_ca_file, "client_ca_file"),
    )
    if problems:
        raise WebFileError(problems)
    return material


def _contents(path: Path, key: str = "") -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise _refused(path, f"cannot be read: {reason}", key) from error
    if len(raw) > _MAX_BYTES:
        raise _refused(path, f"larger than {_MAX_BYTES} bytes", key)
    return raw


def _refused(path: Path, words: str, key: str = "") -> WebFileError:
    return WebFileError([Problem(Place(str(path), key), words)])
