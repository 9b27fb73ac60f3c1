"""The active web configuration, loaded again when it or a file that it names has changed."""

import logging
import os
import ssl
import stat
import threading
from pathlib import Path
from typing import NamedTuple

from exporter.agent.web.tls import Material, TlsError, server_context
from exporter.agent.web.webfile import (
    IF_GIVEN,
    REQUIRE,
    TlsKeys,
    WebFile,
    WebFileError,
    parse,
    says_nothing,
)
from exporter.inputs.files import without_waiting
from exporter.inputs.problems import Problem, ValuePlace

logger = logging.getLogger(__name__)

_MAX_BYTES = 1 << 20
_CONTRADICTION = (
    "contradicts --web.kubernetes-access, which knows clients by their tokens; leave it out, or "
    f"require a certificate as well ({REQUIRE})"
)


class ActiveConfig(NamedTuple):
    """The configuration that connections and requests are checked against."""

    file: WebFile = WebFile()
    tls: ssl.SSLContext | None = None


class _Contents(NamedTuple):
    """The contents that ``ActiveConfig`` was made from."""

    raw: bytes
    file: WebFile
    material: Material | None


class WebConfig:
    """The configuration of ``--web.config.file``, or the defaults without a file.

    Contents are compared and not times, because Kubernetes swaps symlinks. ``look`` may be called
    from several threads.
    """

    def __init__(self, path: str = "", *, tokens: bool = False) -> None:
        """Loads the file at ``path``; "" stands for no file.

        ``tokens``: clients are known by tokens of Kubernetes, so that a file that knows them
        otherwise is refused.

        Raises:
            WebFileError: the file cannot be used.

        """
        self.active = ActiveConfig()
        self._path = Path(path) if path else None
        self._tokens = tokens
        self._loaded: _Contents | None = None
        self._looked = b""  # the file's contents at the last look
        self._problem = ""
        self._one_at_a_time = threading.Lock()
        if self._path is not None:
            self._looked = _contents(self._path)
            self._load(self._path, self._looked)

    @property
    def has_file(self) -> bool:
        """Whether there is a file."""
        return self._path is not None

    def look(self) -> None:
        """Loads what has changed. An unusable file is logged once, and the old contents stay.

        A file is not always written at once, and half of it may be valid: without its users. So it
        is loaded only if it is as it was at the last look.
        """
        if self._path is None:
            return
        with self._one_at_a_time:
            try:
                raw = _contents(self._path)
                is_stable, self._looked = raw == self._looked, raw
                if not is_stable:
                    return
                changed = self._load(self._path, raw)
            except WebFileError as error:
                if str(error) != self._problem:
                    logger.warning("%s; what was in force before stays", error)
                self._problem = str(error)
                return
            if changed or self._problem:
                logger.info("%s is in force", self._path)
            self._problem = ""

    def _load(self, path: Path, raw: bytes) -> bool:
        """Loads the files; returns whether any has changed. ``raw`` are the contents of the one."""
        old = self._loaded
        if old and raw == old.raw:
            file = old.file
        else:
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                raise _refused(path, "not UTF-8") from None
            # A file that was cut off to nothing is valid: it would let everybody in.
            if old and old.file != WebFile() and says_nothing(text):
                raise _refused(path, "it says nothing; {} stands for neither TLS nor users")
            file = parse(text, str(path))
        # With tokens nobody may be known by anything else. A client certificate that is required is
        # a further condition, not another way in.
        if self._tokens and file.users:
            raise _refused(path, _CONTRADICTION, "basic_auth_users")
        if self._tokens and file.tls is not None and file.tls.client_auth_type == IF_GIVEN:
            raise _refused(path, _CONTRADICTION, "tls_server_config.client_auth_type")
        # Certificates are renewed under the same names, so they are read each time.
        material = _material(file.tls, path.parent) if file.tls else None
        contents = _Contents(raw, file, material)
        if contents == old:
            return False
        try:
            tls = server_context(file.tls, material) if file.tls and material else None
        except TlsError as error:
            key, _, words = str(error).partition(": ")
            raise _refused(path, words, f"tls_server_config.{key}") from error
        self._loaded = contents
        self.active = ActiveConfig(file, tls)
        return True


def _material(tls: TlsKeys, folder: Path) -> Material:
    """The certificates and key. Relative paths start at the configuration's folder."""
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
        with open(path, "rb", opener=without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _refused(path, "not a regular file", key)
            raw = file.read(_MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise _refused(path, f"cannot be read: {reason}", key) from error
    if len(raw) > _MAX_BYTES:
        raise _refused(path, f"larger than {_MAX_BYTES} bytes", key)
    return raw


def _refused(path: Path, words: str, key: str = "") -> WebFileError:
    return WebFileError([Problem(ValuePlace(str(path), key), words)])
