"""The engine time that each client of one device has used since the last read.

A client is one open DRM file, with any number of descriptors and processes. Its counters begin at 0
when it is opened. They may step back: then the largest value holds until it is passed
(drm-usage-stats.rst). They vanish when it is closed: what it used after the last read is lost.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.gpus.drm.descriptors import BEGINS
from exporter.agent.sources.gpus.drm.drmdiscovery import COPY, role_of
from exporter.agent.sources.gpus.drm.drmturns import ClientTurns, Key
from exporter.agent.sources.gpus.drm.fdinfo import LONGEST, DrmClient, EngineUsage, parse
from exporter.agent.sources.gpus.drm.holders import Handle, HandleScan
from exporter.model import Engines, ProcessActivity

FORGET_AFTER_NS = 60 * 10**9  # a client may be on its way from process to process (SCM_RIGHTS)
MAX_CLIENTS = 8192  # twice the most that are open: further ones are closed, and dropped
SHORTEST_NS = 20 * 10**6  # over less, the device's clock is not compared with the monotonic one


class ClockRate(NamedTuple):
    """The speed of a device clock: nanoseconds and the cycles in them."""

    ns: int
    cycles: int


@dataclass(slots=True)
class _Clock:
    """The clock of an engine class's total cycles, compared with the monotonic one."""

    total: int
    mono_ns: int
    rate: ClockRate | None = None
    stopped: bool = False
    highest: int = 0
    highest_ns: int = 0

    def learn(self, total: int, mono_ns: int) -> None:
        """Takes a later reading. After a step back the rate stays as it was.

        What has stepped back may return in one leap, which is no time: a rate is learned only from
        where the clock was highest, or after a minute from where it is.
        """
        elapsed = mono_ns - self.mono_ns
        is_behind = self.total < self.highest and self.rate is not None
        if total <= self.total or self.stopped or is_behind:
            self.total, self.mono_ns, self.stopped = total, mono_ns, False
        elif elapsed >= SHORTEST_NS:
            self.rate = ClockRate(elapsed, total - self.total)
            self.total, self.mono_ns = total, mono_ns
        if total >= self.highest or mono_ns - self.highest_ns > FORGET_AFTER_NS:
            self.highest, self.highest_ns = total, mono_ns


@dataclass(slots=True)
class _Used:
    """The use of one class of engines by one client, which began at ``since_ns`` or later."""

    counted: int
    since_ns: int | None
    used_ns: int = 0
    credited_ns: int = 0
    taken_ns: int | None = None  # when it was last taken
    is_behind: bool = False  # its counter is lower than it was
    missed_ns: int = 0  # how long the counter had stepped back, so that use is reported later
    owed_ns: int = 0  # use of that time that has no room yet

    def take(
        self, engine: EngineUsage, rate: ClockRate | None, mono_ns: int, *, summed: bool
    ) -> int:
        """Nanoseconds since the last time.

        After a step back it is 0, and what was used then is in a later value: more than fits into
        that time waits for its turn. ``summed``: of all engines of the class together, else for one
        of them.
        """
        # A class of several engines can be used for as many seconds in each second.
        engines = engine.capacity if summed else 1
        elapsed_ns = 0 if self.taken_ns is None else max(mono_ns - self.taken_ns, 0) * engines
        self.taken_ns = mono_ns
        value = engine.busy_ns if engine.busy_ns is not None else engine.cycles or 0
        spent = self._risen(engine, value, rate, mono_ns, engines) + self.owed_ns
        # A counter that has stepped back reports nothing until it passes its old value, and then
        # all at once. What does not fit into the time since the last read was used before it: it is
        # owed, up to the time that was missed, and paid as later reads have room. So nothing is
        # lost, and no window shows a client that worked for longer than the window lasted.
        self.is_behind = value < self.counted - self.counted // 100  # drivers round now and then
        if value < self.counted:
            self.missed_ns += elapsed_ns
        self.owed_ns = min(max(spent - elapsed_ns, 0), self.missed_ns)
        if value >= self.counted:
            self.missed_ns = self.owed_ns
        return spent - self.owed_ns

    def _risen(
        self, engine: EngineUsage, value: int, rate: ClockRate | None, mono_ns: int, engines: int
    ) -> int:
        """Nanoseconds by which the counter has risen above its highest value so far."""
        by = ClockRate(1, 1) if engine.busy_ns is not None else rate
        if value <= self.counted or by is None:
            return 0
        self.used_ns += (value - self.counted) * by.ns // by.cycles
        self.counted = value
        # What was credited before is taken off the whole, so that no rounding adds up.
        spent = self.used_ns * engines // engine.capacity - self.credited_ns
        self.credited_ns += spent
        if self.since_ns is not None:  # no client can have used more than the time it was there
            spent, self.since_ns = min(spent, max(mono_ns - self.since_ns, 0) * engines), None
        return spent


