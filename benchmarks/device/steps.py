"""The steps of ``benchmarks.device.driver``. Each runs in a process of its own and prints."""

import argparse
import contextlib
import ctypes
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

from benchmarks.cost.meter import Meter
from benchmarks.device.calls import SAMPLINGS, Device, Price, prices
from benchmarks.device.cases import Tenant
from benchmarks.device.gpus import RealGpu, StandIn
from benchmarks.device.node import Running
from tests.agent.sources.cgroups.real import RealCgroups, mounted
from tests.e2e.programs import Exporter, Page

MANY = 60
SETTLED_S = 3.0  # the exporter has done what it does once
LAST_READ_S = 6.5  # what ran last has been read, at a read each 5 s
NS_PER_STEP = 10.25  # of an H100, where a tenant has no time to measure it
MIB = 1 << 20
NOWHERE = Path("/nonexistent")  # nobody counts the driver's part
Options = argparse.Namespace


@dataclass(frozen=True, slots=True)
class Step:
    """What to run, and for how long at most; ``long``: so many times ``--seconds`` beside."""

    run: Callable[[Options], None]
    limit_s: float
    long: int = 0


def rings(options: Options) -> None:
    """How deep each ring is and how often it is filled: before anybody read it, and after."""
    with _prepared(options):
        device = Device(options.gpu)
        for when in ("at the first read", "5 s later"):
            print(f"\n{when}:\n\n| ring | code | entries | holds, s | period, ms | ends, s ago |")
            print("|---|---|---|---|---|---|")
            for name, number in SAMPLINGS.items():
                code = device.samples(number, 0)
                stamps = sorted(
                    int.from_bytes(device.answered(at, at + 8), "little")
                    for at in range(0, 16 * device.count.value if code == 0 else 0, 16)
                )
                print(f"| {name} | {code} | {_ring(stamps)} |")
            time.sleep(5 if when == "at the first read" else 0)


def _ring(stamps: Sequence[int]) -> str:
    if len(stamps) < 2:
        return f"{len(stamps)} | | |"
    gaps = [b - a for a, b in pairwise(stamps)]
    period = f"{min(gaps) / 1e3:.0f} / {statistics.median(gaps) / 1e3:.0f} / {max(gaps) / 1e3:.0f}"
    held = (stamps[-1] - stamps[0]) / 1e6
    return f"{len(stamps)} | {held:.2f} | {period} | {time.time() - stamps[-1] / 1e6:.2f}"


def price(options: Options) -> None:
    """Each call, idle and under load, with no process, one, and many."""
    found: dict[str, dict[str, Price]] = {}
    with _prepared(options) as gpus:
        device = Device(options.gpu)
        found["idle, 0"] = prices(device)
        for count in (1, MANY):
            with _crowd(gpus, options, count) as tenants:
                found[f"idle, {count}"] = prices(device)
                begin = time.time()
                for process in tenants:
                    assert process.stdin is not None
                    process.stdin.write(f"{begin}\n")
                    process.stdin.flush()
                    gpus.began(Tenant("", 0.9), process.pid, begin)
                time.sleep(1.5)
                found[f"load, {count}"] = prices(device)
                _compare_rows(device)
    for state, priced in found.items():
        print(f"first call in {state}: CPU µs / time µs / CPU µs of the same again at once")
        print(f"{sum(each.cpu for each in priced.values()):.0f} µs for all\n")
    print("| call |", " | ".join(found), "|\n|---|", "---|" * len(found))
    for name in next(iter(found.values())):
        cells = [_cell(priced.get(name)) for priced in found.values()]
        print(f"| {name} |", " | ".join(cells), "|")
    table = {
        state: {name: each._asdict() for name, each in priced.items()}
        for state, priced in found.items()
    }
    (options.output / "prices.json").write_text(json.dumps(table, indent=1))


def _cell(priced: Price | None) -> str:
    if priced is None or priced.code:
        return f"code {priced.code}" if priced else ""
    return f"{priced.cpu:.0f} / {priced.wall:.0f} / {priced.again:.0f}"


def _compare_rows(device: Device) -> None:
    """What the two calls say of the same two seconds."""
    since = int((time.time() - 2) * 1e6)
    for name, ask, layout, order in (
        ("nvmlDeviceGetProcessUtilization", device.rows, "=I4xQ4I", (0, 1, 2)),
        ("nvmlDeviceGetProcessesUtilizationInfo", device.newer_rows, "=Q5I12x", (1, 0, 2)),
    ):
        code, row = ask(since), struct.Struct(layout)
        said = device.answered(0, row.size * device.count.value) if code == 0 else b""
        rows = [[values[at] for at in order] for values in row.iter_unpack(said)]
        print(f"{name}: code {code}, {len(rows)} rows; pid, time and core of the first:", rows[:4])


