"""A real VictoriaMetrics that is given what a Prometheus would have scraped."""

import re
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.programs import eventually
from tests.history import Scrape, openmetrics


@contextmanager
def victoriametrics(folder: Path, scrapes: Sequence[Scrape]) -> Iterator[str]:
    """The address of a server that has these samples."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    places = [f"-storageDataPath={folder / 'vm'}", f"-httpListenAddr={address}"]
    kept = ["-retentionPeriod=100y", "-loggerLevel=ERROR"]
    process = subprocess.Popen(["victoria-metrics", *places, *kept])

    def answers(path: str, body: bytes | None = None) -> bool:
        try:
            request = urllib.request.Request(f"http://{address}{path}", data=body)
            with urllib.request.urlopen(request, timeout=60):  # noqa: S310 - loopback
                return True
        except OSError:
            return False

    try:
        eventually(lambda: answers("/health"), "VictoriaMetrics is there")
        text = openmetrics(scrapes).removesuffix("# EOF\n")
        in_ms = re.sub(r"(?m) (\d+)$", r" \g<1>000", text)
        assert answers("/api/v1/import/prometheus", in_ms.encode())
        assert answers("/internal/force_flush")
        yield address
    finally:
        process.terminate()
        process.wait(60)
