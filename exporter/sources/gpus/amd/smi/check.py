"""The cross-check: asks the library now and then, and keeps what it found of each board."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from exporter.model import Clock, DeviceReading, DeviceState, SourceStatus
from exporter.sources.gpus.amd.smi.compare import Comparison, Seen, matched
from exporter.sources.gpus.amd.smi.library import (
    Processor,
    SmiError,
    SmiLibrary,
    UnknownVersionError,
)
from exporter.sources.gpus.amd.smi.places import NAME, find
from exporter.sources.gpus.pool import DeviceWorkers, Stuck

logger = logging.getLogger(__name__)

SOURCE = "amdsmi"
SECOND = 1_000_000_000
ASK_EVERY_NS = 60 * SECOND
SLOW_NS = SECOND  # then it is said that it was asked
HUNG_NS = 10 * SECOND
TIMES = 3  # a figure differs in so many asks one after another before it is said to
DIFFERS = "; differs: "
NOT_FOUND = (
    f"{NAME} is in none of the usual places: mount the host's /opt/rocm/lib, or name the file with "
    "--amd.smi"
)
NO_BOARD = "no board of AMD's is there"
ASLEEP = "a board sleeps, and would be woken"
UNANSWERED = "no answer yet"
AWAY = {DeviceState.LOST, DeviceState.RELEASED}  # the states of boards that are not there
_JOB = "ask"  # the worker's only key


class AbsentError(SmiError):
    """There is no library, and it was not said where it should be."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one board. ``mismatch``: by quantity 1 or 0; ``name``: "" if not told."""

    mismatch: Mapping[str, int] = field(default_factory=dict)
    name: str = ""


