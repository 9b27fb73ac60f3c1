"""Pods as the API server lists them, and processes as the cgroup file system shows them."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from exporter.agent.simulation.description import PodSpec, Scenario
from exporter.agent.simulation.population import (
    PodName,
    Population,
    ProcessLife,
    container_id,
    pod_key,
    pod_name,
)
from exporter.agent.simulation.work import Occurrence
from exporter.model import Container, Grant, Pod, PodTable

SECOND_NS = 10**9
BOUND_BEFORE_NS = 2 * SECOND_NS  # between the binding and the start of the containers
DONE_FOR_NS = 20 * SECOND_NS  # a pod that has ended stays in the API until it is cleaned up
LEAF = {"containerd": "cri-containerd-{}.scope", "cri-o": "crio-{}.scope/container"}
DOCKER_LEAF = "docker-{}.scope"


class Moments(NamedTuple):
    """When a pod changes: bound, containers started, their ids known, ended, out of the API."""

    bound: int
    started: int
    known: int
    ended: int
    removed: int


class Cluster(NamedTuple):
    """The node's pods as the API server lists them, and their devices as the kubelet does.

    ``grants`` are by the pod's uid.
    """

    table: PodTable
    grants: Mapping[str, tuple[Grant, ...]]


class Lifecycle:
    """The pods of a scenario over time, in nanoseconds since its start."""

    def __init__(self, scenario: Scenario, population: Population) -> None:
        self._scenario = scenario
        self._population = population
        self._newest = Cluster(PodTable(version=-1), {})

    def cluster(self, now_ns: int) -> Cluster:
        """The pods and devices at a moment. The table's version is that of the last change.

        Returns the same object until something changes.
        """
        here = [
            (spec, occurrence, self._moments(occurrence))
            for spec in self._scenario.pods
            for occurrence in self._around(spec, now_ns)
        ]
        passed = [at for _, _, moments in here for at in moments if at <= now_ns]
        # Pods are bound before the scenario starts, and a version is never below 0.
        version = max(passed, default=-BOUND_BEFORE_NS) + BOUND_BEFORE_NS
        if version != self._newest.table.version:
            present = [
                (spec, self._pod(spec, number, moments, now_ns))
                for spec, (number, *_), moments in here
                if moments.bound <= now_ns < moments.removed
            ]
            # The kubelet gives the devices of a pod that has ended back, while the API server
            # still lists the pod.
            grants = {
                pod.uid: tuple(
                    Grant(container.name, resource, ids)
                    for container in spec.containers
                    for resource, ids in container.granted.items()
                )
                for spec, pod in present
                if not pod.terminal
            }
            pods = [pod for _, pod in present]
            by_kubelet_uid: Mapping[str, str] = {
                uid: pod.uid for pod in pods for uid in (pod.uid, pod.static_hash) if uid
            }
            by_container_id = {
                cid: (pod.uid, container.name)
                for pod in pods
                for container in pod.containers
                for cid in container.container_ids
            }
            self._newest = Cluster(
                PodTable(version, {pod.uid: pod for pod in pods}, by_kubelet_uid, by_container_id),
                {uid: held for uid, held in grants.items() if held},
            )
        return self._newest

    def cgroup_path(self, life: ProcessLife) -> str:
        """The cgroup of a process, as ``/proc/PID/cgroup`` shows it."""
        pod, container = life.resident.pod, life.resident.container
        if pod is None or container is None:
            return self._population.cgroup(life)
        seed, number = self._scenario.seed, life.number
        cid = container_id(seed, pod, container, number)
        return cgroup_path(pod, pod_name(seed, pod, number).kubelet_uid, cid)

    def _around(self, spec: PodSpec, now_ns: int) -> Iterator[Occurrence]:
        """The occurrences that the table shows, and the newest that it does not any more."""
        since = now_ns - DONE_FOR_NS
        if spec.span.every_ns is None:
            since = -BOUND_BEFORE_NS
        else:
            # Back to one that the table does not show any more: the version is the time of the last
            # change, and without that pod's removal it would go back.
            since -= spec.span.longest_ns + spec.span.every_ns
        key = pod_key(self._scenario.seed, spec)
        return spec.span.occurrences(key, since, now_ns + BOUND_BEFORE_NS + 1)

    def _moments(self, life: Occurrence) -> Moments:
        return Moments(
            life.start_ns - BOUND_BEFORE_NS,
            life.start_ns,
            life.start_ns + self._scenario.status_delay_ns,
            life.end_ns,
            life.end_ns + DONE_FOR_NS,
        )

    def _pod(self, spec: PodSpec, number: int, moments: Moments, now_ns: int) -> Pod:
        scenario = self._scenario
        names = pod_name(scenario.seed, spec, number)
        # The status of a pod that has ended names its containers, however late it is otherwise.
        known = now_ns >= min(moments.known, moments.ended)
        running = "Running" if now_ns >= moments.known else "Pending"
        return Pod(
            uid=names.uid,
            namespace=spec.namespace,
            name=names.name,
            phase="Succeeded" if now_ns >= moments.ended else running,
            qos=spec.qos,
            static_hash=names.kubelet_uid if spec.static else "",
            owner_kind=spec.owner_kind or ("Job" if spec.span.every_ns else ""),
            owner_name=names.owner_name,
            containers=tuple(
                Container(
                    name=container.name,
                    kind=container.kind,
                    container_ids=(
                        (container_id(scenario.seed, spec, container, number),) if known else ()
                    ),
                    limits=container.limits,
                )
                # As the API server lists them: init containers and sidecars before the others.
                for container in sorted(spec.containers, key=lambda c: c.kind == "app")
            ),
            annotations={**spec.annotations, **(_static_marks(names) if spec.static else {})},
            labels=spec.labels,
        )


def cgroup_path(pod: PodSpec, kubelet_uid: str, cid: str) -> str:
    """Where the kubelet and the runtime put a container's processes.

    Kubelet: guaranteed pods sit directly below kubepods. Under systemd a dash would open a slice,
    so that the uid's dashes become underscores.
    """
    qos = "" if pod.qos == "Guaranteed" else pod.qos.lower()
    if pod.cgroup_driver == "cgroupfs":
        leaf = f"crio-{cid}" if pod.runtime == "cri-o" else cid
        return "/".join(filter(None, ("/kubepods", qos, f"pod{kubelet_uid}", leaf)))
    above = "kubepods.slice" + (f"/kubepods-{qos}.slice" if qos else "")
    prefix = f"kubepods-{qos}" if qos else "kubepods"
    leaf = LEAF.get(pod.runtime, DOCKER_LEAF).format(cid)
    return f"/{above}/{prefix}-pod{kubelet_uid.replace('-', '_')}.slice/{leaf}"


def _static_marks(names: PodName) -> dict[str, str]:
    """What the kubelet writes on the mirror pod of a static one."""
    return {
        "kubernetes.io/config.hash": names.kubelet_uid,
        "kubernetes.io/config.mirror": names.kubelet_uid,
        "kubernetes.io/config.source": "file",
    }
