"""The common base of the sources that read pods from an HTTP server, and their waiting times."""

import logging
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from exporter.model import Clock, Pod, PodTable, SourceStatus
from exporter.sources.pods.client import KubeClient
from exporter.sources.pods.decode import KEEP_NOTHING, KeyPrefixes, PodError, decode_pod
from exporter.sources.pods.health import SECOND_NS, ApiError, ServerKind, SourceHealth, explanation
from exporter.sources.pods.table import PodStore
from exporter.sources.pods.wire import MAX_OBJECT, JsonError, Skipped, Stream, list_parts


@dataclass(frozen=True, slots=True)
class ListenerTimings:
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


DEFAULT_TIMINGS = ListenerTimings()


logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 0.9
MAX_PODS = 10_000


class Listener(ABC):
    """Implements most of ``PodSource``. Its own thread reads pods into a store.

    The reader's thread removes pods whose grace period is over; a lock guards the store.
    ``changed`` is called in the listener's thread after each step that may have changed the table
    or the status. A subclass defines a step.
    """

    name = "pods"
    server = ServerKind.API
    watches = True  # whether it receives changes as they happen

    def __init__(
        self,
        *,
        keep: KeyPrefixes = KEEP_NOTHING,
        clock: Clock = time,
        timings: ListenerTimings = DEFAULT_TIMINGS,
        jitter: Callable[[], float] = random.random,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._keep, self._clock, self._timings = keep, clock, timings
        self._jitter, self._changed = jitter, changed
        self._health = SourceHealth(self.name, clock, watches=self.watches)
        self._stop, self._listed, self._restart = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._lock = threading.Lock()  # guards the store
        self._store = PodStore()
        self._client: KubeClient | None = None
        self._failures = 0

    # --- for other threads ---

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the first list, or the close; whether it came."""
        return self._listed.wait(timeout_s)

    def table(self) -> PodTable:
        """The newest table; deleted pods leave it after their grace period."""
        with self._lock:
            self._store.expire(self._clock.monotonic_ns())
            return self._store.table

    def status(self) -> SourceStatus:
        """Whether the table is kept current."""
        return self._health.status()

    def rejected(self) -> Mapping[str, int]:
        """Items of the server's answers that could not be used, by reason."""
        return self._health.rejected()

    def follow(self, keep: KeyPrefixes) -> None:
        """Keep these annotations and labels from now on. Known pods are listed again."""
        if keep == self._keep:
            return
        self._keep = keep
        self._restart.set()
        if (client := self._client) is not None:
            client.interrupt()

    def close(self) -> None:
        """End the thread, and the read that it is in.

        A request that the server has not begun to answer is left behind: its thread is a daemon
        and ends with the request's timeout.
        """
        self._stop.set()
        self._listed.set()
        if (client := self._client) is not None:
            client.interrupt()
        if self._thread.is_alive():
            self._thread.join(CLOSE_TIMEOUT_S)

    # --- in its own thread ---

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._attempt()
                self._changed()
                self._pause()
        finally:
            self._forget_client()

    def _attempt(self) -> None:
        """Do one step and handle its failure."""
        started_ns = self._clock.monotonic_ns()
        try:
            self._step()
        except ApiError as failure:
            if self._restart.is_set():
                self._restart_if_asked()
                self._forget_client()  # it was interrupted
            elif not self._stop.is_set():
                self._fail(failure)
        except Exception:
            logger.exception("listing pods failed unexpectedly; it starts again with a list")
            self._fail(ApiError(None, "unexpected error, see the log"))
            self._forget_position()
        if self._clock.monotonic_ns() - started_ns > 10 * SECOND_NS:
            self._failures = 0

    @abstractmethod
    def _step(self) -> None:
        """Read pods; raises ApiError if there was no answer."""

    def _restart_if_asked(self) -> None:
        """Start again with a list if ``follow`` was called."""
        if self._restart.is_set():
            self._restart.clear()
            self._forget_position()

    def _forget_position(self) -> None:  # noqa: B027 - a hook: a source that always lists has no place
        """Forget the position of the watch."""

    def _pause(self) -> None:
        self._stop.wait(self._timings.delay(self._failures, self._jitter()))
        self._failures += 1

    def _fail(self, failure: ApiError) -> None:
        """Drop the client, so that credentials are read again. The table stays."""
        self._forget_client()
        detail = explanation(failure, self.server)
        if self._health.down(detail):
            logger.warning("pods cannot be read: %s; it is tried again", detail)

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _read_list(self, stream: Stream) -> tuple[list[Pod], object]:
        """The pods of a whole list, and its metadata.

        Raises:
            ApiError: it is not a list, is cut off, too long, or does not end.

        """
        pods: list[Pod] = []
        metadata: object = None
        try:
            for key, value in list_parts(self._bounded(stream)):
                if key == "metadata":
                    metadata = value
                elif key == "items" and len(pods) >= MAX_PODS:
                    self._health.reject("pod_over_limit", "a pod of a list of too many")
                elif key == "items" and value is not None and (pod := self._pod(value)):
                    pods.append(pod)
        except JsonError as error:
            raise ApiError(None, f"the list of pods is broken: {error}") from error
        return pods, metadata

    def _enter_list(self, pods: list[Pod], started_ns: int) -> None:
        """Enter a whole list that was requested at that moment."""
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            self._store.relist(pods, now_ns)
        self._listed.set()
        self._health.heard(now_ns - started_ns)

    def _bounded(self, stream: Stream) -> Iterator[bytes]:
        """The chunks of a list, bounded in time. Only one pod of it is kept as text at a time."""
        ends_ns = self._clock.monotonic_ns() + int(self._timings.whole_list_s * SECOND_NS)
        for chunk in stream.chunks():
            if self._clock.monotonic_ns() > ends_ns:
                raise JsonError(f"not at its end after {self._timings.whole_list_s:.0f} s")
            yield chunk

    def _skip(self, item: Skipped) -> None:
        """Count and name a pod whose text is not read."""
        pod = f"pod {item.name}" if item.name else "a pod without a name"
        if item.too_large:
            remedy = (
                f"its document has more than {MAX_OBJECT >> 20} MiB: shorten its arguments, "
                "environment or annotations"
            )
            self._health.reject("pod_too_large", pod, remedy=remedy)
        else:
            remedy = "its document is not JSON that can be read: recreate it"
            self._health.reject("pod_unreadable", pod, remedy=remedy)

    def _pod(self, document: object) -> Pod | None:
        if isinstance(document, Skipped):
            self._skip(document)
            return None
        try:
            pod, dropped = decode_pod(document, self._keep)
        except PodError as error:
            self._health.reject("pod_unusable", f"a pod whose {error}")
            return None
        for reason, count in dropped.items():
            self._health.reject(reason, f"a part of pod {pod.namespace}/{pod.name}", count)
        return pod
