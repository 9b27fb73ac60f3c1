"""Activity of a device's SMs and tensor cores: NVML's GPM, on Hopper and newer boards.

Source: ``nvmlGpm*`` (nvml.h). A sample is a copy of hardware counters; a figure is the average
between two samples. It is of a whole device or MIG instance, never of one process.
"""

from collections.abc import Mapping
from contextlib import suppress
from ctypes import Structure, byref, c_char_p, c_double, c_int, c_uint, c_void_p, cast
from types import MappingProxyType
from typing import Any, NamedTuple

from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.library import Library
from exporter.agent.sources.gpus.nvml.refusals import Refusals
from exporter.model import MIB

GPM = "profiling"  # the topic of a refusal
SUPPORT = "nvmlGpmQueryDeviceSupport"
ALLOC = "nvmlGpmSampleAlloc"
FREE = "nvmlGpmSampleFree"
SAMPLE = "nvmlGpmSampleGet"
METRICS = "nvmlGpmMetricsGet"

LEAST_NS = 150_000_000  # the driver wants more than 100 ms between two samples
MAX_PERCENT = 101.0  # rounding may pass 100; more is garbage
MAX_MIB = 1 << 20  # in a second, over PCIe: four times of what the seventh generation can
MAX_METRICS = 512  # the array of nvmlGpmMetricsGet_t grew from 98 to 477; numMetrics says how many
GRAPHICS = 1  # nvmlGpmMetricId_t
PERCENTS = {  # nvmlGpmMetricId_t → family
    2: "sm_active_ratio",
    3: "sm_occupancy_ratio",
    5: "tensor_active_ratio",
    10: "dram_active_ratio",
}
MIB_PER_SECOND = {20: "pcie_tx_bytes", 21: "pcie_rx_bytes"}
METRIC_IDS = (GRAPHICS, *PERCENTS, *MIB_PER_SECOND)


class GpmReading(NamedTuple):
    """Averages (0-1) and sums between two samples; None if this device does not report it.

    ``graphics_ratio`` is the part of the time in which any work was on the device, the closest to
    what NVML calls utilisation. ``ratios``: those that are shown, by their family. PCIe bytes are
    those of the whole board, including the protocol's, and are not reported for MIG instances.
    """

    graphics_ratio: float | None = None
    ratios: Mapping[str, float] = MappingProxyType({})
    elapsed_ns: int = 0
    pcie_tx_bytes: int | None = None
    pcie_rx_bytes: int | None = None


class _Support(Structure):
    """``nvmlGpmSupport_t``."""

    _fields_ = (("version", c_uint), ("supported", c_uint))


class _Metric(Structure):
    """``nvmlGpmMetric_t``."""

    _fields_ = (
        ("metric_id", c_uint),
        ("code", c_int),
        ("value", c_double),
        ("names", c_char_p * 3),
    )


class _MetricsGet(Structure):
    """``nvmlGpmMetricsGet_t``."""

    _fields_ = (
        ("version", c_uint),
        ("count", c_uint),
        ("first", c_void_p),
        ("second", c_void_p),
        ("metrics", _Metric * MAX_METRICS),
    )


class Gpm:
    """GPM of one device or MIG instance, by its handle. One thread at a time.

    The first read allocates two samples, which are used in turn, so that readings are contiguous.
    ``close`` frees them; a read after that begins again.
    """

    def __init__(
        self,
        library: Library,
        handle: Any,  # noqa: ANN401 - pynvml's pointer
        refusals: Refusals,
    ) -> None:
        self._library = library
        self._address = cast(handle, c_void_p)
        self._refusals = refusals
        self._samples: list[c_void_p] = []  # the older first
        self._taken_ns: int | None = None
        self._get = _MetricsGet(version=1, count=len(METRIC_IDS))
        for place, metric_id in enumerate(METRIC_IDS):
            self._get.metrics[place].metric_id = metric_id

    def read(self) -> GpmReading | None:
        """Averages since the last read; None at the first read, too early, and if it is refused."""
        now_ns = self._library.clock.monotonic_ns()
        if self._taken_ns is not None and now_ns - self._taken_ns < LEAST_NS:
            return None
        return self._refusals.attempt(GPM, self._next, now_ns)

    def close(self) -> None:
        """Frees the samples in the driver's library."""
        while self._samples:
            with suppress(errors.NvmlError):  # a failure leaves some kilobytes behind
                self._library.call(FREE, self._samples.pop())
        self._taken_ns = None

    def _next(self, now_ns: int) -> GpmReading | None:
        before_ns, self._taken_ns = self._taken_ns, None  # after a failure comes a first sample
        if not self._samples:
            # Some drivers do not answer this for MIG instances, which have GPM all the same. So
            # only a clear no counts.
            support = _Support(version=1, supported=1)
            with suppress(errors.NvmlError):
                self._library.call(SUPPORT, self._address, byref(support))
            if not support.supported:
                raise errors.error_of(errors.NOT_SUPPORTED, SUPPORT)
            self._samples = [self._new_sample(), self._new_sample()]
        self._library.call(SAMPLE, self._address, self._samples[0])
        self._samples.reverse()
        reading = None if before_ns is None else self._between(now_ns - before_ns)
        self._taken_ns = now_ns
        return reading

    def _new_sample(self) -> c_void_p:
        sample = c_void_p()
        self._library.call(ALLOC, byref(sample))
        return sample

    def _between(self, elapsed_ns: int) -> GpmReading:
        get = self._get
        get.first, get.second = self._samples
        self._library.call(METRICS, byref(get))
        values = {
            metric.metric_id: metric.value
            for metric in get.metrics[: len(METRIC_IDS)]
            if metric.code == errors.SUCCESS and metric.value >= 0  # not so for NaN either
        }
        ratios = {
            number: min(values[number] / 100, 1.0)
            for number in (GRAPHICS, *PERCENTS)
            if values.get(number, MAX_PERCENT) < MAX_PERCENT
        }
        moved = {
            name: int(values[number] * MIB * elapsed_ns / 1e9)
            for number, name in MIB_PER_SECOND.items()
            if values.get(number, MAX_MIB) < MAX_MIB
        }
        shown = {name: ratios[number] for number, name in PERCENTS.items() if number in ratios}
        return GpmReading(ratios.get(GRAPHICS), shown, elapsed_ns, **moved)
