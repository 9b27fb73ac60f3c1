"""What each driver call costs: CPU of the calling thread, and the time until it returns.

Functions are called through ctypes with prepared arguments, so that Python's own part is some
microseconds. Each is called twice in a row in every round: an answer that the driver has just
computed may cost less.
"""

import ctypes
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref, c_int, c_uint, c_ulonglong
from functools import partial
from typing import Any, NamedTuple

import pynvml

ROOM = 1 << 20  # bytes for an answer
ANSWERED = {0, 6}  # success, and that there are no rows
GAP_S = 0.5  # between two rounds
SAMPLINGS = {  # nvmlSamplingType_t
    "power": 0,
    "core": 1,
    "memory": 2,
    "encoder": 3,
    "decoder": 4,
    "SM clock": 5,
    "memory clock": 6,
    "module power": 7,
    "JPEG": 8,
    "OFA": 9,
}
FIELDS: dict[str, Sequence[tuple[int, int]]] = {  # number and scope, by what they are
    "energy": [(83, 0)],
    "instant power": [(186, 0)],
    "average power": [(185, 0)],
    "memory temperature": [(82, 0)],
    "power cap": [(74, 0)],
    "throttling": [(74, 0), (76, 0), (269, 0), (270, 0), (271, 0)],
    "ECC": [(3, 0), (4, 0)],
    "retired pages": [(29, 0), (30, 0), (31, 0)],
    "remapped rows": [(142, 0), (143, 0), (144, 0), (145, 0)],
    "recovery": [(230, 0)],
    "PCIe replays": [(94, 0)],
    "PCIe bytes": [(197, 0), (198, 0)],
    "NVLink errors": [(38, 0), (45, 0), (52, 0), (59, 0)],
    "NVLink bytes": [(138, 0xFFFFFFFF), (139, 0xFFFFFFFF)],
}
PLAIN = (
    "TotalEnergyConsumption",
    "PowerUsage",
    "EnforcedPowerLimit",
    "PowerManagementLimit",
    "FanSpeed",
    "PerformanceState",
    "UtilizationRates",
    "CurrPcieLinkGeneration",
    "CurrPcieLinkWidth",
    "MaxPcieLinkGeneration",
    "MaxPcieLinkWidth",
    "BAR1MemoryInfo",
    "MemoryInfo",
    "CurrentClocksEventReasons",
    "PersistenceMode",
    "ComputeMode",
    "GridLicensableFeatures_v4",
    "PciInfo_v3",
    "Index",
)
LISTS = ("Compute", "Graphics", "MPSCompute")
MEMORY_V2 = 40 | 2 << 24
TEMPERATURE_V = 12 | 1 << 24
GPM_METRICS = (1, 2, 3, 5, 10, 20, 21)


class Call(NamedTuple):
    """A call by its name here; ``make`` returns NVML's return code."""

    name: str
    make: Callable[[], int]


class Price(NamedTuple):
    """In microseconds, the medians over the rounds; ``again`` is of a second call at once."""

    code: int
    cpu: float
    wall: float
    again: float


class FieldValue(ctypes.Structure):
    """``nvmlFieldValue_t``."""

    _fields_ = (
        ("number", c_uint),
        ("scope", c_uint),
        ("rest", ctypes.c_char * 32),
    )


class Device:
    """One device, its handle, and room for answers."""

    def __init__(self, index: int) -> None:
        pynvml.nvmlInit()
        self.handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self.index = index
        self.room = ctypes.create_string_buffer(ROOM)
        self.count = c_uint()
        self.kind = c_int()

    def function(self, name: str) -> Callable[..., int]:
        """A function of the driver's library; one that is missing answers so."""
        try:
            return pynvml._nvmlGetFunctionPointer(name)  # type: ignore[no-any-return] # noqa: SLF001
        except pynvml.NVMLError as error:
            code = int(error.value)
            return lambda *_: code

    def answered(self, begin: int, end: int) -> bytes:
        """These bytes of the last answer."""
        return ctypes.string_at(ctypes.addressof(self.room) + begin, end - begin)

    def with_count(self, function: Callable[..., int], rows: int, *arguments: object) -> int:
        """A call that takes the number of rows there is room for, and writes theirs."""
        self.count.value = rows
        return function(*arguments)

    def samples(self, sampling: int, newer_than_us: int) -> int:
        """The ring's entries lie in ``room`` then."""
        function = self.function("nvmlDeviceGetSamples")
        place = byref(self.kind), byref(self.count), self.room
        since = c_ulonglong(newer_than_us)
        return self.with_count(function, 4096, self.handle, sampling, since, *place)

    def rows(self, newer_than_us: int) -> int:
        """The rows of processes lie in ``room`` then."""
        function = self.function("nvmlDeviceGetProcessUtilization")
        count = byref(self.count)
        since = c_ulonglong(newer_than_us)
        return self.with_count(function, 4096, self.handle, self.room, count, since)

    def newer_rows(self, newer_than_us: int) -> int:
        """The same by the newer call."""
        info = (c_uint * 2)(24 | 1 << 24, 4096)
        whole = bytes(info) + bytes(c_ulonglong(newer_than_us))
        whole += bytes(c_ulonglong(ctypes.addressof(self.room)))
        asked = ctypes.create_string_buffer(whole, 24)
        code = self.function("nvmlDeviceGetProcessesUtilizationInfo")(self.handle, asked)
        self.count.value = int.from_bytes(asked.raw[4:8], "little")
        return code

    def fields(self, fields: Sequence[tuple[int, int]]) -> int:
        """Field values in one call."""
        asked = (FieldValue * len(fields))(*[FieldValue(number, scope) for number, scope in fields])
        return self.function("nvmlDeviceGetFieldValues")(self.handle, len(fields), asked)

    def lists(self, kind: str) -> int:
        """The processes of a kind."""
        function = self.function(f"nvmlDeviceGet{kind}RunningProcesses_v3")
        return self.with_count(function, 4096, self.handle, byref(self.count), self.room)

    def versioned(self, name: str, version: int) -> int:
        """A function whose answer begins with the version of its struct."""
        ctypes.memset(self.room, 0, 64)
        ctypes.memmove(self.room, byref(c_uint(version)), 4)
        return self.function(name)(self.handle, self.room)


