"""Pods of several containers, each with limits of its own, as the API server has them."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from tests.agent.sources.cgroups.names import container_path
from tests.agent.sources.pods.documents import Document, container_id
from tests.e2e.programs import Page

Limits = Mapping[str, str]
EMPTY: Mapping[str, Any] = {}


class FieldPod:
    """``FieldPod("train", {"main": {"nvidia.com/gpu": "1"}})``; all its containers run.

    ``init`` containers have ended, ``sidecars`` (init containers that are restarted always) run, as
    do ``ephemeral`` ones. ``claims``: container → names of ``resourceClaims``, each a claim's.
    """

    def __init__(  # noqa: PLR0913 - each is a part of the document
        self,
        name: str,
        containers: Mapping[str, Limits],
        *,
        namespace: str = "ml",
        init: Mapping[str, Limits] = EMPTY,
        sidecars: Mapping[str, Limits] = EMPTY,
        ephemeral: Sequence[str] = (),
        claims: Mapping[str, Sequence[str]] = EMPTY,
        annotations: Mapping[str, str] = EMPTY,
        labels: Mapping[str, str] = EMPTY,
        phase: str = "Running",
    ) -> None:
        self.name, self.namespace, self.phase = name, namespace, phase
        self.uid = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{namespace}/{name}"))
        self.ids = {
            each: container_id(f"{self.uid}/{each}")
            for each in (*init, *sidecars, *containers, *ephemeral)
        }
        self._app, self._init, self._sidecars = containers, init, sidecars
        self._ephemeral, self._claims = ephemeral, claims
        self._annotations, self._labels = annotations, labels

    def document(self, **status: Any) -> Document:
        """The pod; ``status`` is more of it."""
        ended = [self._container(each, limits) for each, limits in self._init.items()]
        always = [
            {**self._container(each, limits), "restartPolicy": "Always"}
            for each, limits in self._sidecars.items()
        ]
        claims = [{"name": claim, "resourceClaimName": claim} for claim in self._named()]
        return {
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "uid": self.uid,
                "annotations": dict(self._annotations),
                "labels": dict(self._labels),
            },
            "spec": {
                "nodeName": "node-1",
                "initContainers": [*ended, *always],
                "containers": [self._container(e, limits) for e, limits in self._app.items()],
                "ephemeralContainers": [{"name": each} for each in self._ephemeral],
                **({"resourceClaims": claims} if claims else {}),
            },
            "status": {
                "phase": self.phase,
                "qosClass": "Burstable",
                "startTime": "2026-01-01T00:00:00Z",
                "initContainerStatuses": [
                    *(self._status(each, "terminated") for each in self._init),
                    *(self._status(each, "running") for each in self._sidecars),
                ],
                "containerStatuses": [self._status(each, "running") for each in self._app],
                "ephemeralContainerStatuses": [
                    self._status(each, "running") for each in self._ephemeral
                ],
                **status,
            },
        }

    def _container(self, name: str, limits: Limits) -> Document:
        resources: Document = {"limits": dict(limits), "requests": dict(limits)}
        if name in self._claims:
            resources["claims"] = [{"name": claim} for claim in self._claims[name]]
        return {"name": name, "resources": resources}

    def _named(self) -> list[str]:
        return sorted({claim for claims in self._claims.values() for claim in claims})

    def _status(self, name: str, state: str) -> Document:
        times: Document = {"startedAt": "2026-01-01T00:00:00Z"}
        if state == "terminated":
            times |= {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:01:00Z"}
        return {
            "name": name,
            "containerID": f"containerd://{self.ids[name]}",
            "state": {state: times},
        }

    def cgroup(self, container: str = "main") -> str:
        """The cgroup of a container."""
        return container_path("systemd", self.uid, self.ids[container])

    def of(self, container: str = "main") -> dict[str, str]:
        """The labels of a container's series."""
        return {"namespace": self.namespace, "pod": self.name, "container": container}


def by(page: Page, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The samples of a family, by the values of these labels, which tell them apart."""
    found = [
        (tuple(own.get(each, "") for each in labels), v) for own, v in page.all(f"mgpu_{name}")
    ]
    assert len(dict(found)) == len(found), found
    return dict(found)


def gpus(page: Page) -> dict[tuple[str, ...], float]:
    """What of each card is kept for whom, by pod, container and device."""
    return by(page, "container_allocated_gpus", "pod", "container", "uuid")


def core(page: Page) -> dict[tuple[str, ...], float]:
    """Core seconds by pod, container and device."""
    return by(page, "container_core_seconds_total", "pod", "container", "uuid")


def memory_limits(page: Page) -> dict[tuple[str, ...], float]:
    """Limits of memory by pod, container and device."""
    return by(page, "container_memory_limit_bytes", "pod", "container", "uuid")
