"""Pods from this node's kubelet, by polling ``GET /pods``.

The kubelet has no watch, and each answer holds every pod of the node. It lists a static pod under
the uid that the node's cgroups have, which is the hash of its manifest. Its authenticated port is
10250; the read-only one, 10255, has neither TLS nor tokens and is off on most nodes.
"""

from exporter.agent.sources.pods.podreader import ServerPods
from exporter.apiserver.serveranswers import ServerKind

PODS = "/pods"


class KubeletPods(ServerPods):
    """Implements ``PodSource``; see ``PodThread``. Credentials are read again each time."""

    name = "pods_kubelet"
    server = ServerKind.KUBELET
    _answered = False

    def _read(self) -> None:
        started_ns = self._clock.monotonic_ns()
        try:
            pods, _ = self._list(PODS, {})
        finally:
            self._forget_client()
        self._enter_list(pods, started_ns)
        self._up()
        self._failures, self._answered = 0, True

    def _pause_s(self) -> float:
        if not self._answered:
            return super()._pause_s()
        self._answered = False
        return self._timings.poll_s * (0.9 + self._jitter() / 5)
