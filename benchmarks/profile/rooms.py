"""One exporter's cycles in this process, with the CPU time of each room. Started by ``__main__``.

Asks on standard output for what shall happen to the pods, a line each, and writes its findings as
the last line. CPU is that of all threads: those that read devices, and the watch of the pods.
"""

import argparse
import functools
import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import exporter.collector.cycle as cycle_module
from benchmarks.profile.coldness import pauses, touched_mib
from benchmarks.profile.pages import pages
from exporter.collector import Collector, polling, tenants
from exporter.collector.allocations import Allocations
from exporter.collector.owners import ProcessOwners
from exporter.collector.wiring import make_collector, open_sources, read_settings
from exporter.commands import garbage
from exporter.ledger import Ledger
from exporter.sources.cgroups.processes import CgroupProcesses
from exporter.sources.gpus.nvml.library import Library
from exporter.sources.gpus.nvml.source import NvmlSource

ROOMS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("gpus", NvmlSource, ("read",)),
    ("cgroups", CgroupProcesses, ("resolve", "status", "describe")),
    ("pods", polling.SourcePoller, ("table", "statuses")),
    ("node", polling.SourcePoller, ("node_facts",)),
    ("allocations", Allocations, ("of",)),
    ("membership", ProcessOwners, ("update", "seen_on", "holders")),
    ("attribution", cycle_module, ("account_for",)),
    ("ledger", Ledger, ("observe", "record", "set_memory", "set_allocations", "settle")),
    ("rows", cycle_module, ("rows_of", "limit_series", "with_own")),
    ("processes", tenants.Residency, ("enter", "tenants", "described")),
    ("history", cycle_module, ("extended",)),
)
MS = 1e6
CHANGE_WITHIN_S = 10.0
BY_COLDNESS = 100  # cycles


