"""Starts the fleet, says where to look, and ends it: ``make demo``."""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # it is run as a module of the repository

from tools.demo import access  # noqa: E402 - see above
from tools.demo.fleet import (  # noqa: E402
    BLOCKS,
    EXPORTER_READY,
    NODES,
    PROMETHEUS_PORT,
    PROMETHEUS_READY,
    alerts_page,
    grafana_command,
    prometheus_config,
    prometheus_program,
    promtool,
    serve,
)
from tools.demo.guide import Places, pages, where_to_look  # noqa: E402
from tools.demo.programs import Program, are_ready, free_port  # noqa: E402
from tools.install import ToolError  # noqa: E402


def run(out: TextIO, folder: Path, ended: threading.Event) -> int:
    """Start all, say where to look, and wait for the end."""
    began_s = int(time.time())
    ports = {name: free_port(node.port) for name, node in NODES.items()}
    config = folder / "prometheus.yml"
    config.write_text(prometheus_config(ports, folder), encoding="utf-8")
    with ExitStack() as stack:
        kubeconfig = stack.enter_context(access.reviews(folder))

        def start(name: str, command: list[str], ready: str = "") -> Program:
            return stack.enter_context(Program(name, command, ready))

        def say(lines: Iterator[str]) -> None:
            if all(one.process.poll() is None for one in programs):
                out.write("\n".join((*lines, "")))
                out.flush()

        programs = [
            start(name, serve(name, port, kubeconfig), EXPORTER_READY)
            for name, port in ports.items()
        ]
        if are_ready(programs, ended):
            say(pages(ports))
        failed = _backfilled(start, folder, began_s, ended)
        prometheus = free_port(PROMETHEUS_PORT)  # asked late: the day of history takes its time
        if not failed and not ended.is_set():
            command = [
                *(prometheus_program(), f"--config.file={config}"),
                *(f"--storage.tsdb.path={folder / BLOCKS}",),
                f"--web.listen-address=127.0.0.1:{prometheus}",
            ]
            programs.append(start("prometheus", command, PROMETHEUS_READY))
        if not failed and are_ready(programs, ended):
            grafana = grafana_command(prometheus)
            if grafana:
                start("grafana", grafana)
            places = Places(ports, prometheus, alerts_page(prometheus), folder, bool(grafana))
            say(where_to_look(places))
            for one in programs:
                threading.Thread(target=_watch, args=(one, ended), daemon=True).start()
            ended.wait()
            failed = [one for one in programs if one.process.poll() is not None]
    for one in failed:
        print(f"{one.name} ended:\n{''.join(one.lines)}", file=sys.stderr)
    return 1 if failed else 0


def _backfilled(
    start: Callable[..., Program], folder: Path, until_s: int, ended: threading.Event
) -> list[Program]:
    """Write the day before into the folder of Prometheus; returns the programs that failed."""
    days = {name: folder / f"{name}.om" for name in NODES}
    module = [sys.executable, "-m", "tools.demo.history"]
    made = [
        start(f"history of {name}", [*module, NODES[name].scenario, name, str(until_s), str(day)])
        for name, day in days.items()
    ]
    if not are_ready(made, ended):
        return []
    failed = [one for one in made if one.process.wait()]
    if failed:
        return failed
    whole = folder / "day.om"
    text = "".join(day.read_text(encoding="utf-8") for day in days.values())
    whole.write_text(f"{text}# EOF\n", encoding="utf-8")
    blocks = ["tsdb", "create-blocks-from", "--max-block-duration=48h", "openmetrics"]
    written = start("promtool", [promtool(), *blocks, str(whole), str(folder / BLOCKS)])
    return [written] if are_ready([written], ended) and written.process.wait() else []


def _watch(program: Program, ended: threading.Event) -> None:
    program.process.wait()
    ended.set()


def main() -> int:
    """Run until Ctrl-C."""
    argparse.ArgumentParser(
        prog="make demo", description="Starts simulated nodes and a Prometheus to look at."
    ).parse_args()
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
