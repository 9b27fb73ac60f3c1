"""Worker threads for driver calls, so that a call that hangs costs only its own device.

A driver call cannot be interrupted. So it runs in another thread, and its result is awaited until a
deadline. Devices that answer quickly share one thread, which reads them one after another: a switch
between threads costs more than most calls. A device that is slow or hangs has its own thread; what
is said of it meanwhile is ``fleet``'s.
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
SHARED_TIMEOUT_S = 0.2  # time of the shared thread for all of its jobs, and
SHARED_PART = 0.25  # the most that this may be of the deadline
ALONE_RUNS = 30  # of a job that was slow, until it shares a thread again


class Stuck(NamedTuple):
    """The result of a job that has not returned yet, with its start time."""

    since_mono_ns: int


class _Task:
    """The state of one key. While ``running``, its worker owns it, otherwise the pool."""

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
        """Runs the job. Only two slow runs in a row count: the first one is often slow."""
        began_ns = clock.monotonic_ns()
        try:
            result = self.job()
        except Exception as error:  # noqa: BLE001 - it is the job's result
            result = error
        before_ns, self.took_ns = self.took_ns, clock.monotonic_ns() - began_ns
        if before_ns > self.quick_ns < self.took_ns:
            self.alone_runs = ALONE_RUNS
        elif self.alone_runs:
            self.alone_runs -= 1
        self.results.append(result)
        self.running = False  # the last statement: from now on the pool owns it

    def take(self) -> Any:  # noqa: ANN401 - what its job was typed to give
        """Its result, or ``Stuck``. Each result is returned once."""
        return self.results.pop() if self.results else Stuck(self.started_mono_ns)


class _Worker:
    """One thread, named after its current task.

    Tasks that it has not begun may be taken back. It puts an item into ``ended`` when all are done.
    """

    def __init__(self, clock: Clock, ended: SimpleQueue[None]) -> None:
        self._clock = clock
        self._ended = ended
        self._orders: SimpleQueue[bool] = SimpleQueue()
        self._todo: deque[_Task] = deque()
        # Python waits at its end for threads that are no daemons, and a call may hang in this one.
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def begin(self, tasks: Iterable[_Task]) -> None:
        """Runs the tasks, one after another."""
        self._todo.extend(tasks)
        self._orders.put(True)

    def take_back(self) -> list[_Task]:
        """Removes and returns the tasks that it has not begun."""
        tasks = []
        with suppress(IndexError):
            while True:
                tasks.append(self._todo.popleft())
        return tasks

    def stop(self) -> None:
        """Ends the thread after its last task."""
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
    """Runs one job for each key. One caller at a time."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._name = name
        self._ended: SimpleQueue[None] = SimpleQueue()  # waits in fewer steps than a Condition
        self._tasks: dict[str, _Task] = {}
        self._shared: _Worker | None = None

    def run(
        self, jobs: Mapping[str, Callable[[], T]], deadline_s: float
    ) -> dict[str, T | Stuck | Exception]:
        """Runs one job for each key; returns the results that came within ``deadline_s``.

        If a key's earlier job has not returned, its result is ``Stuck`` and no second job begins.
        If that job has returned since, its late result is returned instead of a new one: what it
        measured is not lost. An exception of a job is its result.
        """
        shared_s = min(SHARED_TIMEOUT_S, SHARED_PART * deadline_s)
        begun = self._begun(jobs)
        if not self._wait(begun, shared_s):
            self._split(begun)
            self._wait(begun, deadline_s - shared_s)
        return {key: self._tasks[key].take() for key in jobs}

    def busy(self, keys: Iterable[str]) -> bool:
        """Whether a job of one of these keys is still running."""
        return any(key in self._tasks and self._tasks[key].running for key in keys)

    def forget(self, keys: Iterable[str]) -> None:
        """Drops these keys; their own threads end as soon as their jobs have returned."""
        for key in keys:
            task = self._tasks.pop(key, None)
            if task and task.worker:
                task.worker.stop()

    def close(self) -> None:
        """Ends all threads without waiting: a hung call ends with the process."""
        self.forget(tuple(self._tasks))
        if self._shared:
            self._shared.stop()
            self._shared = None

    def _begun(self, jobs: Mapping[str, Callable[[], object]]) -> list[_Task]:
        """Begins the jobs of all keys without an earlier job or result pending."""
        begun, quick = [], []
        now_ns = self._clock.monotonic_ns()
        # Each job's equal part of the time of the shared thread.
        quick_ns = int(SHARED_TIMEOUT_S * SECOND / max(len(jobs), 1))
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
        """Whether all have returned in time."""
        until = monotonic() + seconds
        # An item may be of an earlier run that ended late. What counts is whether these tasks run.
        while any(task.running for task in tasks):
            try:
                self._ended.get(timeout=max(until - monotonic(), 0))
            except Empty:
                return False
        return True

    def _split(self, begun: Iterable[_Task]) -> None:
        """Gives the slow task the shared thread, and each task that waits a thread of its own."""
        if self._shared is None:
            return
        waiting = self._shared.take_back()
        for task in begun:
            if task.running and not task.worker and task not in waiting:
                task.worker, self._shared = self._shared, None
                task.alone_runs = ALONE_RUNS
        for task in waiting:
            self._apart(task)
