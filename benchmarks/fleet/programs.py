"""The servers: found or got from Debian, started on the loopback interface, measured."""

import shutil
import socket
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.programs import eventually

CACHE = Path(__file__).parent / ".cache"
PACKAGES = {
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "victoria-metrics": "victoria-metrics",
}
END_WITHIN_S = 60


def program(name: str) -> str:
    """Where a program is; if it is not installed, it is got from Debian into the cache.

    Raises:
        SystemExit: it cannot be had; the text names it.

    """
    here = shutil.which(name) or shutil.which(name, path=str(CACHE / "usr" / "bin"))
    if here:
        return here
    package = PACKAGES[name]
    CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        try:
            _run(["apt-get", "download", package], scratch)
            (deb,) = Path(scratch).glob("*.deb")
            _run(["dpkg", "-x", str(deb), str(CACHE)], scratch)
        except (OSError, ValueError, subprocess.CalledProcessError) as error:
            words = getattr(error, "stderr", "") or str(error)
            raise SystemExit(f"{name}: not installed, and not to be had: {words.strip()}") from None
    return str(CACHE / "usr" / "bin" / name)


def _run(command: Sequence[str], folder: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)


class Samples(NamedTuple):
    """A program's own page of metrics."""

    found: dict[str, list[tuple[dict[str, str], float]]]

    def sum(self, name: str, **labels: str) -> float:
        """The sum of a name's samples that carry these labels; 0 of none."""
        return sum(v for own, v in self.found.get(name, ()) if labels.items() <= own.items())


class Usage(NamedTuple):
    """What a process has used: CPU seconds since its start, resident bytes now."""

    cpu_s: float
    rss_bytes: int


class Server:
    """A program that listens on a free port of the loopback interface, and serves /metrics."""

    def __init__(self, command: Callable[[str], Sequence[str]], log: Path, ready: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        self._log, self._ready_path = log, ready
        line = command(self.address)
        self._program = line[0]
        with log.open("wb") as file:
            self._process = subprocess.Popen(line, stdout=file, stderr=subprocess.STDOUT)
        self._seen = psutil.Process(self._process.pid)

    def get(self, path: str, data: bytes | None = None) -> bytes:
        """The body of an answer; ``data`` is posted."""
        request = urllib.request.Request(f"http://{self.address}{path}", data=data)
        with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - loopback
            return bytes(answer.read())

    def metrics(self) -> Samples:
        """What it says of itself."""
        page = self.get("/metrics").decode()
        found: dict[str, list[tuple[dict[str, str], float]]] = {}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return Samples(found)

    def usage(self) -> Usage:
        """What it has used."""
        times = self._seen.cpu_times()
        return Usage(times.user + times.system, self._seen.memory_info().rss)

    def _ready(self) -> bool:
        if self._process.poll() is not None:
            raise SystemExit(f"{self._program}: ended; {self._log.read_text()[-2000:]}")
        try:
            self.get(self._ready_path)
        except OSError:
            return False
        return True

    def __enter__(self) -> Self:
        eventually(self._ready, f"{self.address} is ready")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(END_WITHIN_S)


def prometheus(config: str, folder: Path, *, agent: bool = False) -> Server:
    """Prometheus on this configuration; as an agent it stores only what it has yet to send."""
    file = folder / "prometheus.yml"
    file.write_text(config)
    role = (
        ["--enable-feature=agent", f"--storage.agent.path={folder / 'data'}"]
        if agent
        else [f"--storage.tsdb.path={folder / 'data'}"]
    )
    return Server(
        lambda address: [
            program("prometheus"),
            f"--config.file={file}",
            f"--web.listen-address={address}",
            "--log.level=warn",
            *role,
        ],
        folder / "log",
        "/-/ready",
    )


def victoria_metrics(folder: Path) -> Server:
    """VictoriaMetrics, one node."""
    return Server(
        lambda address: [
            program("victoria-metrics"),
            f"-storageDataPath={folder / 'data'}",
            f"-httpListenAddr={address}",
            "-loggerLevel=WARN",
        ],
        folder / "log",
        "/health",
    )


def bytes_below(folder: Path) -> int:
    """How much the files below a folder take."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
