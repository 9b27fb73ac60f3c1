"""The exporter as a DaemonSet, and its page."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cluster.board import Board
from cluster.exporter_image import EXPORTER
from cluster.kubectl import Document, Kubectl
from cluster.programs import eventually
from tests.e2e.programs import Page
from tests.fakenvml.build import library

NAMESPACE = "gpu-monitoring"
USER = f"system:serviceaccount:{NAMESPACE}:mgpu-exporter"
PORT = 10045
_NAME = "mgpu-exporter"
SERVICE_PATH = f"/api/v1/namespaces/{NAMESPACE}/services/{_NAME}:metrics/proxy/metrics"
_SELECTOR = f"app.kubernetes.io/name={_NAME}"
_LABELS = {"app.kubernetes.io/name": _NAME}


class Agent:
    """The exporter on the node."""

    def __init__(self, kubectl: Kubectl, board: Board) -> None:
        self._kubectl, self._board = kubectl, board

    def install(self) -> None:
        """Apply the manifests and wait until the pod is ready."""
        self._kubectl.apply(
            _namespace(), *_account(), _service(), _daemon_set(self._board.file.parent)
        )
        self.wait()

    def wait(self) -> None:
        """Wait until the DaemonSet's pod is ready."""
        self._kubectl(
            *("rollout", "status", f"daemonset/{_NAME}", "-n", NAMESPACE, "--timeout=180s")
        )

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """No pod of it runs meanwhile: no node is like its DaemonSet wants."""
        self._select({"nowhere": "true"})
        eventually(lambda: self.pod() is None, "the exporter is gone")
        yield
        self._select({"nowhere": None})
        self.wait()

    def forbid(self) -> None:
        """Take its permissions away."""
        self._kubectl("delete", "clusterrolebinding", _NAME)

    def allow(self) -> None:
        """Give them back."""
        self._kubectl.apply(*_account())

    def restart(self) -> None:
        """Delete its pod; the DaemonSet makes another."""
        self._kubectl("delete", "pods", "-n", NAMESPACE, "-l", _SELECTOR, "--wait=true")
        eventually(lambda: self.pod() is not None, "there is another")
        self.wait()

    def _select(self, labels: dict[str, str | None]) -> None:
        patch = {"spec": {"template": {"spec": {"nodeSelector": labels}}}}
        self._kubectl("patch", "daemonset", _NAME, "-n", NAMESPACE, f"--patch={json.dumps(patch)}")

    def pod(self) -> Document | None:
        """The pod, None while there is none."""
        found = self._kubectl.get("pods", "-n", NAMESPACE, "-l", _SELECTOR)
        return next(iter(found["items"]), None)

    def log(self) -> str:
        """What it says."""
        return self._kubectl("logs", "-n", NAMESPACE, f"daemonset/{_NAME}", "--tail=-1")

    def address(self) -> str:
        """Where its page is. Kept, so that it is known without the API server."""
        pod = self.pod()
        assert pod is not None
        return f"http://{pod['status']['podIP']}:{PORT}/metrics"

    def scrape(self, address: str | None = None) -> Page:
        """Its page now."""
        with urllib.request.urlopen(address or self.address(), timeout=10) as answer:  # noqa: S310 - http
            return Page(answer.read().decode())

    def when(self, true: Any, what: str, patience_s: float = 60.0) -> Page:
        """The first page of which this is true."""
        address = self.address()

        def look() -> Page | None:
            page = self.scrape(address)
            return page if true(page) else None

        return eventually(look, what, patience_s)


def _namespace() -> Document:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def _account() -> list[Document]:
    own = {"name": _NAME, "namespace": NAMESPACE}
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    ]
    group = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": own},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": _NAME},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _NAME},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _NAME},
            "subjects": [{"kind": "ServiceAccount", **own}],
        },
    ]


def _service() -> Document:
    port = {"name": "metrics", "port": PORT, "targetPort": "metrics"}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME, "namespace": NAMESPACE},
        "spec": {"clusterIP": "None", "selector": _LABELS, "ports": [port]},
    }


def _daemon_set(gpus: Path) -> Document:
    driver = library()
    folders = {
        "cgroup": "/sys/fs/cgroup",
        "pod-resources": "/var/lib/kubelet/pod-resources",
        "driver": str(driver.parent),
        "gpus": str(gpus),
    }
    container = {
        "name": _NAME,
        "image": EXPORTER,
        "imagePullPolicy": "Never",
        "args": ["serve", f"--nvml.library={driver}"],
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "FAKENVML_SCENARIO", "value": str(gpus / "gpus.txt")},
        ],
        "ports": [{"name": "metrics", "containerPort": PORT}],
        "readinessProbe": {"httpGet": {"path": "/-/ready", "port": "metrics"}, "periodSeconds": 1},
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": name, "mountPath": place, "readOnly": True} for name, place in folders.items()
        ],
    }
    template = {
        "metadata": {"labels": _LABELS},
        "spec": {
            "serviceAccountName": _NAME,
            "hostPID": True,
            "terminationGracePeriodSeconds": 5,
            "containers": [container],
            "volumes": [
                {"name": name, "hostPath": {"path": place}} for name, place in folders.items()
            ],
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": _NAME, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": _LABELS}, "template": template},
    }
