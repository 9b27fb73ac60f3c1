"""Which source of pods a setting names, and which node this is."""

import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from exporter.pods.api import ApiPods
from exporter.pods.client import (
    SERVICE_ACCOUNT,
    Client,
    connect_in_cluster,
    connect_kubeconfig,
    in_cluster,
)
from exporter.pods.decode import KEEP_NOTHING, Keep
from exporter.pods.none import NoPods
from exporter.pods.source import PodSource

KINDS = ("auto", "api", "none")


def node_name(given: str | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """The name that the cluster has for this node: given, ``$NODE_NAME``, or the host's.

    The kubelet registers the host name in lower case.
    """
    return given or environ.get("NODE_NAME") or socket.gethostname().lower()


def open_pod_source(
    kind: str,
    node: str,
    *,
    kubeconfig: str | None = None,
    keep: Keep = KEEP_NOTHING,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> PodSource:
    """Make the source for ``--pods.source``; it is not started. Imports nothing heavy.

    A kubeconfig that was given comes first, then the pod's own ServiceAccount, then
    ``$KUBECONFIG`` or ``~/.kube/config``. "auto" without any of them is "none"; "api" without any
    stays down and says so.

    Raises:
        ValueError: ``kind`` is not one of ``KINDS``.

    """
    if kind not in KINDS:
        raise ValueError(f"--pods.source={kind}: not one of {', '.join(KINDS)}")
    if kind == "none":
        return NoPods()
    found = kubeconfig or in_cluster(environ, service_account) or environ.get("KUBECONFIG")
    if kind == "auto" and not found and not _home_kubeconfig(environ).is_file():
        return NoPods("names of pods are off: neither in a cluster, nor is there a kubeconfig")
    return ApiPods(connection(kubeconfig, environ, service_account), node, keep=keep)


def connection(
    kubeconfig: str | None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> Callable[[], Client]:
    """What connects to the API server, in the order that ``open_pod_source`` states."""
    if kubeconfig is None and in_cluster(environ, service_account):
        return partial(connect_in_cluster, environ, service_account)
    path = kubeconfig or environ.get("KUBECONFIG") or str(_home_kubeconfig(environ))
    return partial(connect_kubeconfig, path)


def _home_kubeconfig(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME", "/root")) / ".kube" / "config"
