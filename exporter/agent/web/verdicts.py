"""The API server's verdicts on clients, cached and limited so that no client can flood it.

A token is known here only by its keyed digest, and its rights are those of its subject, so that
many tokens of one subject cost no more than one. Verdicts expire; those that allow something and
those that refuse it are cached apart, so that many wrong tokens do not push out the right ones.
"""

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from exporter.agent.web.peers import Busy, FairQueue
from exporter.model import SECOND_NS, Clock, ReviewError, Right, Subject

logger = logging.getLogger(__name__)

T = TypeVar("T")

IDENTITY, PERMISSION = KINDS = "token", "right"
OUTCOMES = ("allowed", "denied", "failed", "not_asked")
_LANES = 4
_CREDENTIAL = "authentication.kubernetes.io/credential-id"  # an extra, new in each token
_SERVICE_ACCOUNT = "system:serviceaccount:"
_BUSY = "too many clients wait for the API server; try again"
_FAILED = "the API server cannot be asked for your rights; the exporter's log says why"


class Reviewer(Protocol):
    """Asks the API server. Blocking; called by several threads at once."""

    def identify(self, token: str) -> Subject | None:
        """The subject that a token belongs to; None if it is not valid. Raises ReviewError."""
        ...

    def permits(self, subject: Subject, right: Right) -> bool:
        """Whether the subject has the right. Raises ReviewError."""
        ...

    def close(self) -> None:
        """Closes the connections."""
        ...


@dataclass(frozen=True, slots=True)
class ReviewLimits:
    """Limits of reviews and of what is cached of them.

    ``at_once``, ``burst`` and ``interval_s`` are for each of four: tokens and rights, new ones and
    clients that were let in before. So many run at once, so many may start together, and later ones
    start each ``interval_s``. ``wait_s`` is for a turn, ``request_s`` for all reviews of a request.
    """

    at_once: int = 4
    burst: int = 100
    interval_s: float = 0.05
    wait_s: float = 3.0
    request_s: float = 5.0
    allowed_s: float = 60.0
    unknown_s: float = 10.0  # a token that is not valid
    denied_s: float = 30.0  # a right that a known client does not have
    known_s: float = 3600.0  # who was let in does not wait behind who is new
    cached: int = 4096


class Unavailable(Exception):  # noqa: N818 - a state: the client should try again
    """There is no verdict. The message is for the client."""


class Client(NamedTuple):
    """A client whose token is valid."""

    subject: Subject

    @property
    def key(self) -> Hashable:
        """What its rights depend on; equal for all tokens of a subject."""
        extra = sorted(item for item in self.subject.extra.items() if item[0] != _CREDENTIAL)
        return (self.subject.name, self.subject.uid, self.subject.groups, tuple(extra))

    @property
    def party(self) -> str:
        """Whom it takes turns as: the ServiceAccounts of a namespace, of any number, are one."""
        if not self.subject.name.startswith(_SERVICE_ACCOUNT):
            return self.subject.name
        return self.subject.name.rpartition(":")[0]


