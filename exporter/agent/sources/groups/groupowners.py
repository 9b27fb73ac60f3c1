"""The user of each group, from its path, its processes and ``passwd``, and Slurm's account.

A path names who may make processes there, not whose they are: a hub's unit, a session with sudo and
a Flux instance below its user's slice have those of many users. So a user is named where all of a
group is his, and nobody where it is not.

User names come from a file in the form of passwd(5), not from the name service: in a container that
is the container's own, and a directory server may not answer. ``getent passwd`` writes the file.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from threading import Thread
from typing import NamedTuple

from exporter.agent.sources.aside import Aside
from exporter.agent.sources.cgroups.layout import readable
from exporter.agent.sources.door import (
    Absent,
    Cut,
    Failed,
    Refused,
    Reply,
    Unread,
    Whole,
    about,
    parsed,
    read,
    why,
)
from exporter.agent.sources.groups.containers import NONE, RHYTHM, ContainerNames
from exporter.agent.sources.groups.groupsource import Facts, GroupSource, Members
from exporter.agent.sources.polled import Polled
from exporter.agent.sources.proc import user_id
from exporter.agent.sources.source import AlwaysUp
from exporter.model import (
    SEVERAL,
    Clock,
    GroupFacts,
    GroupKey,
    GroupMembers,
    SourceStatus,
)

logger = logging.getLogger(__name__)

LONGEST_ENVIRONMENT = 256 * 1024
MAX_TRIED = 8  # processes of a group
_ACCOUNT = b"SLURM_JOB_ACCOUNT="


class Accounts:
    """Reads accounts, each once. One caller at a time.

    An environment lies in its process's memory, which may be a file of a file system that its user
    serves: so it is asked aside.
    """

    def __init__(
        self, proc_root: str, read: Callable[[str, int], Reply[str]] | None = None
    ) -> None:
        self._proc_root = proc_root
        self._read = read or slurm_account
        self._found: dict[GroupKey, str] = {}
        self._tried: dict[GroupKey, frozenset[int]] = {}  # processes that have none
        self._aside: Aside[GroupKey, _Tried] = Aside("accounts of jobs")

    def of(self, key: GroupKey, pids: Sequence[int], uid: int | None = None) -> str:
        """The account of a user's group by its processes; "" if none, or none yet."""
        tried = self._tried.get(key, frozenset())
        left = [pid for pid in pids if pid not in tried][: MAX_TRIED - len(tried)]
        if left and key not in self._found:
            found = self._aside.ask(key, uid, partial(self._first, left))
            if found is not None:
                self._aside.drop(key)
                self._tried[key] = tried | found.without
                if found.account:
                    self._found[key] = found.account
        return self._found.get(key, "")

    def keep(self, keys: Collection[GroupKey]) -> None:
        """Begin a cycle with these groups: forget the others."""
        self._found = {key: account for key, account in self._found.items() if key in keys}
        self._tried = {key: pids for key, pids in self._tried.items() if key in keys}
        self._aside.keep(keys)

    def _first(self, pids: Sequence[int]) -> "_Tried":
        """Ask one process after another, because some have another environment than their job's.

        Such are a daemon of the job, and a process whose user has cleared it. One that could not be
        asked now is asked again in a later cycle.
        """
        without: set[int] = set()
        for pid in pids:
            match self._read(self._proc_root, pid):
                case Whole(account) | Cut(account) if account:
                    return _Tried(account, frozenset(without))
                case Failed():
                    continue
                case Whole() | Cut() | Absent() | Refused():
                    without.add(pid)
        return _Tried("", frozenset(without))


class _Tried(NamedTuple):
    """The first account that was found, and the processes that have none."""

    account: str
    without: frozenset[int]


def slurm_account(proc_root: str, pid: int) -> Reply[str]:
    """The account that a job's process was started with; "" where it has none.

    ``environ`` of proc_pid_environ(5). Of all that is in it, one variable is looked at.
    """
    return parsed(read(f"{proc_root}/{pid}/environ", LONGEST_ENVIRONMENT), _account_in)


def _account_in(environment: bytes) -> str:
    for variable in environment.split(b"\0"):
        if variable.startswith(_ACCOUNT):
            return readable(variable.removeprefix(_ACCOUNT).decode(errors="replace"))
    return ""


LARGEST_FILE = 16 << 20
AT_ONCE = 256 << 10  # bytes that are read in some 10 ms; longer ones are read aside
LOOK_AGAIN_NS = 10 * 10**9
_UID, _FIELDS = 2, 4
_LONGEST_UID = 10


