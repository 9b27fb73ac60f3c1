"""Finds out which process the driver's samples name: the one at their end, or the longest.

Asks ``nvmlDeviceGetProcessUtilization`` so often that each answer is about one sample, and holds
the pid that it names against the bursts that the processes wrote down.
"""

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

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
    named: Sequence[tuple[float, int]],
    bursts: Mapping[int, Sequence[Burst]],
    period_s: float = 1 / 6,
) -> Counter[str]:
    """Count the samples on which the two rules disagree, by the rule that the driver followed."""
    verdicts: Counter[str] = Counter()
    for end, pid in named:
        inside = {p: _overlap(many, end - period_s, end) for p, many in bursts.items()}
        active = {p for p, many in bursts.items() if any(a <= end <= b for a, b in many)}
        longest = max(inside, key=lambda p: inside[p])
        if not inside[longest]:
            verdicts["nobody worked in the sample"] += 1
        elif active == {longest}:
            verdicts["both rules agree"] += 1
        elif active == {pid}:
            verdicts["named the one at its end, not the longest"] += 1
        elif pid == longest:
            verdicts["named the longest, not the one at its end"] += 1
        else:
            verdicts["neither, or several at its end"] += 1
    return verdicts


def _overlap(bursts: Sequence[Burst], start: float, end: float) -> float:
    return sum(max(0.0, min(b, end) - max(a, start)) for a, b in bursts)
