"""Which devices containers hold: the kubelet's PodResources."""

from collections.abc import Iterator
from pathlib import Path

from exporter.doctor.evidence import Evidence
from exporter.doctor.finding import Finding, note, ok, problem
from exporter.doctor.privileges import POD_RESOURCES
from exporter.node.choice import AUTO, NONE
from exporter.node.entries import decode_list
from exporter.node.kubelet import SOCKET, Kubelet, KubeletError
from exporter.node.wire import WireError

_WITHOUT = (
    "without it containers of plugins that leave no annotation (NVIDIA, GKE, AMD, Intel) are "
    "placed when their first process is seen"
)


def node(evidence: Evidence, usual: str = SOCKET) -> Iterator[Finding]:
    """Ask for the list, once."""
    setting = evidence.settings.kubelet_pod_resources_socket
    if evidence.settings.simulate or setting == NONE:
        return
    socket = usual if setting == AUTO else setting
    asked_for = setting != AUTO
    if not asked_for and not Path(socket).parent.is_dir():
        folder = str(Path(socket).parent)
        yield note("PodResources", f"{folder} is not mounted", _WITHOUT, POD_RESOURCES)
        return
    try:
        with Kubelet(socket).connected() as kubelet:
            answer = decode_list(kubelet.list())
    except (KubeletError, WireError) as error:
        yield problem("PodResources", str(error), _WITHOUT, POD_RESOURCES)
        return
    grants = sum(len(entry.grants) for entry in answer.entries.values())
    yield ok("PodResources", f"{len(answer.entries)} pods hold {grants} grants, by {socket}")
