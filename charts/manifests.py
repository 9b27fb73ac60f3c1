"""The chart rendered for people without Helm."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

NAMESPACE = "mgpu-exporter"

_HEAD = """\
# {about}
# Rendered from charts/mgpu-exporter by `python -m charts.generate --manifests`: do not edit.
# kubectl apply --server-side -f {name}
"""

_NAMESPACE = f"""\
---
# hostPID and hostPath are beyond what the standards "baseline" and "restricted" allow.
apiVersion: v1
kind: Namespace
metadata:
  name: {NAMESPACE}
  labels:
    pod-security.kubernetes.io/enforce: privileged
"""

_OF_HELM = ("helm.sh/chart:", "app.kubernetes.io/managed-by:", "# Source:")

KUBERNETES = "1.32.0"
"""Old enough that what newer versions know only is left out."""

_RUNTIME = "# Without a RuntimeClass nvidia in the cluster: remove the line with runtimeClassName."

SETS: dict[str, tuple[str, tuple[str, ...]]] = {
    "mgpu-exporter.yaml": (
        f"The exporter with the privilege profile minimal.\n{_RUNTIME}",
        ("--set", "gpuAccess=runtimeClass"),
    ),
    "mgpu-exporter-podresources.yaml": (
        f"The exporter with the privilege profile podresources.\n{_RUNTIME}",
        ("--set", "gpuAccess=runtimeClass,profile=podresources"),
    ),
    "podmonitor.yaml": (
        "The Prometheus Operator's PodMonitor of the exporter.",
        ("--set", "podMonitor.enabled=true", "--show-only", "templates/podmonitor.yaml"),
    ),
    "prometheusrule.yaml": (
        "The recording rules and alerts for the Prometheus Operator.",
        ("--set", "prometheusRule.enabled=true", "--show-only", "templates/prometheusrule.yaml"),
    ),
}
"""File of deploy/ → what it says of itself, and Helm's arguments."""


def template(chart: Path, arguments: Sequence[str] = ()) -> str:
    """What ``helm template`` prints.

    Raises:
        subprocess.CalledProcessError: Helm refused; ``stderr`` says why.

    """
    command = ["helm", "template", "mgpu-exporter", str(chart), "--namespace", NAMESPACE]
    command += ["--kube-version", KUBERNETES, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def rendered(chart: Path) -> dict[str, str]:
    """File name → text, without what only Helm needs."""
    return {
        name: _HEAD.format(about=about, name=name) + _plain(chart, name, arguments)
        for name, (about, arguments) in SETS.items()
    }


def _plain(chart: Path, name: str, arguments: Sequence[str]) -> str:
    # Tests are run by Helm alone.
    text = template(chart, (*arguments, "--skip-tests", "--set", "tests.enabled=false"))
    lines = (line for line in text.splitlines() if not line.strip().startswith(_OF_HELM))
    namespace = _NAMESPACE if name.startswith("mgpu-exporter") else ""
    return namespace + "\n".join(lines) + "\n"
