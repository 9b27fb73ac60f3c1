"""Floors of a steady cycle: its driver calls made from Python, and its values made from nothing.

Calls: arguments and buffers are ready beforehand, answers are unpacked into tuples and thrown away:
no thread, no deadline, no account, no window. Values: the frozen ones that a cycle hands from room
to room, made again of parts that are ready; nothing is looked up or worked out. Beside them in the
same process, turn by turn, what the exporter's source takes to read. Started by ``__main__``;
writes medians of CPU milliseconds.
"""

import ctypes
import json
import struct
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from statistics import median
from typing import Any

from exporter.attribution.join import account
from exporter.commands import garbage
from exporter.model import ContainerKey
from exporter.sources.gpus.nvml.calls import ENERGY, LEGACY, LEGACY_ROW, SAMPLES
from exporter.sources.gpus.nvml.source import NvmlSource

SAMPLE = struct.Struct("=QI4x")
ENGINES = (1, 2, 3, 4)  # nvmlSamplingType_t
ROOM = 4096
WINDOW_US = 1_000_000


def calls(library: ctypes.CDLL, index: int) -> Callable[[bool], None]:
    """All that a cycle asks of one device; True: unpack the answers too."""
    handle, count, kind = ctypes.c_void_p(), ctypes.c_uint(), ctypes.c_int()
    assert library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
    room = (ctypes.c_char * (ROOM * LEGACY_ROW.size))()
    answer, energy, since = memoryview(room), ctypes.c_ulonglong(), ctypes.c_ulonglong()
    samples, utilization, consumption = library[SAMPLES], library[LEGACY], library[ENERGY]
    kind_at, count_at, room_at, energy_at = map(ctypes.byref, (kind, count, room, energy))
    engines = [ctypes.c_int(engine) for engine in ENGINES]

    def ask(unpack: bool) -> None:  # noqa: FBT001 - two ways to measure
        since.value = time.time_ns() // 1000 - WINDOW_US
        for engine in engines:
            count.value = ROOM
            samples(handle, engine, since, kind_at, count_at, room_at)
            if unpack:
                list(SAMPLE.iter_unpack(answer[: count.value * SAMPLE.size]))
        count.value = ROOM
        utilization(handle, room_at, count_at, since)
        if unpack:
            list(LEGACY_ROW.iter_unpack(answer[: count.value * LEGACY_ROW.size]))
        consumption(handle, energy_at)

    return ask


def again(value: tuple[Any, ...]) -> Callable[[], object]:
    """What makes a named tuple of its parts."""
    made: Callable[..., object] = type(value)
    return partial(made, *value)


def handed_on(source: NvmlSource) -> list[Callable[[], object]]:
    """What makes the windows of a cycle, and what attribution says of them."""
    makers: list[Callable[[], object]] = []
    for reading in source.read().devices:
        window = reading.window
        assert window
        owners = {p.pid: ContainerKey("n", "p", str(p.pid)) for p in window.processes}
        usage = account(reading.device, window, owners)
        makers += map(again, (reading, window, window.busy, usage, usage.total))
        for process in window.processes:
            makers += (again(process.busy), again(process))
        for spent in usage.shares.values():
            makers += (again(spent.busy), again(spent))
    return makers


def make_all(makers: Iterable[Callable[[], object]]) -> None:
    """Make them, and throw them away."""
    for make in makers:
        make()


def main() -> None:
    """Measure."""
    path, cycles = sys.argv[1], int(sys.argv[2])
    garbage.relax()
    library, found = ctypes.CDLL(path), ctypes.c_uint()
    assert library.nvmlInit_v2() == 0
    assert library.nvmlDeviceGetCount_v2(ctypes.byref(found)) == 0
    devices = [calls(library, index) for index in range(found.value)]

    def ask_all(unpack: bool) -> None:  # noqa: FBT001 - as above
        for ask in devices:
            ask(unpack)

    source = NvmlSource(path)
    source.read()
    time.sleep(1)
    ways: dict[str, Callable[[], object]] = {
        "calls": partial(ask_all, unpack=False),
        "calls, unpacked": partial(ask_all, unpack=True),
        "values": partial(make_all, handed_on(source)),
        "ours": source.read,
    }
    took: dict[str, list[float]] = {way: [] for way in ways}
    for cycle in range(cycles + 2):
        if cycle == 2:  # the first reads open the driver
            garbage.freeze()
            took = {way: [] for way in ways}
        for way, make in ways.items():
            time.sleep(1 / len(ways))
            began = time.process_time_ns()
            make()
            took[way].append((time.process_time_ns() - began) / 1e6)
    source.close()
    print(json.dumps({way: median(each) for way, each in took.items()}))


if __name__ == "__main__":
    main()
