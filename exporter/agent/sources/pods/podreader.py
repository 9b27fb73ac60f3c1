"""The common base of the sources that read pods in a thread of their own: a server's and files'."""

import logging
import random
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from exporter.agent.fairness import Held
from exporter.agent.sources.pods.decode import KEEP_NOTHING, KeyPrefixes, PodError, decode_pod
from exporter.agent.sources.pods.podtable import MAX_ENDED, MAX_LIVING, PodStore
from exporter.agent.sources.pods.wire import MAX_OBJECT, JsonError, Skipped, list_parts
from exporter.agent.sources.source import Rejections, Threaded
from exporter.apiserver.client import KubeClient
from exporter.apiserver.serveranswers import ApiError, ServerKind, explanation
from exporter.model import SECOND_NS, Clock, Pod, PodTable, SourceStatus

logger = logging.getLogger(__name__)

NOT_YET = "not connected yet"
NOT_ASKED = "not asked, because a better source is up"


@dataclass(frozen=True, slots=True)
class ReaderTimings:
    """Waiting times in seconds, spread at random so that nodes do not act at the same moment.

    The server ends a watch after ``watch_s`` to 1.2 * ``watch_s``; ``slack_s`` later the connection
    is closed as half-open. ``list_s`` bounds each wait for bytes of a list, ``node_wait_s`` for
    bytes of the node, which is read before the pods; a whole list may take ``whole_list_s``. A
    kubelet, which has no watch, is polled every ``poll_s``. A list waits for up to
    ``list_spread_s``, because a whole fleet may list at once when it starts or loses its server.
    """

    watch_s: float = 300
    slack_s: float = 15
    list_s: float = 30
    whole_list_s: float = 120
    poll_s: float = 10
    node_s: float = 60
    node_wait_s: float = 5
    backoff_s: float = 0.8
    backoff_limit_s: float = 60
    list_spread_s: float = 0

    def delay(self, failures: int, jitter: float) -> float:
        """Seconds to wait before the next connection. ``jitter`` is from 0 to 1."""
        longest = min(self.backoff_limit_s, self.backoff_s * float(1 << min(failures, 16)))
        return longest * (0.5 + jitter / 2)

    def spread(self, jitter: float) -> float:
        """Seconds that a list waits, so that nodes do not list at the same moment."""
        return self.list_spread_s * jitter


DEFAULT_TIMINGS = ReaderTimings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions:
    """What every reader takes. ``keep`` are the annotations and labels to keep."""

    keep: KeyPrefixes = KEEP_NOTHING
    clock: Clock = time
    timings: ReaderTimings = DEFAULT_TIMINGS
    jitter: Callable[[], float] = random.random
    changed: Callable[[], None] = lambda: None


USUAL = ReaderOptions()


