"""Threads that wait for driver calls, so that nobody else has to.

A call into a driver cannot be interrupted. What can be done is to make it in another thread, to
wait for no longer than a deadline, and to go on without that one device. Devices that answer
quickly share one thread, which reads one after the other: switching between threads costs more
than most calls do. One that is slow or hangs has a thread of its own.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from exporter.model import Clock

T = TypeVar("T")

SECOND = 1_000_000_000
PATIENCE_S = 0.2  # so long the shared thread may take for all, and
PATIENCE = 0.25  # no longer than this part of the deadline
ALONE_RUNS = 30  # of a job that was slow, until it shares a thread again


class Stuck(NamedTuple):
    """A job that has not come back yet, and when it was begun."""

    since_mono_ns: int


class _Task:
    """What is known of one key. While it is ``running`` it is its worker's, else the pool's."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.job: Callable[[], object] = tuple
        self.started_mono_ns = 0
        self.quick_ns = 0
        self.running = False
        self.results: list[object] = []
        self.took_ns = 0
        self.alone_runs = 0
        self.worker: _Worker | None = None  # its own

    def run(self, clock: Clock) -> None:
        """Do its job. One slow run alone, such as the first, says little."""
        began_ns = clock.monotonic_ns()
        try:
            result = self.job()
        except Exception as error:  # noqa: BLE001 - handed to who asked for the job
            result = error
        before_ns, self.took_ns = self.took_ns, clock.monotonic_ns() - began_ns
        if before_ns > self.quick_ns < self.took_ns:
            self.alone_runs = ALONE_RUNS
        elif self.alone_runs:
            self.alone_runs -= 1
        self.results.append(result)
        self.running = False  # the last: from now on it is the pool's

    def take(self) -> Any:  # noqa: ANN401 - what its job was typed to give
        """Its result, once."""
        return self.results.pop() if self.results else Stuck(self.started_mono_ns)


class _Worker:
    """One thread, named after what it is at.

    What it has to do may be taken back until it has begun with it: whoever pops it has it. It puts
    something into ``ended`` when all is done.
    """

    def __init__(self, clock: Clock, ended: SimpleQueue[None]) -> None:
        self._clock = clock
        self._ended = ended
        self._orders: SimpleQueue[bool] = SimpleQueue()
        self._todo: deque[_Task] = deque()
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def begin(self, tasks: Iterable[_Task]) -> None:
        """Run them, one after the other."""
        self._todo.extend(tasks)
        self._orders.put(True)

    def take_back(self) -> list[_Task]:
        """What it has not begun with, and now will not."""
        tasks = []
        with suppress(IndexError):
            while True:
                tasks.append(self._todo.popleft())
        return tasks

    def stop(self) -> None:
        """End the thread as soon as it has nothing more to do."""
        self._orders.put(False)

    def _work(self) -> None:
        while self._orders.get():
            with suppress(IndexError):
                while True:
                    task = self._todo.popleft()
                    self._thread.name = task.name
                    task.run(self._clock)
            self._ended.put(None)


class DeviceWorkers:
    """Runs one job a key. One caller at a time. Between two runs the shared thread is idle."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._name = name
        self._ended: SimpleQueue[None] = SimpleQueue()  # waits in fewer steps than a Condition
        self._tasks: dict[str, _Task] = {}
        self._shared: _Worker | None = None

    def run(
        self, jobs: Mapping[str, Callable[[], T]], deadline_s: float
    ) -> dict[str, T | Stuck | Exception]:
        """Run one job a key, and give what has come back within ``deadline_s``.

        A key whose job of an earlier run has not come back is stuck at once and gets no second job.
        When it has come back meanwhile, its late result stands in for the job of this run: what it
        measured is not lost. What a job raises is its result.
        """
        patience_s = min(PATIENCE_S, PATIENCE * deadline_s)
        begun = self._begun(jobs)
        if not self._wait(begun, patience_s):
            self._part(begun)
            self._wait(begun, deadline_s - patience_s)
        return {key: self._tasks[key].take() for key in jobs}

    def busy(self, keys: Iterable[str]) -> bool:
        """Whether a job of one of these keys is still running."""
        return any(key in self._tasks and self._tasks[key].running for key in keys)

    def forget(self, keys: Iterable[str]) -> None:
        """Know nothing of these keys; a thread of theirs ends as soon as its job has come back."""
        for key in keys:
            task = self._tasks.pop(key, None)
            if task and task.worker:
                task.worker.stop()

    def close(self) -> None:
        """End all threads. Waits for none: a hung call ends with the process."""
        self.forget(tuple(self._tasks))
        if self._shared:
            self._shared.stop()
            self._shared = None

    def _begun(self, jobs: Mapping[str, Callable[[], object]]) -> list[_Task]:
        """Begin all jobs but of those who owe the result of an earlier one."""
        begun, quick = [], []
        now_ns = self._clock.monotonic_ns()
        quick_ns = int(PATIENCE_S * SECOND / max(len(jobs), 1))
        for key, job in jobs.items():
            task = self._tasks.get(key)
            if task is None:
                task = self._tasks[key] = _Task(f"{self._name} {key}")
            if task.running or task.results:
                continue
            task.job, task.started_mono_ns, task.running = job, now_ns, True
            task.quick_ns = quick_ns
            begun.append(task)
            if task.alone_runs:
                self._apart(task)
                continue
            quick.append(task)
            if task.worker:  # it was slow, and is quick again
                task.worker.stop()
                task.worker = None
        if quick:
            self._shared = self._shared or _Worker(self._clock, self._ended)
            self._shared.begin(quick)
        return begun

    def _apart(self, task: _Task) -> None:
        task.worker = task.worker or _Worker(self._clock, self._ended)
        task.worker.begin([task])

    def _wait(self, tasks: Iterable[_Task], seconds: float) -> bool:
        """Whether all have come back in time."""
        until = monotonic() + seconds
        while any(task.running for task in tasks):
            try:
                self._ended.get(timeout=max(until - monotonic(), 0))
            except Empty:
                return False
        return True

    def _part(self, begun: Iterable[_Task]) -> None:
        """Whom the shared thread keeps waiting gets one of its own; who keeps it has that one."""
        if self._shared is None:
            return
        waiting = self._shared.take_back()
        for task in begun:
            if task.running and not task.worker and task not in waiting:
                task.worker, self._shared = self._shared, None
                task.alone_runs = ALONE_RUNS
        for task in waiting:
            self._apart(task)
