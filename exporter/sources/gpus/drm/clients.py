"""The clients of one device: how much of its engines each has used since it was read last. Pure.

A client is one open DRM file, however many descriptors and processes have it. Its counters begin at
0 when it is opened, may step back, in which case the largest value stands until it is passed
(drm-usage-stats.rst), and vanish when it is closed: what was used until the last look is kept by
being given out at each look, what came after it nobody can know.

Asks the clients of one device what they have used and hold.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from exporter.sources.gpus.drm.discovery import role_of
from exporter.sources.gpus.drm.fdinfo import LONGEST, DrmClient, EngineUsage, parse
from exporter.sources.gpus.drm.files import read
from exporter.sources.gpus.drm.holders import Handle, HandleScan

KEPT_NS = 60 * 10**9  # a client that nobody holds may be on its way to another process (SCM_RIGHTS)
MOST_CLIENTS = 16_384  # twice what is ever open: those beyond are closed, and forgotten
SHORTEST_NS = 20 * 10**6  # over less, the device's clock is not compared with ours


class ClockRate(NamedTuple):
    """So many nanoseconds are so many cycles."""

    ns: int
    cycles: int


class _Clock:
    """The clock that an engine class counts its total in, against the monotonic one."""

    __slots__ = ("mono_ns", "rate", "stopped", "total")

    def __init__(self, total: int, mono_ns: int) -> None:
        self.total, self.mono_ns = total, mono_ns
        self.rate: ClockRate | None = None
        self.stopped = False

    def learn(self, total: int, mono_ns: int) -> None:
        """Take a later reading. One that stepped back begins anew and leaves the rate as it was."""
        elapsed = mono_ns - self.mono_ns
        if total <= self.total or self.stopped:
            self.total, self.mono_ns, self.stopped = total, mono_ns, False
        elif elapsed >= SHORTEST_NS:
            self.rate = ClockRate(elapsed, total - self.total)
            self.total, self.mono_ns = total, mono_ns


class _Used:
    """One class of engines as one client uses it. ``since_ns``: it began no earlier than then."""

    __slots__ = ("counted", "credited_ns", "since_ns", "used_ns")

    def __init__(self, counted: int, since_ns: int | None) -> None:
        self.counted = counted
        self.used_ns = 0
        self.credited_ns = 0
        self.since_ns = since_ns

    def take(self, engine: EngineUsage, rate: ClockRate | None, mono_ns: int) -> int:
        """Nanoseconds since the last time, of one engine of the class; 0 while it steps back."""
        value = engine.busy_ns if engine.busy_ns is not None else engine.cycles or 0
        by = ClockRate(1, 1) if engine.busy_ns is not None else rate
        if value <= self.counted or by is None:
            return 0
        self.used_ns += (value - self.counted) * by.ns // by.cycles
        self.counted = value
        spent = self.used_ns // engine.capacity - self.credited_ns
        self.credited_ns += spent
        if self.since_ns is not None:  # no client can have used more than the time it was there
            spent, self.since_ns = min(spent, max(mono_ns - self.since_ns, 0)), None
        return spent


class _Account:
    __slots__ = ("engines", "seen_ns")

    def __init__(self, seen_ns: int) -> None:
        self.engines: dict[str, _Used] = {}
        self.seen_ns = seen_ns


class ClientAccounts:
    """The accounts of one device's clients, by client id."""

    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}
        self._clocks: dict[str, _Clock] = {}

    def take(
        self,
        clients: Iterable[DrmClient],
        mono_ns: int,
        since_ns: int | None,
        unsure: Collection[int] = (),
    ) -> dict[int, dict[str, int]]:
        """DrmClient id → quantity → nanoseconds since the last time; of each client once.

        ``since_ns``: when every client that was there was looked for the last time before. One
        that is new has been opened since then, and all that it has used is new. None: it is not
        known what was there; then a new client is counted from now on, and so are those of whom
        it is not known, ``unsure``.
        """
        spent: dict[int, dict[str, int]] = {}
        for client in clients:
            if client.client_id not in spent:
                self._learn(client, mono_ns)
                begun_ns = None if client.client_id in unsure else since_ns
                spent[client.client_id] = self._enter(client, mono_ns, begun_ns)
        self._forget(mono_ns)
        return spent

    def pause(self) -> None:
        """The device sleeps, and its clocks may."""
        for clock in self._clocks.values():
            clock.stopped = True

    def _learn(self, client: DrmClient, mono_ns: int) -> None:
        for name, engine in client.engines.items():
            if engine.total_cycles is None:
                continue
            clock = self._clocks.get(name)
            if clock is None:
                self._clocks[name] = _Clock(engine.total_cycles, mono_ns)
            elif clock.mono_ns != mono_ns:  # the first of each look; the others follow in no time
                clock.learn(engine.total_cycles, mono_ns)

    def _enter(self, client: DrmClient, mono_ns: int, since_ns: int | None) -> dict[str, int]:
        account = self._accounts.get(client.client_id)
        if account is None:
            account = self._accounts[client.client_id] = _Account(mono_ns)
            begun_ns = since_ns
        else:  # an engine that was not listed until now had not been used
            begun_ns = account.seen_ns
        spent: dict[str, int] = {}
        for name, engine in client.engines.items():
            role = role_of(client.driver, name)
            if role is None:
                continue
            used = account.engines.get(name)
            if used is None:
                value = engine.busy_ns if engine.busy_ns is not None else engine.cycles or 0
                counted = value if begun_ns is None else 0
                used = account.engines[name] = _Used(counted, begun_ns)
            clock = self._clocks.get(name)
            rate = clock.rate if clock else None
            spent[role] = spent.get(role, 0) + used.take(engine, rate, mono_ns)
        account.seen_ns = mono_ns
        return spent

    def _forget(self, mono_ns: int) -> None:
        oldest = mono_ns - KEPT_NS
        for client_id in [i for i, a in self._accounts.items() if a.seen_ns < oldest]:
            del self._accounts[client_id]
        if len(self._accounts) > MOST_CLIENTS:  # somebody opens and closes them without end
            closed = [(a.seen_ns, i) for i, a in self._accounts.items() if a.seen_ns < mono_ns]
            for _, client_id in sorted(closed)[: len(self._accounts) - MOST_CLIENTS]:
                del self._accounts[client_id]