class Rooms:
    """CPU ns of each room since ``clear``; a room that is called from another is counted apart.

    Reading the clock so often takes a tenth of a cycle: while not ``counting`` it is left alone.
    """

    def __init__(self) -> None:
        self.counting = True
        self.spent: Counter[str] = Counter()
        self._inner: list[int] = []
        self._lock = threading.Lock()
        for room, owner, names in ROOMS:
            for name in names:
                setattr(owner, name, self._timed(room, getattr(owner, name)))

    def _timed(self, room: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever it takes
            if not self.counting:
                return function(*args, **kwargs)
            self._inner.append(0)
            began = time.process_time_ns()
            try:
                return function(*args, **kwargs)
            finally:
                whole = time.process_time_ns() - began
                self.spent[room] += whole - self._inner.pop()
                if self._inner:
                    self._inner[-1] += whole

        return timed

    def watch_driver(self) -> None:
        """Count what the driver's calls take of their threads: it is the stand-in's own cost."""
        ask, function = Library.ask, Library.function

        def timed(call: Callable[..., Any]) -> Callable[..., Any]:
            def timed(*args: Any) -> Any:  # noqa: ANN401 - whatever it takes
                if not self.counting:
                    return call(*args)
                began = time.thread_time_ns()
                try:
                    return call(*args)
                finally:
                    spent = time.thread_time_ns() - began
                    with self._lock:
                        self.spent["driver"] += spent

            return timed

        def asked(library: Library, name: str, *args: object) -> Any:  # noqa: ANN401 - as above
            return timed(functools.partial(ask, library, name))(*args)

        def found(library: Library, name: str, *argtypes: Any) -> Any:  # noqa: ANN401 - as above
            call = function(library, name, *argtypes)
            return timed(call) if call else None

        library: Any = Library
        library.ask, library.function = asked, found


def main() -> None:
    """Measure, and say what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cycles", type=int, required=True)
    parser.add_argument("--profile", default="")
    own, flags = parser.parse_known_args()
    given = {name: [value] for name, value in (f[2:].split("=", 1) for f in flags)}
    garbage.relax()
    rooms = Rooms()
    rooms.watch_driver()
    settings = read_settings(given)
    sources = open_sources(settings)
    collector = make_collector(settings, sources)
    for source in sources.listening:
        source.start()
    assert sources.pods.wait(10), "no pods"
    found = {"first": _cycle(collector, rooms)}
    time.sleep(1)
    _cycle(collector, rooms)  # the first window
    garbage.freeze()
    steady = [_paced(collector, rooms) for _ in range(own.cycles)]
    found["steady"], found["steady, mean"] = (
        _over(statistics.median, steady),
        _over(statistics.fmean, steady),
    )
    driver = found["steady"].get("driver", 0.0)
    untimed = [
        _untimed(collector, rooms, functools.partial(time.sleep, 1)) for _ in range(own.cycles)
    ]
    found["untimed"] = {"all but the driver": statistics.median(untimed) - driver}
    found["coldness"] = {
        name: _without_driver(collector, rooms, pause) for name, pause in pauses(settings).items()
    }
    found["touched"] = {
        "by a cycle": statistics.median(_touched(collector, rooms) for _ in range(own.cycles // 2))
    }
    found["changed"] = _over(
        statistics.median, [_changed(collector, rooms, "change") for _ in range(own.cycles // 3)]
    )
    found["replaced"] = _over(
        statistics.median, [_changed(collector, rooms, "replace") for _ in range(own.cycles // 3)]
    )
    found["page"] = pages(collector)
    if own.profile:
        _profiled(collector, own.profile)
    for one in sources.all:
        one.close()
    print(json.dumps(found), flush=True)


def _cycle(collector: Collector, rooms: Rooms) -> dict[str, float]:
    """One cycle: CPU ms by room, and of all but the driver."""
    rooms.spent.clear()
    began = time.process_time_ns()
    collector.cycle()
    return _parts(rooms, time.process_time_ns() - began)


def _parts(rooms: Rooms, whole: int) -> dict[str, float]:
    spent = dict(rooms.spent)
    spent["gpus"] -= spent.get("driver", 0)
    spent["rest"] = whole - sum(spent.values())
    spent["all but the driver"] = whole - spent.get("driver", 0)
    return {room: ns / MS for room, ns in spent.items()}


def _paced(collector: Collector, rooms: Rooms) -> dict[str, float]:
    time.sleep(1)
    return _cycle(collector, rooms)


def _untimed(collector: Collector, rooms: Rooms, pause: Callable[[], None]) -> float:
    """One cycle, the driver with it: CPU ms."""
    pause()
    rooms.counting = False
    began = time.process_time_ns()
    collector.cycle()
    whole = time.process_time_ns() - began
    rooms.counting = True
    return whole / MS


def _without_driver(collector: Collector, rooms: Rooms, pause: Callable[[], None]) -> float:
    """Median of cycles with this before each; what the driver takes of them is counted apart."""
    whole = [_untimed(collector, rooms, pause) for _ in range(BY_COLDNESS)]
    driver = []
    for _ in range(BY_COLDNESS):
        pause()
        driver.append(_cycle(collector, rooms)["driver"])
    return statistics.median(whole) - statistics.median(driver)


def _touched(collector: Collector, rooms: Rooms) -> float:
    """MiB of the pages that a cycle needs."""
    time.sleep(1)
    rooms.counting = False
    mib = touched_mib(collector.cycle)
    rooms.counting = True
    return mib


def _changed(collector: Collector, rooms: Rooms, what: str) -> dict[str, float]:
    """A cycle after something happened to one pod; with what the watch spent on it."""
    time.sleep(0.9)
    table = collector._pods.table()  # noqa: SLF001 - the benchmark waits for its news
    began = time.process_time_ns()
    print(what, flush=True)
    deadline = time.monotonic() + CHANGE_WITHIN_S
    while collector._pods.table() is table:  # noqa: SLF001 - as above
        assert time.monotonic() < deadline, "no news of a pod"
        time.sleep(0.05)
    watch = time.process_time_ns() - began
    return {**_cycle(collector, rooms), "watch, beside the cycle": watch / MS}


def _over(
    average: Callable[[Iterable[float]], float], cycles: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    names = dict.fromkeys(name for cycle in cycles for name in cycle)
    return {name: average([cycle.get(name, 0.0) for cycle in cycles]) for name in names}


def _profiled(collector: Collector, file: str) -> None:
    """Where the cycle's own thread is, function by function."""
    import cProfile  # noqa: PLC0415 - wanted seldom

    profile = cProfile.Profile()
    for _ in range(10):
        time.sleep(1)
        profile.enable()
        collector.cycle()
        profile.disable()
    profile.dump_stats(file)


if __name__ == "__main__":
    main()
