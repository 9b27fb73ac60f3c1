"""Device ids and claimed devices of each container, from the kubelet's PodResources v1.

PodResources name a pod by namespace and name only, and a StatefulSet's next pod has the same name.
An entry is therefore reconciled with the pod list: it is accepted only for the one pod that had the
name before the call and has it afterwards, and that the kubelet had acknowledged before the call
(by a start time or a container's id), so that its devices were assigned.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from exporter.agent.sources import door
from exporter.agent.sources.node.kubeletcalls import SOCKET, Kubelet, KubeletError
from exporter.agent.sources.node.nodesource import NodeSource
from exporter.agent.sources.node.resourceentries import (
    MALFORMED,
    PodResourcesList,
    ResourcePod,
    WireError,
    decode_get,
    decode_list,
)
from exporter.agent.sources.polled import Inquiry, Polled
from exporter.model import ClaimedDevice, Clock, Grant, NodeFacts, Pod, PodTable

Key = tuple[str, str]  # namespace and name


def held_by_kubelet(table: PodTable) -> dict[Key, Pod]:
    """The living pods that the kubelet has acknowledged, if their name is unique."""
    living = [pod for pod in table.pods.values() if not pod.deleted and not pod.terminal]
    by_name = {(pod.namespace, pod.name): pod for pod in living}
    # Two living pods of one name are one too many: the watch missed the end of the older. The
    # kubelet's entry may be either's, so neither has it.
    if len(by_name) < len(living):
        several = Counter((pod.namespace, pod.name) for pod in living)
        by_name = {key: pod for key, pod in by_name.items() if several[key] == 1}
    return {
        key: pod
        for key, pod in by_name.items()
        if pod.acknowledged or any(container.container_ids for container in pod.containers)
    }


def wants_devices(pod: Pod) -> bool:
    """Whether the pod may hold devices."""
    return any(container.limits or container.claims for container in pod.containers)


def contribution(entries: Mapping[str, ResourcePod], table: PodTable) -> NodeFacts:
    """The node facts of accepted entries (by pod uid) for the current pods. Pure."""
    now = held_by_kubelet(table)
    requests: dict[Key, set[str]] = {}  # that containers name, by their claim
    for pod in now.values():
        for reference in (one for container in pod.containers for one in container.claims):
            requests.setdefault((pod.namespace, reference.claim), set()).add(reference.request)
    grants: dict[str, tuple[Grant, ...]] = {}
    claims: dict[Key, tuple[ClaimedDevice, ...]] = {}
    for uid, entry in entries.items():
        holder = now.get((entry.namespace, entry.name))
        if holder is None or holder.uid != uid:
            continue
        if entry.grants:
            grants[uid] = entry.grants
        for claim, devices in entry.claims.items():
            if claim[0] != holder.namespace:
                continue
            # The kubelet does not report which request of a claim each device is for. Where
            # containers use a whole claim, it does not matter. A single device is for the only
            # request. In all other cases it would be a guess which container has which device.
            named = requests.get(claim, set()) - {""}
            if not named and devices:
                claims[claim] = devices
            elif len(named) == len(devices) == 1:
                claims[claim] = (replace(devices[0], request=named.pop()),)
    return NodeFacts(grants=grants, claims=claims)


LIST_EVERY_NS = 20 * 10**9
MAX_GETS = 4  # new pods that are asked about one by one

AcceptedEntries = Mapping[str, ResourcePod]  # by the uid of the pod
Item = tuple[str, tuple[tuple[str, ...], ...]]  # a pod's uid and its containers' ids


class PodResources(Inquiry[PodTable, AcceptedEntries, NodeFacts]):
    """Device ids by the kubelet.

    All pods are listed now and then; a few new ones in between are asked about by Get, where the
    kubelet serves it (1.36 and newer). A container's start matters: a claim's devices are prepared
    just before.
    """

    name = "podresources"
    nothing = NodeFacts()

    def __init__(self, kubelet: Kubelet, clock: Clock = time) -> None:
        super().__init__()
        self._kubelet, self._clock = kubelet, clock
        self._accepted: dict[str, ResourcePod] = {}
        self._asked: frozenset[Item] = frozenset()
        self._listed_ns: int | None = None
        self._serves_get = True

    def subject(self, given: PodTable) -> frozenset[Item]:
        """The pods that may hold devices, each with its containers so far."""
        return frozenset(
            (pod.uid, tuple(container.container_ids[:1] for container in pod.containers))
            for pod in held_by_kubelet(given).values()
            if wants_devices(pod)
        )

    def ask(self, given: PodTable) -> AcceptedEntries:
        """Ask about these pods.

        Raises:
            KubeletError: there is no answer.
            WireError: the answer is not one.

        """
        pods, subject = held_by_kubelet(given), self.subject(given)
        fresh = {item[0] for item in subject - self._asked}
        new = {key: pod for key, pod in pods.items() if pod.uid in fresh}
        # A list is some 100 KB of the kubelet's work for one pod that came. But only a list shows
        # what was taken from a pod, so there is one now and then whatever comes.
        listed_lately = (
            self._listed_ns is not None
            and self._clock.monotonic_ns() - self._listed_ns < LIST_EVERY_NS
        )
        may_get = self._serves_get and listed_lately and 0 < len(new) <= MAX_GETS
        with self._kubelet.connected() as kubelet:
            if not (may_get and self._get(kubelet, new)):
                self._list(kubelet, pods)
        self._asked = subject
        return dict(self._accepted)

    def facts(self, answer: AcceptedEntries, given: PodTable) -> NodeFacts:
        """The grants and claims of the pods that are still the same."""
        return contribution(answer, given)

    def interrupt(self) -> None:
        self._kubelet.interrupt()

    def _get(self, kubelet: Kubelet, new: Mapping[Key, Pod]) -> bool:
        """Ask about each of a few pods; False if the kubelet refuses the call."""
        for (namespace, name), pod in new.items():
            try:
                answer = decode_get(kubelet.get(namespace, name))
            except KubeletError as error:
                if not error.refused:
                    raise
                self._serves_get = error.code != "UNIMPLEMENTED"
                return False
            except WireError as error:
                item = f"pod {namespace}/{name} ({error})"
                self._rejections.reject(MALFORMED, item, owner=namespace)
                continue
            for entry in answer.entries.values():
                self._accepted[pod.uid] = entry
            self._count(answer)
        return True

    def _list(self, kubelet: Kubelet, pods: Mapping[Key, Pod]) -> None:
        try:
            answer = decode_list(kubelet.list(), pods)
        except KubeletError as error:
            # A kubelet that keeps pods which have ended may have more to list than an answer holds.
            # Then each pod that may hold devices is asked about by itself.
            asking = {key: pod for key, pod in pods.items() if wants_devices(pod)}
            if not (error.too_long and self._serves_get and self._get(kubelet, asking)):
                raise
            there = {pod.uid for pod in asking.values()}
            self._accepted = {u: entry for u, entry in self._accepted.items() if u in there}
            return
        except WireError as error:
            raise WireError(f"the kubelet's answer to List cannot be read: {error}") from error
        self._listed_ns = self._clock.monotonic_ns()
        self._accepted = {
            pod.uid: answer.entries[key] for key, pod in pods.items() if key in answer.entries
        }
        self._count(answer)

    def _count(self, answer: PodResourcesList) -> None:
        for reason, count in answer.rejected.items():
            item = "an entry of the kubelet's list of pod resources, or a part of one,"
            self._rejections.reject(reason, item, count)


AUTO, NONE = "auto", "none"


def open_pod_resources(setting: str, socket: str = SOCKET) -> tuple[NodeSource, ...]:
    """Make the source for ``--kubelet.pod-resources-socket``; not started, imports nothing heavy.

    "auto" is the usual ``socket`` if the kubelet's folder for it is there, else none. A socket
    that was named and is not there is a source that is down and looks again.
    """
    if setting == AUTO:
        setting = NONE if door.is_gone(Path(socket).parent) else socket
    return () if setting == NONE else (Polled(PodResources(Kubelet(setting))),)