class PodThread(Threaded):
    """Implements most of ``PodSource``. Its own thread reads pods into a store.

    A subclass defines a step. ``watches``: changes come as they happen, so that the table is
    current while the source is up. A failure is logged at ``level``.
    """

    name = "pods"
    watches = False
    level = logging.WARNING

    def __init__(self, options: ReaderOptions = USUAL) -> None:
        status = SourceStatus(self.name, up=False, detail=NOT_YET)
        super().__init__(status, options.clock, options.jitter, options.changed)
        self._keep, self._timings = options.keep, options.timings
        self._rejections = Rejections()
        self.rejected: Callable[[], Mapping[str, int]] = self._rejections.counts
        self._listed, self._wanted = False, True
        self._store = PodStore(cut=self._cut)
        self._heard_ns: int | None = None  # when the list was last current

    # --- for other threads ---

    def wait(self, timeout_s: float) -> bool:
        with self._news:
            return self._news.wait_for(lambda: self._listed or self._stopped, timeout_s)

    def want(self, wanted: bool) -> None:  # noqa: FBT001 - one word says it
        """Read from now on, or pause because a better source is up. One that pauses is not up."""
        with self._news:
            self._wanted = wanted
            self._news.notify_all()

    def table(self) -> PodTable:
        with self._news:
            self._store.expire(self._clock.monotonic_ns())
            return self._store.table

    def adopt(self, table: PodTable) -> None:
        """Keep the pods of another source that this one does not have for their grace period."""
        with self._news:
            self._store.adopt(table.pods.values(), self._clock.monotonic_ns())

    def status(self) -> SourceStatus:
        """The current status. While the source is down, its detail has the age of the list."""
        with self._news:
            status, heard_ns = self._status, self._heard_ns
        if not self._wanted:
            return status._replace(up=False, detail=NOT_ASKED)
        if status.up:
            return (
                status._replace(last_success_unix_ns=self._clock.time_ns())
                if self.watches
                else status
            )
        age = "no pods are known yet"
        if heard_ns is not None:
            seconds = (self._clock.monotonic_ns() - heard_ns) // SECOND_NS
            age = f"the list of pods is {seconds} s old"
        return status._replace(detail=f"{status.detail}; {age}")

    def follow(self, keep: KeyPrefixes) -> None:
        self._keep = keep

    # --- in its own thread ---

    def _run(self) -> None:
        try:
            while not self._stopped:
                if self._wanted:
                    # A fault of our own in one step must not end the thread: nobody would read
                    # pods any more, and the last list would be shown for ever.
                    try:
                        self._step()
                    except Exception:
                        logger.exception(
                            "reading pods failed unexpectedly; it starts again with a list"
                        )
                        self._down("unexpected error, see the log")
                        self._reset()
                    self._changed()
                    self._rest(self._pause_s())
                else:
                    self._down(NOT_ASKED, logging.DEBUG)
                    with self._news:
                        self._news.wait_for(lambda: self._wanted or self._stopped)
        finally:
            self._reset()

    def _rest(self, seconds: float) -> None:
        with self._news:
            self._news.wait_for(lambda: self._stopped, seconds)

    @abstractmethod
    def _step(self) -> None:
        """Read pods, or say why that is not possible."""

    @abstractmethod
    def _pause_s(self) -> float:
        """Seconds until the next step."""

    def _reset(self) -> None:
        """Let go of what the thread holds between two steps."""

    def _enter_list(self, pods: list[Pod], started_ns: int) -> None:
        """Enter a whole list that was asked for at that moment."""
        now_ns = self._clock.monotonic_ns()
        with self._news:
            self._store.relist(pods, now_ns)
            self._status = self._status._replace(duration_ns=now_ns - started_ns)
            self._listed = True
            self._news.notify_all()
        self._heard()

    def _cut(self, pod: Pod) -> None:
        """Count a pod that is not kept."""
        most = "deleted" if pod.deleted else "ended" if pod.terminal else "living"
        self._rejections.reject(
            "pod_over_limit",
            f"a pod of namespace {pod.namespace}, which has most of the {most} pods of this node,",
            remedy="its use is shown as a group's; find out who makes so many",
            owner=pod.namespace,
        )

    def _heard(self) -> None:
        """Record that the list is current now."""
        with self._news:
            self._heard_ns = self._clock.monotonic_ns()
            self._status = self._status._replace(last_success_unix_ns=self._clock.time_ns())

    def _up(self) -> bool:
        """Set the source up; True if that is a change."""
        with self._news:
            before, self._status = self._status, self._status._replace(up=True, detail="")
        return not before.up

    def _down(self, detail: str, level: int | None = None) -> None:
        """Set the source down; a change of that or of ``detail`` is logged. The table stays."""
        with self._news:
            before, self._status = self._status, self._status._replace(up=False, detail=detail)
        if before.up or before.detail != detail:
            level = self.level if level is None else level
            logger.log(level, "pods cannot be read: %s; it is tried again", detail)


