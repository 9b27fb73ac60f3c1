"""Pods and node facts from the API server, by list and watch for one node.

Source: the API concepts "efficient detection of changes", "watch bookmarks" and "410 Gone". Why not
the kubernetes package's ``Watch``: docs/decisions.md.
"""

import logging
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import quote

from exporter.agent.sources.pods.decode import decode_node
from exporter.agent.sources.pods.pace import Paced
from exporter.agent.sources.pods.podreader import USUAL, ReaderOptions, ServerPods
from exporter.agent.sources.pods.wire import (
    MAX_OBJECT,
    JsonError,
    Skipped,
    decode,
    lines,
    watch_event,
)
from exporter.apiserver.client import KubeClient
from exporter.apiserver.serveranswers import ApiError
from exporter.model import SECOND_NS, NodeFacts, PodTable, SourceStatus

logger = logging.getLogger(__name__)

PODS = "/api/v1/pods"
SHORT_S = 1.0
KEEP_POSITION = {None, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}


class ApiPods(ServerPods):
    """Implements ``PodSource``; see ``PodThread``. It is up while a watch is open."""

    name = "pods_api"
    watches = True

    def __init__(
        self, connect: Callable[[], KubeClient], node: str, options: ReaderOptions = USUAL
    ) -> None:
        super().__init__(connect, options)
        self._node = node
        self._position: str | None = None  # resourceVersion to watch from; None: list first
        self._missed = False  # an event was skipped: there is no position until the next list
        self._facts = NodeFacts()
        self._node_due_ns: int | None = None
        self._paced = Paced(self._clock)

    def status(self) -> SourceStatus:
        """An empty list most often means a wrong node name."""
        status = super().status()
        if status.up and not self.table().pods:
            detail = f"no pods on node {self._node!r}; is this the node's name in the cluster?"
            return status._replace(detail=detail)
        return status

    def table(self) -> PodTable:
        """The current pods, with the events that need wait no more."""
        with self._news:
            self._take_due()
        return super().table()

    def node(self) -> NodeFacts:
        """The node's labels and allocatable quantities; empty until known, or not permitted."""
        return self._facts

    # --- in its own thread ---

    def _read(self) -> None:
        """One connection: list if the position is lost, then watch until the watch ends."""
        if self._position is None:
            self._wait_for_turn()
        client = self._connected()
        # First the node: a pod's allocation cannot be read without the node's labels.
        self._read_node(client)
        if self._position is not None:
            try:
                self._watch(client)
            except ApiError as failure:
                # A position is always too old after a restart of the server. The list comes next,
                # without the pause after a failure: that can be long after an outage, and the
                # source is up meanwhile, because the server opens the watch before it reports the
                # error.
                if failure.status != HTTPStatus.GONE:
                    raise
                logger.debug("the watch's position is too old: %s", failure)
                self._wait_for_turn()
            else:
                return
        # Version 0: any state in the server's memory is enough, it need not ask etcd.
        query = {"fieldSelector": f"spec.nodeName={self._node}", "resourceVersion": "0"}
        started_ns = self._clock.monotonic_ns()
        pods, metadata = self._list(PODS, query)
        position = metadata.get("resourceVersion")
        if not isinstance(position, str) or not position:
            raise ApiError(None, "the list of pods has no resourceVersion")
        with self._news:
            self._paced.clear()
            self._enter_list(pods, started_ns)
        self._position, self._missed = position, False
        self._changed()
        self._watch(client)

    def _wait_for_turn(self) -> None:
        """Wait before a list, so that the nodes of a fleet do not list at the same moment.

        Changes are not seen meanwhile. If the wait is long, the source is down, so that another
        source replaces it.
        """
        wait_s = self._timings.spread(self._jitter())
        if wait_s > SHORT_S:
            self._down(f"the list of pods is delayed by {wait_s:.0f} s, to spread the load")
            self._changed()
        self._rest(wait_s)
        self._check_open()

    def _read_node(self, client: KubeClient) -> None:
        """Read the node if it is due. Never raises an ApiError: the connection is for pods.

        Without permission, or if the node does not exist, it is read again after the period; after
        any other failure, with the next connection.
        """
        now_ns = self._clock.monotonic_ns()
        if self._node_due_ns is not None and now_ns < self._node_due_ns:
            return
        self._node_due_ns = now_ns + int(self._timings.node_s * SECOND_NS)
        path = f"/api/v1/nodes/{quote(self._node, safe='')}"
        try:
            with client.get(path, {}, self._timings.node_wait_s) as stream:
                self._facts = decode_node(decode(stream.read(MAX_OBJECT)), self._keep)
        except JsonError as error:
            self._rejections.reject("node_unusable", f"node {self._node}: {error}")
        except ApiError as failure:
            if failure.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                self._node_due_ns = None
            level = logging.WARNING if failure.status == HTTPStatus.NOT_FOUND else logging.INFO
            line = f"labels of node {self._node} are not known: {failure}"
            self._rejections.once(level, line)

    def _fail(self, failure: ApiError) -> None:
        """Drop the credentials, and the position unless the server is only busy.

        A list would be more work for a busy server (429, priority and fairness) than a watch.
        """
        if failure.status not in KEEP_POSITION:
            self._position = None
        if failure.status == HTTPStatus.GONE and not self._failures:
            logger.debug("the watch's position is too old: %s", failure)
            return
        super()._fail(failure)

    def _forget_position(self) -> None:
        self._position = None

    def _watch(self, client: KubeClient) -> None:
        seconds = max(1, int(self._timings.watch_s * (1 + self._jitter() / 5)))
        query: dict[str, str | int] = {
            "fieldSelector": f"spec.nodeName={self._node}",
            "resourceVersion": str(self._position),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": seconds,
        }
        with client.get(PODS, query, seconds + self._timings.slack_s) as stream:
            if self._up():
                logger.info("watching the pods of node %s", self._node)
            self._changed()
            for line in lines(stream.chunks()):
                if self._stopped:
                    return
                # Each event, and a bookmark once a minute: what a pod was allocated may be in units
                # that the node states.
                self._read_node(client)
                with self._news:
                    self._take_due()
                    waits = isinstance(line, bytes) and self._paced.keeps(line)
                if not waits:
                    self._event(line)
                    self._changed()
        self._heard()  # the server ended it as asked

    def _take_due(self) -> None:
        """Apply the events that have waited long enough. Others of their pods came before them."""
        while (line := self._paced.due()) is not None:
            started_ns = self._clock.monotonic_ns()
            event = watch_event(line)
            if isinstance(event, Skipped):
                self._skip(event)
            elif pod := self._pod(event[1]):
                self._store.upsert(pod, started_ns)
            self._paced.took(line, self._clock.monotonic_ns() - started_ns)

    def _event(self, line: bytes | Skipped) -> None:
        """Apply one watch event. One that cannot be read is skipped.

        It may have been a deletion, so the next watch begins with a list.
        """
        started_ns = self._clock.monotonic_ns()
        event = watch_event(line)
        if isinstance(event, Skipped):
            self._skip(event)
            self._position, self._missed = None, True
            return
        kind, document = event
        # The server reports an error of a watch that is open as an event, not as a status line.
        if kind == "ERROR":
            code = document.get("code")
            status = code if isinstance(code, int) else int(HTTPStatus.INTERNAL_SERVER_ERROR)
            raise ApiError(status, str(document.get("message", "the watch failed"))[:500])
        self._failures = 0
        self._heard()
        if kind in {"ADDED", "MODIFIED", "DELETED"} and (pod := self._pod(document)):
            with self._news:
                change = self._store.delete if kind == "DELETED" else self._store.upsert
                change(pod, self._clock.monotonic_ns())
        metadata = document.get("metadata")
        # After an event was skipped no later position is kept: a watch from there would never hear
        # of the pod that was skipped.
        position = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if isinstance(position, str) and position and not self._missed:
            self._position = position
        if isinstance(line, bytes):
            with self._news:
                self._paced.took(line, self._clock.monotonic_ns() - started_ns)
