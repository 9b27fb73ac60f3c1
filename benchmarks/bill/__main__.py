"""Times bills of a month of 10 nodes with 8 GPUs: ``python -m benchmarks.bill``.

Each card has three namespaces with a pod each; a pod lives a day. Scrapes are five minutes apart:
Prometheus reads as many samples for each step as there are, so closer ones take it longer. Halfway
a relabelling renames every target.
"""

import argparse
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.store import Store, sent

NODES, CARDS, PAYERS = 10, 8, ("team", "batch", "web")
DAY, EVERY_S = 86_400, 300
BEGIN = 1_780_012_800  # a day's begin
CORE = ("allocated_gpu_seconds_total", "core_seconds_total", "borrowed_core_seconds_total")

Counter = tuple[str, dict[str, str], float, int]
"""A counter's name and own labels, how fast it grows, and since when."""


def counters(node: int, day: int) -> Iterator[Counter]:
    """The counters that an exporter shows on a day."""
    since_s, begun_s = BEGIN - DAY, BEGIN + day * DAY
    yield "process_start_time_seconds", {}, 0.0, since_s + node
    yield "mgpu_exporter_cycles_total", {}, 1.0, since_s
    for card in range(CARDS):
        uuid = {"uuid": f"GPU-{node:02}-{card}", "gpu": str(card)}
        yield "mgpu_device_info", {**uuid, "model": "L4", "parent_uuid": ""}, 0.0, 1
        yield "mgpu_device_unallocated_gpu_seconds_total", uuid, 0.1, since_s
        for name in ("overcommitted_gpu", "unobserved"):
            yield f"mgpu_device_{name}_seconds_total", uuid, 0.0, 0
        reason = {**uuid, "reason": "no_pid"}
        yield "mgpu_device_unattributed_core_seconds_total", reason, 0.01, since_s
        for number, payer in enumerate(PAYERS):
            job = f"job-{node}-{card}-{number}-{day}"
            pod = {"namespace": payer, "pod": job, "container": "main"}
            owner = {"owner_kind": "Job", "owner_name": f"{payer}-{number}"}
            yield "mgpu_pod_info", {"namespace": payer, "pod": job, **owner}, 0.0, 1
            for name, rate in zip(CORE, (0.3, 0.2, 0.0), strict=True):
                namespace = {"namespace": payer, "uuid": uuid["uuid"]}
                yield f"mgpu_namespace_{name}", namespace, rate, since_s if rate else 0
                yield f"mgpu_container_{name}", {**pod, **uuid}, rate, begun_s if rate else 0


def fill(store: Store, days: int) -> int:
    """Writes the month; the number of samples."""
    samples = 0
    for day in range(-1, days):
        for node in range(NODES):
            target = {"job": "mgpu", "instance": f"10.0.0.{node}:10045", "node": f"n{node}"}
            target |= {"cluster": "west"} if day >= days // 2 else {}
            series = []
            for name, own, rate, since_s in counters(node, day):
                times = range(BEGIN + day * DAY, BEGIN + (day + 1) * DAY, EVERY_S)
                counted = [(at - since_s) * rate if rate else since_s for at in times]
                values = [
                    (at * 1000, struct.pack("<d", value))
                    for at, value in zip(times, counted, strict=True)
                ]
                labels = tuple(sorted({"__name__": name, **own, **target}.items()))
                series.append(sent(labels, values))
                samples += len(values)
            store.write(series)
    return samples


def main() -> None:
    """Fills a Prometheus, and prints how long each bill takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    days = parser.parse_args().days
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder)) as store:
        print(f"{fill(store, days):,} samples of {NODES} nodes with {CARDS} GPUs, {days} days")
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGIN + days * DAY))
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(BEGIN))
        for by in ("namespace", "owner", "pod"):
            begun = time.monotonic()
            command = [
                sys.executable,
                "-m",
                "exporter",
                "bill",
                f"--since={since}",
                f"--until={until}",
            ]
            flags = [f"--by={by}", "--price=1", f"--prometheus=http://{store.address}"]
            done = subprocess.run([*command, *flags], check=True, stdout=subprocess.PIPE, text=True)
            print(f"by {by}: {time.monotonic() - begun:.1f} s; {done.stdout.splitlines()[-1]}")


if __name__ == "__main__":
    main()
