"""Prometheus and prometheus-adapter on the cluster, and a Deployment that an HPA scales.

Rules and HPA are the shipped examples, with their minutes cut to seconds.
"""

import base64
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from tools.cluster.agent import NAMESPACE as AGENTS
from tools.cluster.agent import SERVICE_PATH
from tools.cluster.board import Board
from tools.cluster.controlplane import SERVER, ControlPlane
from tools.cluster.kubectl import Document, Kubectl, KubectlError
from tools.cluster.node import Node
from tools.cluster.programs import Program, eventually
from tools.cluster.sandbox import NODE, NODE_IP
from tools.cluster.tools import program
from tools.cluster.workloads import NAMESPACE, container, pod, with_mgpu

NAME = "chat"
SHARE = 0.3  # of a GPU, for each pod
METRIC = "mgpu_pod_core_limit_utilization"
_RULES = Path(__file__).parents[2] / "rules"
_EXAMPLES = Path(__file__).parents[2] / "examples" / "autoscaling"
_WINDOW_S = 30
_SERVICE = "mgpu-adapter"
_PORT = 6443
_PROMETHEUS = "127.0.0.1:9090"
# Debian's Prometheus has no service discovery by Kubernetes; the API server knows the way, too.
_SCRAPES = """
global: {{scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 2s}}
rule_files: ["{rules}"]
scrape_configs:
- job_name: mgpu-exporter
  honor_labels: true
  scheme: https
  metrics_path: {path}
  tls_config: {{ca_file: "{ca}", cert_file: "{client.crt}", key_file: "{client.key}"}}
  static_configs: [{{targets: ["{server}"], labels: {{instance: {node}}}}}]
"""


class Autoscaling:
    """What stands between the exporter's page and the autoscaler."""

    def __init__(self, state: Path, logs: Path, plane: ControlPlane, kubectl: Kubectl) -> None:
        self._state, self._plane, self._kubectl = state, plane, kubectl
        self.prometheus = Program("prometheus", self._scraper(), logs)
        self.adapter = Program("prometheus-adapter", self._adapter(), logs)

    def start(self) -> None:
        """Start both, and let the API server ask the adapter."""
        self.prometheus.start()
        self.adapter.start()
        self._kubectl.apply(*self._registration())
        eventually(self._is_served, "the custom metrics API answers")

    def stop(self) -> None:
        """End both, and let the API server forget the adapter."""
        self._kubectl("delete", "apiservices", "-l", f"served-by={_SERVICE}")
        for each in (self.adapter, self.prometheus):
            each.stop()

    def values(self) -> dict[str, float]:
        """What the custom metrics API has of each pod."""
        path = f"/apis/custom.metrics.k8s.io/v1beta1/namespaces/{NAMESPACE}/pods/*/{METRIC}"
        try:
            found = json.loads(self._kubectl("get", "--raw", path))
        except KubectlError:  # no pod has it
            return {}
        return {one["describedObject"]["name"]: _number(one["value"]) for one in found["items"]}

    def alerts(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire in Prometheus."""
        with urllib.request.urlopen(f"http://{_PROMETHEUS}/api/v1/alerts", timeout=30) as answer:
            found = json.load(answer)["data"]["alerts"]
        return [
            {**one["labels"], "description": one["annotations"]["description"]}
            for one in found
            if one["state"] == "firing"
        ]

    def _is_served(self) -> bool:
        self.prometheus.check()
        self.adapter.check()
        try:
            return bool(self._kubectl("get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"))
        except KubectlError:
            return False

    def _scraper(self) -> list[str]:
        config, rules = self._state / "prometheus.yml", self._state / "rules.yml"
        rules.write_text(_starved())
        text = _SCRAPES.format(
            rules=rules,
            path=SERVICE_PATH,
            ca=self._plane.authority.own.crt,
            client=self._plane.authority.sign("prometheus", "system:masters"),
            server=SERVER,
            node=NODE,
        )
        config.write_text(text)
        return [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={self._state / 'prometheus'}",
            f"--web.listen-address={_PROMETHEUS}",
        ]

    def _adapter(self) -> list[str]:
        own = self._plane.authority.sign("adapter", hosts=(f"{_SERVICE}.{AGENTS}.svc",))
        config = self._state / "adapter.yml"
        config.write_text(_shortened((_EXAMPLES / "prometheus-adapter.yaml").read_text()))
        return [
            program("adapter"),
            f"--prometheus-url=http://{_PROMETHEUS}",
            f"--config={config}",
            "--metrics-relist-interval=5s",
            f"--secure-port={_PORT}",
            f"--tls-cert-file={own.crt}",
            f"--tls-private-key-file={own.key}",
            f"--lister-kubeconfig={self._plane.admin}",
            f"--authentication-kubeconfig={self._plane.admin}",
            f"--authorization-kubeconfig={self._plane.admin}",
        ]

    def _registration(self) -> list[Document]:
        """The adapter's service, which is not a pod's but a program's on the node."""
        own = {"name": _SERVICE, "namespace": AGENTS}
        port = {"name": "https", "protocol": "TCP", "port": _PORT}
        labelled = {**own, "labels": {"kubernetes.io/service-name": _SERVICE}}
        trusted = base64.b64encode(self._plane.authority.own.crt.read_bytes()).decode()
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": own,
                "spec": {"ports": [{**port, "targetPort": _PORT}]},
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": labelled,
                "addressType": "IPv4",
                "endpoints": [{"addresses": [NODE_IP], "conditions": {"ready": True}}],
                "ports": [port],
            },
            *(
                {
                    "apiVersion": "apiregistration.k8s.io/v1",
                    "kind": "APIService",
                    "metadata": {
                        "name": f"{version}.{group}.metrics.k8s.io",
                        "labels": {"served-by": _SERVICE},
                    },
                    "spec": {
                        "group": f"{group}.metrics.k8s.io",
                        "version": version,
                        "service": {**own, "port": _PORT},
                        "caBundle": trusted,
                        "groupPriorityMinimum": 100,
                        "versionPriority": 100,
                    },
                }
                for group, version in (
                    ("custom", "v1beta1"),
                    ("custom", "v1beta2"),
                    ("external", "v1beta1"),
                )
            ),
        ]


