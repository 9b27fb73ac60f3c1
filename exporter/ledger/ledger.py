"""The ledger: one book a device, and the accounts of pods across devices."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import chain
from typing import NamedTuple, TypeVar

from exporter.ledger.accounts import Account, Moment, allot, changed, opened
from exporter.ledger.averages import OwnerKey
from exporter.ledger.book import Book
from exporter.model import (
    Allocation,
    ContainerKey,
    DeviceReading,
    DeviceUsage,
    GroupKey,
    MemoryHeld,
    Owner,
    Unmeasured,
)

K = TypeVar("K")
_Name = tuple[str, str]  # of a pod, after its namespace
_Place = tuple[ContainerKey, str]  # and the device
_Cores = defaultdict[K, list[float]]


class Allotted(NamedTuple):
    """An allocation under the labels of its container."""

    key: ContainerKey
    allocation: Allocation


class Tenure(NamedTuple):
    """Since when a pod has its allotments."""

    pod_uid: str
    since_mono_ns: int


class Ledger:
    """Accounts of devices, containers, pods, namespaces and groups.

    One cycle is: ``meet`` every device that was reported, ``record`` and ``hold`` what was
    attributed, ``allot`` what is allotted, then ``settle``. ``nameless`` says why no process can
    be given to its container in this cycle, None if it can.

    ``pods`` say what they are allotted, and what those accounts of their containers used that are
    closed; the rest stands in those that are open. ``loose`` are allotments that are not one
    container's on a known device, by container ("": the pod as a whole) and device ("": unknown).
    Nobody's use stands in their accounts.

    ``kinds`` are those of groups that the node can have; each has an account on every device.
    """

    def __init__(self, retention_ns: int, window_ns: int) -> None:
        self.retention_ns = retention_ns
        self.window_ns = window_ns
        self.books: dict[str, Book] = {}
        self.pods: dict[_Name, Account] = {}
        self.loose: dict[_Place, Account] = {}
        self.tenures: Mapping[_Name, Tenure] = {}
        self.nameless: Unmeasured | None = None
        self.kinds: Collection[str] = ()
        self._allotted_of: tuple[object, tuple[Book, ...]] = (), ()
        self._allotted_mono_ns: int | None = None  # when ``allot`` was called last
        self._settled_mono_ns = 0
        self._first_sign_ns = 0  # no account that is open had its last sign of life before

    def meet(self, reading: DeviceReading, now: Moment) -> None:
        """Note a device's state in this cycle.

        Raises:
            ValueError: a reason is none of the closed list.

        """
        book = self.books.get(reading.device.uuid)
        if book is None:
            book = self.books[reading.device.uuid] = Book(reading.device, now)
        book.meet(reading, now)

    def record(self, usage: DeviceUsage, now: Moment) -> None:
        """Enter one window of a device."""
        for key in self.books[usage.device.uuid].record(usage, now):
            opened(self.pods, key[:2], now)

    def hold(self, uuid: str, held: Mapping[Owner, MemoryHeld], now: Moment) -> None:
        """Set who holds memory on a device now; who holds none any more holds 0."""
        self.books[uuid].hold(held, now)

    def allot(self, allotted: Sequence[Allotted], now: Moment) -> None:
        """Set what is allotted since the cycle before; the same sequence again is no news.

        Shown at 0 from the moment the pod is bound, if the device is known; else its pod is, and
        its namespace on every device. An allotment to no container in particular is the pod's.
        """
        before_mono_ns, self._allotted_mono_ns = self._allotted_mono_ns, now.mono_ns
        made_of = allotted, tuple(self.books.values())
        if made_of[0] is self._allotted_of[0] and made_of[1] == self._allotted_of[1]:
            return
        self.tenures = self._tenures_of(allotted, now)
        pods: _Cores[_Name] = defaultdict(list)
        loose: _Cores[_Place] = defaultdict(list)
        here: dict[str, _Cores[OwnerKey]] = {uuid: defaultdict(list) for uuid in self.books}
        for key, allocation in allotted:
            core, uuid = allocation.core or 0.0, allocation.device or ""
            placed = here.get(uuid)
            for each in here if placed is None else (uuid,):
                self.books[each].take_in(ContainerKey, key.namespace)
            pods[key[:2]].append(core)
            if placed is not None and key.container:
                placed[key].append(core)
            else:
                loose[key, "" if placed is None else uuid].append(core)
        since_mono_ns = now.mono_ns if before_mono_ns is None else before_mono_ns
        others = {*changed(self.pods, pods), *(key[:2] for key, _ in changed(self.loose, loose))}
        for uuid, cores in here.items():
            others |= {key[:2] for key in changed(self.books[uuid].owners, cores)}
        allot(self.pods, pods, since_mono_ns, now, others.__contains__)
        allot(self.loose, loose, since_mono_ns, now, lambda place: place[0][:2] in others)
        for uuid, cores in here.items():
            self.books[uuid].allot(cores, since_mono_ns, now, lambda key: key[:2] in others)
        self._allotted_of = made_of

    def _tenures_of(self, allotted: Iterable[Allotted], now: Moment) -> dict[_Name, Tenure]:
        tenures: dict[_Name, Tenure] = {}
        for key, allocation in allotted:
            tenure = tenures.get(key[:2]) or self.tenures.get(key[:2])
            if tenure is None or tenure.pod_uid != allocation.pod_uid:
                tenure = Tenure(allocation.pod_uid, now.mono_ns)
            tenures[key[:2]] = tenure
        return tenures

    def settle(self, now: Moment) -> None:
        """End the cycle: count blind devices, keep residents alive, close what is long gone."""
        oldest_ns = now.mono_ns - self.retention_ns
        for uuid, book in list(self.books.items()):
            if book.met_mono_ns != now.mono_ns:
                if book.met_mono_ns < oldest_ns:
                    self._close(book, tuple(book.owners))
                    del self.books[uuid]
                    continue
                book.miss()
            book.settle(self._settled_mono_ns, now.mono_ns - self.window_ns)
        self._settled_mono_ns = now.mono_ns
        self._open_kinds()
        if self._first_sign_ns < oldest_ns:
            self._close_gone(oldest_ns, now)

    def _open_kinds(self) -> None:
        """Open an account of each kind of group on every device, before its first use if possible.

        A kind that was seen on one device can come to the others too.
        """
        kinds = frozenset(self.kinds).union(*(b.closed[GroupKey] for b in self.books.values()))
        for book in self.books.values():
            book.take_in(GroupKey, *sorted(kinds))

    def _close_gone(self, oldest_ns: int, now: Moment) -> None:
        """Close the accounts that had their last sign of life before the given moment."""
        for book in self.books.values():
            self._close(book, _gone(book.owners, oldest_ns, now))
        for place in _gone(self.loose, oldest_ns, now):
            del self.loose[place]
        have_parts = {name for name, _ in self._parts()}
        without = {name: a for name, a in self.pods.items() if name not in have_parts}
        for name in _gone(without, oldest_ns, now):
            del self.pods[name], without[name]
        owners = (book.owners.values() for book in self.books.values())
        left = chain(self.loose.values(), without.values(), *owners)
        self._first_sign_ns = min((a.last_sign_ns(now.mono_ns) for a in left), default=now.mono_ns)

    def _close(self, book: Book, gone: Collection[OwnerKey]) -> None:
        """Close accounts of owners; what containers used stays with their pods."""
        for key in gone:
            if isinstance(key, ContainerKey) and key[:2] in self.pods:
                left = self.pods[key[:2]].joined(book.owners[key], self._settled_mono_ns)
                self.pods[key[:2]] = left
        book.close(gone)

    def _parts(self) -> Iterator[tuple[_Name, Account]]:
        """The accounts of containers, by pod."""
        for book in self.books.values():
            for key, account in book.owners.items():
                if isinstance(key, ContainerKey):
                    yield key[:2], account

    def frozen(self) -> "Ledger":
        """A copy for readers of rows, which no later cycle changes."""
        frozen = copy(self)
        frozen.books = {uuid: book.frozen() for uuid, book in self.books.items()}
        frozen.pods, frozen.loose = self.pods.copy(), self.loose.copy()
        return frozen

    def groups(self) -> set[GroupKey]:
        """The groups that have an account on any device."""
        return {
            key for book in self.books.values() for key in book.owners if isinstance(key, GroupKey)
        }

    def hidden(self, book: Book) -> Unmeasured | None:
        """Why the series of a device's owners must go: nothing of them is measured."""
        return book.blind or self.nameless


def _gone(accounts: Mapping[K, Account], oldest_ns: int, now: Moment) -> list[K]:
    return [k for k, a in accounts.items() if a.last_sign_ns(now.mono_ns) < oldest_ns]
