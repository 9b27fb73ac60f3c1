"""A real Prometheus that is told what it would have scraped: hours of it in a moment.

Pages reach it by remote write, stale markers where a series left its page, as a scrape leaves them
(Prometheus, "Staleness"), and ``up`` beside them.
"""

import json
import re
import socket
import struct
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml

from exporter.metrics.families import FAMILIES, PREFIX
from tests.e2e.programs import eventually

Labels = tuple[tuple[str, str], ...]

STALE = struct.pack("<Q", 0x7FF0_0000_0000_0002)  # Prometheus model/value/value.go, StaleNaN
LABEL = re.compile(r'(\w+)="([^"\\]*)"')
NAMES = {family.full_name for family in FAMILIES}
OF_HISTOGRAM = re.compile(r"_(bucket|count|sum|created)$")


class Target(NamedTuple):
    """A scraped exporter: its labels, and whether Prometheus honours those of the page."""

    labels: Mapping[str, str]
    honors: bool = True

    def label(self, own: Mapping[str, str]) -> Labels:
        """The labels of a series as Prometheus stores them."""
        clash = self.labels.keys() & own.keys()
        if self.honors:
            stored = {**self.labels, **own}
        else:
            renamed = {f"exported_{k}" if k in clash else k: v for k, v in own.items()}
            stored = {**renamed, **self.labels}
        return _sorted({k: v for k, v in stored.items() if v})


class Store:
    """A Prometheus without targets. ``query`` asks it as of a time."""

    def __init__(
        self,
        folder: Path,
        rules: Sequence[Path] = (),
        program: str = "prometheus",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        file = folder / "prometheus.yml"
        kept = {"tsdb": {"out_of_order_time_window": "100d"}}  # what rules record comes later
        wanted = {"rule_files": [str(path) for path in rules], "storage": kept, **(config or {})}
        file.write_text(json.dumps(wanted))
        # Labels as they are sent: made once for each series of a target, and quick to look up.
        self._shown: dict[object, set[bytes]] = {}  # by what wrote them
        self._known: dict[tuple[Labels, bool], dict[str, bytes]] = {}  # by target and series
        self._process = subprocess.Popen(
            [
                program,
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                "--storage.tsdb.retention.time=100y",
                # An answer in the middle of a compaction lacked samples (Prometheus 3).
                "--storage.tsdb.min-block-duration=10y",
                "--storage.tsdb.max-block-duration=10y",
                f"--web.listen-address={self.address}",
                "--web.enable-remote-write-receiver",
                "--log.level=error",
            ],
        )

    def scrape(self, target: Target, page: str | None, at: float) -> None:
        """Let it have what a scrape of a page at this time gives; None is a scrape that failed."""
        writer = _sorted(target.labels)
        known = self._known.setdefault((writer, target.honors), {})
        samples = {}
        for series, value in _samples(page or ""):
            if (labels := known.get(series)) is None:
                labels = known[series] = _labels(target.label(dict(_named(series))))
            samples[labels] = value
        samples[_labels(_sorted({"__name__": "up", **target.labels}))] = float(page is not None)
        self._show(writer, samples, at)

    def evaluate(self, rules: Iterable[Mapping[str, Any]], at: float) -> None:
        """Let it have what recording rules give at this time, one after another, as it does."""
        for number, rule in enumerate(rules):
            named = {"__name__": rule["record"], **rule.get("labels", {})}
            found = self.query(rule["expr"], at)
            values = {
                _labels(_sorted({**one["metric"], **named})): float(one["value"][1])
                for one in found
            }
            assert len(values) == len(found), rule
            self._show(number, values, at)

    def _show(self, writer: object, values: Mapping[bytes, float], at: float) -> None:
        """Writes values, and stale markers for what the same writer had before."""
        before, self._shown[writer] = self._shown.get(writer, set()), set(values)
        samples = {labels: struct.pack("<d", value) for labels, value in values.items()}
        samples |= dict.fromkeys(before - samples.keys(), STALE)
        # As ``sent``, but what is the same in all series of a scrape is made once.
        head, tail = sent((), [(round(at * 1000), STALE)]).split(STALE)
        self.write(labels + head + value + tail for labels, value in samples.items())

    def record(self, rules: Path, since: int, until: int, interval: str) -> None:
        """Let it have what these rules record in a range; ``interval`` is of groups without one."""
        for group in yaml.safe_load(rules.read_text())["groups"]:
            span = {"start": str(since), "end": str(until), "step": group.get("interval", interval)}
            for rule in group["rules"]:
                own = {**rule.get("labels", {}), "__name__": rule["record"]}
                self.write(
                    sent(
                        tuple(sorted((one["metric"] | own).items())),
                        [(at * 1000, struct.pack("<d", float(each))) for at, each in one["values"]],
                    )
                    for one in self.get("query_range", query=rule["expr"], **span)["result"]
                )

    def write(self, series: Iterable[bytes]) -> None:
        """Writes series, each as ``sent`` makes it."""
        message = b"".join(_field(1, one) for one in series)
        if not message:
            return
        request = urllib.request.Request(
            f"http://{self.address}/api/v1/write",
            data=_snappy(message),
            headers={"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf"},
        )
        with urllib.request.urlopen(request, timeout=60):  # noqa: S310 - loopback
            pass

    def get(self, path: str, **arguments: str) -> Any:
        """The data of an answer of its API; what it refuses fails the test in its own words."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode()}") from None

    def query(self, expression: str, at: float) -> list[dict[str, Any]]:
        """The vector that an expression gives at a time."""
        return list(self.get("query", query=expression, time=f"{at:.3f}")["result"])

    def values(self, expression: str, at: float, *by: str) -> dict[tuple[str, ...], float]:
        """The same, as numbers by these labels."""
        return {
            tuple(one["metric"].get(label, "") for label in by): float(one["value"][1])
            for one in self.query(expression, at)
        }

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=30):
                return True
        except OSError:
            return False

    def __enter__(self) -> Self:
        eventually(self._ready, "Prometheus is ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(60)


def _sorted(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def parsed(page: str) -> Iterable[tuple[str, Labels, float]]:
    """The samples of a page in the text format; its label values hold nothing that is escaped.

    A written page may have no family of ours that there is not.
    """
    for series, value in _samples(page):
        (_, name), *own = _named(series)
        yield name, tuple(own), value


@lru_cache(maxsize=128)  # a page has many readers: targets, worlds of labels
def _samples(page: str) -> Sequence[tuple[str, float]]:
    found = []
    for line in page.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            found.append((series, float(value)))
    return found


@lru_cache(maxsize=100_000)
def _named(series: str) -> Labels:
    """The name of a series as Prometheus has it, and its own labels."""
    name = series.partition("{")[0]
    assert not name.startswith(PREFIX) or {name, OF_HISTOGRAM.sub("", name)} & NAMES, name
    return ("__name__", name), *LABEL.findall(series)


def sent(labels: Labels, samples: Iterable[tuple[int, bytes]]) -> bytes:
    """prompb.TimeSeries; a sample is its time in milliseconds and its value."""
    return _labels(labels) + b"".join(
        _field(2, b"\x09" + value + b"\x10" + _varint(at_ms)) for at_ms, value in samples
    )


@lru_cache(maxsize=100_000)
def _labels(labels: Labels) -> bytes:
    return b"".join(
        _field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in labels
    )


def _field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(data)) + data


@lru_cache(maxsize=10_000)
def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _snappy(data: bytes) -> bytes:
    """Snappy's block format, as one literal: nothing is compressed."""
    return _varint(len(data)) + b"\xfc" + (len(data) - 1).to_bytes(4, "little") + data
