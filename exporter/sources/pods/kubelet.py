"""Pods from this node's kubelet, by polling ``GET /pods``.

The kubelet has no watch, and each answer holds every pod of the node. It lists a static pod under
the uid that the node's cgroups have, which is the hash of its manifest. Its authenticated port is
10250; the read-only one, 10255, has neither TLS nor tokens and is off on most nodes.
"""

import random
import threading
import time
from collections.abc import Callable

from exporter.model import Clock, SourceStatus
from exporter.sources.pods.client import KubeClient
from exporter.sources.pods.decode import KEEP_NOTHING, KeyPrefixes
from exporter.sources.pods.health import ApiError, ServerKind
from exporter.sources.pods.listener import DEFAULT_TIMINGS, Listener, ListenerTimings

PODS = "/pods"
NOT_ASKED = "not asked, because a better source is up"


class KubeletPods(Listener):
    """Implements ``StandbyPods``; see ``Listener``.

    ``connect`` makes a client from credentials that it reads again; it is called again each time.
    """

    name = "pods_kubelet"
    server = ServerKind.KUBELET
    watches = False

    def __init__(
        self,
        connect: Callable[[], KubeClient],
        *,
        wanted: bool = True,
        keep: KeyPrefixes = KEEP_NOTHING,
        clock: Clock = time,
        timings: ListenerTimings = DEFAULT_TIMINGS,
        jitter: Callable[[], float] = random.random,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(keep=keep, clock=clock, timings=timings, jitter=jitter, changed=changed)
        self._connect = connect
        self._answered = False
        self._wanted = threading.Event()
        self.want(wanted)

    def want(self, wanted: bool) -> None:  # noqa: FBT001 - the protocol's
        """Ask, or pause until ``want`` is called again."""
        if wanted == self._wanted.is_set():  # as nearly always
            return
        if wanted:
            self._wanted.set()
        else:
            self._wanted.clear()

    def status(self) -> SourceStatus:
        """Up while the kubelet answers and is asked."""
        status = super().status()
        return status if self._wanted.is_set() else status._replace(up=False, detail=NOT_ASKED)

    def close(self) -> None:
        """See ``Listener``."""
        self._stop.set()
        self._wanted.set()
        super().close()

    # --- in its own thread ---

    def _step(self) -> None:
        if not self._wanted.is_set():
            self._health.down(NOT_ASKED)
            self._wanted.wait()
        self._answered = False
        if self._stop.is_set():
            return
        started_ns = self._clock.monotonic_ns()
        self._client = self._connect()
        self._restart_if_asked()
        try:
            with self._client.get(PODS, {}, self._timings.list_s) as stream:
                pods, metadata = self._read_list(stream)
        finally:
            self._forget_client()
        if not isinstance(metadata, dict):
            raise ApiError(None, "the answer is not a list of pods")
        self._enter_list(pods, started_ns)
        self._health.up()
        self._failures, self._answered = 0, True

    def _pause(self) -> None:
        if self._answered:
            self._stop.wait(self._timings.poll_s * (0.9 + self._jitter() / 5))
        else:
            super()._pause()
