"""Makes the pod source that the settings name; finds this node's name."""

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from exporter.agent.sources import door
from exporter.agent.sources.pods.apiserverpods import ApiPods
from exporter.agent.sources.pods.chain import ChainedPods
from exporter.agent.sources.pods.decode import KEEP_NOTHING, KeyPrefixes
from exporter.agent.sources.pods.kubeletpods import KubeletPods
from exporter.agent.sources.pods.logfilepods import FilePods
from exporter.agent.sources.pods.podreader import DEFAULT_TIMINGS, ReaderOptions, ReaderTimings
from exporter.agent.sources.pods.podsource import NoPods, PodSource
from exporter.apiserver.client import (
    SERVICE_ACCOUNT,
    KubeClient,
    Load,
    connect,
    connect_kubelet,
    from_kubeconfig,
    from_service_account,
    in_cluster,
)

LOGS = Path("/var/log")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAccess:
    """Addresses, credentials and paths of the pod sources.

    ``kubelet`` is the kubelet's address; "" is its authenticated port at ``$NODE_IP``, else at the
    loopback address.
    """

    kubeconfig: str | None = None
    kubelet: str = ""
    kubelet_ca: str = ""
    kubelet_insecure: bool = False
    logs: Path = LOGS
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    service_account: Path = SERVICE_ACCOUNT

    def credentials(self) -> Load | None:
        """The credentials: a given kubeconfig, the pod's ServiceAccount, or a kubeconfig found."""
        if self.kubeconfig is None and in_cluster(self.environ, self.service_account):
            return from_service_account(self.environ, self.service_account)
        path = self.kubeconfig or self.environ.get("KUBECONFIG")
        if path:
            return from_kubeconfig(path)
        home = str(self._home)  # it may belong to another user
        return from_kubeconfig(home) if os.access(home, os.R_OK) else None

    def to_api(self) -> Callable[[], KubeClient]:
        """Connects to the API server. Without credentials, each try raises an error."""
        return partial(connect, self.credentials() or from_kubeconfig(str(self._home)))

    def kubelet_url(self) -> str:
        """The address given, or the authenticated port.

        The read-only port must be given: if the kubelet does not use it, any pod with the host's
        network can listen there and return false pods.
        """
        host = self.environ.get("NODE_IP") or "127.0.0.1"
        return self.kubelet or f"https://{f'[{host}]' if ':' in host else host}:10250"

    def to_kubelet(self) -> Callable[[], KubeClient]:
        """Connects to the kubelet."""
        return partial(
            connect_kubelet,
            self.kubelet_url(),
            self.credentials(),
            self.kubelet_ca,
            insecure=self.kubelet_insecure,
        )

    @property
    def _home(self) -> Path:
        return Path(self.environ.get("HOME", "/root")) / ".kube" / "config"


HERE = PodAccess()


def node_name(given: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """This node's name in the cluster: the given one, ``$NODE_NAME``, or the host name.

    The kubelet registers the host name in lower case.
    """
    return given or environ.get("NODE_NAME") or socket.gethostname().lower()


def open_pod_source(
    kind: str,
    node: str,
    places: PodAccess = HERE,
    keep: KeyPrefixes = KEEP_NOTHING,
    timings: ReaderTimings = DEFAULT_TIMINGS,
) -> PodSource:
    """The source for ``--pods.source``, not started. Imports nothing heavy.

    Without credentials "api" and "kubelet" stay down, and their status says so.
    """
    if kind == "none":
        return NoPods()
    if kind == "api":
        return ApiPods(places.to_api(), node, ReaderOptions(keep=keep, timings=timings))
    if kind == "kubelet":
        return KubeletPods(places.to_kubelet(), ReaderOptions(keep=keep))
    if kind == "files":
        return FilePods(places.logs)
    return _auto(node, places, keep, timings)


def _auto(node: str, places: PodAccess, keep: KeyPrefixes, timings: ReaderTimings) -> PodSource:
    """The API server, else the kubelet, else log files. Without credentials, what needs none."""
    files = FilePods(places.logs, alone=False)
    if places.credentials() is not None:
        api = ApiPods(places.to_api(), node, ReaderOptions(keep=keep, timings=timings))
        kubelet = KubeletPods(places.to_kubelet(), ReaderOptions(keep=keep))
        return ChainedPods([api, kubelet], files, node=api.node)
    if places.kubelet:
        return ChainedPods([KubeletPods(places.to_kubelet(), ReaderOptions(keep=keep))], files)
    if not door.is_gone(places.logs / "pods"):
        return FilePods(places.logs)
    return NoPods(
        "names of pods are off: neither in a cluster, nor is there a kubeconfig, "
        f"nor {places.logs / 'pods'}"
    )
