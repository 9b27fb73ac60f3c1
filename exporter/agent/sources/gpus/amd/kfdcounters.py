"""What KFD's counters of processes have risen by."""

from collections.abc import Mapping

from exporter.agent.sources.gpus.amd.kfdprocesses import KfdProcess

MAX_GONE = 1024  # processes that are in no list now, whose counters may come back


class _Heights:
    """The highest value of each counter of one process."""

    __slots__ = ("number", "of", "start")

    def __init__(self, process: KfdProcess) -> None:
        self.number, self.start = process.number, process.start
        self.of: dict[str, int] = {}


class CounterSums:
    """The increase of processes' counters, which only grow.

    What steps back, or is missing and returns, counts nothing until its old height, as long as its
    pid is the same process's. What a process had counted before the first list is not included.
    """

    def __init__(self) -> None:
        self._heights: dict[int, _Heights] = {}
        self._first_number: int | None = None  # who came before it is not new
        self._risen: dict[str, dict[int, int]] = {}

    def begin(self, newest_number: int) -> None:
        """Notes that processes are read; ``newest_number`` is the last one's of the list."""
        if self._first_number is None:
            self._first_number = newest_number

    def add(self, process: KfdProcess, counts: Mapping[str, int]) -> None:
        known = self._heights.get(process.pid)
        # A start that was reported wrong is another one now, of the same process.
        if known is None or not (
            None in {known.start, process.start}
            or known.start == process.start
            or known.number == process.number
        ):
            is_new = process.is_new and process.number > (self._first_number or 0)
            known = self._heights[process.pid] = _Heights(process)
            known.of = {} if is_new else dict(counts)
        known.start, known.number = process.start or known.start, process.number
        for name, count in counts.items():
            height = known.of.setdefault(name, 0 if process.is_new else count)
            by_pid = self._risen.setdefault(name, {})
            by_pid[process.pid] = by_pid.get(process.pid, 0) + max(count - height, 0)
            known.of[name] = max(count, height)

    def keep(self, here: Mapping[int, KfdProcess]) -> None:
        """Forgets the oldest of those that are in no list, if they are too many."""
        if len(self._heights) > len(here) + MAX_GONE:
            gone = [pid for pid in self._heights if pid not in here]
            for pid in gone[: len(gone) - MAX_GONE]:
                del self._heights[pid]

    def take(self) -> dict[str, dict[int, int]]:
        """The increase since the last call, by counter and process."""
        taken, self._risen = self._risen, {name: {} for name in self._risen}
        return {name: {p: n for p, n in by_pid.items() if n} for name, by_pid in taken.items()}