class Users:
    """The users of one machine. Not for use by several threads at once.

    A long file, as of a directory's users, is read by a thread: the cycle does not wait for it.
    """

    def __init__(self, path: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._looked_ns: int | None = None
        self._state: tuple[int, int, int] | None = None
        self._names: dict[int, str] = {}
        self._reading: Thread | None = None
        self._refusal = ""  # why a long file could not be read
        self.problem = ""

    def names(self) -> Mapping[int, str]:
        """Of all users that the file names: the same mapping as long as the file is the same."""
        now = self._clock.monotonic_ns()
        if self._looked_ns is None or now - self._looked_ns >= LOOK_AGAIN_NS:
            self._looked_ns = now
            self._look()
        return self._names

    def _look(self) -> None:
        """Read the file if it is another one than before; of one that is unreadable, the last."""
        # A thread that hangs in a file of the network is left at it. Each look would add another.
        if self._reading is not None and self._reading.is_alive():
            return
        found = about(self._path)
        if not isinstance(found, Whole | Cut):
            self._report(self._why(found))
            return
        size = found.value.st_size
        state = (found.value.st_ino, found.value.st_mtime_ns, size)
        if state == self._state:
            self._refusal = ""
        elif size <= AT_ONCE:
            self._take(state)
        else:
            self._reading = Thread(target=self._take, args=(state,), name="users", daemon=True)
            self._reading.start()
        cut = f"{self._path}: of a file this long only {LARGEST_FILE >> 20} MiB are read"
        self._report(self._refusal or (cut if size > LARGEST_FILE else ""))

    def _why(self, reply: Unread) -> str:
        return f"{self._path}: {why(reply)}"

    def _take(self, state: tuple[int, int, int]) -> None:
        """Read the file. What fails is said, and tried again, at the next look."""
        match read(self._path, LARGEST_FILE):
            case Whole(content) | Cut(content):
                self._names = _parsed(content)
                self._state, self._refusal = state, ""
            case (Absent() | Refused() | Failed()) as reply:
                self._refusal = self._why(reply)

    def _report(self, problem: str) -> None:
        if problem and problem != self.problem:
            logger.warning("users lack names (%s): set --path.passwd to the host's", problem)
        self.problem = problem


def _parsed(content: bytes) -> dict[int, str]:
    """Number → name; of two with the same number the first, as getpwuid(3) has it."""
    names: dict[int, str] = {}
    for line in content.decode(errors="replace").split("\n"):
        fields = line.split(":", _FIELDS)
        if len(fields) <= _UID or not fields[0]:
            continue
        uid = fields[_UID]
        if uid.isascii() and uid.isdigit() and len(uid) <= _LONGEST_UID:
            names.setdefault(int(uid), readable(fields[0]))
    return names


_OF_THE_PATH = frozenset({"user", "host"})  # kinds that are called as the user in their path
# Machines: inside, numbers mean other users.
_OF_NOBODY = frozenset({"lxc", "nspawn", "libvirt", "qemu"})


class _Seen(NamedTuple):
    """A process's user, and when that was read."""

    uid: int
    looked_ns: int


class GroupUsers(AlwaysUp):
    """Implements ``GroupSource`` with what the machine's own files say.

    Always up: without names, users have their numbers. ``accounts``: read ``SLURM_JOB_ACCOUNT`` of
    jobs, which takes the right to trace their processes. It is what the job's process was started
    with: a user may have changed it.
    """

    def __init__(
        self,
        passwd: str = "/etc/passwd",  # noqa: S107 - a path
        proc_root: str = "/proc",
        clock: Clock = time,
        *,
        accounts: bool = False,
    ) -> None:
        super().__init__("users", clock)
        self._users, self._timer = Users(passwd, clock), clock
        self._proc_root = proc_root
        self._accounts = Accounts(proc_root) if accounts else None
        self._seen: dict[int, _Seen] = {}  # by pid

    def facts(self, given: Members) -> Facts:
        """A process's user is read again now and then, and each time until it can be."""
        before, self._seen = self._seen, {}
        uids = {key: self._uid(one, before) for key, one in given.items()}
        accounts: dict[GroupKey, str] = {}
        if self._accounts is not None:
            self._accounts.keep(given.keys())
            for key, one in given.items():
                if one.identity.unit and one.identity.unit.kind == "slurm":
                    accounts[key] = self._accounts.of(key, one.pids, uids[key])
        names = self._users.names()
        found = {
            key: GroupFacts(
                name=_called(names, one.unit.uid)
                if one.unit and not one.container_id and one.unit.kind in _OF_THE_PATH
                else "",
                user="" if uids[key] == SEVERAL else _called(names, uids[key]),
                account=accounts.get(key, ""),
                uid=uids[key],
            )
            for key, (_, one) in given.items()
        }
        return {key: facts for key, facts in found.items() if facts != GroupFacts()}

    def status(self) -> SourceStatus:
        return SourceStatus(self.name, up=True, detail=self._users.problem)

    def _uid(self, members: GroupMembers, before: Mapping[int, _Seen]) -> int | None:
        """Whose all of a group is: one user's, SEVERAL's, or None where that is not known.

        A job of cgroup v1 and a container without root are those of the user in their path, who
        alone can make them: inside, a container has users of its own. A session is not: others'
        processes get into it, and a hidden process may be anybody's.
        """
        one = members.identity
        unit = one.unit
        if unit is None or unit.kind in _OF_NOBODY:
            return None
        if one.container_id or (unit.uid is not None and unit.kind != "user"):
            return unit.uid
        uids: set[int | None] = set()
        now_ns = self._timer.monotonic_ns()
        for pid in members.pids:
            seen = before.get(pid)
            if seen is None or now_ns - seen.looked_ns >= LOOK_AGAIN_NS:
                match user_id(self._proc_root, pid):
                    case Whole(uid) | Cut(uid):
                        seen = _Seen(uid, now_ns)
                    case Absent() | Refused() | Failed():
                        pass  # one that has ended keeps its user, as it does its identity
            uids.add(seen.uid if seen else None)
            if seen is not None:
                self._seen[pid] = seen
        # One known user and a hidden process are no single user: that one may be anybody's.
        if len(uids - {None}) > 1:
            return SEVERAL
        return uids.pop() if len(uids) == 1 else None


def _called(names: Mapping[int, str], uid: int | None) -> str:
    return "" if uid is None else names.get(uid) or str(uid)


def open_groups(
    sockets: tuple[str, ...], passwd: str, proc_root: str, *, accounts: bool
) -> tuple[GroupSource, ...]:
    """Make the sources; none is started. "none" among the sockets is none of them."""
    owners = GroupUsers(passwd, proc_root, accounts=accounts)
    return (owners,) if NONE in sockets else (owners, Polled(ContainerNames(sockets), RHYTHM))
