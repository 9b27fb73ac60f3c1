"""How often there is time to ask a device: what the driver takes for each part of a read."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from exporter.doctor.evidence import Evidence
from exporter.doctor.finding import Finding, note, ok
from exporter.gpus.nvml.pace import MOST_SHARE, SECOND, Pace
from exporter.model import PartCost

_MS = 1_000_000
_MANY_MS = 10


class _Turn(NamedTuple):
    """One read of a part of a device: what it costs, and the time that is set between two.

    ``alone``: no other was seen. It may have been a cold one, and widens nothing.
    """

    cost_ns: int
    every_ns: int | None
    gpu: int
    alone: bool

    @property
    def widened_s(self) -> float:
        """The time between two in which such a cost comes to rest."""
        pace = Pace()
        for _ in range(2):
            pace.note(self.cost_ns, self.every_ns or 0)
        return pace.widened_s(self.every_ns or 0)

    @property
    def slow(self) -> bool:
        """Whether it is read more seldom than set."""
        if self.every_ns is None or self.alone:
            return False
        return self.widened_s * SECOND > self.every_ns


def pace(evidence: Evidence) -> Iterator[Finding]:
    """What a read costs, and what is read more seldom than set; nothing where no source tells."""
    parts: dict[str, list[_Turn]] = defaultdict(list)
    for reading in (device for source in evidence.readings for device in source.devices):
        for part, turn in _turns(reading.device.index, evidence.costs.get(reading.device.uuid, ())):
            parts[part].append(turn)
    if parts:
        yield ok("driver's pace", "; ".join(_said(part, found) for part, found in parts.items()))
    slow = [_slow(part, found) for part, found in parts.items() if any(t.slow for t in found)]
    if slow:
        remedy = (
            "nothing is lost, it is only known later; see who else keeps the driver busy (DCGM, "
            "nvidia-smi in a loop), and leave out what nobody looks at (--metrics.disable)"
        )
        yield note("slow to tell", "; ".join(slow), remedy)


def _turns(gpu: int, told: Sequence[Mapping[str, PartCost]]) -> Iterator[tuple[str, _Turn]]:
    """What the newest turn of each part costs: the cheaper of the last two, as ``Pace`` takes it.

    Of what is read less often than the doctor waits for, there is one only. A part's cost rises
    with each turn; how often it is read is as set when it is first told of.
    """
    spent: dict[str, list[int]] = {}
    every: dict[str, int | None] = {}
    for part, cost in (item for costs in told for item in costs.items()):
        every.setdefault(part, cost.every_ns)
        found = spent.setdefault(part, [0])
        if cost.duration_ns > found[-1]:
            found.append(cost.duration_ns)
    for part, found in spent.items():
        newest = [after - before for before, after in pairwise(found)][-2:]
        if newest:
            yield part, _Turn(min(newest), every[part], gpu, alone=len(newest) == 1)


def _said(part: str, turns: Sequence[_Turn]) -> str:
    costs = [turn.cost_ns / _MS for turn in turns]
    low, high = (f"{c:.2g}" if c < _MANY_MS else f"{c:.0f}" for c in (min(costs), max(costs)))
    every_ns = turns[0].every_ns
    often = "each cycle" if every_ns is None else f"every {every_ns / SECOND:g} s"
    by = " (one read)" if any(turn.alone for turn in turns) else ""
    return f"{part} {low if low == high else f'{low} to {high}'} ms{by} {often}"


def _slow(part: str, turns: Sequence[_Turn]) -> str:
    slow = [turn for turn in turns if turn.slow]
    worst = max(slow, key=lambda turn: turn.cost_ns)
    return (
        f"{part}: {worst.cost_ns / _MS:.0f} ms of GPU {worst.gpu}, {len(slow)} of {len(turns)} "
        f"devices over {MOST_SHARE:.0%} of the time; while it stays so they are read every "
        f"{worst.widened_s:g} s, not every {(worst.every_ns or 0) / SECOND:g} s"
    )
