"""Decodes the allocations of pods, each again only when it, or what its decoder reads, changed.

In the agent this is done beside the cycle, in a thread of its own: what a tenant writes into a pod
may take long to read, and neither the measuring nor the other pods' allocations wait for it. A
cycle waits a moment for what it has just handed over, which nearly always is enough.
"""

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from exporter.agent.allocations.devicenames import first_numbered
from exporter.agent.allocations.rules import Rules
from exporter.agent.allocations.terms import Decoded
from exporter.agent.allocations.ties import Knowledge, Sayings, has_ended, node_for, together
from exporter.model import Clock, Device, NodeFacts, PodTable

logger = logging.getLogger(__name__)

MS = 10**6  # ns
FIRST_S, LATER_S = 1.0, 0.1  # how long a cycle waits; a usual pod takes 0.1 ms
TURN_NS = 20 * MS  # of work, after which the thread lets others run for as long
END_S = 0.9


class Asked(NamedTuple):
    """What allocations follow from. ``version`` rises with each that differs."""

    version: int
    table: PodTable
    node: NodeFacts
    rules: Rules


class Decodings(NamedTuple):
    """What is decoded so far, by the pods' uid. ``version`` rises with each that differs.

    ``answered``: the version of what was asked last and is decoded as a whole.
    """

    version: int = 0
    answered: int = 0
    found: Mapping[str, Decoded] = {}


class _Input(NamedTuple):
    """All that a pod's allocations follow from."""

    known: Knowledge
    node: NodeFacts
    rules: Rules


class Decoder:
    """Decodes one pod after the other, the namespaces in turn. For one thread.

    The turn is that of the namespace for which least time was spent since all were done: pods that
    are slow to decode delay those of their own namespace.
    """

    def __init__(self, clock: Clock) -> None:
        self.found: dict[str, Decoded] = {}
        self._clock = clock
        self._inputs: dict[str, _Input] = {}  # of what is found
        self._known: dict[str, Knowledge] = {}
        self._numbered: dict[str, tuple[Device, ...]] = {}  # see NodeFacts, by the pods' uid
        self._every: Sayings = {}
        self._due: dict[str, dict[str, _Input]] = {}  # by namespace and uid
        self._spent: Counter[str] = Counter()  # ns by namespace
        self._rules = Rules()

    def take(self, asked: Asked) -> None:
        """Finds out which pods are due. One that has ended has no allocation, and is not."""
        before = {} if asked.rules != self._rules else self._known
        self._rules, self._known = asked.rules, {}
        for uid, pod in asked.table.pods.items():
            if not has_ended(pod):
                grants, own = asked.node.grants.get(uid, ()), before.get(uid)
                is_same = own is not None and (own.pod, own.grants) == (pod, grants)
                known = own if own and is_same else asked.rules.knowledge_of(pod, grants)
                self._known[uid] = known
        self._every = together(known.says for known in self._known.values())
        node = replace(asked.node, index_bases=asked.rules.index_bases)
        self._due = {}
        for uid, known in self._known.items():
            own_node = node_for(known, node, self._every)
            if (numbered := self._numbered.get(uid)) is not None:
                # A number is the card's that had it first, as long as the pod lives.
                numbered = self._numbered[uid] = first_numbered(numbered, node.devices)
                own_node = replace(own_node, numbered=() if numbered == node.devices else numbered)
            needed = _Input(known, own_node, asked.rules)
            if needed != self._inputs.get(uid):
                self._due.setdefault(known.pod.namespace, {})[uid] = needed
        for uid in self.found.keys() - self._known.keys():
            del self.found[uid], self._inputs[uid]
            self._numbered.pop(uid, None)

    def step(self) -> bool:
        """Decodes the next pod that is due, if any. Whether more are."""
        if not self._due:
            self._spent.clear()
            return False
        namespace = min(self._due, key=lambda name: self._spent[name])
        pods = self._due[namespace]
        uid = next(iter(pods))
        needed = pods.pop(uid)
        if not pods:
            del self._due[namespace]
        started_ns = self._clock.monotonic_ns()
        self.found[uid] = found = needed.rules.decode(needed.known.pod, needed.node)
        if any(allocation.device for allocation in found.allocations):
            self._numbered.setdefault(uid, needed.node.devices)
        self._inputs[uid] = needed
        self._spent[namespace] += self._clock.monotonic_ns() - started_ns
        return bool(self._due)


class Decoding:
    """Decodes what the cycle asks for: at once, or beside it once ``beside`` is entered."""

    def __init__(self, clock: Clock = time) -> None:
        self.newest = Decodings()
        self._decoder, self._clock = Decoder(clock), clock
        self._asked = Asked(0, PodTable(), NodeFacts(), Rules())
        self._news = threading.Condition()
        self._is_beside = self._stopped = False
        self._taken, self._is_behind = 0, False  # what was asked last, and whether pods are due

    def ask(self, table: PodTable, node: NodeFacts, rules: Rules) -> Decodings:
        """What is decoded of this, as a whole unless that takes long."""
        with self._news:
            self._asked = asked = Asked(self._asked.version + 1, table, node, rules)
            if self._is_beside:
                self._news.notify_all()
                timeout_s = LATER_S if self.newest.found else FIRST_S
                self._news.wait_for(lambda: self.newest.answered >= asked.version, timeout_s)
                return self.newest
        self._decoder.take(asked)
        while self._decoder.step():
            pass
        self._taken, self._is_behind = asked.version, False
        self._publish(asked.version)
        return self.newest

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """While this is entered, a thread decodes."""
        thread = threading.Thread(target=self._run, name="decoding", daemon=True)
        self._is_beside, self._stopped = True, False
        thread.start()
        try:
            yield
        finally:
            with self._news:
                self._stopped = True
                self._news.notify_all()
            thread.join(END_S)
            self._is_beside = False

    def _publish(self, answered: int) -> None:
        version = self.newest.version + 1
        self.newest = Decodings(version, answered, dict(self._decoder.found))

    # --- in its own thread ---

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._is_behind or self._is_called())
                asked = self._asked
                if self._stopped:
                    return
            started_ns = self._clock.monotonic_ns()
            try:
                if asked.version > self._taken:
                    self._taken = asked.version
                    self._decoder.take(asked)
                # A turn of work is short. What has come meanwhile, a new pod or the end, is seen
                # after it.
                while more := self._decoder.step():
                    if self._clock.monotonic_ns() - started_ns > TURN_NS:
                        break
                self._is_behind = more
            except Exception:
                logger.exception("decoding pods failed; it goes on with the next change of one")
                self._is_behind = False
            with self._news:
                self._publish(self.newest.answered if self._is_behind else asked.version)
                self._news.notify_all()
                if self._is_behind:
                    # Python runs one thread at a time. The cycle and the pages get as much time as
                    # this one had.
                    took_s = (self._clock.monotonic_ns() - started_ns) / 1e9
                    self._news.wait_for(self._is_called, took_s)

    def _is_called(self) -> bool:
        """Whether there is something new to take, or the end has come."""
        return self._stopped or self._asked.version > self._taken
