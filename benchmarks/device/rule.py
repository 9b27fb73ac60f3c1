"""Finds out which process the driver's samples name: the last, the longest or another.

Asks ``nvmlDeviceGetProcessUtilization`` so often that each answer is about one sample, and holds
the pid that it names against the bursts that the processes wrote down.
"""

import statistics
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pynvml

POLL_S = 0.04
Burst = tuple[float, float]


class SampleWatch(threading.Thread):
    """Collects (end of the sample in unix seconds, pid) until it is ended."""

    def __init__(self, index: int) -> None:
        super().__init__(daemon=True)
        self.named: list[tuple[float, int]] = []
        self._ended = threading.Event()
        pynvml.nvmlInit()
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self._newest_us = int(time.time() * 1e6)

    def run(self) -> None:
        """Poll; an answer with one row that is newer than the last is one sample."""
        while not self._ended.wait(POLL_S):
            try:
                rows = pynvml.nvmlDeviceGetProcessUtilization(self._handle, self._newest_us)
            except pynvml.NVMLError:
                continue  # nothing newer
            new = [(row.timeStamp, row.pid) for row in rows if row.timeStamp > self._newest_us]
            if len(new) == 1:
                self.named.append((new[0][0] / 1e6, new[0][1]))
            self._newest_us = max([self._newest_us, *(stamp for stamp, _ in new)])

    def end(self) -> None:
        """Stop polling."""
        self._ended.set()
        self.join()


def judge(
    named: Sequence[tuple[float, int]], bursts: Mapping[int, Sequence[Burst]]
) -> Counter[str]:
    """Count which process each sample names, in samples where several ran one after another.

    Where two were at work at once, their bursts do not tell who ran when.
    """
    verdicts: Counter[str] = Counter()
    ends = sorted({end for end, _ in named})
    period_s = statistics.median(b - a for a, b in pairwise(ends)) if len(ends) > 1 else 0.0
    for end, pid in named:
        begin = end - period_s
        ran = sorted(
            (max(a, begin), min(b, end), p)
            for p, many in bursts.items()
            for a, b in many
            if a < end and b > begin
        )
        if len({p for _, _, p in ran}) > 1 and all(a[1] <= b[0] for a, b in pairwise(ran)):
            verdicts[_verdict(pid, ran)] += 1
    return verdicts


def _verdict(pid: int, ran: Sequence[tuple[float, float, int]]) -> str:
    total: dict[int, float] = defaultdict(float)
    for begin, end, one in ran:
        total[one] += end - begin
    last, longest, first = ran[-1][2], max(total, key=lambda p: total[p]), ran[0][2]
    if last == longest:
        return "the last, also the longest" if pid == last else "another than the last and longest"
    names = {first: "the first", longest: "the longest, not the last"}
    names[last] = "the last, not the longest"
    return names.get(pid, "neither first, last nor longest")
