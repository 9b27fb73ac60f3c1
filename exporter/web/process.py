"""What every Prometheus client library says of its process: ``process_*`` and ``python_info``.

In the words of the client library, but not by its collector. That lists the directory of open
files, of which there is one for each process on a GPU, and makes objects of what is six numbers:
it would take a sixth of a page's time.
"""

import os
import resource
from functools import cached_property
from pathlib import Path

from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.registry import CollectorRegistry
from prometheus_client.utils import floatToGoString

from exporter.exposition import Format, head

_FAMILIES = (
    ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes."),
    ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes."),
    (
        "process_start_time_seconds",
        "gauge",
        "Start time of the process since unix epoch in seconds.",
    ),
    ("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds."),
    ("process_open_fds", "gauge", "Number of open file descriptors."),
    ("process_max_fds", "gauge", "Maximum number of open file descriptors."),
)
# where they stand in proc(5)'s stat, behind the name
_USER, _SYSTEM, _START, _VIRTUAL, _RESIDENT = 11, 12, 19, 20, 21


class OwnProcess:
    """The end of a page in either format, with OpenMetrics' ``# EOF``.

    Of ``process_*`` there is nothing where ``proc`` cannot be read.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._machine, self._stat = proc / "stat", proc / "self" / "stat"
        self._files = proc / "self" / "fd"
        self._ticks = os.sysconf("SC_CLK_TCK")
        self._page_bytes = resource.getpagesize()
        self._lines = {
            form: "".join(f"{head(*family, form)}{family[0]} %s\n" for family in _FAMILIES)
            for form in Format
        }
        python = CollectorRegistry()
        PlatformCollector(registry=python)
        self._python: dict[Format, bytes] = {
            Format.TEXT: write_text(python),
            Format.OPENMETRICS: write_openmetrics(python),  # type: ignore[no-untyped-call]
        }

    def page(self, form: Format) -> bytes:
        """The lines as of now."""
        try:
            numbers = self._numbers()
        except OSError:
            return self._python[form]
        lines = self._lines[form] % tuple(map(floatToGoString, numbers))
        return lines.encode() + self._python[form]

    @cached_property
    def _booted_s(self) -> float:
        """When the machine started, in unix seconds; 0 where it does not say."""
        lines = self._machine.read_bytes().splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(b"btime ")), 0.0)

    def _numbers(self) -> tuple[float, ...]:
        """Of ``_FAMILIES``, in their order."""
        fields = self._stat.read_bytes().rpartition(b")")[2].split()
        return (
            int(fields[_VIRTUAL]),
            int(fields[_RESIDENT]) * self._page_bytes,
            self._booted_s + int(fields[_START]) / self._ticks,
            int(fields[_USER]) / self._ticks + int(fields[_SYSTEM]) / self._ticks,
            # Linux counts them since 6.2; before, whoever lists them has one more open
            self._files.stat().st_size or len(list(self._files.iterdir())) - 1,
            resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        )