class _Account:
    __slots__ = ("engines", "seen_ns")

    def __init__(self, seen_ns: int) -> None:
        self.engines: dict[str, _Used] = {}
        self.seen_ns = seen_ns


class ClientAccounts:
    """The accounts of one device's clients, by client id.

    ``behind``: clients whose counters are lower now than they were, so that their use is not known.
    """

    def __init__(self) -> None:
        self.behind: set[int] = set()
        self._accounts: dict[int, _Account] = {}
        self._clocks: dict[str, _Clock] = {}

    def take(
        self,
        clients: Iterable[DrmClient],
        mono_ns: int,
        since_ns: int | None,
        unsure: Collection[int] = (),
    ) -> dict[int, dict[str, int]]:
        """Client id → quantity → nanoseconds since the last time. Each client is given once.

        ``since_ns``: when the last complete scan of all clients began. A new client was opened
        since then, so all of its use is new. None: there was no complete scan, and a new client
        counts from now on. So do the clients ``unsure``, which may be older.
        """
        spent: dict[int, dict[str, int]] = {}
        self.behind.clear()
        for client in clients:
            for name, engine in client.engines.items():
                clock = self._clocks.get(name)
                if engine.total_cycles is None:
                    continue
                if clock is None:
                    self._clocks[name] = _Clock(engine.total_cycles, mono_ns)
                elif clock.mono_ns != mono_ns:
                    # The first client of each read. The others follow at once, with the same clock
                    # a moment later, over which it cannot be compared.
                    clock.learn(engine.total_cycles, mono_ns)
            begun_ns = None if client.client_id in unsure else since_ns
            spent[client.client_id] = self._enter(client, mono_ns, begun_ns)
        oldest_ns = mono_ns - FORGET_AFTER_NS
        for client_id in [i for i, a in self._accounts.items() if a.seen_ns < oldest_ns]:
            del self._accounts[client_id]
        # A process that opens and closes clients all the time would fill the memory meanwhile.
        if len(self._accounts) > MAX_CLIENTS:
            closed = [(a.seen_ns, i) for i, a in self._accounts.items() if a.seen_ns < mono_ns]
            for _, client_id in sorted(closed)[: len(self._accounts) - MAX_CLIENTS]:
                del self._accounts[client_id]
        return spent

    def pause(self) -> None:
        """Notes that the device sleeps: its clocks may stop."""
        for clock in self._clocks.values():
            clock.stopped = True

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
            taken = used.take(engine, rate, mono_ns, summed=role == COPY)
            if used.is_behind:
                self.behind.add(client.client_id)
            spent[role] = spent.get(role, 0) + taken
        account.seen_ns = mono_ns
        return spent


def by_process(
    spent: Mapping[int, Mapping[str, int]], holders: Mapping[int, int]
) -> dict[int, dict[str, int]]:
    """Pid → quantity → nanoseconds, by the process that holds each client."""
    sums: dict[int, dict[str, int]] = {}
    for client_id, roles in spent.items():
        own = sums.setdefault(holders[client_id], {})
        for role, ns in roles.items():
            own[role] = own.get(role, 0) + ns
    return sums


def activities_of(
    used: Mapping[int, Mapping[str, int]], quantities: Iterable[str], most_ns: int
) -> tuple[Engines, tuple[ProcessActivity, ...]]:
    """The busy time of a device, at most ``most_ns`` a quantity, and that of its processes."""
    kept = {pid: {q: own.get(q, 0) for q in quantities} for pid, own in used.items()}
    busy = {q: min(sum(own[q] for own in kept.values()), most_ns) for q in quantities}
    working = (ProcessActivity(p, Engines(**own)) for p, own in kept.items() if any(own.values()))
    return Engines(**busy), tuple(working)


class ClientUse(NamedTuple):
    """One read of a device's clients: each with the pid of the youngest process that has it open.

    ``used``: pid → quantity → nanoseconds since the last read. ``cut``: processes of owners of whom
    not all clients that may have worked were asked. ``unread``: those whose clients could not be
    read now, so that it is not known what they hold either.
    """

    clients: Collection[tuple[int, DrmClient]]
    used: Mapping[int, Mapping[str, int]]
    cut: frozenset[int] = frozenset()
    unread: frozenset[int] = frozenset()


