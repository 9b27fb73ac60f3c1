"""Which clients of a device are asked in a cycle: those at work, new ones, some idle ones in turn.

An idle client costs as much to read as one that works, and a process may open thousands. Counters
keep what a client did, so one that is asked later loses nothing; but what it did while it was not
asked belongs to no single second: the part of the time since the last read counts. Who works so is
unmeasured, and nobody else is charged for it.
"""

from collections.abc import Hashable, Mapping

from exporter.agent.fairness import Turns, by_owner
from exporter.agent.sources.gpus.drm.holders import Handle
from exporter.model import SECOND_NS

MOST_AT_WORK, MOST_NEW, MOST_IDLE = 256, 512, 96
LATELY_NS = 15 * SECOND_NS
DOUBTED_NS = 60 * SECOND_NS

Key = int | Handle
"""A client by its id, or by its handle where that was not known to the scan."""


class ClientTurns:
    """The turns of one device. One caller at a time. ``cut``: see ``ClientUse``."""

    def __init__(self) -> None:
        self.cut: frozenset[int] = frozenset()
        self._owners: Mapping[Key, Hashable] = {}
        self._pids: Mapping[Key, int] = {}
        self._by_owner: Mapping[Hashable, list[Key]] = {}
        self._new: dict[Key, None] = {}
        self._until_ns: dict[Key, int] = {}  # how long a client is at work
        self._doubted: dict[int, int] = {}  # a process of each owner who worked unseen: until when
        self._asked_ns: dict[Key, int] = {}  # when each was asked last
        self._since_ns: dict[Key, int] = {}  # how long before now, of those that are asked now
        self._hot: Turns[Key] = Turns()
        self._idle: Turns[Key] = Turns()

    def follow(self, owners: Mapping[Key, Hashable], pids: Mapping[Key, int]) -> None:
        """Takes the clients that there are, with the owner and a process of each."""
        new = dict.fromkeys(key for key in owners if key not in self._owners or key in self._new)
        self._owners, self._pids, self._new = owners, pids, new
        self._by_owner = by_owner(owners, owners)
        self._asked_ns = {key: ns for key, ns in self._asked_ns.items() if key in owners}

    def take(self, mono_ns: int) -> list[Key]:
        """Those to ask now."""
        self._until_ns = {
            k: until for k, until in self._until_ns.items() if k in self._owners and until > mono_ns
        }
        hot = list(self._until_ns)
        cut: set[int] = set()
        if len(hot) > MOST_AT_WORK:
            asked = self._hot.take(by_owner(hot, self._owners), MOST_AT_WORK)
            kept = frozenset(asked)
            cut = set({self._owners[k]: self._pids[k] for k in hot if k not in kept}.values())
            hot = asked
        new = list(self._new)[:MOST_NEW]
        for key in new:
            del self._new[key]
        but = {*self._until_ns, *new}
        idle = self._idle.take(self._by_owner, MOST_IDLE, but)
        self._doubted = {pid: until for pid, until in self._doubted.items() if until > mono_ns}
        self.cut = frozenset({*cut, *self._doubted})
        now = dict.fromkeys([*hot, *new, *idle], mono_ns)
        self._since_ns = {k: mono_ns - self._asked_ns[k] for k in now if k in self._asked_ns}
        self._asked_ns |= now
        return [key for key in self._owners if key in now] if len(now) > len(hot) else hot

    def note(self, key: Key, ns: int, passed_ns: int, mono_ns: int) -> int:
        """Takes what a client did, of all engines; ``passed_ns``: since the last read.

        Returns since when that was, in nanoseconds before now.
        """
        since_ns = max(self._since_ns.get(key, passed_ns), passed_ns)
        if ns:
            self._until_ns[key] = mono_ns + LATELY_NS
        if ns > passed_ns and since_ns > 2 * passed_ns:
            self._doubted[self._pids[key]] = mono_ns + DOUBTED_NS
            self.cut |= {self._pids[key]}
        return since_ns
