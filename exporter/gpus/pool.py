"""Worker threads that wait for driver calls, so that nobody else has to.

A call into a driver cannot be interrupted. What can be done is to make it in a thread of its own,
to wait for no longer than a deadline, and to go on without that one device.
"""

from collections.abc import Callable, Iterable, Mapping
from queue import SimpleQueue
from threading import Condition, Thread
from typing import Any, NamedTuple, TypeVar

from exporter.model import Clock

T = TypeVar("T")


class Stuck(NamedTuple):
    """A job that has not come back yet, and when it was begun."""

    since_mono_ns: int


class _Worker:
    """One thread and at most one job. Its state is guarded by the pool's condition."""

    def __init__(self, name: str, changed: Condition) -> None:
        self._changed = changed
        self._inbox: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self.started_mono_ns = 0
        self.running = False
        self.results: list[object] = []
        Thread(target=self._work, name=name, daemon=True).start()

    def begin(self, job: Callable[[], object], now_mono_ns: int) -> None:
        self.running = True
        self.started_mono_ns = now_mono_ns
        self._inbox.put(job)

    def stop(self) -> None:
        self._inbox.put(None)

    def _work(self) -> None:
        while job := self._inbox.get():
            try:
                result = job()
            except Exception as error:  # noqa: BLE001 - handed to who asked for the job
                result = error
            with self._changed:
                self.running = False
                self.results.append(result)
                self._changed.notify_all()


class DeviceWorkers:
    """A worker for each key, started when it is first needed. One caller at a time."""

    def __init__(self, clock: Clock, name: str) -> None:
        self._clock = clock
        self._name = name
        self._changed = Condition()
        self._workers: dict[str, _Worker] = {}

    def run(
        self, jobs: Mapping[str, Callable[[], T]], deadline_s: float
    ) -> dict[str, T | Stuck | Exception]:
        """Run one job a key, side by side, and give what has come back within ``deadline_s``.

        A key whose job of an earlier run has not come back is stuck at once and gets no second job.
        When it has come back meanwhile, its late result stands in for the job of this run: what it
        measured is not lost. What a job raises is its result.
        """
        with self._changed:
            begun = [key for key, job in jobs.items() if self._offer(key, job)]
            self._changed.wait_for(
                lambda: not any(self._workers[key].running for key in begun), deadline_s
            )
            return {key: self._take(self._workers[key]) for key in jobs}

    def busy(self, keys: Iterable[str]) -> bool:
        """Whether a job of one of these keys is still running."""
        with self._changed:
            return any(key in self._workers and self._workers[key].running for key in keys)

    def forget(self, keys: Iterable[str]) -> None:
        """End the workers of these keys, each as soon as its job has come back."""
        for key in keys:
            if worker := self._workers.pop(key, None):
                worker.stop()

    def close(self) -> None:
        """End all workers. Waits for none: a hung call ends with the process."""
        self.forget(tuple(self._workers))

    def _offer(self, key: str, job: Callable[[], object]) -> bool:
        worker = self._workers.get(key)
        if worker is None:
            worker = self._workers[key] = _Worker(f"{self._name} {key}", self._changed)
        if worker.running or worker.results:
            return False
        worker.begin(job, self._clock.monotonic_ns())
        return True

    @staticmethod
    def _take(worker: _Worker) -> Any:  # noqa: ANN401 - what its job was typed to give
        if worker.results:
            return worker.results.pop()
        return Stuck(worker.started_mono_ns)