@contextlib.contextmanager
def _crowd(
    gpus: RealGpu | StandIn, options: Options, count: int
) -> "Iterator[list[subprocess.Popen[str]]]":
    """So many processes that hold a context, and work once they are told to."""
    command = [sys.executable, "-m", "benchmarks.device.tenant", f"--gpu={options.gpu}"]
    command += ["--duty=0.9", "--memory-mib=16", f"--ns-per-step={NS_PER_STEP}"]
    command += ["--pretend"] * gpus.pretend
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        begun = time.monotonic()
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        print(f"{count} contexts were there after {time.monotonic() - begun:.1f} s\n")
        yield processes
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
            gpus.ended(process.pid)


class Watched:
    """An exporter beside tenants in cgroups of their own; ``with Watched(options) as watched:``.

    It is not scraped before the end: an exporter that nobody looks at may read more seldom.
    """

    def __init__(self, options: Options, *flags: str) -> None:
        self.options = options
        self.gpus = StandIn() if options.stand_in else RealGpu()
        root = next((m for m in (mounted("v1"), mounted("v2")) if m), None)
        if root is None or os.geteuid() != 0:
            raise SystemExit("needs root and a mounted cgroup file system")
        self._root = root / f"mgpu-bench-{os.getpid()}"
        self._root.mkdir()
        self._cgroups = RealCgroups(self._root)
        self._running: list[tuple[Running, float]] = []
        everything = ("--pods.source=none", "--ledger.retention=1h", *self.gpus.flags, *flags)
        self.exporter = Exporter(*everything, environment=self.gpus.environment).ready()
        self.meter = Meter(self.exporter.process.pid, NOWHERE)
        time.sleep(SETTLED_S)

    def start(self, tenant: Tenant) -> tuple[Running, float]:
        """Start one, which works at once."""
        running = Running(tenant, self._cgroups, {}, pretend=self.gpus.pretend)
        begin = time.time()
        running.begin(begin)
        self.gpus.began(tenant, running.process.pid, begin)
        self._running.append((running, begin))
        return running, begin

    def end(self, running: Running, begin: float) -> tuple[float, dict[str, Any]]:
        """End it; the seconds that it worked on the GPU, and what it says."""
        self._running.remove((running, begin))
        did = running.end()
        pid = running.process.pid
        self.gpus.ended(pid)
        return self.gpus.busy_s(pid, begin, float(did["end"]), float(did["busy_s"])), did

    def measured(self, page: Page, running: Running) -> float | None:
        """What the exporter says that it worked."""
        gpu = str(self.options.gpu)
        labels = {"kind": "pod", "group": running.group, "gpu": gpu}
        return page.value("mgpu_group_core_seconds_total", **labels)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for running, _begin in self._running:
            running.process.kill()
            running.process.wait()
        self.exporter.stop()
        self._cgroups.clear()


PAIR = (Tenant("40 %", 0.4, memory_mib=512), Tenant("20 %", 0.2, 0.31, memory_mib=512))


def default(options: Options) -> None:
    """Two tenants, as the exporter is set by default."""
    _pair(options, "default")


def each_second(options: Options) -> None:
    """The same with a read in each second."""
    _pair(options, "1s", "--collection.interval=1s")


def _pair(options: Options, name: str, *flags: str) -> None:
    with Watched(options, *flags) as watched:
        running = [watched.start(tenant) for tenant in PAIR]
        before, begun = watched.meter.used(), time.monotonic()
        time.sleep(options.seconds)
        spent = (watched.meter.used() - before).whole / 1e6 / (time.monotonic() - begun)
        print(f"CPU of the exporter in a second, driver included: {spent:.2f} ms")
        print(f"memory: {watched.meter.memory_mib():.0f} MiB")
        truth = [watched.end(*one) for one in running]
        time.sleep(SETTLED_S if flags else LAST_READ_S)
        page = watched.exporter.scrape()
        (options.output / f"page-{name}.prom").write_text(page.text)
        _said(watched, page, running, truth)
        _costs(page)


