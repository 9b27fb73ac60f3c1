"""Whose a group is: its user by the path, its process and ``passwd``, and Slurm's account."""

import time
from collections.abc import Mapping

from exporter.cgroups.proc import user_id
from exporter.groups.accounts import Accounts
from exporter.groups.users import Users
from exporter.model import (
    CgroupIdentity,
    Clock,
    GroupFacts,
    GroupKey,
    GroupMember,
    SourceStatus,
)

_BY_PROCESS = frozenset({"slurm", "systemd"})  # whose paths do not tell the user


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
        self._accounts = Accounts(proc_root) if accounts else None
        self._members: Mapping[GroupKey, GroupMember] = {}
        self._known: dict[GroupKey, int] = {}
        self._unread: set[GroupKey] = set()  # whose process has not told its user yet
        self._said: object = None  # what it was made from
        self._facts: Mapping[GroupKey, GroupFacts] = {}

    def start(self) -> None:
        """Nothing to begin: all is read from small files, once for a group."""

    def facts(self, members: Mapping[GroupKey, GroupMember]) -> Mapping[GroupKey, GroupFacts]:
        """See ``GroupSource``. The same mapping as long as it says the same."""
        if members is not self._members:
            self._meet(members)
        for key in sorted(self._unread):
            uid = user_id(self._proc_root, members[key].pid)
            if uid is not None:
                self._known[key] = uid
                self._unread.remove(key)
        accounts = self._charged(self._accounts, members) if self._accounts else {}
        names = self._users.names()
        said = names, dict(self._known), accounts
        if said != self._said:
            self._said = said
            self._facts = {
                key: GroupFacts(user=names.get(uid) or str(uid), account=accounts.get(key, ""))
                for key, uid in self._known.items()
            }
        return self._facts

    def status(self) -> SourceStatus:
        """Always up: without names, users have their numbers."""
        return SourceStatus(self.name, up=True, detail=self._users.problem)

    def rejected(self) -> Mapping[str, int]:
        """Nothing: a line that is none names nobody."""
        return {}

    def close(self) -> None:
        """Nothing is held."""

    def _meet(self, members: Mapping[GroupKey, GroupMember]) -> None:
        """Take what paths tell, and note whose process is to be asked."""
        before, self._members, self._known, self._unread = self._known, members, {}, set()
        for key, member in members.items():
            uid = before.get(key, _uid(member.identity))
            if uid is not None:
                self._known[key] = uid
            elif _kind(member) in _BY_PROCESS:
                self._unread.add(key)

    def _charged(
        self, accounts: Accounts, members: Mapping[GroupKey, GroupMember]
    ) -> dict[GroupKey, str]:
        accounts.keep(members.keys())
        jobs = {key: one for key, one in members.items() if _kind(one) == "slurm"}
        return {k: accounts.of(k, one.pid, self._known.get(k)) for k, one in jobs.items()}


def _kind(member: GroupMember) -> str:
    unit = member.identity.unit
    return unit.kind if unit else ""


def _uid(identity: CgroupIdentity) -> int | None:
    return identity.unit.uid if identity.unit else None