def calls(device: Device) -> Iterator[Call]:
    """All calls whose price is asked for."""
    handle, room, other = device.handle, device.room, c_uint()
    for name in PLAIN:
        yield _plain(device, f"nvmlDeviceGet{name}", handle, room)
    yield _plain(device, "nvmlDeviceGetEncoderUtilization", handle, room, byref(other))
    yield _plain(device, "nvmlDeviceGetDecoderUtilization", handle, room, byref(other))
    yield _plain(device, "nvmlDeviceGetMigMode", handle, room, byref(other))
    yield _plain(device, "nvmlDeviceGetTemperature", handle, 0, room)
    yield _plain(device, "nvmlDeviceGetClockInfo", handle, 1, room)
    yield _plain(device, "nvmlDeviceGetPcieThroughput", handle, 0, room)
    yield _plain(device, "nvmlDeviceGetUUID", handle, room, 96)
    yield _plain(device, "nvmlDeviceGetName", handle, room, 96)
    yield _plain(device, "nvmlSystemGetDriverVersion", room, 96)
    yield _plain(device, "nvmlDeviceGetHandleByIndex_v2", device.index, room)
    for name, version in (("MemoryInfo_v2", MEMORY_V2), ("TemperatureV", TEMPERATURE_V)):
        whole = f"nvmlDeviceGet{name}"
        yield Call(whole, lambda n=whole, v=version: device.versioned(n, v))  # type: ignore[misc]
    for kind in LISTS:
        yield Call(f"nvmlDeviceGet{kind}RunningProcesses_v3", lambda k=kind: device.lists(k))  # type: ignore[misc]
    for name, number in SAMPLINGS.items():
        yield Call(
            f"nvmlDeviceGetSamples, {name}",
            lambda n=number: device.samples(n, _some_seconds_ago(1)),  # type: ignore[misc]
        )
    whole = "nvmlDeviceGetSamples, core, the whole ring"
    yield Call(whole, lambda: device.samples(1, 0))
    for seconds in (1, 5):
        since = f", {seconds} s"
        yield Call(
            f"nvmlDeviceGetProcessUtilization{since}",
            lambda s=seconds: device.rows(_some_seconds_ago(s)),  # type: ignore[misc]
        )
        yield Call(
            f"nvmlDeviceGetProcessesUtilizationInfo{since}",
            lambda s=seconds: device.newer_rows(_some_seconds_ago(s)),  # type: ignore[misc]
        )
    for name, fields in FIELDS.items():
        yield Call(f"nvmlDeviceGetFieldValues, {name}", lambda f=fields: device.fields(f))  # type: ignore[misc]
    every = [field for fields in FIELDS.values() for field in fields]
    yield Call("nvmlDeviceGetFieldValues, all of these", lambda: device.fields(every))
    yield from _profiling(device)


def _plain(device: Device, name: str, *arguments: object) -> Call:
    function = device.function(name)
    return Call(name, lambda: function(*arguments))


def _profiling(device: Device) -> Iterator[Call]:
    """GPM: a sample, and the figures between two."""
    older, newer = ctypes.c_void_p(), ctypes.c_void_p()
    alloc = device.function("nvmlGpmSampleAlloc")
    if alloc(byref(older)) or alloc(byref(newer)):
        return
    take = device.function("nvmlGpmSampleGet")
    take(device.handle, older)
    time.sleep(0.2)
    yield Call("nvmlGpmSampleGet", lambda: take(device.handle, newer))
    compute = device.function("nvmlGpmMetricsGet")
    for count in (1, 4, len(GPM_METRICS)):
        get: Any = pynvml.c_nvmlGpmMetricsGet_t()
        get.version, get.numMetrics = 1, count
        get.sample1, get.sample2 = (
            ctypes.cast(sample, pynvml.c_nvmlGpmSample_t) for sample in (older, newer)
        )
        for place, metric in enumerate(GPM_METRICS[:count]):
            get.metrics[place].metricId = metric
        yield Call(f"nvmlGpmMetricsGet, {count} metrics", partial(compute, byref(get)))


def _some_seconds_ago(seconds: float) -> int:
    return int((time.time() - seconds) * 1e6)


def prices(device: Device, rounds: int = 6) -> dict[str, Price]:
    """What each call costs now; one that is refused is asked once."""
    found: dict[str, list[tuple[int, float, float, float]]] = {}
    everything = list(calls(device))
    for number in range(rounds):
        for call in everything:
            seen = found.setdefault(call.name, [])
            if not seen or seen[0][0] in ANSWERED:
                seen.append(_once(call))
        if number + 1 < rounds:
            time.sleep(GAP_S)
    return {
        name: Price(seen[0][0], *(statistics.median(row[at] for row in seen) for at in (1, 2, 3)))
        for name, seen in found.items()
    }


def _once(call: Call) -> tuple[int, float, float, float]:
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    code = call.make()
    cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
    begun = time.thread_time_ns()
    call.make()
    return code, cpu / 1e3, wall / 1e3, (time.thread_time_ns() - begun) / 1e3
