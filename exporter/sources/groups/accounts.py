"""Slurm's account of a job, as its process was started with it."""

import logging
import os
from collections.abc import Callable, Collection
from threading import Thread

from exporter.model import GroupKey
from exporter.sources.cgroups.layout import readable

logger = logging.getLogger(__name__)

LONGEST_ENVIRONMENT = 256 * 1024
MOST_AT_ONCE = 32
MOST_OF_USER = 2  # so that one whose memory never comes holds up nobody else's
_ACCOUNT = b"SLURM_JOB_ACCOUNT="


class Accounts:
    """Reads accounts aside, each once. One caller at a time.

    An environment lies in its process's memory, which may be a file of a file system that its user
    serves: reading it may never come back. Then it is the thread that is lost, one of a few.
    """

    def __init__(self, proc_root: str, read: Callable[[str, int], str] | None = None) -> None:
        self._proc_root = proc_root
        self._read = read or slurm_account
        self._asked: dict[GroupKey, _AccountRead] = {}
        self._slow: tuple[_AccountRead, ...] = ()  # were being read already when this cycle began
        self._is_said = False

    def of(self, key: GroupKey, pid: int, uid: int | None = None) -> str:
        """The account of a user's group by one of its processes; "" if none, or none yet."""
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = _AccountRead(uid)
        if asked.thread is None and not self._waits(key, asked):
            asked.thread = Thread(target=self._ask, args=(asked, pid), name="account", daemon=True)
            asked.thread.start()
        return asked.account

    def keep(self, keys: Collection[GroupKey]) -> None:
        """Begin a cycle with these groups: forget the others, as soon as they are read."""
        self._asked = {k: a for k, a in self._asked.items() if k in keys or a.is_being_read}
        self._slow = tuple(a for a in self._asked.values() if a.is_being_read)
        self._is_said = self._is_said and bool(self._slow)

    def _ask(self, asked: "_AccountRead", pid: int) -> None:
        asked.account = self._read(self._proc_root, pid)

    def _waits(self, key: GroupKey, asked: "_AccountRead") -> bool:
        """Whether too many are being read, of this user or at all.

        Said once, and only if one of those is slow: else it is its turn in the next cycle.
        """
        users = [a.uid for a in self._asked.values() if a.is_being_read]
        is_full = len(users) >= MOST_AT_ONCE
        waits = is_full or users.count(asked.uid) >= MOST_OF_USER
        if waits and not self._is_said:
            slow = {a.uid for a in self._slow if a.is_being_read}
            self._is_said = bool(slow) if is_full else asked.uid in slow
            if self._is_said:
                logger.warning("accounts of jobs are slow to be read: that of %s waits", key.group)
        return waits


class _AccountRead:
    """What became of one group's account; ``thread`` reads it, or has."""

    def __init__(self, uid: int | None) -> None:
        self.uid = uid
        self.account = ""
        self.thread: Thread | None = None

    @property
    def is_being_read(self) -> bool:
        return self.thread is not None and self.thread.is_alive()


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
