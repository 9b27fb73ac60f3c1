"""One short run for each thing that is asked and each way in which its answer goes wrong.

A run is compared with one without the fault, second by second of a clock that only the run moves.
"""

import errno
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from exporter.agent.doctor import CheckVerdict
from exporter.agent.doctor.vendors import OTHERS
from exporter.agent.sources.gpus.fleet import Fleet
from exporter.metrics.text import Format, Renderer
from tests.doors.nodes import CALLS, NODES, Node
from tests.doors.outside import (
    EFFECTS,
    LINK,
    LIST,
    READ,
    SAYS_WHO,
    STALE,
    STAT,
    Fault,
    Kind,
    Outside,
)

Values = Mapping[str, float]  # a page: sample with its labels → value

RENDERER = Renderer()
MEMORY = Path("/dev/shm")  # noqa: S108 - a run writes thousands of small files

STEADY_S, LAST_S = 7, 26  # a fault begins after so many seconds; a run ends
LASTING = {"once": 1, "some": 6, "ever": LAST_S}
FEW_S = 10  # so long after its end a fault may still be seen
CODES = {
    "absent": errno.ENOENT,
    "refused": errno.EACCES,
    "EMFILE": errno.EMFILE,
    "EIO": errno.EIO,
    "ENODEV": errno.ENODEV,
    "ESTALE": errno.ESTALE,
}
LITTLE = "little"
OF = {
    READ: (*CODES, *(each for each in EFFECTS if each != LITTLE), STALE),
    LIST: (*CODES, "half", "enormous", "twice"),
    LINK: (*CODES, "elsewhere"),
    STAT: tuple(CODES),
}
EVERYTHING = Kind("all", "everything that takes a descriptor")


@dataclass(frozen=True)
class Cell:
    """``what`` goes wrong in this way for so long; ``one``: only with what is of card A."""

    node: str
    what: Kind
    answer: str
    lasting: str
    one: bool = False
    from_start: bool = False

    def __str__(self) -> str:
        scope = "-of-card-A" if self.one else ""
        return f"{self.node}-{self.what.how} {self.what.path}-{self.answer}-{self.lasting}{scope}"

    @property
    def begins_s(self) -> int:
        return 0 if self.from_start else STEADY_S

    @property
    def ends_s(self) -> int:
        return min(self.begins_s + LASTING[self.lasting], LAST_S)


@dataclass(frozen=True)
class Run:
    """The page of each second; ``said``: warnings of the log; ``met``: the fault was met.

    ``checked``: what ``check`` finds wrong with the boards in the fault's last second.
    """

    pages: tuple[Values, ...]
    said: tuple[str, ...]
    met: int
    asked: Mapping[Kind, frozenset[str]]
    steadily: frozenset[Kind]
    uuid_a: str
    uuid_b: str
    first: tuple[str, ...]
    functions: frozenset[str]
    checked: frozenset[str]


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def values(node: Node) -> Values:
    collector = node.node.collector
    assert collector is not None
    text = RENDERER.render(collector.snapshot, Format.TEXT).decode()
    samples = (line.rpartition(" ") for line in text.splitlines() if line[:1] != "#")
    return {key: float(value) for key, _, value in samples}


def troubles(node: Node) -> Iterator[str]:
    """What ``check`` finds wrong with the boards that are read by files."""
    readings = (source.newest for source in node.node.patient)
    for reading in (each for each in readings if each and not each.status.absent):
        results = OTHERS[reading.status.name](reading, {})
        yield from (r.found for r in results if r.verdict is not CheckVerdict.OK)


def run(name: str, cell: Cell | None = None) -> Run:
    """Let a node live for ``LAST_S`` seconds, with the fault of the cell or none."""
    log, said = logging.getLogger("exporter"), _Said()
    log.addHandler(said)
    folder = Path(tempfile.mkdtemp(prefix="door-", dir=MEMORY if MEMORY.is_dir() else None))
    looked, Fleet.look_every_s = Fleet.look_every_s, 4.0
    node = NODES[name](folder)
    outside = Outside(folder)
    pages: list[Values] = []
    start: dict[Kind, set[str]] = {}
    checked: frozenset[str] = frozenset()
    try:
        with outside.installed():
            for second in range(LAST_S):
                node.tick()
                fault = None
                if cell is not None and cell.begins_s <= second < cell.ends_s:
                    fault = fault_of(cell, node)
                if second == STEADY_S:
                    start, outside.asked = outside.asked, {}
                node.fail(cell.what.path, cell.answer) if fault and cell else node.fail()
                with outside.asking(fault):
                    node.node.cycle()
                pages.append(values(node))
                if second == (cell.ends_s if cell else LAST_S) - 1:
                    checked = frozenset(troubles(node))
    finally:
        node.node.close()
        shutil.rmtree(folder, ignore_errors=True)
        Fleet.look_every_s = looked
        log.removeHandler(said)
    asked = {k: frozenset(start.get(k, set()) | outside.asked.get(k, set())) for k in start}
    asked |= {k: frozenset(paths) for k, paths in outside.asked.items() if k not in start}
    steadily = frozenset(outside.asked)
    return Run(
        *(tuple(pages), tuple(said.lines), outside.met, asked, steadily),
        *(node.uuid_a, node.uuid_b, node.first, frozenset(node.functions), checked),
    )


def fault_of(cell: Cell, node: Node) -> Fault:
    effect = CODES.get(cell.answer, cell.answer)
    kind = None if cell.what == EVERYTHING else cell.what
    return Fault(kind, effect, node.first if cell.one else ())


@cache
def control(name: str) -> Run:
    """The run without a fault."""
    return run(name)


def cells(name: str) -> Iterator[Cell]:
    """All cells of a node, by what it asks without a fault."""
    without = control(name)
    for kind, paths in sorted(without.asked.items()):
        of_first = [p for p in paths if not set(without.first).isdisjoint(p.split("/"))]
        is_of_both = 0 < len(of_first) < len(paths)
        cell = Cell(name, kind, "", "some", from_start=kind not in without.steadily)
        for answer in OF[kind.how]:
            if answer == "reused" and not kind.path.endswith(SAYS_WHO):
                continue
            yield from _of_kind(replace(cell, answer=answer), is_of_both=is_of_both)
        # The kernel's own count of what is in use may lack most of it.
        if name == "amd-apu" and kind.path.endswith("mem_info_gtt_used"):
            yield replace(cell, answer=LITTLE)
    for lasting in LASTING:
        yield Cell(name, EVERYTHING, "EMFILE", lasting)
    for function in sorted(without.functions):
        for answer in CALLS[function.partition(".")[0]]:
            for lasting in ("once", "some"):
                yield Cell(name, Kind("call", function), answer, lasting)


def _of_kind(cell: Cell, *, is_of_both: bool) -> Iterator[Cell]:
    yield cell
    if cell.answer in {"absent", "EMFILE", "back", "half"}:
        yield replace(cell, lasting="once")
    if cell.answer in {"EIO", STALE}:
        yield replace(cell, lasting="ever")
    if is_of_both and cell.answer in {"absent", "EIO", "garbled", "enormous"}:
        yield replace(cell, one=True)
