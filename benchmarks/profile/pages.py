"""What pages cost. Used by ``rooms``."""

import functools
import gzip
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from exporter.collector import Collector
from exporter.metrics.text import Format, Renderer
from exporter.rows.lazy import table_of

PAGES = 12
US = 1e3


def pages(collector: Collector) -> dict[str, float]:
    """The first page of each of some Snapshots, rows and all, in both formats; medians.

    The floor of Python: all labels are ready, and only the numbers are written and joined; right
    after the page, and once a second.
    """
    renderers = {form: Renderer() for form in Format}
    took: dict[str, list[int]] = defaultdict(list)
    page = zipped = b""
    for _ in range(PAGES):
        time.sleep(1)
        collector.cycle()
        rows = collector.snapshot.rows
        tables = map(functools.partial(table_of, rows), rows)
        took["rows"].append(_took(functools.partial(list, tables))[0])
        for form, renderer in renderers.items():
            ns, page = _took(functools.partial(renderer.render, collector.snapshot, form))
            took[form.value].append(ns)
        ns, zipped = _took(functools.partial(gzip.compress, page, 1))
        took["gzip"].append(ns)
        took["floor"].append(_took(functools.partial(_written, _pairs(page)))[0])
    pairs = _pairs(page)
    for _ in range(PAGES):
        time.sleep(1)
        took["floor, cold"].append(_took(functools.partial(_written, pairs))[0])
    samples = sum(not line.startswith(b"#") for line in page.splitlines())
    found: dict[str, float] = {"samples": samples, "bytes": len(page), "gzip bytes": len(zipped)}
    for name, times in took.items():
        found[f"{name} us a sample"] = statistics.median(times[1:]) / US / samples
    return found


def _pairs(page: bytes) -> list[tuple[str, float]]:
    lines = (line.rpartition(" ") for line in page.decode().splitlines() if line[0] != "#")
    return [(f"{text} ", float(number)) for text, _, number in lines]


def _written(pairs: Iterable[tuple[str, float]]) -> bytes:
    return "".join([f"{text}{number!r}\n" for text, number in pairs]).encode()


def _took(work: Callable[[], Any]) -> tuple[int, Any]:
    """CPU ns of this thread, and what was made."""
    began = time.thread_time_ns()
    made = work()
    return time.thread_time_ns() - began, made
