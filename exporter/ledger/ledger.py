"""The ledger: one book a device, and the accounts of pods across devices."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import NamedTuple, TypeVar

from exporter.ledger.accounts import ENERGY, Account, Moment, opened
from exporter.ledger.book import BLIND_CYCLES, IDLE_ENERGY, Book
from exporter.ledger.limits import Allotted, Limits
from exporter.model import (
    COUNTED,
    Allocation,
    ContainerKey,
    DeviceReading,
    DeviceState,
    DeviceUsage,
    GroupKey,
    MemoryHeld,
    Owner,
    Spent,
    Unattributed,
    Unmeasured,
)

A = TypeVar("A", bound=Account)
K = TypeVar("K")


class Tenure(NamedTuple):
    """Since when a pod has had its allotments, and when it was last known to."""

    pod_uid: str
    since_mono_ns: int
    last_mono_ns: int


class Ledger:
    """Accounts of devices, containers, pods, namespaces and groups.

    One cycle is: ``meet`` every device that was reported, ``record`` and ``hold`` what was
    attributed, ``allot`` what is allotted, then ``settle``. ``nameless`` says why no process can
    be given to its container in this cycle, None if it can.

    ``loose`` are allotments that are not one container's on a known device, by container ("": the
    pod as a whole) and device ("": unknown). Nobody's use stands in their accounts.
    """

    def __init__(self, retention_ns: int, window_ns: int) -> None:
        self.retention_ns = retention_ns
        self.window_ns = window_ns
        self.books: dict[str, Book] = {}
        self.pods: dict[tuple[str, str], Account] = {}
        self.loose: dict[tuple[ContainerKey, str], Account] = {}
        self.tenures: dict[tuple[str, str], Tenure] = {}  # by namespace and pod
        self.nameless: Unmeasured | None = None
        self._limits = Limits()
        self._limits_of: tuple[object, tuple[str, ...]] = (), ()

    def meet(self, reading: DeviceReading, now: Moment) -> None:
        """Note a device's state in this cycle.

        Raises:
            ValueError: a reason is none of the closed list.

        """
        uuid = reading.device.uuid
        book = self.books.get(uuid)
        if book is None:
            book = self.books[uuid] = Book(reading.device, now)
        book.device = reading.device
        book.state = reading.state
        if reading.unmeasured != book.unmeasured:
            book.unmeasured = {q: Unmeasured(reason) for q, reason in reading.unmeasured.items()}
        book.measured.difference_update({ENERGY, IDLE_ENERGY} & reading.unmeasured.keys())
        book.met_mono_ns = now.mono_ns
        if reading.state is not DeviceState.UP:
            book.blind_cycles += 1
            return
        book.was_read, book.blind_cycles, book.read_mono_ns = True, 0, now.mono_ns
        memory = reading.memory
        book.unlisted_cycles += 1
        if memory is not None:  # a list that is refused will not come in the next cycle
            book.unlisted_cycles = BLIND_CYCLES if memory.processes is None else 0
        if book.unlisted:
            book.unlist()

    def record(self, usage: DeviceUsage, now: Moment) -> None:
        """Enter one window of a device into its book, its pods and its namespaces."""
        book = self.books[usage.device.uuid]
        book.windows.append((now.mono_ns, usage.observed_ns))
        book.whole.add(usage.total, now)
        book.idle_energy_uj += usage.idle_energy_uj or 0
        book.unobserved_ns += usage.unobserved_ns
        book.rejected_windows = book.rejected_windows + 1 if usage.rejected else 0
        book.methods = usage.methods
        book.is_lower_bound = usage.is_lower_bound
        book.doubts.enter(usage, now.mono_ns)
        book.explain(usage, now)
        book.measure(usage.total.busy)
        if usage.total.energy_uj is not None:
            book.measured.add(ENERGY)
        if usage.idle_energy_uj is not None:
            book.measured.add(IDLE_ENERGY)
        for owner, spent in usage.shares.items():
            self._enter(book, owner, spent, now)
        self._count(book, usage.counted, now)

    def _count(self, book: Book, counted: Mapping[str, Mapping[Owner, int]], now: Moment) -> None:
        book.measured.difference_update(COUNTED)
        for quantity, parts in counted.items():
            book.measured.add(quantity)
            for owner, amount in parts.items():
                book.whole.count(quantity, amount, now)
                if isinstance(owner, Unattributed):
                    account = book.unattributed.setdefault(owner, Account(now))
                else:
                    account = book.account(owner, now)
                account.count(quantity, amount, now)
                if isinstance(owner, ContainerKey):
                    of_all = book.namespaces.setdefault(owner.namespace, Account(now))
                    of_all.count(quantity, amount, now)

    def _enter(self, book: Book, owner: Owner, spent: Spent, now: Moment) -> None:
        if isinstance(owner, Unattributed):
            opened(book.unattributed, owner, now).add(spent, now)
            return
        account = book.account(owner, now)
        account.add(spent, now)
        if book.held is None:  # without a process list, activity is the only sign of life
            account.live_mono_ns = now.mono_ns
        if isinstance(owner, ContainerKey):
            self._pod(owner, now).add(spent, now)
            opened(book.namespaces, owner.namespace, now).add(spent, now)

    def _pod(self, key: ContainerKey, now: Moment) -> Account:
        return opened(self.pods, (key.namespace, key.pod), now)

    def hold(self, uuid: str, held: Mapping[Owner, MemoryHeld], now: Moment) -> None:
        """Set who holds memory on a device now; who holds none any more holds 0."""
        book = self.books[uuid]
        if held is book.held and not book.has_newcomers:
            return
        book.held, book.has_newcomers = held, False
        for key in held:
            if not isinstance(key, Unattributed):
                book.account(key, now)
        for key, account in book.owners.items():
            account.hold(held.get(key, MemoryHeld(0, 0)))

    def allot(
        self, key: ContainerKey, allocation: Allocation, elapsed_ns: int, now: Moment
    ) -> None:
        """Keep the accounts of an allotment alive and count its allotted time.

        Shown at 0 from the moment the pod is bound, if the device is known; else its pod is, and
        its namespace on every device. An allotment to no container in particular is the pod's.
        """
        allotted_ns = int((allocation.core or 0.0) * elapsed_ns)
        book = self.books.get(allocation.device or "")
        for candidate in self.books.values() if book is None else (book,):
            opened(candidate.namespaces, key.namespace, now)
        for account in (self._pod(key, now), self._allotted(key, book, now)):
            account.allocated_core_ns += allotted_ns
            account.live_mono_ns = now.mono_ns
        self._tenure(key, allocation.pod_uid, now)

    def _allotted(self, key: ContainerKey, book: Book | None, now: Moment) -> Account:
        if book is None or not key.container:
            place = key, book.device.uuid if book else ""
            return opened(self.loose, place, now)
        account = book.account(key, now)
        if account.held is None and book.held is not None:
            account.hold(book.held.get(key, MemoryHeld(0, 0)))
        return account

    def _tenure(self, key: ContainerKey, pod_uid: str, now: Moment) -> None:
        before = self.tenures.get(key[:2])
        same = before is not None and before.pod_uid == pod_uid
        since = before.since_mono_ns if before and same else now.mono_ns
        self.tenures[key[:2]] = Tenure(pod_uid, since, now.mono_ns)

    def settle(self, now: Moment) -> None:
        """End the cycle: count blind devices, keep residents alive, close what is long gone."""
        oldest = now.mono_ns - self.retention_ns
        self.books = {uuid: b for uuid, b in self.books.items() if b.met_mono_ns >= oldest}
        for book in self.books.values():
            if book.met_mono_ns != now.mono_ns:
                book.state = DeviceState.FAILED
                book.blind_cycles += 1
            book.renew(now, residents=book.blind is None)
            self._keep_pods(book)
            _close_gone(book.owners, oldest)
            book.forget(now.mono_ns - self.window_ns)
        _close_gone(self.pods, oldest)
        _close_gone(self.loose, oldest)
        self.tenures = {k: t for k, t in self.tenures.items() if t.last_mono_ns == now.mono_ns}

    def limits(self, allotted: Sequence[Allotted]) -> Limits:
        """The allotments summed up; made anew where they are another sequence, or devices came."""
        made_of = allotted, tuple(self.books)
        if made_of[0] is not self._limits_of[0] or made_of[1] != self._limits_of[1]:
            self._limits = self._limits.then(allotted, self.books)
            self._limits_of = made_of
        return self._limits

    def frozen(self, allotted: Sequence[Allotted]) -> "Ledger":
        """A copy for readers of rows, which no later cycle changes; with the sums of allotments."""
        self.limits(allotted)
        made = copy(self)
        made.books = {uuid: book.frozen() for uuid, book in self.books.items()}
        made.pods = {name: a.frozen() for name, a in self.pods.items()}
        made.loose = {place: a.frozen() for place, a in self.loose.items()}
        made.tenures = self.tenures.copy()
        return made

    def groups(self) -> set[GroupKey]:
        """The groups that have an account on any device."""
        return {
            key for book in self.books.values() for key in book.owners if isinstance(key, GroupKey)
        }

    def hidden(self, book: Book) -> Unmeasured | None:
        """Why the series of a device's owners must go: nothing of them is measured."""
        return book.blind or self.nameless

    def _keep_pods(self, book: Book) -> None:
        for key, account in book.owners.items():
            if isinstance(key, ContainerKey):
                pod = self.pods.get((key.namespace, key.pod))
                if pod is not None:
                    pod.live_mono_ns = max(pod.live_mono_ns, account.live_mono_ns)


def _close_gone(accounts: dict[K, A], oldest_mono_ns: int) -> None:
    for key in [k for k, account in accounts.items() if account.gone_since(oldest_mono_ns)]:
        del accounts[key]
