"""Which of the kubelet's entries is believed of which pod, and what follows from it. Pure.

PodResources name a pod by namespace and name only. A StatefulSet's next pod has the same name: an
entry is therefore believed of the one pod that lived under that name before the call and lives
after it, and of which the kubelet had told the API server before the call (its start time or a
container's id) - so that the kubelet has given it its devices.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.model import ClaimedDevice, ClaimRef, Grant, NodeFacts, Pod, PodTable
from exporter.node.entries import Entry

Key = tuple[str, str]  # namespace and name


def held_by_kubelet(table: PodTable) -> dict[Key, Pod]:
    """The living pods that the kubelet has taken on, where only one lives under the name."""
    living = [pod for pod in table.pods.values() if not pod.deleted and not pod.terminal]
    by_name = {(pod.namespace, pod.name): pod for pod in living}
    if len(by_name) < len(living):
        several = Counter((pod.namespace, pod.name) for pod in living)
        by_name = {key: pod for key, pod in by_name.items() if several[key] == 1}
    return {key: pod for key, pod in by_name.items() if _taken_on(pod)}


def _taken_on(pod: Pod) -> bool:
    return pod.acknowledged or any(container.container_ids for container in pod.containers)


def wants_devices(pod: Pod) -> bool:
    """Whether the kubelet may have something to say of it."""
    return any(container.limits or container.claims for container in pod.containers)


def contribution(entries: Mapping[str, Entry], table: PodTable) -> NodeFacts:
    """What entries, by the uid of the pod that they were believed of, mean for the pods of now."""
    now = held_by_kubelet(table)
    grants: dict[str, tuple[Grant, ...]] = {}
    claims: dict[Key, tuple[ClaimedDevice, ...]] = {}
    for uid, entry in entries.items():
        pod = now.get((entry.namespace, entry.name))
        if pod is None or pod.uid != uid:
            continue
        if entry.grants:
            grants[uid] = entry.grants
        for (namespace, claim), devices in entry.claims.items():
            known = _requested(devices, _references(now.values(), namespace, claim))
            if namespace == pod.namespace and known:
                claims[namespace, claim] = known
    return NodeFacts(grants=grants, claims=claims)


def _references(pods: Iterable[Pod], namespace: str, claim: str) -> list[ClaimRef]:
    return [
        reference
        for pod in pods
        if pod.namespace == namespace
        for container in pod.containers
        for reference in container.claims
        if reference.claim == claim
    ]


def _requested(
    devices: tuple[ClaimedDevice, ...], references: list[ClaimRef]
) -> tuple[ClaimedDevice, ...]:
    """The devices with the request that each answers, which the kubelet does not tell.

    Where containers take all of a claim it does not matter; a single device answers the only
    request. Of anything else it is not known who has what.
    """
    requests = {reference.request for reference in references} - {""}
    if not requests:
        return devices
    if len(requests) == len(devices) == 1:
        return (replace(devices[0], request=requests.pop()),)
    return ()
