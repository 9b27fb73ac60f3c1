"""Which sources ask the kubelet about devices, by the settings."""

from pathlib import Path

from exporter.node.kubelet import SOCKET, Kubelet
from exporter.node.podresources import PodResources
from exporter.node.polled import Polled
from exporter.node.source import NodeSource

AUTO, NONE = "auto", "none"


def open_pod_resources(setting: str, socket: str = SOCKET) -> tuple[NodeSource, ...]:
    """Make the source for ``--kubelet.pod-resources-socket``; not started, imports nothing heavy.

    "auto" is the usual ``socket`` if the kubelet's folder for it is there, else none. A socket
    that was named and is not there is a source that is down and looks again.
    """
    if setting == AUTO:
        setting = socket if Path(socket).parent.is_dir() else NONE
    return () if setting == NONE else (Polled(PodResources(Kubelet(setting))),)
