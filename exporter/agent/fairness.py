"""Bounds that are shared fairly: at one, the owner that has most is cut, and nobody else. Pure.

An owner is whatever a tenant cannot have many of: a namespace, a user, a container. Each has an
equal part of the room, and what one does not need is the others'. What was cut is named by the
caller, so that it is withheld and never taken for idle.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def in_turn(items: Iterable[T], owner: Callable[[T], Hashable]) -> list[T]:
    """The items, in turn one of each owner, of an owner in their order: the first N are fair."""
    turns = Counter[Hashable]()
    ordered: list[tuple[int, T]] = []
    for item in items:
        ordered.append((turns[owner(item)], item))
        turns[owner(item)] += 1
    return [item for _, item in sorted(ordered, key=itemgetter(0))]


class Held(Generic[K]):
    """Keys that are held over time, at most ``most``, each for an owner. Not thread-safe.

    ``newest``: which key of the owner that has most gives way; otherwise its oldest one does.
    """

    def __init__(self, most: int, *, newest: bool = False) -> None:
        self._most, self._newest = most, newest
        self._owners: dict[K, Hashable] = {}
        self._keys: dict[Hashable, dict[K, None]] = {}  # by owner, the oldest first

    def __len__(self) -> int:
        """How many keys are held."""
        return len(self._owners)

    def __contains__(self, key: object) -> bool:
        """Whether a key is held."""
        return key in self._owners

    def of(self, owner: Hashable) -> int:
        """How many keys an owner holds."""
        return len(self._keys.get(owner, ()))

    def add(self, key: K, owner: Hashable) -> K | None:
        """Hold a key; which one gives way, that may be the same. One that is held keeps its age."""
        if self._owners.get(key, owner) != owner:
            self.discard(key)
        self._owners[key] = owner
        self._keys.setdefault(owner, {}).setdefault(key)
        if len(self._owners) <= self._most:
            return None
        # Of several with as many, the newcomer goes where the newest goes: else two owners would
        # take turns in pushing each other out.
        crowd = max(self._keys, key=lambda each: (self.of(each), (each == owner) == self._newest))
        own = self._keys[crowd]
        gone = next(reversed(own) if self._newest else iter(own))
        self.discard(gone)
        return gone

    def discard(self, key: K) -> None:
        """Hold a key no more, if it is held."""
        if key in self._owners:
            owner = self._owners.pop(key)
            own = self._keys[owner]
            del own[key]
            if not own:
                del self._keys[owner]


class Turns(Generic[K]):
    """Whose turn it is where not all can be asked at once: each owner has as many as another."""

    def __init__(self) -> None:
        self._next: dict[Hashable, int] = {}
        self._first = 0

    def take(
        self, by_owner: Mapping[Hashable, Sequence[K]], most: int, but: Collection[K] = ()
    ) -> list[K]:
        """So many things at most, without those of ``but``: the next ones of each owner's."""
        owners = list(by_owner)
        self._next = {owner: at for owner, at in self._next.items() if owner in by_owner}
        self._first = (self._first + 1) % max(len(owners), 1)
        waiting = owners[self._first :] + owners[: self._first]
        seen = dict.fromkeys(waiting, 0)
        taken: list[K] = []
        while waiting and len(taken) < most:
            left: list[Hashable] = []
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


def by_owner(things: Iterable[K], owner_of: Mapping[K, Hashable]) -> dict[Hashable, list[K]]:
    """The things of each owner, in their order."""
    found: dict[Hashable, list[K]] = {}
    for thing in things:
        found.setdefault(owner_of[thing], []).append(thing)
    return found
