"""Which processes a device asks about: those at work, new ones, and of the idle some in turn.

KFD has files of every process for every GPU, so that whoever opens ``/dev/kfd`` many times costs
each board as many files. The idle ones are asked in turn, and each owner has as many turns as
another. A process that is found at work so late may not have been the only one: its owner is then
unmeasured for some time, and nobody else is charged with what is not explained.
"""

from collections.abc import Collection, Hashable
from itertools import takewhile

from exporter.agent.fairness import Turns, by_owner
from exporter.agent.sources.gpus.amd.kfdprocesses import KfdList, KfdProcess
from exporter.model import SECOND_NS

# Of all devices together, at once:
MOST_AT_WORK, MOST_NEW = 1024, 2048
MOST_IDLE, MOST_SIZES = 64, 32
LEAST = 8  # of each device
LATELY_NS = 15 * SECOND_NS  # so long after its work a process is asked each time
LATE = 5  # an owner of so many times more idle processes than are asked has been asked too late
DOUBTED_NS = 300 * SECOND_NS


class ProcessTurns:
    """The turns of one device, of so many. One caller at a time.

    ``cut``: processes of owners of whom not all that matters was asked, one of each at least.
    ``has_more``: new ones wait to be asked. ``is_whole``: all that matters was asked of everybody.
    """

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.cut: frozenset[int] = frozenset()
        self.is_whole = True
        self.has_more = False
        self._until_ns: dict[int, int] = {}  # how long a process is at work
        self._doubted: dict[Hashable, int] = {}  # until when
        self._work, self._sizes = _Round(), _Round()

    def for_work(self, listed: KfdList, holding: Collection[int], now_ns: int) -> list[KfdProcess]:
        """Those to ask whether they work, in this cycle. ``holding``: who holds memory here."""
        here = listed.processes
        self._until_ns = {
            pid: until for pid, until in self._until_ns.items() if pid in here and until > now_ns
        }
        hot = dict.fromkeys([*self._until_ns, *(pid for pid in holding if pid in here)])
        return self._work.take(listed, hot, self.devices, MOST_IDLE)

    def note(
        self, worked: Collection[int], failed: Collection[int], listed: KfdList, now_ns: int
    ) -> None:
        """Takes who of those worked, and of whom it could not be read."""
        here = listed.processes
        self._until_ns |= dict.fromkeys(worked, now_ns + LATELY_NS)
        self._doubted = {owner: until for owner, until in self._doubted.items() if until > now_ns}
        for pid in self._work.idle.intersection(worked):
            owner = here[pid].owner
            asked = sum(here[other].owner == owner for other in self._work.idle)
            if len(listed.by_owner[owner]) > LATE * asked:
                self._doubted[owner] = now_ns + DOUBTED_NS
        doubted = {listed.by_owner[o][0] for o in self._doubted if o in listed.by_owner}
        self.cut = frozenset({*self._work.cut, *failed, *doubted, *listed.cut})
        self.has_more = listed.is_short or self._work.has_more
        # An owner with so many can move his work among them, and what he used would be scaled up to
        # others' until he is met: so nobody is charged with more than what was seen of himself.
        most = LATE * max(MOST_IDLE // self.devices, LEAST)
        may_hide = any(len(own) > most for own in listed.by_owner.values())
        self.is_whole = not (self.cut or self.has_more or may_hide)

    def for_sizes(self, listed: KfdList, holding: Collection[int]) -> list[KfdProcess]:
        """Those to ask what they hold and have counted."""
        hot = dict.fromkeys([*holding, *(p for p in self._until_ns if p in listed.processes)])
        return self._sizes.take(listed, hot, self.devices, MOST_SIZES)


class _Round:
    """Whom to ask one kind of question."""

    def __init__(self) -> None:
        self.cut: frozenset[int] = frozenset()  # one of each owner with too many at work
        self.idle: frozenset[int] = frozenset()
        self.has_more = False  # new ones are left for the next time
        self._upto = 0
        self._hot: Turns[int] = Turns()
        self._idle: Turns[int] = Turns()

    def take(
        self, listed: KfdList, hot: Collection[int], devices: int, most_idle: int
    ) -> list[KfdProcess]:
        here = listed.processes
        most = max(MOST_AT_WORK // devices, LEAST)
        self.cut = frozenset()
        if len(hot) > most:
            owners = {pid: here[pid].owner for pid in hot}
            asked = frozenset(self._hot.take(by_owner(hot, owners), most))
            self.cut = frozenset({owners[pid]: pid for pid in hot if pid not in asked}.values())
        else:
            asked = frozenset(hot)
        # They are in the order of their numbers.
        newest = takewhile(lambda each: each.number > self._upto, reversed(here.values()))
        fresh = list(newest)[::-1]
        most_new = max(MOST_NEW // devices, LEAST)
        self.has_more = len(fresh) > most_new
        fresh = fresh[:most_new]
        self._upto = fresh[-1].number if fresh else self._upto
        but = {*hot, *(each.pid for each in fresh)}
        most = max(most_idle // devices, LEAST)
        self.idle = frozenset(self._idle.take(listed.by_owner, most, but))
        wanted = {*asked, *(each.pid for each in fresh), *self.idle}
        return [here[pid] for pid in wanted if pid in here]
