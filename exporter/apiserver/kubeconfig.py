"""Kubeconfigs as kubectl reads them: one file, or several joined by ":", of which the first counts.

The kubernetes package loads them; here is what it leaves out or reads otherwise.
"""

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from exporter.inputs import yamldocument
from exporter.inputs.yamldocument import YamlError, read_bytes

Json = Mapping[str, Any]

ACTING = "Impersonate-User"  # the header of who acts as another


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used. ``words`` say why, without the file's name."""

    def __init__(self, path: str, words: str) -> None:
        super().__init__(f"kubeconfig {path}: {words}")
        self.words = words


def words(error: Exception, path: str) -> str:
    """The problem of a kubeconfig in one sentence, without the file's name."""
    if not any(Path(part).exists() for part in path.split(os.pathsep) if part):
        return "no such file"
    if isinstance(error, YamlError):
        return str(error)
    if isinstance(error, TypeError | AttributeError | KeyError):
        return "not a kubeconfig"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8 text"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = re.sub(r"^Invalid kube-config( file)?\. ", "", str(error))
    text = text.replace(f"{path}/", "its ").replace(f"{path} file", "it").replace(path, "it")
    return " ".join(text.split())


def documents(path: str) -> Iterator[tuple[Path, Json]]:
    """The files of a kubeconfig that are not empty, within bounds: the library has none."""
    for part in filter(None, path.split(os.pathsep)):
        file = Path(part).expanduser()
        if file.is_fifo():  # the library reads it again
            raise OSError(errno.EINVAL, "a pipe, which cannot be read twice")
        if file.exists():
            document = yamldocument.load(read_bytes(str(file)).decode())
            if document is not None:
                yield file, document if isinstance(document, Mapping) else {}


def current(files: Sequence[tuple[Path, Json]]) -> str:
    """The current context: that of the first file that names one."""
    return next((str(one["current-context"]) for _, one in files if one.get("current-context")), "")


def entry(files: Sequence[tuple[Path, Json]], kind: str, name: str) -> tuple[Json, Path]:
    """A context or user, of the first file that has one of this name, and the file's folder."""
    for file, document in files:
        for one in entries(document, kind):
            if one.get("name") == name:
                found = one.get(kind)
                return (found if isinstance(found, Mapping) else {}), file.parent
    return {}, Path()


def entries(document: Json, kind: str) -> Iterator[Json]:
    """The contexts or users of a file."""
    yield from (one for one in document.get(f"{kind}s") or () if isinstance(one, Mapping))


def user_of(files: Sequence[tuple[Path, Json]], context: str) -> tuple[Json, Path]:
    """The user of a context, or of the current one, and the folder of the file that has it."""
    chosen, _ = entry(files, "context", context or current(files))
    return entry(files, "user", str(chosen.get("user") or ""))


def acting_as(user: Json) -> Iterator[tuple[str, str]]:
    """The headers of a user who acts as another."""
    for key, header in (("as", ACTING), ("as-uid", "Impersonate-Uid")):
        if user.get(key):
            yield header, str(user[key])
    for group in user.get("as-groups") or ():
        yield "Impersonate-Group", str(group)
    # A header's name cannot have all that such a key may: Kubernetes wants it percent-encoded.
    for name, values in (user.get("as-user-extra") or {}).items():
        for value in values:
            yield f"Impersonate-Extra-{quote(str(name), safe='')}", str(value)