class ServerPods(PodThread):
    """A reader of an HTTP server's lists of pods.

    ``connect`` makes a client from credentials; it is called again after each failure.
    """

    server = ServerKind.API

    def __init__(self, connect: Callable[[], KubeClient], options: ReaderOptions = USUAL) -> None:
        super().__init__(options)
        self._connect = connect
        self._client: KubeClient | None = None
        self._restart = threading.Event()  # whether known pods are to be listed again

    def follow(self, keep: KeyPrefixes) -> None:
        """Keep these annotations and labels from now on. Known pods are listed again."""
        if keep != self._keep:
            self._keep = keep
            self._restart.set()
            self._interrupt()

    def _interrupt(self) -> None:
        if (client := self._client) is not None:
            client.interrupt()

    def _step(self) -> None:
        started_ns = self._clock.monotonic_ns()
        try:
            self._read()
        except ApiError as failure:
            if self._restart.is_set():
                self._restart_if_asked()
                self._forget_client()  # it was interrupted
            elif not self._stopped:
                self._fail(failure)
        # What held so long was a connection that worked: the next pause is a short one again.
        if self._clock.monotonic_ns() - started_ns > 10 * SECOND_NS:
            self._failures = 0

    @abstractmethod
    def _read(self) -> None:
        """Ask the server; raises ApiError if there was no answer."""

    def _pause_s(self) -> float:
        seconds = self._timings.delay(self._failures, self._jitter())
        self._failures += 1
        return seconds

    def _connected(self) -> KubeClient:
        if self._client is None:
            self._client = self._connect()
        self._restart_if_asked()
        self._check_open()
        return self._client

    def _check_open(self) -> None:
        if self._stopped:
            raise ApiError(None, "closed")

    def _restart_if_asked(self) -> None:
        """Start again with a list if ``follow`` was called."""
        if self._restart.is_set():
            self._restart.clear()
            self._forget_position()

    def _forget_position(self) -> None:
        """Forget the position of the watch, if the server has one."""

    def _fail(self, failure: ApiError) -> None:
        """Drop the client, so that credentials are read again."""
        self._forget_client()
        self._down(explanation(failure, self.server))

    def _reset(self) -> None:
        self._forget_client()
        self._forget_position()

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _list(self, path: str, query: Mapping[str, str]) -> tuple[list[Pod], Mapping[str, object]]:
        """The pods of a whole list, and its metadata.

        Raises:
            ApiError: no answer, or one that is not a list, is cut off, too long, or does not end.

        """
        pods: dict[str, Pod] = {}
        # The kubelet bounds the pods that run. Nobody bounds those that have ended: a cluster may
        # keep 12,500, so they have a bound of their own and take no place from the others.
        held = {
            terminal: Held[str](most, newest=True)
            for terminal, most in ((False, MAX_LIVING), (True, MAX_ENDED))
        }
        metadata: object = None
        try:
            with self._connected().get(path, query, self._timings.list_s) as stream:
                for key, value in list_parts(self._bounded(stream.chunks())):
                    if key == "metadata":
                        metadata = value
                    elif key == "items" and value is not None and (pod := self._pod(value)):
                        pods[pod.uid] = pod
                        over = held[pod.terminal].add(pod.uid, pod.namespace)
                        if over is not None and (gone := pods.pop(over, None)):
                            self._cut(gone)
        except JsonError as error:
            raise ApiError(None, f"the list of pods is broken: {error}") from error
        if not isinstance(metadata, dict):
            raise ApiError(None, "the answer is not a list of pods")
        return [*pods.values()], metadata

    def _bounded(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The chunks of a list, bounded in time. Only one pod of it is kept as text at a time."""
        ends_ns = self._clock.monotonic_ns() + int(self._timings.whole_list_s * SECOND_NS)
        for chunk in chunks:
            if self._clock.monotonic_ns() > ends_ns:
                raise JsonError(f"not at its end after {self._timings.whole_list_s:.0f} s")
            yield chunk

    def _pod(self, document: object) -> Pod | None:
        if isinstance(document, Skipped):
            self._skip(document)
            return None
        try:
            pod, dropped = decode_pod(document, self._keep)
        except PodError as error:
            self._rejections.reject("pod_unusable", f"a pod whose {error}")
            return None
        for reason, count in dropped.items():
            item = f"a part of pod {pod.namespace}/{pod.name}"
            self._rejections.reject(reason, item, count, owner=pod.namespace)
        return pod

    def _skip(self, item: Skipped) -> None:
        """Count and name a pod whose text is not read."""
        reason, remedy = "pod_unreadable", "its document is not JSON that can be read: recreate it"
        if item.too_large:
            most = f"its document has more than {MAX_OBJECT >> 20} MiB"
            reason, remedy = (
                "pod_too_large",
                f"{most}: shorten its arguments, environment or annotations",
            )
        pod = f"pod {item.name}" if item.name else "a pod without a name"
        owner = item.name.partition("/")[0]
        self._rejections.reject(reason, pod, remedy=remedy, owner=owner)
