"""Adds users and command lines of this machine's processes to a document, for ``top`` on the spot.

They are read from ``/proc`` with the rights of the user of ``top``, and only shown to that user:
the exporter's own documents never contain command lines, because arguments may be secrets.
"""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from exporter.model import Clock
from exporter.sources.groups.owners import Users

LONGEST_COMMAND = 4096  # bytes that are read of one
Process = dict[str, Any]


class ProcessCommand(NamedTuple):
    """The user and command line of a process; "" is unknown."""

    user: str
    command: str


class ProcessCommands:
    """Reads each process once. Those that are gone from the document are forgotten."""

    def __init__(self, proc_root: str, passwd: str, clock: Clock = time) -> None:
        self._proc_root = proc_root
        self._users = Users(passwd, clock)
        self._known: dict[tuple[int, float], ProcessCommand] = {}

    def add_to(self, document: Mapping[str, Any]) -> None:
        """Adds ``user`` and ``command`` to the document's processes, where they are known."""
        known: dict[tuple[int, float], ProcessCommand] = {}
        for process in _processes(document):
            key = process["pid"], process.get("start_timestamp_seconds", 0.0)
            found = self._known.get(key) or self._read(process["pid"], process.get("name", ""))
            if found is None:
                continue
            known[key] = found
            process |= {name: value for name, value in found._asdict().items() if value}
        self._known = known

    def _read(self, pid: int, name: str) -> ProcessCommand | None:
        """The process of this pid if it has this name, else another one has the pid by now."""
        folder = f"{self._proc_root}/{pid}"
        try:
            uid = os.stat(folder).st_uid  # noqa: PTH116 - a string
            arguments = _read(f"{folder}/cmdline").split(b"\0")
            comm = _read(f"{folder}/comm").decode(errors="replace").rstrip("\n")
        except OSError:
            return None
        if comm != name:
            return None
        command = " ".join(part.decode(errors="replace") for part in arguments if part)
        return ProcessCommand(self._users.names().get(uid, str(uid)), command)


def _read(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.read(file, LONGEST_COMMAND)
    finally:
        os.close(file)


def _processes(document: Mapping[str, Any]) -> Iterator[Process]:
    for device in document["devices"]:
        for part in device["unattributed"]:
            yield from part.get("process_list", ())
    containers = (one for pod in document["pods"] for one in pod["containers"])
    for owner in (*containers, *document["groups"]):
        for part in owner["devices"]:
            yield from part.get("process_list", ())