def _said(
    watched: Watched,
    page: Page,
    running: Sequence[tuple[Running, float]],
    truth: Sequence[tuple[float, dict[str, Any]]],
) -> None:
    print("\n| tenant | true, s | measured, s | error | bursts' own time, s |")
    print("|---|---|---|---|---|")
    for (one, _), (true_s, did) in zip(running, truth, strict=True):
        measured = watched.measured(page, one)
        shown = "absent" if measured is None else f"{measured:.2f}"
        error = "" if not measured or not true_s else f"{(measured / true_s - 1) * 100:+.1f} %"
        took = sum(end - begin for begin, end in did["bursts"])
        print(f"| {one.tenant.name} | {true_s:.2f} | {shown} | {error} | {took:.2f} |")
    names = ("busy_seconds_total", "observed_seconds_total", "energy_joules_total")
    for name in (*names, "unattributed_core_seconds_total"):
        for labels, value in page.all(f"mgpu_device_{name}"):
            print(f"device {name} {labels.get('reason', '')}: {value:.2f}")


def _costs(page: Page) -> None:
    print("\n| part | driver, s |\n|---|---|")
    for labels, seconds in page.all("mgpu_device_driver_seconds_total"):
        print(f"| {' '.join(v for k, v in labels.items() if k != 'uuid')} | {seconds:.3f} |")
    print("\n| NVML call | calls | ms in all | µs a call |\n|---|---|---|---|")
    counts = {labels["call"]: n for labels, n in page.all("mgpu_exporter_nvml_calls_total")}
    for labels, seconds in page.all("mgpu_exporter_nvml_call_seconds_total"):
        count = counts[labels["call"]]
        each = seconds / max(count, 1) * 1e6
        print(f"| {labels['call']} | {count:.0f} | {seconds * 1e3:.1f} | {each:.0f} |")


def jobs(options: Options) -> None:
    """Ten jobs that live 1.5 s; beside them the energy is read each second and each 5 s."""
    reader = threading.Thread(target=_read_energy, args=(options, 20.0), daemon=True)
    with Watched(options) as watched:
        reader.start()
        done: list[tuple[Running, float]] = []
        truth = []
        for number in range(10):
            begun = time.monotonic()
            tenant = Tenant(f"job {number}", 0.9, 0.1, 64, ns_per_step=NS_PER_STEP)
            running, begin = watched.start(tenant)
            time.sleep(max(begun + 1.5 - time.monotonic(), 0.1))
            done.append((running, begin))
            truth.append(watched.end(running, begin))
            print(f"job {number} lived {time.monotonic() - begun:.2f} s")
            time.sleep(0.6)
        reader.join(30)
        time.sleep(LAST_READ_S)
        _said(watched, watched.exporter.scrape(), done, truth)


def _read_energy(options: Options, seconds: float) -> None:
    """The counter's growth by who asks it how often, and what the power ring says."""
    with _prepared(options):
        device = Device(options.gpu)
        ask = device.function("nvmlDeviceGetTotalEnergyConsumption")
        millijoules = ctypes.c_ulonglong()
        code = ask(device.handle, ctypes.byref(millijoules))
        took: dict[int, list[float]] = {1: [], 5: []}
        steps: list[float] = []
        last = begin = millijoules.value
        for second in range(1, int(seconds) + 1):
            time.sleep(1)
            for every, spent in took.items():
                if second % every == 0:
                    cpu = time.thread_time_ns()
                    ask(device.handle, ctypes.byref(millijoules))
                    spent.append((time.thread_time_ns() - cpu) / 1e3)
                    if every == 1:
                        steps.append((millijoules.value - last) / 1e3)
                        last = millijoules.value
        print(f"energy: code {code}, {(last - begin) / 1e3:.1f} J in {seconds:.0f} s; a second:")
        print("   ", " ".join(f"{step:.1f}" for step in steps))
        for every, spent in took.items():
            print(f"    asked each {every} s: {statistics.median(spent):.0f} µs of CPU a call")


def tenants(options: Options) -> None:
    """Many small kernels, graphs of them, and two processes in one tree, one after another."""
    with Watched(options) as watched:
        done, truth = [], []
        for way in ("small", "graph", "tree"):
            running, begin = watched.start(Tenant(way, 0.5, way=way))
            time.sleep(6)
            done.append((running, begin))
            truth.append(watched.end(running, begin))
            time.sleep(1)
        time.sleep(LAST_READ_S)
        _said(watched, watched.exporter.scrape(), done, truth)


