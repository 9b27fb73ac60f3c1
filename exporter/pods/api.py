"""Pods by list and watch of the API server, for one node.

Stands on the API concepts "efficient detection of changes", "watch bookmarks" and "410 Gone". The
package's own ``watch.Watch`` is not used: it takes its position from each object, retries once on
410, and loses deletions that happened while it was disconnected.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus

from exporter.model import Clock, NodeFacts, Pod, PodTable, SourceStatus
from exporter.pods.client import Client
from exporter.pods.decode import KEEP_NOTHING, Keep, PodError, decode_pod
from exporter.pods.failure import ApiError, explanation
from exporter.pods.health import SECOND_NS, Health
from exporter.pods.node import NodeReader
from exporter.pods.pace import DEFAULT_PACE, Pace
from exporter.pods.table import Roster
from exporter.pods.wire import JsonError, lines, list_parts, watch_event

logger = logging.getLogger(__name__)

PODS = "/api/v1/pods"
CLOSE_TIMEOUT_S = 0.9


class ApiPods:
    """Implements ``PodSource``. Its own thread listens and enters what it hears.

    Pods whose grace period is over are taken out in the reader's thread; a lock guards the table.
    ``connect`` makes a client from credentials read anew; it is called again after each failure.
    ``changed`` is called, in that thread, after each step that may have changed table or status.
    """

    name = "pods_api"

    def __init__(
        self,
        connect: Callable[[], Client],
        node: str,
        *,
        keep: Keep = KEEP_NOTHING,
        clock: Clock = time,
        pace: Pace = DEFAULT_PACE,
        chance: Callable[[], float] = random.random,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect, self._node, self._keep = connect, node, keep
        self._clock, self._pace, self._chance, self._changed = clock, pace, chance, changed
        self._health = Health(self.name, clock)
        self._stop, self._listed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._lock = threading.Lock()  # guards the roster
        self._roster = Roster()
        self._client: Client | None = None
        self._position: str | None = None  # resourceVersion to watch from; None: list first
        self._missed = False  # an event was lost: the watch ends, and a list comes next
        self._failures = 0
        self._node_reader = NodeReader(node, pace.node_s, self._health)

    # --- for other threads ---

    def start(self) -> None:
        """Begin to list and watch."""
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the first list, or the close; whether it came."""
        return self._listed.wait(timeout_s)

    def table(self) -> PodTable:
        """The newest table; deleted pods leave it after their grace period."""
        with self._lock:
            self._roster.expire(self._clock.monotonic_ns())
            return self._roster.table

    def status(self) -> SourceStatus:
        """Up while a watch is open. An empty list is most often a wrong node name."""
        status = self._health.status()
        with self._lock:
            pods = self._roster.table.pods
        if status.up and not pods:
            detail = f"no pods on node {self._node!r}; is this the name that the cluster gives it?"
            return replace(status, detail=detail)
        return status

    def node(self) -> NodeFacts:
        """The node's labels and allocatable quantities; empty until known, or not permitted."""
        return self._node_reader.facts

    def rejected(self) -> Mapping[str, int]:
        """Items of the API server's answers that could not be used, by reason."""
        return self._health.rejected()

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
            self._loop()
        finally:
            self._forget_client()

    def _loop(self) -> None:
        while not self._stop.is_set():
            started_ns = self._clock.monotonic_ns()
            try:
                self._step()
            except ApiError as failure:
                if not self._stop.is_set():
                    self._fail(failure)
            except Exception:
                logger.exception("watching pods failed unexpectedly; it starts again with a list")
                self._fail(ApiError(None, "unexpected error, see the log"))
                self._position = None
            if self._clock.monotonic_ns() - started_ns > 10 * SECOND_NS:
                self._failures = 0
            self._changed()
            self._stop.wait(self._pace.delay(self._failures, self._chance()))
            self._failures += 1

    def _step(self) -> None:
        """One connection: list if the position is lost, then watch until the watch ends."""
        if self._client is None:
            self._client = self._connect()
        client = self._client
        if self._stop.is_set():
            return
        # First the node: what a pod was allotted cannot be read without its labels.
        self._node_reader.read(client, self._clock.monotonic_ns(), self._pace.node_wait_s)
        if self._stop.is_set():
            return
        if self._position is None or self._missed:
            self._list(client)
        self._watch(client)

    def _fail(self, failure: ApiError) -> None:
        """Credentials and position are taken up anew, the table stays."""
        if failure.status is not None:
            self._position = None
        if failure.status == HTTPStatus.GONE:
            logger.debug("the watch's position is too old: %s", failure)
            return
        self._forget_client()
        detail = explanation(failure)
        if self._health.down(detail):
            logger.warning("pods are not watched: %s; it is tried again", detail)

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _list(self, client: Client) -> None:
        started_ns = self._clock.monotonic_ns()
        pods: list[Pod] = []
        position = None
        # Version 0: any state that the server has in memory will do, it need not ask etcd.
        query = {"fieldSelector": f"spec.nodeName={self._node}", "resourceVersion": "0"}
        try:
            with client.get(PODS, query, self._pace.list_s) as stream:
                for key, value in list_parts(stream.chunks()):
                    if key == "metadata" and isinstance(value, dict):
                        position = value.get("resourceVersion")
                    elif key == "items" and (pod := self._pod(value)):
                        pods.append(pod)
        except JsonError as error:
            raise ApiError(None, f"the list of pods is broken: {error}") from error
        if not isinstance(position, str) or not position:
            raise ApiError(None, "the list of pods has no resourceVersion")
        now_ns = self._clock.monotonic_ns()
        with self._lock:
            self._roster.relist(pods, now_ns)
        self._listed.set()
        self._position, self._missed = position, False
        self._health.heard(now_ns - started_ns)
        self._changed()

    def _watch(self, client: Client) -> None:
        seconds = max(1, int(self._pace.watch_s * (1 + self._chance() / 5)))
        query: dict[str, str | int] = {
            "fieldSelector": f"spec.nodeName={self._node}",
            "resourceVersion": str(self._position),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
        }
        with client.get(PODS, query, seconds + self._pace.slack_s) as stream:
            if self._health.up():
                logger.info("watching the pods of node %s", self._node)
            self._changed()
            for line in lines(stream.chunks()):
                if self._stop.is_set():
                    return
                self._event(line)
                self._changed()
                if self._missed:
                    return
        self._health.heard()  # the server ended it as asked

    def _event(self, line: bytes | None) -> None:
        """Take in one watch event. What an unreadable one said is in the next list."""
        try:
            kind, document = watch_event(line)
        except JsonError as error:
            self._health.reject("event_unreadable", f"a watch event ({error})")
            self._missed = True
            return
        if kind == "ERROR":
            code = document.get("code")
            status = code if isinstance(code, int) else int(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise ApiError(status, str(document.get("message", "the watch failed"))[:500])
        self._failures = 0
        self._health.heard()
        if kind in {"ADDED", "MODIFIED", "DELETED"} and (pod := self._pod(document)):
            with self._lock:
                change = self._roster.delete if kind == "DELETED" else self._roster.upsert
                change(pod, self._clock.monotonic_ns())
        metadata = document.get("metadata")
        position = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(position, str) and position:
            self._position = position

    def _pod(self, document: object) -> Pod | None:
        try:
            pod, dropped = decode_pod(document, self._keep)
        except PodError as error:
            self._health.reject("pod_unusable", f"a pod whose {error}")
            return None
        for reason, count in dropped.items():
            self._health.reject(reason, f"a part of pod {pod.namespace}/{pod.name}", count)
        return pod
