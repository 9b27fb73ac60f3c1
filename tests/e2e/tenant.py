"""A pod as the kubelet, the runtime and the API server show it."""

import uuid
from dataclasses import dataclass, field
from typing import Any

from exporter.agent.sources.pods.decode import CONFIG_MIRROR
from tests.agent.sources.cgroups.names import container_path, new_container_id, new_uid
from tests.agent.sources.pods.documents import Document, pod_document
from tests.e2e.node import NAME
from tests.e2e.programs import Page

NAMESPACE = "ml"


@dataclass
class Tenant:
    """A pod of one container, named main. ``config_hash``: it is a static pod of this hash."""

    name: str
    driver: str = "systemd"
    uid: str = field(default_factory=new_uid)
    container_id: str = field(default_factory=new_container_id)
    config_hash: str = ""

    @property
    def cgroup(self) -> str:
        """Its container's cgroup; a static pod's is named by the hash."""
        return container_path(self.driver, self.config_hash or self.uid, self.container_id)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of its container's series."""
        return {**self.pod_labels, "container": "main"}

    @property
    def pod_labels(self) -> dict[str, str]:
        """The labels of its own series."""
        return {"namespace": NAMESPACE, "pod": self.name}

    @property
    def group(self) -> dict[str, str]:
        """The labels of its container's series as long as its name is not known."""
        return {"kind": "pod", "group": f"{self.config_hash or self.uid}/{self.container_id}"}

    def document(self, **more: Any) -> Document:
        """The pod as the API server has it; ``more`` is for ``pod_document``."""
        annotations = {**more.pop("annotations", {})}
        if self.config_hash:
            annotations[CONFIG_MIRROR] = self.config_hash
        more.setdefault("containers", {"main": self.container_id})
        return pod_document(
            self.name,
            namespace=NAMESPACE,
            uid=self.uid,
            node=NAME,
            annotations=annotations,
            **more,
        )

    def core(self, page: Page, **more: str) -> float | None:
        """Its container's core seconds on a page."""
        return page.value("mgpu_container_core_seconds_total", **self.labels, **more)

    def processes(self, page: Page, **more: str) -> float | None:
        """How many processes its container has on a page."""
        return page.value("mgpu_container_processes", **self.labels, **more)


def static(name: str) -> Tenant:
    """A static pod, whose cgroup is named by the hash of its manifest."""
    return Tenant(name, config_hash=uuid.uuid4().hex)
