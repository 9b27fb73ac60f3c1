"""Whose a group is: its user by the path, its process and ``passwd``, and Slurm's account."""

import os
import time
from collections.abc import Mapping
from typing import NamedTuple

from exporter.cgroups.proc import user_id
from exporter.cgroups.units import readable
from exporter.groups.users import Users
from exporter.model import (
    CgroupIdentity,
    Clock,
    GroupFacts,
    GroupKey,
    GroupMember,
    SourceStatus,
)

LONGEST_ENVIRONMENT = 256 * 1024
_ACCOUNT = b"SLURM_JOB_ACCOUNT="
_BY_PROCESS = frozenset({"slurm", "systemd"})  # whose paths do not tell the user


class _Owner(NamedTuple):
    uid: int
    account: str


class Owners:
    """Implements ``GroupSource`` with what the machine's own files say.

    ``accounts``: read ``SLURM_JOB_ACCOUNT`` of jobs, which takes the right to trace their
    processes. It is what the job's process was started with: a user may have changed it.
    """

    name = "users"

    def __init__(
        self,
        passwd: str = "/etc/passwd",  # noqa: S107 - a path
        proc_root: str = "/proc",
        clock: Clock = time,
        *,
        accounts: bool = False,
    ) -> None:
        self._users = Users(passwd, clock)
        self._proc_root = proc_root
        self._accounts = accounts
        self._known: dict[GroupKey, _Owner] = {}

    def start(self) -> None:
        """Nothing to begin: all is read from small files, once for a group."""

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        """See ``GroupSource``."""
        self._known = {key: own for key, own in self._known.items() if key in members}
        for key, member in members.items():
            if key not in self._known and (owner := self._owner(member)):
                self._known[key] = owner
        return {
            key: GroupFacts(user=self._users.name(own.uid) or str(own.uid), account=own.account)
            for key, own in self._known.items()
        }

    def status(self) -> SourceStatus:
        """Always up: without names, users have their numbers."""
        return SourceStatus(self.name, up=True, detail=self._users.problem)

    def rejected(self) -> Mapping[str, int]:
        """Nothing: a line that is none names nobody."""
        return {}

    def close(self) -> None:
        """Nothing is held."""

    def _owner(self, member: GroupMember) -> _Owner | None:
        uid = _uid(member.identity)
        unit = member.identity.unit
        kind = unit.kind if unit else ""
        if uid is None and kind in _BY_PROCESS:
            uid = user_id(self._proc_root, member.pid)
        if uid is None:
            return None
        account = ""
        if kind == "slurm" and self._accounts:
            account = slurm_account(self._proc_root, member.pid)
        return _Owner(uid, account)


def _uid(identity: CgroupIdentity) -> int | None:
    return identity.unit.uid if identity.unit else None


def slurm_account(proc_root: str, pid: int) -> str:
    """The account that a job's process was started with; "" where it may not be read.

    ``environ`` of proc_pid_environ(5). Of all that is in it, one variable is looked at.
    """
    try:
        file = os.open(f"{proc_root}/{pid}/environ", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            content = chunk = os.read(file, LONGEST_ENVIRONMENT)
            while chunk and len(content) < LONGEST_ENVIRONMENT:
                chunk = os.read(file, LONGEST_ENVIRONMENT)
                content += chunk
        finally:
            os.close(file)
    except OSError:
        return ""
    for variable in content.split(b"\0"):
        if variable.startswith(_ACCOUNT):
            return readable(variable.removeprefix(_ACCOUNT).decode(errors="replace"))
    return ""
