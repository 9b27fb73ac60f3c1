"""A fleet to look at: three simulated nodes, a real Prometheus with the rules, and Grafana.

``make demo`` starts it and says where to look; Ctrl-C, or the end of one program, ends all of it.
Prometheus is the machine's own, or is got by ``tools/install.py``. Grafana needs Docker.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self, TextIO
from urllib.error import HTTPError
from urllib.request import urlopen

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # it is run as a module of the repository

from tools.install import ToolError, provide  # noqa: E402 - see above

NODES = {  # name → what it simulates, what it is, the port that is tried first
    "gpu-node-1": ("demo", "Kubernetes", 10045),
    "hpc-node-1": ("hpc", "Slurm, containers, users", 10046),
    "mig-node-1": (str(ROOT / "examples/demo/mig.yaml"), "Kubernetes with MIG", 10047),
}
PROMETHEUS_PORT, GRAFANA_PORT = 9090, 3000
GRAFANA = "grafana/grafana:12.1.1"
READY = {"exporter": "listening on", "prometheus": "Server is ready to receive web requests"}
LAST_LINES = 20
END_S = 15
ALERTS = ("/alerts", "/classic/alerts")  # Prometheus's own page of them; Debian's is the second
ALERT = "MgpuGpuUsedWithoutAllocation"  # its pod is there for 30 s of every 3 minutes
WAITING = "inference/chat-7b-6c9f7d9c5b-x2lqz"  # a pod of gpu-node-1 that waits for its neighbours
# What the page of a runbook puts into its commands.
OF_ALERT = "?node={{ $labels.instance }}" + "".join(
    f"&{label}={{{{ $labels.{label} }}}}" for label in ("uuid", "gpu", "namespace", "pod")
)
RUNBOOK = re.compile(r"https://github\.com/\S+/docs/runbooks/(\w+)\.md")


class Program:
    """A program with its log. In a session of its own: Ctrl-C at the terminal is for us."""

    def __init__(self, name: str, command: Sequence[str], ready: str = "") -> None:
        self.name = name
        self.lines: list[str] = []
        self.ready = threading.Event()
        self._words = ready
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - see Popen
        for line in self.process.stdout:
            self.lines = [*self.lines[1 - LAST_LINES :], line]
            if self._words in line:
                self.ready.set()
        self.ready.set()  # it ended: nobody waits for it any longer

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()


def free_port(wanted: int) -> int:
    """The port if nobody has it, else another."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise OSError("no port of 127.0.0.1 is free")


def quick(rules: str, page: str) -> str:
    """The alerts, evaluated as often as all else, one of which fires soon and stays.

    Their runbooks are those of a node's page.
    """
    rules = re.sub(r"(?m)^    interval: .*\n", "", rules)
    before, rule, after = rules.partition(f"alert: {ALERT}\n")
    soon = re.sub(r"( +)for: \S+", r"\1for: 10s\n\1keep_firing_for: 5m", after, count=1)
    rules = before + rule + soon
    return RUNBOOK.sub(rf"{page}/runbooks/\1{OF_ALERT}", rules)


