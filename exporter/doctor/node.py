"""What is known of the node besides devices and pods: PodResources, node labels, claims, files."""

from collections.abc import Iterator
from pathlib import Path

from exporter.doctor.evidence import Evidence
from exporter.doctor.finding import Finding, note, ok, problem
from exporter.doctor.privileges import POD_RESOURCES
from exporter.node.choice import AUTO, NONE
from exporter.node.entries import decode_list
from exporter.node.kubelet import SOCKET, Kubelet, KubeletError
from exporter.node.wire import WireError

# Sources that other rooms look closer at.
ELSEWHERE = frozenset(
    {
        *("cgroups", "podresources", "pods_api", "pods_kubelet", "pods_files", "pods_none"),
        *("users", "containers"),
    }
)
_WITHOUT = (
    "without it containers of plugins that leave no annotation (NVIDIA, GKE, AMD, Intel) are "
    "placed when their first process is seen"
)


def node(evidence: Evidence, usual: str = SOCKET) -> Iterator[Finding]:
    """The kubelet, asked for its list once; then how the other sources fared."""
    setting = evidence.settings.kubelet_pod_resources_socket
    if evidence.settings.simulate:
        return
    expected = evidence.settings.pods_source != NONE or Path(usual).parent.is_dir()
    if setting != NONE and (setting != AUTO or expected):
        yield _pod_resources(usual if setting == AUTO else setting, asked_for=setting != AUTO)
    elsewhere = ELSEWHERE | {reading.status.name for reading in evidence.readings}
    for source in evidence.sources:
        if source.name in elsewhere:
            continue
        if source.up:
            yield ok(source.name, source.detail or "answers")
        else:
            yield problem(source.name, source.detail or "does not answer", "see the log")


def _pod_resources(socket: str, *, asked_for: bool) -> Finding:
    if not asked_for and not Path(socket).parent.is_dir():
        folder = str(Path(socket).parent)
        return note("PodResources", f"{folder} is not mounted", _WITHOUT, POD_RESOURCES)
    try:
        with Kubelet(socket).connected() as kubelet:
            answer = decode_list(kubelet.list())
    except (KubeletError, WireError) as error:
        return problem("PodResources", str(error), _WITHOUT, POD_RESOURCES)
    grants = sum(len(entry.grants) for entry in answer.entries.values())
    return ok("PodResources", f"{len(answer.entries)} pods hold {grants} grants, by {socket}")