class DeviceClients:
    """Reads the clients of one device, by the minor numbers and PCI addresses of its nodes.

    If several processes hold a client, it is the youngest's: a process that opens a device for
    another one (a login manager, a broker, a parent) is older.
    """

    def __init__(self, minors: Iterable[int], addresses: Collection[str], proc_root: str) -> None:
        self._minors = minors
        self._addresses = {*addresses, ""}  # "": a device that is on no PCI bus
        self._proc = proc_root
        self._accounts = ClientAccounts()
        self._scan: HandleScan | None = None
        self._handles: dict[Key, list[Handle]] = {}  # of each client that was not found ended
        self._newest: dict[Key, tuple[int, DrmClient]] = {}
        self._turns = ClientTurns()
        self._unread: set[int] = set()  # pids, in this read
        self._read_ns = 0

    def read(self, scan: HandleScan, mono_ns: int) -> ClientUse:
        """Reads the clients that this scan has found: those at work, and of the others in turn."""
        if scan is not self._scan:
            self._follow(scan)
        passed_ns, self._read_ns = mono_ns - self._read_ns, mono_ns
        asked: dict[int, tuple[int, DrmClient]] = {}
        keys: dict[int, Key] = {}
        self._unread.clear()
        for key in self._turns.take(mono_ns):
            read = self._ask(key)
            if read is None:
                if key in self._newest and self._newest[key][0] not in self._unread:
                    del self._newest[key]
            elif read[1].client_id not in asked:
                self._newest[key] = asked[read[1].client_id] = read
                keys[read[1].client_id] = key
        holders = {client_id: pid for client_id, (pid, _) in asked.items()}
        unsure = [i for i, pid in holders.items() if pid in scan.cut or pid in scan.was_cut]
        begun_ns = None if scan.blind else scan.since_mono_ns
        clients = [client for _, client in asked.values()]
        spent = self._accounts.take(clients, mono_ns, begun_ns, unsure)
        for client_id, roles in spent.items():
            # What was done while nobody asked is not said of the time since the last read: others,
            # who were asked, worked then, too.
            done_ns = sum(roles.values())
            since_ns = self._turns.note(keys[client_id], done_ns, passed_ns, mono_ns)
            if since_ns > passed_ns:
                spent[client_id] = {
                    role: ns if role == COPY else ns * passed_ns // since_ns
                    for role, ns in roles.items()
                }
        unread = frozenset(self._unread)
        cut = self._turns.cut | unread | {holders[each] for each in self._accounts.behind}
        return ClientUse(tuple(self._newest.values()), by_process(spent, holders), cut, unread)

    def pause(self) -> None:
        """Notes that the device sleeps: its clocks may stop."""
        self._accounts.pause()

    def is_unnamed(self, scan: HandleScan) -> bool:
        """Whether its descriptors name no client, as of kernels whose driver does not do so yet."""
        handles = chain.from_iterable(scan.handles.get(minor, ()) for minor in self._minors)
        is_silent = any(minor in scan.silent for minor in self._minors)
        return is_silent and not any(handle in scan.clients for handle in handles)

    def holders(self, scan: HandleScan) -> frozenset[int]:
        """Pids of all processes that have the device open."""
        return frozenset(chain.from_iterable(scan.pids.get(minor, ()) for minor in self._minors))

    def _follow(self, scan: HandleScan) -> None:
        """Takes a new scan: the handles of each client, the youngest process first."""
        self._scan, self._handles = scan, {}
        several = [scan.handles[m] for m in self._minors if m in scan.handles]
        for handle in sorted(chain(*several), reverse=True):
            self._handles.setdefault(scan.clients.get(handle, handle), []).append(handle)
        self._newest = {key: read for key, read in self._newest.items() if key in self._handles}
        owners = {key: scan.owners.get(own[0].pid) for key, own in self._handles.items()}
        self._turns.follow(owners, {key: own[0].pid for key, own in self._handles.items()})

    def _ask(self, key: Key) -> tuple[int, DrmClient] | None:
        """A client by the first of its handles that is still open, with the process of that."""
        for handle in self._handles.get(key, ()):
            reply = door.read(f"{self._proc}/{handle.pid}/fdinfo/{handle.descriptor}", LONGEST)
            match reply:
                case Whole(text) | Cut(text):
                    client = parse(text)
                    # A driver ends each line. Half a text lacks engines that the client has.
                    if not text.endswith(b"\n") or (client is None and not text.startswith(BEGINS)):
                        self._unread.add(handle.pid)
                    # The descriptor's number may be another file's by now.
                    elif client is not None and client.pdev in self._addresses:
                        return handle.pid, client
                case Refused() | Failed():
                    self._unread.add(handle.pid)
                case Absent():
                    pass
        return None
