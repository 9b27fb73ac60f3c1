"""The exporter and Prometheus as processes, for the end-to-end tests."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from prometheus_client.parser import text_string_to_metric_families

T = TypeVar("T")

PATIENCE_S = 120.0  # what is waited for comes in seconds, but the machine may do much else
LISTENING = re.compile(r"listening on (https?://[0-9.:]+)")


class Page:
    """A scraped page, by family."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                self._samples.setdefault(sample.name, []).append((sample.labels, sample.value))

    def all(self, name: str, /, **labels: str) -> list[tuple[Mapping[str, str], float]]:
        """The samples of a name that carry these labels."""
        return [
            (own, value)
            for own, value in self._samples.get(name, [])
            if labels.items() <= own.items()
        ]

    def value(self, name: str, /, **labels: str) -> float | None:
        """The one sample of a name with these labels; None if absent."""
        found = self.all(name, **labels)
        assert len(found) <= 1, (name, labels, found)
        return found[0][1] if found else None

    def names(self, **labels: str) -> set[str]:
        """The names of the samples that carry these labels."""
        return {name for name in self._samples if self.all(name, **labels)}

    def counters(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every counter sample on the page."""
        return {
            (name, tuple(sorted(labels.items()))): value
            for name, samples in self._samples.items()
            if name.endswith("_total")
            for labels, value in samples
        }


def eventually(ask: Callable[[], T | None], what: str, patience_s: float = PATIENCE_S) -> T:
    """Ask another process again and again until it answers something true."""
    deadline = time.monotonic() + patience_s
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}"
        time.sleep(0.05)  # another process's state has no event to wait for


# The machine may have a kubelet, or what one left: tests that want one name their own.
OWN_NODE = {"MGPU_KUBELET_POD_RESOURCES_SOCKET": "none"}


class Exporter:
    """``mgpu-exporter serve`` as a process on a free port of the loopback interface."""

    def __init__(self, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        self.log: list[str] = []
        self._url: str | None = None
        self._page: Page | None = None
        self._heard = threading.Condition()
        self.process = subprocess.Popen(
            self.command("serve", "--web.listen-address=127.0.0.1:0", *flags),
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **OWN_NODE, **(environment or {})},
        )
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def command(self, *arguments: str) -> list[str]:
        """The command line that runs mgpu-exporter with these arguments."""
        return [sys.executable, "-m", "exporter", *arguments]

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._heard:
                self.log.append(line)
                found = LISTENING.search(line)
                if found:
                    self._url = found[1]
                self._heard.notify_all()
        with self._heard:
            self._heard.notify_all()

    def wait_for_log(self, words: str, patience_s: float = PATIENCE_S) -> str:
        """The first log line with these words."""

        def said() -> str | None:
            return next((line for line in self.log if words in line), None)

        with self._heard:
            self._heard.wait_for(lambda: said() or self.process.poll() is not None, patience_s)
            line = said()
        assert line is not None, f"never said {words!r}; it said:\n{''.join(self.log)}"
        return line

    @property
    def url(self) -> str:
        """Where it listens."""
        self.wait_for_log("listening on")
        assert self._url is not None
        return self._url

    def get(self, path: str, timeout_s: float = 30.0) -> tuple[int, str]:
        """Status and body of one request."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=timeout_s) as answer:  # noqa: S310 - loopback
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def scrape(self) -> Page:
        """One scrape; anything but 200 fails the test."""
        status, text = self.get("/metrics")
        assert status == 200, text
        # Who waits for something sees the page of a cycle many times: it is parsed once.
        if self._page is None or self._page.text != text:
            self._page = Page(text)
        return self._page

    def when(
        self, true: Callable[[Page], object], what: str, patience_s: float = PATIENCE_S
    ) -> Page:
        """The first page of which this is true."""

        def look() -> Page | None:
            page = self.scrape()
            return page if true(page) else None

        return eventually(look, what, patience_s)

    def ready(self) -> Self:
        """Wait until the first cycle is done."""
        eventually(lambda: self.get("/-/ready")[0] == 200, "ready")
        return self

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self._reader.join(60)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return status

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Prometheus:
    """A real Prometheus that scrapes one exporter, or several by their names, label ``node``.

    ``job`` holds more lines of its scrape job, ``honor`` whether the exporter's own labels stay
    where its target has labels of the same names. ``program`` holds further flags too.
    """

    def __init__(
        self,
        targets: str | Mapping[str, str],
        folder: Path,
        interval: str,
        job: str = "",
        *,
        honor: bool = True,
        program: Sequence[str] = ("prometheus",),
    ) -> None:
        named = {"": targets} if isinstance(targets, str) else targets
        groups = [
            {"targets": [url.partition("://")[2]], "labels": {"node": name} if name else {}}
            for name, url in named.items()
        ]
        self._count = len(groups)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        config = folder / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: {interval}, scrape_timeout: 1s}}\n"
            "scrape_configs:\n"
            f"  - job_name: mgpu\n    honor_labels: {str(honor).lower()}\n"
            f"    static_configs: {json.dumps(groups)}\n{job}"
        )
        self.process = subprocess.Popen(
            [
                *program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={self.address}",
                "--log.level=error",
            ],
        )

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The vector that an expression gives."""
        arguments = {"query": expression} | ({} if at is None else {"time": f"{at:.3f}"})
        url = f"http://{self.address}/api/v1/query?{urllib.parse.urlencode(arguments)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return list(json.load(answer)["data"]["result"])

    def values(
        self, expression: str, by: Sequence[str], at: float | None = None
    ) -> dict[tuple[str, ...], float]:
        """The same, as numbers by these labels."""
        return {
            tuple(one["metric"].get(label, "") for label in by): float(one["value"][1])
            for one in self.query(expression, at)
        }

    def up(self) -> bool:
        """Whether it has scraped its own job's targets; a test may have added jobs."""
        try:
            found = self.query('up{job="mgpu"}')
            return [one["value"][1] for one in found] == ["1"] * self._count
        except OSError:
            return False

    def __enter__(self) -> Self:
        eventually(self.up, "Prometheus scrapes every exporter")
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(60)