class SmiCheck:
    """Compares AMD's boards with the library. Its methods are the cycle's, which never waits.

    ``path`` None: the library is looked for. ``wait_s``: how long a job is waited for.
    """

    def __init__(self, path: Path | None, clock: Clock, wait_s: float = 0.0) -> None:
        self.status = _absent("it was not asked yet")
        self._path = path
        self._clock = clock
        self._wait_s = wait_s
        self._workers = DeviceWorkers(clock, SOURCE)
        self._library: SmiLibrary | None = None  # touched by the job alone while one is out
        self._file = path
        self._out = False  # a job is
        self._ask_at_ns = 0
        self._listed: frozenset[str] = frozenset()  # the boards when the library looked for them
        self._known: frozenset[str] = frozenset()  # all that ever were there
        self._seen: dict[str, Seen] = {}
        self._in_a_row: dict[tuple[str, str], int] = {}
        self._said: set[tuple[str, str] | str] = set()
        self._verdicts: Mapping[str, Verdict] = {}
        self._names: dict[str, str] = {}

    def turn(
        self, devices: Iterable[DeviceReading], rest: str, asleep: Callable[[], bool]
    ) -> Mapping[str, Verdict]:
        """Take a cycle's readings in, and give the verdicts on boards by UUID.

        ``rest``: why the library is to hold no device file now, "" if it may. ``asleep``: whether
        asking would wake a board; then it is not asked.
        """
        now_ns = self._clock.monotonic_ns()
        boards = {
            d.device.uuid: d for d in devices if d.state not in AWAY and not d.device.parent_uuid
        }
        self._seen = {uuid: self._seen.get(uuid) or Seen() for uuid in boards}
        for uuid, reading in boards.items():
            if reading.state is DeviceState.UP:
                self._seen[uuid].add(reading, now_ns)
        rest = rest or ("" if boards else NO_BOARD)
        if self._out:
            self._run(self._ask, boards)
        if not self._out:
            self._begin(rest, asleep, boards, now_ns)
        return self._verdicts

    def close(self) -> None:
        """End the worker; a call that hangs is left behind."""
        self._workers.close()

    def _begin(
        self,
        rest: str,
        asleep: Callable[[], bool],
        boards: Mapping[str, DeviceReading],
        now_ns: int,
    ) -> None:
        if boards.keys() - self._known:
            self._known |= boards.keys()
            self._ask_at_ns = now_ns
        if self._library and (rest or self._listed != boards.keys()):  # it looks once, when opened
            self._run(self._leave, boards)
        elif rest:
            self._tell(_absent(rest))
            self._ask_at_ns = now_ns
        elif now_ns >= self._ask_at_ns and _are_read(boards):
            self._ask_at_ns = now_ns + ASK_EVERY_NS
            if asleep():
                self._tell(_absent(ASLEEP))
                return
            self._listed = frozenset(boards) if self._library is None else self._listed
            self._run(self._ask, boards)

    def _run(
        self, job: Callable[[], tuple[Processor, ...]], boards: Mapping[str, DeviceReading]
    ) -> None:
        """Begin it, or see whether the one that is out has come back."""
        result = self._workers.run({_JOB: job}, self._wait_s)[_JOB]
        self._out = isinstance(result, Stuck)
        if isinstance(result, Stuck):
            self._wait(self._clock.monotonic_ns() - result.since_mono_ns)
        elif isinstance(result, AbsentError):
            self._tell(_absent(str(result)))
        elif isinstance(result, UnknownVersionError) and self._path is None:
            detail = f"{self._file}: {result}"
            if detail not in self._said:
                self._said.add(detail)
                logger.warning("figures are not compared with AMD's library: %s", detail)
            self._tell(_absent(detail))
        elif isinstance(result, Exception):
            self._fail(str(result) if isinstance(result, SmiError) else repr(result))
        elif result:
            self._judge(result, boards)

    def _wait(self, waited_ns: int) -> None:
        """Say so if it takes long; until then what it said last stands, if it has said anything."""
        if waited_ns >= HUNG_NS:
            detail = f"a call has not come back for {waited_ns / SECOND:.1f} s"
            self._fail(f"{detail}; see the kernel log for amdgpu")
        elif waited_ns >= SLOW_NS and (self.status.absent or UNANSWERED in self.status.detail):
            detail = f"asked {waited_ns / SECOND:.0f} s ago, {UNANSWERED}"
            self._tell(SourceStatus(SOURCE, up=False, detail=detail))

    def _ask(self) -> tuple[Processor, ...]:
        """In the worker's thread."""
        if self._library is None:
            self._file = self._path or find()
            if self._file is None:
                raise AbsentError(NOT_FOUND)
            self._library = SmiLibrary(self._file)
        try:
            return self._library.ask(self._clock)
        except SmiError:
            self._leave()
            raise

    def _leave(self) -> tuple[Processor, ...]:
        """In the worker's thread."""
        library, self._library = self._library, None
        if library:
            library.close()
        return ()

    def _judge(
        self, processors: tuple[Processor, ...], boards: Mapping[str, DeviceReading]
    ) -> None:
        found, unknown = matched(processors, boards.values())
        if not found:
            self._fail(f"none of its GPUs is a board of this node: {', '.join(unknown)}")
            return
        before, self._in_a_row = self._in_a_row, {}
        verdicts, differing = self._named(), []
        for uuid, processor in found.items():
            if boards[uuid].state is not DeviceState.UP:
                continue
            compared = self._seen[uuid].compare(processor)
            gpu = f"GPU {boards[uuid].device.index}"
            differing += [f"{gpu} {each}" for each in compared if each.differs]
            self._names[uuid] = processor.name or self._names.get(uuid, "")
            verdicts[uuid] = Verdict(self._counted(uuid, compared, before), self._names[uuid])
            self._log(uuid, gpu, compared, verdicts[uuid])
        version = self._library.version if self._library else ""
        detail = f"version {version}, {self._file}"
        detail += f"; no board of this node: {', '.join(unknown)}" if unknown else ""
        detail += f"{DIFFERS}{'; '.join(differing)}" if differing else ""
        self._tell(SourceStatus(SOURCE, up=True, detail=detail), verdicts)

    def _counted(
        self, uuid: str, compared: list[Comparison], before: Mapping[tuple[str, str], int]
    ) -> dict[str, int]:
        differs = {each.quantity: False for each in compared}
        for each in compared:
            differs[each.quantity] |= each.differs
        for quantity, now in differs.items():
            self._in_a_row[uuid, quantity] = (before.get((uuid, quantity), 0) + 1) * now
        return {quantity: int(self._in_a_row[uuid, quantity] >= TIMES) for quantity in differs}

    def _log(self, uuid: str, gpu: str, compared: list[Comparison], verdict: Verdict) -> None:
        for each in compared:
            key = uuid, each.quantity
            if each.differs and verdict.mismatch[each.quantity] and key not in self._said:
                self._said.add(key)
                logger.warning(
                    "%s (%s): AMD's library and sysfs do not agree: %s; compare with amd-smi metric"
                    " on the node, and report which is right (docs/vendors.md)",
                    *(gpu, uuid, each),
                )

    def _fail(self, detail: str) -> None:
        self._tell(SourceStatus(SOURCE, up=False, detail=f"{self._file}: {detail}"))

    def _tell(self, status: SourceStatus, verdicts: Mapping[str, Verdict] | None = None) -> None:
        """What is not compared now is not known; a name stays."""
        self.status = status
        if verdicts is None:
            self._in_a_row = {}
            verdicts = self._named()
        self._verdicts = verdicts

    def _named(self) -> dict[str, Verdict]:
        """What is known of boards that are not compared."""
        return {uuid: Verdict(name=name) for uuid, name in self._names.items() if name}


def _are_read(boards: Mapping[str, DeviceReading]) -> bool:
    return any(reading.state is DeviceState.UP for reading in boards.values())


def _absent(detail: str) -> SourceStatus:
    return SourceStatus(SOURCE, up=False, detail=detail, absent=True)