class Scaled:
    """The Deployment, the demand for it, and its autoscaler."""

    def __init__(self, kubectl: Kubectl, node: Node, board: Board, between: Autoscaling) -> None:
        self._kubectl, self._node, self._board = kubectl, node, board
        self.ratios = between.values
        self._loads: dict[int, float] = {}
        self.demand = 0.0

    def apply(self) -> None:
        """One pod of it, and the autoscaler."""
        template = with_mgpu(pod(NAME, container()), gpu=0, core=round(100 * SHARE), memory_mib=256)
        metadata = {**template["metadata"], "labels": {"app": NAME}}
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {
                "selector": {"matchLabels": {"app": NAME}},
                "template": {"metadata": metadata, "spec": template["spec"]},
            },
        }
        self._kubectl.apply(deployment, _autoscaler())

    def settle(self) -> int:
        """Let the pods that run now share the demand; how many these are."""
        running = self._running()
        for pid in self._loads.keys() - running:
            self._board.end(pid)
            del self._loads[pid]
        for pid in running:
            if self._loads.get(pid) != self.demand:
                self._board.work(pid, 0, self.demand)
                self._loads[pid] = self.demand
        return len(running)

    def wanted(self) -> int:
        """How many replicas the autoscaler asked for."""
        found = self._kubectl.get("deployment", NAME, "-n", NAMESPACE)
        return int(found["spec"]["replicas"])

    def events(self) -> list[Document]:
        """What the autoscaler says that it did."""
        chosen = f"involvedObject.kind=HorizontalPodAutoscaler,involvedObject.name={NAME}"
        found = self._kubectl.get("events", "-n", NAMESPACE, f"--field-selector={chosen}")
        return list(found["items"])

    def _running(self) -> set[int]:
        found = self._kubectl.get("pods", "-n", NAMESPACE, "-l", f"app={NAME}")["items"]
        ids = [
            one.get("containerID", "").removeprefix("containerd://")
            for each in found
            if "deletionTimestamp" not in each["metadata"]
            for one in each["status"].get("containerStatuses", [])
        ]
        return {pid for one in ids if (pid := self._node.pid(one)) is not None}


def _number(quantity: str) -> float:
    """A quantity as the adapter writes it: in thousandths or whole."""
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def _autoscaler() -> Document:
    found: Any = yaml.safe_load((_EXAMPLES / "hpa-core.yaml").read_text())
    found["metadata"] = {"name": NAME, "namespace": NAMESPACE}
    found["spec"]["scaleTargetRef"]["name"] = NAME
    found["spec"]["maxReplicas"] = 3
    for direction in ("scaleUp", "scaleDown"):
        found["spec"]["behavior"][direction]["stabilizationWindowSeconds"] = 10
    return dict(found)


def _starved() -> str:
    """The shipped recording rules, and the alert for who waits on a full GPU, over seconds."""
    recording = yaml.safe_load(_shortened((_RULES / "mgpu-recording.yaml").read_text()))
    alerts = yaml.safe_load(_shortened((_RULES / "mgpu-alerts.yaml").read_text()))
    rules = [
        {**rule, "for": "10s"}
        for group in alerts["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "MgpuContainerStarved"
    ]
    return yaml.safe_dump({"groups": [*recording["groups"], {"name": "starved", "rules": rules}]})


def _shortened(rules: str) -> str:
    """The same rules over seconds."""
    return re.sub(
        r"\[(3|5|15)m\]|offset 3m",
        lambda found: re.sub(r"\d+m", f"{_WINDOW_S}s", found[0]),
        rules,
    )
