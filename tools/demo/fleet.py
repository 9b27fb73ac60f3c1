"""What is started: the simulated nodes, a Prometheus with the rules, Grafana."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from tools.demo.access import OPERATOR
from tools.demo.programs import free_port
from tools.install import provide

ROOT = Path(__file__).parents[2]


class Node(NamedTuple):
    """A simulated node: its scenario, what it is, the port that is tried first."""

    scenario: str
    about: str
    port: int


NODES = {
    "gpu-node-1": Node("demo", "Kubernetes", 10045),
    "hpc-node-1": Node("hpc", "Slurm, containers, users", 10046),
    "mig-node-1": Node(str(ROOT / "examples/demo/mig.yaml"), "Kubernetes with MIG", 10047),
    "gpu-node-2": Node(
        str(ROOT / "examples/demo/trouble.yaml"),
        "where a card is lost and a pod waits",
        10048,
    ),
}
GUARDED = "gpu-node-2"
"""The node that asks for tokens."""
PROMETHEUS_PORT, GRAFANA_PORT = 9090, 3000
GRAFANA = "grafana/grafana:12.1.1"
EXPORTER_READY, PROMETHEUS_READY = "listening on", "Server is ready to receive web requests"
BLOCKS = "tsdb"  # Prometheus' folder
JOB = "mgpu-exporter"
PAGES_OF_ALERTS = ("/alerts", "/classic/alerts")  # Prometheus's own; Debian's is the second
# Alerts that are to be seen soon. The pod of the first is there for 30 s of every 3 minutes.
ALERTS = ("MgpuGpuUsedWithoutAllocation", "MgpuGpuLost", "MgpuContainerStarved")
# What the page of a runbook puts into its commands.
OF_ALERT = "?node={{ $labels.instance }}" + "".join(
    f"&{label}={{{{ $labels.{label} }}}}"
    for label in ("uuid", "gpu", "namespace", "pod", "quantity")
)
RUNBOOK = re.compile(r"https://github\.com/\S+/docs/runbooks/(\w+)\.md")


def serve(name: str, port: int, kubeconfig: Path) -> list[str]:
    """The command of a node's exporter."""
    guarded = ("--web.kubernetes-access", f"--kubeconfig={kubeconfig}") if name == GUARDED else ()
    flags = (
        *(f"--simulate={NODES[name].scenario}", f"--node.name={name}", *guarded),
        *(f"--web.listen-address=127.0.0.1:{port}", "--metrics.enable=contention"),
    )
    return [sys.executable, "-m", "exporter", "serve", *flags]


def quick(rules: str, page: str) -> str:
    """The alerts, evaluated as often as all else, some of which fire soon and stay.

    Their runbooks are those of a node's page.
    """
    rules = re.sub(r"(?m)^    interval: .*\n", "", rules)
    for alert in ALERTS:
        before, rule, after = rules.partition(f"alert: {alert}\n")
        soon = re.sub(r"( +)for: \S+", r"\1for: 10s\n\1keep_firing_for: 5m", after, count=1)
        rules = before + rule + soon
    return RUNBOOK.sub(rf"{page}/runbooks/\1{OF_ALERT}", rules)


def prometheus_config(ports: Mapping[str, int], folder: Path) -> str:
    """The configuration of Prometheus, and its rules in the folder; JSON is YAML."""

    def job(names: Sequence[str], **more: object) -> dict[str, object]:
        targets = [
            {"targets": [f"127.0.0.1:{ports[name]}"], "labels": {"instance": name, "job": JOB}}
            for name in names
        ]
        return {"honor_labels": True, "static_configs": targets, **more}

    alerts = (ROOT / "rules/mgpu-alerts.yaml").read_text(encoding="utf-8")
    page = f"http://localhost:{next(iter(ports.values()))}"
    (folder / "alerts.yaml").write_text(quick(alerts, page), encoding="utf-8")
    rules = [str(ROOT / "rules/mgpu-recording.yaml"), str(folder / "alerts.yaml")]
    open_nodes = [name for name in ports if name != GUARDED]
    shown = {"authorization": {"credentials": OPERATOR}}
    return json.dumps(
        {
            "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
            "rule_files": rules,
            "scrape_configs": [
                job(open_nodes, job_name="open"),
                job([GUARDED], job_name="guarded", **shown),
            ],
        }
    )


def prometheus_program() -> str:
    """The machine's own Prometheus, else one that is built once and has no pages of its own."""
    found = shutil.which("prometheus") or shutil.which("prometheus3")
    if found:
        return found
    print("No Prometheus on this machine: it is built once, in some minutes …", flush=True)
    return str(provide("prometheus3"))


def promtool() -> str:
    """What makes blocks of the history: Prometheus comes with it."""
    return shutil.which("promtool") or str(provide("promtool"))


def alerts_page(prometheus: int) -> str | None:
    """The path of its page of the alerts; None if this Prometheus has no pages, or has ended."""
    for path in PAGES_OF_ALERTS:
        try:
            urlopen(f"http://127.0.0.1:{prometheus}{path}", timeout=10).close()
        except URLError:
            continue
        return path
    return None


def grafana_command(prometheus: int) -> list[str] | None:
    """Grafana with the boards in a container; None where it cannot be had."""
    docker = shutil.which("docker")
    if docker is None or prometheus != PROMETHEUS_PORT or free_port(GRAFANA_PORT) != GRAFANA_PORT:
        return None
    if subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        return None
    mounts = {
        ROOT / "examples/compose/grafana/provisioning": "/etc/grafana/provisioning",
        ROOT / "dashboards": "/dashboards",
    }
    return [
        *(docker, "run", "--rm", "--network=host", "--add-host=prometheus:127.0.0.1"),
        *(f"--volume={here}:{there}:ro" for here, there in mounts.items()),
        "--env=GF_AUTH_ANONYMOUS_ENABLED=true",
        "--env=GF_SERVER_HTTP_ADDR=127.0.0.1",
        "--env=GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH=/dashboards/mgpu-overview.json",
        GRAFANA,
    ]
