"""What processes that do nothing on a board cost, beside AMD's and Intel's boards.

``python -m benchmarks.cost.foreign``: the CPU of a cycle with none, 1,000 and 4,200 of them, all of
one container, as a Markdown table. On AMD's boards each has ``/dev/kfd`` open. Some minutes.
"""

import logging
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from exporter.agent.sources.gpus.drm import holders
from exporter.agent.sources.gpus.drm.holders import HandleScan, HandleScanner
from tests.agent.sources.gpus.amd.trees import MI300X
from tests.agent.sources.gpus.drm.machine import i915
from tests.field.vendors.boards import VendorNode

NUMBERS = 0, 1000, 4200
NODES = {"one MI300X": ("amd", 1), "eight MI300X": ("amd", 8), "one card of Intel": ("i915", 1)}
CYCLES = 120  # that are measured, after half as many
FIRST = 10_001  # the pid that works
WORK_NS = 400 * 10**6  # of the client of Intel's card, in each second


class PacedScanner(HandleScanner):
    """Scans as seldom as the real duration of a scan asks, though the node's clock stands still."""

    def _scan(self, begun_ns: int) -> HandleScan:
        began_ns = time.thread_time_ns()
        scan = super()._scan(begun_ns)
        self.real_ns = time.thread_time_ns() - began_ns
        return scan

    def look(self, every_ns: int) -> None:
        """Scans if it is due by the time that the last one really took."""
        super().look(every_ns)
        self._took_ns = self.real_ns


def cycle_ms(vendor: str, boards: int, number: int) -> float:
    """Milliseconds of CPU of a cycle."""
    with TemporaryDirectory() as folder:
        node = VendorNode(Path(folder))
        home = node.home("tenant")
        pids = range(FIRST, FIRST + 1 + number)
        for pid in pids:
            node.process(home, pid=pid)
        for board in range(boards if vendor == "amd" else 0):
            shown = node.tree.add(MI300X)
            shown.set(gpu_busy_percent=80)
            for pid in pids:
                is_at_work = pid == FIRST and board == 0
                node.tree.use(pid, shown.gpu_ids[0], vram=is_at_work << 30, cus=is_at_work * 50)
        if vendor == "i915":
            node.machine.card(0, "i915", "0000:03:00.0")

        def run(cycles: range) -> None:
            for second in cycles:
                if vendor == "i915":
                    node.machine.open(FIRST, 5, i915(1, render=second * WORK_NS))
                node.cycle()

        run(range(CYCLES // 2))
        began = time.process_time()
        run(range(CYCLES // 2, CYCLES // 2 + CYCLES))
        took = time.process_time() - began
        node.close()
    return took / CYCLES * 1000


def main() -> None:
    logging.disable()
    print("| processes that do nothing |", " | ".join(f"{number:,}" for number in NUMBERS), "|")
    print("|---|" + "---:|" * len(NUMBERS))
    with patch.object(holders, "HandleScanner", PacedScanner):
        for name, (vendor, boards) in NODES.items():
            took = (cycle_ms(vendor, boards, number) for number in NUMBERS)
            print(f"| {name} |", " | ".join(f"{each:.1f} ms" for each in took), "|", flush=True)


if __name__ == "__main__":
    main()