def prometheus_config(ports: dict[str, int], folder: Path) -> str:
    """The configuration of Prometheus, and its rules in the folder; JSON is YAML."""
    targets = [
        {"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}}
        for name, port in ports.items()
    ]
    job = {"job_name": "mgpu-exporter", "honor_labels": True, "static_configs": targets}
    alerts = (ROOT / "rules/mgpu-alerts.yaml").read_text(encoding="utf-8")
    page = f"http://localhost:{next(iter(ports.values()))}"
    (folder / "alerts.yaml").write_text(quick(alerts, page), encoding="utf-8")
    rules = [str(ROOT / "rules/mgpu-recording.yaml"), str(folder / "alerts.yaml")]
    return json.dumps(
        {
            "global": {"scrape_interval": "5s", "evaluation_interval": "5s"},
            "rule_files": rules,
            "scrape_configs": [job],
        }
    )


def prometheus_program() -> str:
    """The machine's own Prometheus, else one that is built once and has no pages of its own."""
    found = shutil.which("prometheus") or shutil.which("prometheus3")
    if found:
        return found
    print("No Prometheus on this machine: it is built once, in some minutes …", flush=True)
    return str(provide("prometheus3"))


def alerts_page(prometheus: int) -> str | None:
    """The path of its page of the alerts; None if this Prometheus has no pages."""
    for path in ALERTS:
        try:
            urlopen(f"http://127.0.0.1:{prometheus}{path}", timeout=10).close()
        except HTTPError:
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


def where_to_look(
    ports: dict[str, int], prometheus: int, alerts: str | None, *, grafana: bool
) -> Iterator[str]:
    """The lines that say so."""
    yield "Three simulated nodes, scraped by Prometheus with the rules. Look at"
    for name, port in ports.items():
        yield f"  http://localhost:{port}  the page of {name}: {NODES[name][1]}"
    if alerts:
        yield f"  http://localhost:{prometheus}{alerts}  Prometheus; queries: docs/questions.md"
    else:
        yield f"  http://localhost:{prometheus}/api/v1/alerts  Prometheus; this one has no pages"
    yield f"  There {ALERT} fires within two minutes: here its 'for' is 10 s"
    top = ".venv/bin/mgpu-exporter top --prometheus"
    yield f"  {top} http://localhost:{prometheus}  the fleet in a terminal"
    why = f".venv/bin/mgpu-exporter why {WAITING} --prometheus"
    yield f"  {why} http://localhost:{prometheus}  what slows this pod"
    if grafana:
        yield f"  http://localhost:{GRAFANA_PORT}  Grafana with the boards, once its image is here"
    else:
        yield "  No Grafana: that needs Docker. The boards are dashboards/*.json."
    yield "Rates need a minute or two. Ctrl-C ends all of it."


def run(out: TextIO, folder: Path, ended: threading.Event) -> int:
    """Start all, say where to look, and wait for the end."""
    ports = {name: free_port(port) for name, (_, _, port) in NODES.items()}
    prometheus = free_port(PROMETHEUS_PORT)
    config = folder / "prometheus.yml"
    config.write_text(prometheus_config(ports, folder), encoding="utf-8")
    store = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}")
    listen = f"--web.listen-address=127.0.0.1:{prometheus}"
    with ExitStack() as stack:
        programs = [
            stack.enter_context(Program(name, _serve(name, port), READY["exporter"]))
            for name, port in ports.items()
        ]
        command = [prometheus_program(), *store, listen]
        programs.append(stack.enter_context(Program("prometheus", command, READY["prometheus"])))
        for one in programs:
            one.ready.wait()
        grafana = grafana_command(prometheus)
        if grafana:
            stack.enter_context(Program("grafana", grafana))
        if all(one.process.poll() is None for one in programs):
            alerts = alerts_page(prometheus)
            lines = where_to_look(ports, prometheus, alerts, grafana=bool(grafana))
            out.write("\n".join((*lines, "")))
            out.flush()
        for one in programs:
            threading.Thread(target=_watch, args=(one, ended), daemon=True).start()
        ended.wait()
        failed = [one for one in programs if one.process.poll() is not None]
    for one in failed:
        print(f"{one.name} ended:\n{''.join(one.lines)}", file=sys.stderr)
    return 1 if failed else 0


def _serve(name: str, port: int) -> list[str]:
    flags = (
        *(f"--simulate={NODES[name][0]}", f"--node.name={name}"),
        *(f"--web.listen-address=127.0.0.1:{port}", "--metrics.enable=contention"),
    )
    return [sys.executable, "-m", "exporter", "serve", *flags]


def _watch(program: Program, ended: threading.Event) -> None:
    program.process.wait()
    ended.set()


def main() -> int:
    """Run until Ctrl-C."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory(prefix="mgpu-demo-") as folder:
        try:
            return run(sys.stdout, Path(folder), ended)
        except (ToolError, OSError) as error:
            print(f"make demo: {error}", file=sys.stderr)
            return 1


if __name__ == "__main__":
    sys.exit(main())
