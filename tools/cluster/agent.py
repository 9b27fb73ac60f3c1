"""The exporter as the chart installs it, and its page."""

import json
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.programs import Page
from tools.cluster.board import Board
from tools.cluster.kubectl import Document, Kubectl
from tools.cluster.pins import KUBERNETES
from tools.cluster.programs import PATIENCE_S, eventually
from tools.cluster.tools import program

NAMESPACE = "gpu-monitoring"
NAME = "mgpu-exporter"
PORT = 10045
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
SERVICE_PATH = f"/api/v1/namespaces/{NAMESPACE}/services/{NAME}:metrics/proxy/metrics"
CHART = Path(__file__).parents[2] / "charts" / NAME
_SELECTOR = "app.kubernetes.io/component=metrics"


class Agent:
    """The exporter on the node, in a namespace of its own."""

    def __init__(
        self,
        kubectl: Kubectl,
        board: Board,
        profile: str,
        name: str = NAME,
        namespace: str = NAMESPACE,
        more: Document | None = None,
    ) -> None:
        self._kubectl, self._board = kubectl, board
        self.more = more or {}
        self._profile = profile
        self.name, self.namespace = name, namespace

    def install(self) -> None:
        """Let kubectl apply what Helm renders, and wait until the pod is ready."""
        self._kubectl("create", "namespace", self.namespace)
        self.apply()
        self.wait()

    def install_by_helm(self) -> str:
        """Let Helm install it and wait until it is ready; what Helm says."""
        return self.helm("upgrade", "--install", "--create-namespace", "--wait", with_values=True)

    def remove(self) -> None:
        """Delete what ``install`` made, and wait until it is gone."""
        own = f"app.kubernetes.io/instance={self.name}"
        self._kubectl("delete", "clusterroles,clusterrolebindings", "-l", own)
        self._kubectl("delete", "namespace", self.namespace, "--wait=true")

    def apply(self) -> None:
        """Apply all objects of the chart."""
        version = f"--kube-version={KUBERNETES}"
        rendered = self.helm("template", "--skip-tests", version, with_values=True)
        self._kubectl("apply", "-f", "-", given=rendered)

    def helm(self, *command: str, with_values: bool = False) -> str:
        """What a command about this release prints; with the chart and this node's values."""
        chart = [str(CHART), "--values=-"] if with_values else []
        return self._helm(*command, self.name, *chart)

    def _helm(self, *words: str) -> str:
        """What Helm prints; it may read this node's values from its standard input."""
        where = [f"--namespace={self.namespace}", f"--kubeconfig={self._kubectl.kubeconfig}"]
        done = subprocess.run(
            [program("helm"), *words, *where],
            input=json.dumps(self._values()),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def wait(self) -> None:
        """Wait until the DaemonSet's pod is ready."""
        what = ("rollout", "status", f"daemonset/{self.name}")
        self._kubectl(*what, "-n", self.namespace, "--timeout=300s")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """No pod of it runs meanwhile: no node is like its DaemonSet wants."""
        self._select({"nowhere": "true"})
        try:
            eventually(lambda: self.pod() is None, "the exporter is gone")
            yield
        finally:
            self._select({"nowhere": None})
            eventually(lambda: self.pod() is not None, "there is another")
            self.wait()

    @contextmanager
    def forbidden(self) -> Iterator[None]:
        """It has no permissions meanwhile."""
        own = f"app.kubernetes.io/instance={self.name}"
        self._kubectl("delete", "clusterrolebindings", "-l", own)
        try:
            yield
        finally:
            self.apply()

    def restart(self) -> None:
        """Delete its pod; the DaemonSet makes another."""
        self._kubectl("delete", "pods", "-n", self.namespace, "-l", _SELECTOR, "--wait=true")
        eventually(lambda: self.pod() is not None, "there is another")
        self.wait()

    def pod(self) -> Document | None:
        """The pod, None while there is none."""
        found = self._kubectl.get("pods", "-n", self.namespace, "-l", _SELECTOR)
        return next(iter(found["items"]), None)

    def address(self) -> str:
        """Where its page is. Kept, so that it is known without the API server."""
        pod = self.pod()
        assert pod is not None
        return f"http://{pod['status']['podIP']}:{PORT}/metrics"

    def scrape(self, address: str | None = None, token: str = "") -> Page:
        """Its page now. ``token`` is a bearer token, for an exporter that asks for one."""
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(address or self.address(), headers=shown)  # noqa: S310 - http
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - http
            return Page(answer.read().decode())

    def when(
        self, true: Callable[[Page], object], what: str, patience_s: float = PATIENCE_S
    ) -> Page:
        """The first page of which this is true."""
        address = self.address()

        def look() -> Page | None:
            page = self.scrape(address)
            return page if true(page) else None

        return eventually(look, what, patience_s)

    def _select(self, labels: dict[str, str | None]) -> None:
        patch = {"spec": {"template": {"spec": {"nodeSelector": labels}}}}
        where = ("-n", self.namespace, f"--patch={json.dumps(patch)}")
        self._kubectl("patch", "daemonset", self.name, *where)

    def _values(self) -> Document:
        """The node's driver is a library in a folder, as on GKE, and a file that it reads."""
        gpus = self._board.file
        return {
            "profile": self._profile,
            "pods": {"files": True},  # as root it must be asked for
            "gpuAccess": "hostPath",
            "driverLibraries": str(self._board.driver),
            "readinessProbe": {"periodSeconds": 1},
            "extraEnv": [{"name": "FAKENVML_SCENARIO", "value": str(gpus)}],
            "extraVolumes": [{"name": "gpus", "hostPath": {"path": str(gpus.parent)}}],
            "extraVolumeMounts": [
                {"name": "gpus", "mountPath": str(gpus.parent), "readOnly": True}
            ],
            **self.more,
        }
