"""containerd and the kubelet: a node that runs pods."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.cluster.controlplane import ControlPlane
from tools.cluster.images import PAUSE
from tools.cluster.kubectl import Document, Kubectl
from tools.cluster.programs import Program, eventually
from tools.cluster.sandbox import CGROUP, NODE, NODE_IP
from tools.cluster.tools import program
from tools.image.build import NAME

DOMAIN = "cluster.local"
_SOCKET = "/run/containerd/containerd.sock"
# restrict_oom_score_adj: without CAP_SYS_RESOURCE no process may be made safer than it was.
_CONTAINERD = f"""
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "%s"
"""
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": "10.92.0.0/16"}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
    ],
}


class Node:
    """The node's programs. ``static_pods`` is the folder that the kubelet takes pods from."""

    name = NODE

    def __init__(self, state: Path, logs: Path, plane: ControlPlane, kubectl: Kubectl) -> None:
        self._state, self._kubectl, self._plane = state, kubectl, plane
        self.static_pods = state / "static-pods"
        self.static_pods.mkdir()
        self.containerd = Program("containerd", self._containerd(), logs)
        self.kubelet = Program("kubelet", self._kubelet(), logs)

    def start(self, images: list[Path]) -> None:
        """Start both, with these images; wait until the node is Ready."""
        self.containerd.start()
        eventually(lambda: self._answers("version"), "containerd answers")
        for image in images:
            self.ctr("images", "import", f"--base-name={NAME.partition(':')[0]}", str(image))
        self.kubelet.start()
        self.wait()

    @contextmanager
    def without_kubelet(self) -> Iterator[None]:
        """The kubelet has died; it is started anew after."""
        self.kubelet.stop(signal.SIGKILL)
        try:
            yield
        finally:
            self.kubelet.start()
            self.wait()

    def wait(self) -> None:
        """Wait until the API server has the node as Ready."""
        eventually(self._is_ready, "the node is Ready")

    def ctr(self, *arguments: str) -> str:
        """What a command of containerd's own client prints."""
        command = ["ctr", f"--address={_SOCKET}", "--namespace=k8s.io", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def pid(self, container_id: str) -> int | None:
        """The first process of a running container, as the runtime has it."""
        for line in self.ctr("tasks", "list").splitlines()[1:]:
            name, pid, state = line.split()
            if name == container_id and state == "RUNNING":
                return int(pid)
        return None

    def pid_of(self, pod: str, container: str) -> int | None:
        """The same by the pod's and the container's names, without the API server."""
        wanted = {"io.kubernetes.pod.name": pod, "io.kubernetes.container.name": container}
        chosen = ",".join(f'labels."{key}"=={value}' for key, value in wanted.items())
        found = self.ctr("containers", "list", "--quiet", chosen).split()
        return next((pid for one in found if (pid := self.pid(one)) is not None), None)

    def _answers(self, *arguments: str) -> bool:
        self.containerd.check()
        try:
            return bool(self.ctr(*arguments))
        except subprocess.CalledProcessError:
            return False

    def _is_ready(self) -> bool:
        self.kubelet.check()
        nodes = self._kubectl.get("nodes")["items"]
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for node in nodes
            for condition in node["status"].get("conditions", [])
        )

    def _containerd(self) -> list[str]:
        networks = self._state / "networks"
        networks.mkdir()
        (networks / "10-pods.conflist").write_text(json.dumps(_NETWORK))
        config = self._state / "containerd.toml"
        config.write_text(_CONTAINERD % networks)
        return [
            "containerd",
            f"--config={config}",
            f"--root={self._state / 'containerd'}",
            "--state=/run/containerd",
            f"--address={_SOCKET}",
        ]

    def _kubelet(self) -> list[str]:
        config = self._state / "kubelet.json"
        config.write_text(json.dumps(self._kubelet_settings()))
        who = self._plane.kubeconfig(f"system:node:{NODE}", "system:nodes")
        return [
            program("kubelet"),
            f"--config={config}",
            f"--kubeconfig={who}",
            f"--hostname-override={NODE}",
            f"--node-ip={NODE_IP}",
        ]

    def _kubelet_settings(self) -> Document:
        resolver = self._state / "resolv.conf"
        resolver.write_text("")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "staticPodPath": str(self.static_pods),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self._plane.authority.own.crt)},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{CGROUP}",
            "failCgroupV1": False,  # the default refuses nodes with cgroup v1
            "failSwapOn": False,
            "resolvConf": str(resolver),
            "clusterDNS": [NODE_IP],
            "clusterDomain": DOMAIN,
            "makeIPTablesUtilChains": False,
            "oomScoreAdj": 0,  # less needs CAP_SYS_RESOURCE
            "localStorageCapacityIsolation": False,
            "evictionHard": {"memory.available": "0%", "nodefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
            # An image that was once pulled by another name would be pulled for each pod again.
            "imagePullCredentialsVerificationPolicy": "NeverVerify",
            "fileCheckFrequency": "1s",  # of the static pods' folder
            "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
            "shutdownGracePeriod": "0s",
        }
