"""Bounds that are shared fairly: at one, the owner that has most is cut, and nobody else. Pure.

An owner is whatever a tenant cannot have many of: a namespace, a user, a container. Each has an
equal part of the room, and what one does not need is the others'.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
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