def side_by_side(options: Options) -> None:
    """This exporter, unseen and with a viewer, beside nvitop-exporter and nvidia-smi."""
    with Watched(options) as watched, contextlib.ExitStack() as stack:
        running = [watched.start(tenant) for tenant in PAIR]
        environment = {**os.environ, **watched.gpus.environment}
        peers: dict[str, Meter] = {"this exporter": watched.meter}
        peer = _nvitop_exporter(stack, environment) if find_spec("nvitop_exporter") else None
        time.sleep(4)
        if peer and peer.poll() is None:
            peers["nvitop-exporter, 1 s"] = Meter(peer.pid, NOWHERE)
        _spend(peers, 15, "nobody looks")
        until = time.monotonic() + 9
        viewer = threading.Thread(target=_view, args=(watched.exporter, until))
        viewer.start()
        _spend({"this exporter": watched.meter}, 8, "a scrape each second")
        viewer.join()
        page = watched.exporter.scrape()
        for name in ("memory_used_bytes", "core_utilization_ratio"):
            for labels, value in page.all(f"mgpu_group_{name}", kind="pod"):
                print(f"{name} of {labels['group'][:8]}: {value:g}")
        print("processes:", *(one.process.pid for one, _ in running))
        _run(["nvidia-smi"], environment)
        _run(["nvidia-smi", "pmon", "-c", "3", "-s", "um"], environment)
        _run([sys.executable, "-m", "nvitop", "--once", "--no-unicode"], environment)
        truth = [watched.end(*one) for one in running]
        time.sleep(LAST_READ_S)
        _said(watched, watched.exporter.scrape(), running, truth)


def _nvitop_exporter(
    stack: contextlib.ExitStack, environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "nvitop_exporter", "--bind-address=127.0.0.1", "--port=18099"]
    process = stack.enter_context(
        subprocess.Popen([*command, "--interval=1"], env=environment, stdout=subprocess.DEVNULL)
    )
    stack.callback(process.kill)
    return process


def _spend(meters: dict[str, Meter], seconds: float, when: str) -> None:
    """CPU of each in a second."""
    before, begun = {name: meter.used().whole for name, meter in meters.items()}, time.monotonic()
    time.sleep(seconds)
    for name, meter in meters.items():
        spent = (meter.used().whole - before[name]) / 1e6 / (time.monotonic() - begun)
        held = meter.memory_mib()
        print(f"{name}, {when}: {spent:.2f} ms of CPU a second, {held:.0f} MiB")


def _view(exporter: Exporter, until: float) -> None:
    while time.monotonic() < until:
        exporter.get("/metrics")
        time.sleep(1)


def _run(command: Sequence[str], environment: dict[str, str]) -> None:
    if shutil.which(command[0]) is None:
        print(f"{command[0]} is not here")
        return
    begun = time.monotonic()
    before = os.times()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=15
    )
    after = os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    print(f"$ {' '.join(command[-4:])}: {cpu:.2f} s of CPU, {time.monotonic() - begun:.2f} s")
    print(done.stdout[-4000:], done.stderr[-500:])


def memory(options: Options) -> None:
    """What the driver says of memory from a pool, and of managed memory."""
    with _prepared(options) as gpus:
        device = Device(options.gpu)
        command = [sys.executable, "-m", "benchmarks.device.tenant", f"--gpu={options.gpu}"]
        command += ["--memory-ways", "--ns-per-step=1", *["--pretend"] * gpus.pretend]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        gpus.began(Tenant("", 0.0), process.pid, time.time())
        print("| what it has | listed for the process, MiB | in use on the device, MiB |")
        print("|---|---|---|")
        for _ in range(5):
            process.stdin.write("\n")
            process.stdin.flush()
            step = process.stdout.readline().strip()
            time.sleep(0.5)
            print(f"| {step} | {_listed(device, process.pid)} | {_used(device)} |", flush=True)
        process.communicate("\n")


def _listed(device: Device, pid: int) -> str:
    device.lists("Compute")
    for at in range(0, 24 * device.count.value, 24):
        if int.from_bytes(device.answered(at, at + 4), "little") == pid:
            return f"{int.from_bytes(device.answered(at + 8, at + 16), 'little') / MIB:.1f}"
    return "not listed"


def _used(device: Device) -> str:
    device.function("nvmlDeviceGetMemoryInfo")(device.handle, device.room)
    return f"{int.from_bytes(device.answered(16, 24), 'little') / MIB:.1f}"


@contextlib.contextmanager
def _prepared(options: Options) -> Iterator[RealGpu | StandIn]:
    """The GPU, for calls from this process."""
    gpus = StandIn() if options.stand_in else RealGpu()
    if isinstance(gpus, StandIn):
        os.environ.update(gpus.environment)
        ctypes.CDLL(gpus.flags[0].partition("=")[2])  # pynvml finds it by its soname
    yield gpus


STEPS = {
    "rings": Step(rings, 20),
    "prices": Step(price, 75),
    "default": Step(default, 30, long=1),
    "each-second": Step(each_second, 30, long=1),
    "jobs": Step(jobs, 55),
    "tenants": Step(tenants, 50),
    "side-by-side": Step(side_by_side, 70),
    "memory": Step(memory, 20),
}