class _Cache(Generic[T]):
    """Values that expire; at the bound the one that was used longest ago is dropped."""

    def __init__(self, most: int, clock: Clock) -> None:
        self._most = most
        self._clock = clock
        self._held: OrderedDict[Hashable, tuple[int, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        expires_ns, value = self._held.get(key, (0, None))
        if value is None:
            return None
        if self._clock.monotonic_ns() >= expires_ns:
            del self._held[key]
            return None
        self._held.move_to_end(key)
        return value

    def put(self, key: Hashable, value: T, ttl_s: float) -> None:
        self._held[key] = (self._clock.monotonic_ns() + int(ttl_s * SECOND_NS), value)
        self._held.move_to_end(key)
        while len(self._held) > self._most:
            self._held.popitem(last=False)


class _Lane:
    """The reviews of one kind: a fair queue, a pace, and a bound of those that run at once."""

    def __init__(self, kind: str, limits: ReviewLimits) -> None:
        self.kind = kind
        self._limits = limits
        self._queue = FairQueue()
        self._running = asyncio.Semaphore(limits.at_once)
        self._full_s = 0.0  # when the burst is, or was, available again

    async def enter(self, party: str) -> None:
        """Waits for a turn; ``leave`` gives it back.

        Raises:
            Busy: too many of this party wait.
            TimeoutError: the turn did not come in time.

        """
        async with asyncio.timeout(self._limits.wait_s), self._queue.turn(party):
            # The API server is everybody's. A burst may start at once, as when a page is opened;
            # after it, reviews start one by one, whoever asks for how many.
            now_s = asyncio.get_running_loop().time()
            earliest_s = self._full_s - (self._limits.burst - 1) * self._limits.interval_s
            if earliest_s > now_s:
                await asyncio.sleep(earliest_s - now_s)
            self._full_s = max(self._full_s, now_s) + self._limits.interval_s
            await self._running.acquire()

    def leave(self) -> None:
        self._running.release()


class Verdicts:
    """Who clients are and what they may do. Used by one event loop.

    ``reviews`` counts by kind of review and outcome; any thread may read it.
    """

    def __init__(
        self, reviewer: Reviewer, clock: Clock, limits: ReviewLimits | None = None
    ) -> None:
        self.limits = limits or ReviewLimits()
        self._reviewer = reviewer
        self._key = secrets.token_bytes(32)
        most = self.limits.cached
        self._clients: _Cache[Subject] = _Cache(most, clock)
        self._strangers: _Cache[bool] = _Cache(most, clock)
        self._granted: _Cache[bool] = _Cache(most, clock)
        self._refused: _Cache[bool] = _Cache(most, clock)
        self._known: _Cache[str] = _Cache(most, clock)  # the party
        self._first = {kind: _Lane(kind, self.limits) for kind in KINDS}
        self._renewals = {kind: _Lane(kind, self.limits) for kind in KINDS}
        self._asked: dict[Hashable, asyncio.Task[Any]] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._problem = ""
        self._counts: dict[tuple[str, ...], int] = dict.fromkeys(product(KINDS, OUTCOMES), 0)

    @property
    def reviews(self) -> Mapping[tuple[str, ...], int]:
        """The number of reviews by kind and outcome, from 0 on."""
        return dict(self._counts)

    async def identify(self, token: str, peer: str) -> Client | None:
        """The client that a token belongs to; None if it is not valid.

        Raises:
            Unavailable: the API server was not asked, or gave no usable answer.

        """
        # A dump of this process's memory has digests of tokens, which are of no use elsewhere.
        key = hmac.digest(self._key, token.encode(), hashlib.sha256)
        if known := self._clients.get(key):
            return Client(known)
        if self._strangers.get(key):
            return None

        def keep(subject: Subject | None) -> None:
            if subject is None:
                self._strangers.put(key, True, self.limits.unknown_s)
            else:
                self._clients.put(key, subject, self.limits.allowed_s)
                self._known.put(key, Client(subject).party, self.limits.known_s)

        # Who was let in before does not queue behind those who try any number of tokens. A new one
        # takes turns as its address, because who it is is not known yet.
        party = self._known.get(key)
        lane = (self._first if party is None else self._renewals)[IDENTITY]
        ask = partial(self._reviewer.identify, token)
        subject = await self._once(key, lane, party or peer, ask, keep)
        return None if subject is None else Client(subject)

    async def permits(self, client: Client, right: Right) -> bool:
        """Whether a client has a right; raises as ``identify``.

        Refusals of a client that was let in before are asked for again as its grants are.
        """
        # A refusal is kept for less time than a grant: who was just given a right should not wait.
        key = (client.key, right)
        if self._granted.get(key):
            return True
        if self._refused.get(key):
            return False

        def keep(permits: bool) -> None:  # noqa: FBT001 - the verdict itself
            if permits:
                self._granted.put(key, True, self.limits.allowed_s)
                self._known.put(client.key, client.party, self.limits.known_s)
            else:
                self._refused.put(key, True, self.limits.denied_s)

        known = self._known.get(client.key) is not None
        lane = (self._renewals if known else self._first)[PERMISSION]
        ask = partial(self._reviewer.permits, client.subject, right)
        return await self._once(key, lane, client.party, ask, keep)

    def close(self) -> None:
        """Stops without waiting for reviews."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._reviewer.close()

    async def _once(
        self,
        key: Hashable,
        lane: _Lane,
        party: str,
        ask: Callable[[], T],
        keep: Callable[[T], None],
    ) -> T:
        """The verdict. Requests that need the same one at the same time share a review.

        The review itself keeps its verdict. Were that left to the requests, one that came between
        the review's end and their next turn would find neither.
        """

        def done(review: asyncio.Task[Any]) -> None:
            self._asked.pop(key, None)
            # Every client that waited may be gone. An error that nobody reads is logged by asyncio,
            # with a traceback: so it is read here.
            if not review.cancelled():
                review.exception()

        task: asyncio.Task[T] | None = self._asked.get(key)
        if task is None:
            task = self._asked[key] = asyncio.create_task(self._review(lane, party, ask, keep))
            task.add_done_callback(done)
        # A client that goes away ends its own request, and not the review that others wait for.
        return await asyncio.shield(task)

    async def _review(
        self, lane: _Lane, party: str, ask: Callable[[], T], keep: Callable[[T], None]
    ) -> T:
        try:
            await lane.enter(party)
        except (Busy, TimeoutError):
            self._counts[lane.kind, "not_asked"] += 1
            raise Unavailable(_BUSY) from None
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_LANES * self.limits.at_once, "reviews")
        try:
            verdict = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        except ReviewError as error:
            self._counts[lane.kind, "failed"] += 1
            self._note(str(error))
            raise Unavailable(_FAILED) from None
        finally:
            lane.leave()
        self._counts[lane.kind, "allowed" if verdict else "denied"] += 1
        self._note("")
        keep(verdict)
        return verdict

    def _note(self, problem: str) -> None:
        """Logs a problem once, and its end."""
        if problem and problem != self._problem:
            logger.warning("nobody new is let in: %s", problem)
        if self._problem and not problem:
            logger.info("clients are let in again")
        self._problem = problem
