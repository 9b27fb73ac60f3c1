"""Holds the exporter's figures against what CUDA processes really did. Run as root on a GPU node.

python -m benchmarks.device              on a real GPU: prints the tables for docs/accuracy.md
python -m benchmarks.device --stand-in   without one: the same run on the stand-in for NVML
"""

import argparse
import platform
import shutil
import time
from collections import Counter
from collections.abc import Sequence

from benchmarks.device.cases import CASES, Case
from benchmarks.device.gpus import RealGpu, StandIn
from benchmarks.device.node import MPS_CONTROL, Bench, Gpus, Result
from benchmarks.device.rule import SampleWatch, judge
from tests.e2e.programs import Page

MIB = 1 << 20


def main() -> None:
    """Run all cases and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stand-in", action="store_true", help="run on the stand-in for NVML")
    parser.add_argument("--gpu", type=int, default=0, help="index of the GPU")
    parser.add_argument("--seconds", type=float, default=60.0, help="length of a case")
    parser.add_argument("--cases", type=int, default=len(CASES), help="only the first so many")
    options = parser.parse_args()
    gpus: Gpus = StandIn() if options.stand_in else RealGpu()
    verdicts: Counter[str] = Counter()
    with Bench(gpus, options.gpu, options.seconds) as bench:
        first, begun = bench.exporter.scrape(), time.monotonic()
        print(_heading(first, stand_in=options.stand_in))
        print("| case | tenant | true s | measured s | error | memory, MiB | nvidia-smi, MiB |")
        print("|---|---|---|---|---|---|---|")
        for case in CASES[: options.cases]:
            if case.mps and (options.stand_in or shutil.which(MPS_CONTROL) is None):
                print(f"| {case.name} | not run: no {MPS_CONTROL} | | | | | |")
                continue
            watch = None if options.stand_in else SampleWatch(options.gpu)
            if watch:
                watch.start()
            results = bench.run(case)
            if watch:
                watch.end()
                verdicts += judge(watch.named, {r.pid: r.bursts for r in results})
            for result in results:
                print(_row(case, result))
        last, seconds = bench.exporter.scrape(), time.monotonic() - begun
        _print_rest(last, verdicts)
        _print_cost(first, last, seconds)


def _heading(page: Page, *, stand_in: bool) -> str:
    (info, _), *_ = page.all("mgpu_device_info")
    where = (
        "STAND-IN, no hardware" if stand_in else f"{info['model']}, driver {info['driver_version']}"
    )
    return f"{where}; Linux {platform.release()}\n"


def _row(case: Case, result: Result) -> str:
    measured = result.measured_s
    shown = "absent" if measured is None else f"{measured:.2f}"
    error = ""
    if measured is not None and result.true_s:
        error = f"{(measured / result.true_s - 1) * 100:+.1f} %"
    held = "" if result.memory_bytes is None else f"{result.memory_bytes / MIB:.0f}"
    cells = (case.name, result.tenant.name, f"{result.true_s:.2f}", shown, error, held)
    return f"| {' | '.join(cells)} | {result.smi_mib} |"


def _print_rest(page: Page, verdicts: Counter[str]) -> None:
    print("\nBusy and energy of the device, and where they went:\n")
    for name in ("busy_seconds_total", "energy_joules_total", "idle_energy_joules_total"):
        print(f"- device {name}: {page.value(f'mgpu_device_{name}')}")
    for name in ("core_seconds_total", "energy_joules_total"):
        print(f"- groups {name}: {_sum(page.all(f'mgpu_group_{name}')):.3f}")
        for labels, value in page.all(f"mgpu_device_unattributed_{name}"):
            if value:
                print(f"- unattributed {name} {labels['reason']}: {value:.3f}")
    print("\n| NVML call | calls | µs a call |\n|---|---|---|")
    calls = {labels["call"]: n for labels, n in page.all("mgpu_exporter_nvml_calls_total")}
    for labels, seconds in page.all("mgpu_exporter_nvml_call_seconds_total"):
        count = calls[labels["call"]]
        print(f"| {labels['call']} | {count:.0f} | {seconds / max(count, 1) * 1e6:.0f} |")
    if verdicts:
        print("\nWhich process a sample named, where several ran one after another:\n")
        for verdict, count in verdicts.most_common():
            print(f"- {verdict}: {count}")


def _print_cost(first: Page, last: Page, seconds: float) -> None:
    """The exporter's own cost over the cases."""
    cpu = "process_cpu_seconds_total"
    spent = (last.value(cpu) or 0) - (first.value(cpu) or 0)
    held = (last.value("process_resident_memory_bytes") or 0) / MIB
    print(f"\nThe exporter took {spent / seconds * 1e3:.1f} ms of CPU a second and {held:.0f} MiB.")


def _sum(samples: Sequence[tuple[object, float]]) -> float:
    return sum(value for _, value in samples)


if __name__ == "__main__":
    main()
