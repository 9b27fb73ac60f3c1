"""etcd, the API server, the scheduler and the controllers."""

import json
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.programs import Page
from tools.cluster.certificates import Authority, Certificate, signing_key
from tools.cluster.programs import Program, eventually
from tools.cluster.sandbox import NODE, NODE_IP, SERVICE_IP
from tools.cluster.tools import program

_ETCD = "http://127.0.0.1:2379"
_CONTROLLERS = "127.0.0.1:10257"
SERVER = f"{SERVICE_IP}:443"
_FEATURES = "--feature-gates=DRADeviceTaintRules=true"  # on from 1.37


class ControlPlane:
    """The programs of the control plane, started with the object.

    ``authority`` signs users and servers; ``admin`` is a kubeconfig that may do everything.
    """

    def __init__(self, state: Path, logs: Path) -> None:
        pki = state / "pki"
        self.authority = Authority(pki, "cluster")
        self._state, self._logs = state, logs
        self.admin = self.kubeconfig("admin", "system:masters")
        self._tokens = signing_key(pki)
        self._front = Authority(pki / "front", "front-authority")
        self.etcd = self._etcd()
        self.server = self._server()
        self.controllers = self._controllers()
        self.scheduler = self._scheduler()
        self.programs = [self.etcd, self.server, self.controllers, self.scheduler]

    def start(self) -> None:
        """Start all: those that ask the API server when it is ready, or they end by themselves."""
        for each in (self.etcd, self.server):
            each.start()
        self.wait()
        for each in (self.controllers, self.scheduler):
            each.start()

    @contextmanager
    def away(self) -> Iterator[None]:
        """The API server is stopped meanwhile."""
        self.server.stop(signal.SIGKILL)  # its orderly end takes a minute
        try:
            yield
        finally:
            self.server.start()
            self.wait()

    def wait(self) -> None:
        """Wait until the API server says that it is ready."""
        eventually(self._is_ready, "the API server is ready")

    def kubeconfig(self, user: str, group: str) -> Path:
        """A kubeconfig for a user of a group."""
        own = self.authority.sign(user, group)
        path = self._state / f"{user.replace(':', '-')}.kubeconfig"
        cluster = {
            "server": f"https://{SERVER}",
            "certificate-authority": str(self.authority.own.crt),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": cluster}],
            "users": [{"name": user, "user": _client(own)}],
            "contexts": [{"name": "only", "context": {"cluster": "cluster", "user": user}}],
            "current-context": "only",
        }
        path.write_text(json.dumps(document))
        return path

    def blind_looks(self) -> int:
        """How often the controllers could not have a metric that an autoscaler goes by.

        Events do not say: of many like each other most are dropped (client-go's spam filter).
        """
        address = f"https://{_CONTROLLERS}/metrics"
        with urllib.request.urlopen(address, timeout=10, context=self._trust()) as answer:
            page = Page(answer.read().decode())
        name = "horizontal_pod_autoscaler_controller_metric_computation_total"
        return round(sum(value for _, value in page.all(name, error="internal")))

    def _is_ready(self) -> bool:
        for each in self.programs:
            each.check()
        try:
            with urllib.request.urlopen("http://127.0.0.1:2379/health", timeout=2):
                return self._answers()
        except OSError:
            return False

    def _answers(self) -> bool:
        address = f"https://{SERVER}/readyz"
        with urllib.request.urlopen(address, timeout=2, context=self._trust()):
            return True

    def _trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.own.crt))

    def _etcd(self) -> Program:
        command = [
            program("etcd"),
            f"--data-dir={self._state / 'etcd'}",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
        ]
        return Program("etcd", command, self._logs)

    def _server(self) -> Program:
        hosts = (SERVICE_IP, NODE_IP, "127.0.0.1", NODE, "kubernetes.default.svc")
        own = self.authority.sign("kube-apiserver", hosts=hosts)
        kubelet = self.authority.sign("kube-apiserver-kubelet-client", "system:masters")
        front = self._front.sign("front-proxy")
        command = [
            program("kube-apiserver"),
            f"--etcd-servers={_ETCD}",
            "--secure-port=443",
            f"--advertise-address={NODE_IP}",
            f"--service-cluster-ip-range={SERVICE_IP.rpartition('.')[0]}.0/24",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--runtime-config=resource.k8s.io/v1beta2=true",  # has DeviceTaintRules
            _FEATURES,
            "--enable-aggregator-routing=true",
            f"--client-ca-file={self.authority.own.crt}",
            f"--tls-cert-file={own.crt}",
            f"--tls-private-key-file={own.key}",
            f"--kubelet-client-certificate={kubelet.crt}",
            f"--kubelet-client-key={kubelet.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._tokens.crt}",
            f"--service-account-signing-key-file={self._tokens.key}",
            f"--requestheader-client-ca-file={self._front.own.crt}",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            f"--proxy-client-cert-file={front.crt}",
            f"--proxy-client-key-file={front.key}",
        ]
        return Program("kube-apiserver", command, self._logs)

    def _controllers(self) -> Program:
        who = self.kubeconfig("system:kube-controller-manager", "")
        own = self.authority.sign("kube-controller-manager", hosts=("127.0.0.1",))
        command = [
            program("kube-controller-manager"),
            f"--kubeconfig={who}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={self._tokens.key}",
            f"--root-ca-file={self.authority.own.crt}",
            "--horizontal-pod-autoscaler-sync-period=5s",
            _FEATURES,
            f"--tls-cert-file={own.crt}",
            f"--tls-private-key-file={own.key}",
            "--authorization-always-allow-paths=/healthz,/metrics",
        ]
        return Program("kube-controller-manager", command, self._logs)

    def _scheduler(self) -> Program:
        who = self.kubeconfig("system:kube-scheduler", "")
        command = [program("kube-scheduler"), f"--kubeconfig={who}", "--leader-elect=false"]
        return Program("kube-scheduler", [*command, _FEATURES], self._logs)


def _client(own: Certificate) -> dict[str, str]:
    return {"client-certificate": str(own.crt), "client-key": str(own.key)}