def by_process(
    spent: Mapping[int, Mapping[str, int]], holders: Mapping[int, int]
) -> dict[int, dict[str, int]]:
    """Pid → quantity → nanoseconds, by who holds each client."""
    sums: dict[int, dict[str, int]] = {}
    for client_id, roles in spent.items():
        own = sums.setdefault(holders[client_id], {})
        for role, ns in roles.items():
            own[role] = own.get(role, 0) + ns
    return sums


class ClientReader:
    """Reads ``fdinfo`` of the device with these minor numbers of its nodes, and this PCI address.

    A client that several processes hold is the youngest's: whoever opens a device for another one
    - a login manager, a broker, a parent - was there before it.
    """

    def __init__(self, minors: frozenset[int], pci: str, proc_root: str) -> None:
        self._minors = minors
        self._pci = pci
        self._proc = proc_root
        self._known: dict[Handle, int] = {}  # client id
        self._known_of: HandleScan | None = None

    def ask(self, sight: HandleScan) -> dict[int, tuple[int, DrmClient]]:
        """Each client by its id, with the pid of the youngest process that has it open.

        One descriptor of each is read; all of them after a new look at the processes, because a
        descriptor may have been closed and its number taken by another one.
        """
        if sight is not self._known_of:
            self._known, self._known_of = {}, sight
        asked: dict[int, tuple[int, DrmClient]] = {}
        for handle in self._handles(sight):
            if self._known.get(handle) in asked:
                continue
            client = self._client(handle)
            if client is None:
                self._known.pop(handle, None)
                continue
            self._known[handle] = client.client_id
            asked.setdefault(client.client_id, (handle.pid, client))
        return asked

    def holders(self, sight: HandleScan) -> frozenset[int]:
        """Pids of all processes that have the device open."""
        return frozenset(handle.pid for handle in self._handles(sight))

    def _handles(self, sight: HandleScan) -> Sequence[Handle]:
        """Youngest process first."""
        several = [sight.handles[m] for m in self._minors if m in sight.handles]
        return several[0] if len(several) == 1 else sorted(_chained(several), reverse=True)

    def _client(self, handle: Handle) -> DrmClient | None:
        try:
            path = f"{self._proc}/{handle.pid}/fdinfo/{handle.descriptor}"
            client = parse(read(path, LONGEST))
        except OSError:
            return None
        is_ours = client is not None and client.pdev in {self._pci, ""}
        return client if is_ours else None


def _chained(several: Sequence[Sequence[Handle]]) -> Iterator[Handle]:
    for handles in several:
        yield from handles
