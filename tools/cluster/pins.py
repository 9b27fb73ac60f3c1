"""What is built and from which version. A cached build is used as long as its line stands.

1.36 is the last minor that speaks with containerd 1.x, which is what Debian 12 has (KEP-4033).
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.36.3"
ADAPTER = "0.12.0"

_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Source:
    """A Go module and the programs made from it.

    ``staging``: the version under which the modules are published that the module's own file
    replaces by folders that are not in it; "" where there are none. ``own``: our own program's
    file, which uses the module; None where the programs are the module's. ``tags``: Go's.
    """

    module: str
    version: str
    programs: tuple[str, ...]
    linker: tuple[str, ...] = ()
    staging: str = ""
    own: Path | None = None
    tags: str = ""

    @property
    def key(self) -> str:
        """The name of the folder that holds what was built."""
        if self.own is not None:
            digest = hashlib.sha256(self.own.read_bytes()).hexdigest()
            return f"{self.own.parent.name}-{self.version}-{digest[:12]}"
        return f"{self.module.rpartition('/')[2]}-{self.version}"


_MINOR = KUBERNETES.split(".")[1]

KUBERNETES_SOURCE = Source(
    module="k8s.io/kubernetes",
    version=f"v{KUBERNETES}",
    programs=(
        "kube-apiserver",
        "kubelet",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
    ),
    linker=(
        f"-X {_VERSION}.gitVersion=v{KUBERNETES}",
        f"-X {_VERSION}.gitMajor=1",
        f"-X {_VERSION}.gitMinor={_MINOR}",
    ),
    staging=f"v0.{KUBERNETES.removeprefix('1.')}",
)
DRIVER_SOURCE = Source(
    module=KUBERNETES_SOURCE.module,
    version=KUBERNETES_SOURCE.version,
    programs=("dra-driver",),
    staging=KUBERNETES_SOURCE.staging,
    own=Path(__file__).parent / "dra-driver" / "main.go",
)
ADAPTER_SOURCE = Source("sigs.k8s.io/prometheus-adapter", f"v{ADAPTER}", ("adapter",))
SOURCES = (KUBERNETES_SOURCE, DRIVER_SOURCE, ADAPTER_SOURCE)
"""What each run needs."""

# The Prometheus Operator's module; its kinds are a folder of it. The checksum is Go's, of the
# module's files ("h1:", as in go.sum).
MONITORING = (
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
)
MONITORING_KINDS = "example/prometheus-operator-crd"

PROMETHEUS = "3.16.0"
OPERATOR_SOURCES = (
    Source(MONITORING[0], MONITORING[1], ("operator", "prometheus-config-reloader")),
    Source(
        "github.com/prometheus/prometheus",
        "v0.316.0",
        ("prometheus",),
        tags="remove_all_sd,enable_kubernetes_sd",  # Debian's discovers nothing in Kubernetes
    ),
)
"""What only the cases of the Prometheus Operator need: the quick half does without."""

# Debian packages: program that is looked for, package that brings it.
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "etcd": "etcd-server",
    "prometheus": "prometheus",
    "busybox": "busybox-static",
    "gcc": "gcc",
    "/usr/include/stdlib.h": "libc6-dev",
    "openssl": "openssl",
    "buildah": "buildah",
    "skopeo": "skopeo",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "unshare": "util-linux",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
