"""Fair bounds: what tenants fill is divided among their owners, so that one fills his own part.

An owner is a container or a group. Who has more than his part of a bound is cut, and nobody else.
What was cut is named, so that it is withheld and never taken for idle.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.proc import user_id

K = TypeVar("K", bound=Hashable)
Owner = Hashable


class OwnersOfProcesses:
    """The owner of a process for bounds: by its cgroup, else by its user. No process chooses it.

    ``of_cgroup``: the container or group of a process, None if it is in none or not known.
    """

    def __init__(self, proc_root: str, of_cgroup: Callable[[int], Owner | None]) -> None:
        self._root, self._of_cgroup = proc_root, of_cgroup

    def of(self, pid: int) -> Owner:
        owner = self._of_cgroup(pid)
        if owner is not None:
            return owner
        match user_id(self._root, pid):
            case Whole(uid) | Cut(uid):
                return ("uid", uid)
            case Absent() | Refused() | Failed():  # it has ended, or each is one of its own
                return ("pid", pid)


class Turns(Generic[K]):
    """Whose turn it is where not all can be asked at once: each owner has as many as another."""

    def __init__(self) -> None:
        self._next: dict[Owner, int] = {}
        self._first = 0

    def take(
        self, by_owner: Mapping[Owner, Sequence[K]], most: int, but: Collection[K] = ()
    ) -> list[K]:
        """So many things at most, without those of ``but``: the next ones of each owner's."""
        owners = list(by_owner)
        self._next = {owner: at for owner, at in self._next.items() if owner in by_owner}
        self._first = (self._first + 1) % max(len(owners), 1)
        waiting = owners[self._first :] + owners[: self._first]
        seen = dict.fromkeys(waiting, 0)
        taken: list[K] = []
        while waiting and len(taken) < most:
            left: list[Owner] = []
            for owner in waiting:
                things, at = by_owner[owner], self._next.get(owner, 0)
                while seen[owner] < len(things):
                    seen[owner] += 1
                    at = (at + 1) % len(things)
                    if things[at] not in but:
                        taken.append(things[at])
                        break
                self._next[owner] = at
                if seen[owner] < len(things):
                    left.append(owner)
                if len(taken) >= most:
                    break
            waiting = left
        return taken


def by_owner(things: Iterable[K], owner_of: Mapping[K, Owner]) -> dict[Owner, list[K]]:
    """The things of each owner, in their order."""
    found: dict[Owner, list[K]] = {}
    for thing in things:
        found.setdefault(owner_of[thing], []).append(thing)
    return found
