"""Device ids and claimed devices of each container, from the kubelet's PodResources v1.

PodResources name a pod by namespace and name only, and a StatefulSet's next pod has the same name.
An entry is therefore reconciled with the pod list: it is accepted only for the one pod that had the
name before the call and has it afterwards, and that the kubelet had acknowledged before the call
(by a start time or a container's id), so that its devices were assigned.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.model import ClaimedDevice, ClaimRef, Clock, Grant, NodeFacts, Pod, PodTable
from exporter.sources.node.entries import MALFORMED, PodEntry, WireError, decode_get, decode_list
from exporter.sources.node.kubelet import Kubelet, KubeletConnection, KubeletError

Key = tuple[str, str]  # namespace and name


def held_by_kubelet(table: PodTable) -> dict[Key, Pod]:
    """The living pods that the kubelet has acknowledged, if their name is unique."""
    living = [pod for pod in table.pods.values() if not pod.deleted and not pod.terminal]
    by_name = {(pod.namespace, pod.name): pod for pod in living}
    if len(by_name) < len(living):
        several = Counter((pod.namespace, pod.name) for pod in living)
        by_name = {key: pod for key, pod in by_name.items() if several[key] == 1}
    return {key: pod for key, pod in by_name.items() if _is_acknowledged(pod)}


def _is_acknowledged(pod: Pod) -> bool:
    return pod.acknowledged or any(container.container_ids for container in pod.containers)


def wants_devices(pod: Pod) -> bool:
    """Whether the pod may hold devices."""
    return any(container.limits or container.claims for container in pod.containers)


def contribution(entries: Mapping[str, PodEntry], table: PodTable) -> NodeFacts:
    """The node facts of accepted entries (by pod uid) for the current pods. Pure."""
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
    """The devices with the request that each one is for, which the kubelet does not report.

    If containers use a whole claim, it does not matter; a single device is for the only request.
    In all other cases it is not known, and the result is empty.
    """
    requests = {reference.request for reference in references} - {""}
    if not requests:
        return devices
    if len(requests) == len(devices) == 1:
        return (replace(devices[0], request=requests.pop()),)
    return ()


logger = logging.getLogger(__name__)

LIST_EVERY_NS = 20 * 10**9
MOST_GETS = 4  # new pods that are asked about one by one

AcceptedEntries = Mapping[str, PodEntry]  # by the uid of the pod
Item = tuple[str, tuple[tuple[str, ...], ...]]  # a pod's uid and its containers' ids


class PodResources:
    """Implements ``Inquiry``.

    All pods are listed now and then; a few new ones in between are asked about by Get, where the
    kubelet serves it (1.36 and newer). A container's start matters: a claim's devices are prepared
    just before.
    """

    name = "podresources"

    def __init__(self, kubelet: Kubelet, clock: Clock = time) -> None:
        self._kubelet, self._clock = kubelet, clock
        self._accepted: dict[str, PodEntry] = {}
        self._asked: frozenset[Item] = frozenset()
        self._listed_ns: int | None = None
        self._serves_get = True
        self._lock = threading.Lock()  # guards the counts
        self._rejected: Counter[str] = Counter()
        self._said: set[str] = set()

    def subject(self, table: PodTable) -> frozenset[Item]:
        """The pods that may hold devices, each with its containers so far."""
        return frozenset(
            (pod.uid, tuple(container.container_ids[:1] for container in pod.containers))
            for pod in held_by_kubelet(table).values()
            if wants_devices(pod)
        )

    def ask(self, table: PodTable) -> AcceptedEntries:
        """Ask about these pods.

        Raises:
            KubeletError: there is no answer.
            WireError: the answer is not one.

        """
        pods, subject = held_by_kubelet(table), self.subject(table)
        fresh = {item[0] for item in subject - self._asked}
        new = {key: pod for key, pod in pods.items() if pod.uid in fresh}
        with self._kubelet.connected() as kubelet:
            if not (self._may_get(new) and self._get(kubelet, new)):
                self._list(kubelet, pods)
        self._asked = subject
        return dict(self._accepted)

    def facts(self, answer: AcceptedEntries, table: PodTable) -> NodeFacts:
        """The grants and claims of the pods that are still the same."""
        return contribution(answer, table)

    def rejected(self) -> Mapping[str, int]:
        """Entries that could not be used, by reason."""
        with self._lock:
            return dict(self._rejected)

    def interrupt(self) -> None:
        """End the call that is under way."""
        self._kubelet.interrupt()

    def _may_get(self, new: Mapping[Key, Pod]) -> bool:
        listed_lately = (
            self._listed_ns is not None
            and self._clock.monotonic_ns() - self._listed_ns < LIST_EVERY_NS
        )
        return self._serves_get and listed_lately and 0 < len(new) <= MOST_GETS

    def _get(self, kubelet: KubeletConnection, new: Mapping[Key, Pod]) -> bool:
        """Ask about each of a few pods; False if the kubelet refuses the call."""
        for (namespace, name), pod in new.items():
            try:
                entry = decode_get(kubelet.get(namespace, name))
            except KubeletError as error:
                if not error.refused:
                    raise
                self._serves_get = error.code != "UNIMPLEMENTED"
                return False
            except WireError as error:
                self._reject({MALFORMED: 1}, f"pod {namespace}/{name} ({error})")
                continue
            if entry is not None:
                self._accepted[pod.uid] = entry
        return True

    def _list(self, kubelet: KubeletConnection, pods: Mapping[Key, Pod]) -> None:
        try:
            answer = decode_list(kubelet.list())
        except WireError as error:
            raise WireError(f"the kubelet's answer to List cannot be read: {error}") from error
        self._listed_ns = self._clock.monotonic_ns()
        self._accepted = {
            pod.uid: answer.entries[key] for key, pod in pods.items() if key in answer.entries
        }
        self._reject(answer.rejected, "an entry of the kubelet's list of pod resources")

    def _reject(self, counts: Mapping[str, int], item: str) -> None:
        with self._lock:
            self._rejected.update(counts)
        for reason in counts.keys() - self._said:
            self._said.add(reason)
            logger.warning("%s is left out: %s; more of the kind are only counted", item, reason)
