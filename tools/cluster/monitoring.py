"""The Prometheus Operator, and a Prometheus that it runs by what the chart gives it."""

import json
import shutil
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tools.cluster.controlplane import SERVER
from tools.cluster.images import archive, layer
from tools.cluster.kubectl import Document
from tools.cluster.pins import PROMETHEUS
from tools.cluster.programs import Program, eventually
from tools.cluster.stage import KINDS, Stage
from tools.cluster.tools import program

NAMESPACE = "operated"
_NAME = "k8s"
_POD = f"prometheus-{_NAME}-0"
_RELOADER = "prometheus-config-reloader"
_ALL: Document = {}  # a selector


class Operator:
    """The operator as a program of the node; its Prometheus is a pod."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._kubectl = stage, stage.kubectl
        self._kinds = str(stage.state / KINDS)
        self.program = Program("prometheus-operator", self._command(), stage.logs)

    def start(self) -> None:
        """Start it, and wait for its Prometheus."""
        for name in ("prometheus", _RELOADER):
            file = _image(self._stage.state, name)
            self._stage.node.ctr("images", "import", str(file))
        self._kubectl("apply", "--server-side", "-f", self._kinds)
        self._kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.program.start()
        self._kubectl("create", "namespace", NAMESPACE)
        self._kubectl.apply(*_documents())
        eventually(self._is_ready, "the operator's Prometheus is ready")

    def stop(self) -> None:
        """Remove its Prometheus and its kinds, and end it."""
        self._kubectl("delete", "namespace", NAMESPACE, "--wait=true")
        self.program.stop()
        self._kubectl("delete", "clusterrole,clusterrolebinding", NAMESPACE)
        self._kubectl("delete", "-f", self._kinds)

    def pools(self) -> dict[str, list[str]]:
        """The health of the targets of each monitor, by kind, namespace and name."""
        found: dict[str, list[str]] = {}
        for target in self._ask("targets?state=active")["activeTargets"]:
            found.setdefault(target["scrapePool"].rpartition("/")[0], []).append(target["health"])
        return found

    def rules(self) -> set[str]:
        """The names of all rules that Prometheus has loaded."""
        groups = self._ask("rules")["groups"]
        return {rule["name"] for group in groups for rule in group["rules"]}

    def firing(self, alert: str) -> list[dict[str, str]]:
        """The labels of the alerts of this name that fire."""
        found = self._ask("alerts")["alerts"]
        return [
            one["labels"]
            for one in found
            if one["state"] == "firing" and one["labels"]["alertname"] == alert
        ]

    def _ask(self, what: str) -> Any:
        self.program.check()
        address = self._kubectl.get("pod", _POD, "-n", NAMESPACE)["status"]["podIP"]
        with urllib.request.urlopen(f"http://{address}:9090/api/v1/{what}", timeout=30) as answer:
            return json.load(answer)["data"]

    def _is_ready(self) -> bool:
        self.program.check()
        pods = self._kubectl.get("pods", "-n", NAMESPACE)["items"]
        if not pods or not pods[0]["status"].get("podIP"):
            return False
        try:
            return bool(self._ask("status/runtimeinfo"))
        except urllib.error.URLError:
            return False

    def _command(self) -> list[str]:
        authority = self._stage.plane.authority
        client = authority.sign("prometheus-operator", "system:masters")
        return [
            program("operator"),
            f"--apiserver=https://{SERVER}",
            f"--ca-file={authority.own.crt}",
            f"--cert-file={client.crt}",
            f"--key-file={client.key}",
            f"--prometheus-config-reloader={_tag(_RELOADER)}",
            "--web.listen-address=127.0.0.1:18080",
        ]


def _tag(name: str) -> str:
    return f"localhost/{name}:1"


def _image(folder: Path, name: str) -> Path:
    """An image of one program that was built here."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "bin"
        root.mkdir()
        shutil.copy(program(name), root / name)
        settings = {"Entrypoint": [f"/bin/{name}"]}
        return archive(folder / f"{name}.tar", _tag(name), [layer(root, "bin")], settings)


def _documents() -> list[Document]:
    """A Prometheus that takes all monitors and rules of all namespaces, and what it may read."""
    named = {"name": NAMESPACE}
    resources = ["nodes", "services", "endpoints", "pods"]
    verbs = ["get", "list", "watch"]
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {**named, "namespace": NAMESPACE},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": named,
            "rules": [
                {"apiGroups": [""], "resources": resources, "verbs": verbs},
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": verbs,
                },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": named,
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                **named,
            },
            "subjects": [{"kind": "ServiceAccount", **named, "namespace": NAMESPACE}],
        },
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "Prometheus",
            "metadata": {"name": _NAME, "namespace": NAMESPACE},
            "spec": {
                "image": _tag("prometheus"),
                "version": f"v{PROMETHEUS}",
                "serviceAccountName": NAMESPACE,
                "scrapeInterval": "2s",
                "evaluationInterval": "2s",
                "serviceMonitorSelector": _ALL,
                "serviceMonitorNamespaceSelector": _ALL,
                "podMonitorSelector": _ALL,
                "podMonitorNamespaceSelector": _ALL,
                "ruleSelector": _ALL,
                "ruleNamespaceSelector": _ALL,
            },
        },
    ]
