"""Workers under a deadline: what hangs costs only itself."""

import time
from collections.abc import Iterator
from threading import Event, current_thread

import pytest

from exporter.gpus.pool import DeviceWorkers, Stuck

PATIENT, HASTY = 60.0, 0.05


@pytest.fixture
def workers() -> Iterator[DeviceWorkers]:
    """A pool of none yet."""
    workers = DeviceWorkers(time, "test")
    yield workers
    workers.close()


def settle(workers: DeviceWorkers, key: str) -> None:
    """Wait until the job of a key has come back."""
    with workers._changed:
        assert workers._changed.wait_for(lambda: not workers._workers[key].running, PATIENT)


def test_results_come_by_key(workers: DeviceWorkers) -> None:
    assert workers.run({"a": lambda: 1, "b": lambda: 2}, PATIENT) == {"a": 1, "b": 2}


def test_nothing_to_do_is_done_at_once(workers: DeviceWorkers) -> None:
    assert workers.run({}, PATIENT) == {}


def test_jobs_run_side_by_side_each_in_its_own_thread(workers: DeviceWorkers) -> None:
    here, there = Event(), Event()

    def meet(mine: Event, other: Event) -> str:
        mine.set()
        assert other.wait(PATIENT)
        return current_thread().name

    jobs = {"a": lambda: meet(here, there), "b": lambda: meet(there, here)}
    first = workers.run(jobs, PATIENT)
    assert first == {"a": "test a", "b": "test b"}
    here.clear()
    there.clear()
    assert workers.run(jobs, PATIENT) == first


def test_what_a_job_raises_is_its_result(workers: DeviceWorkers) -> None:
    results = workers.run({"a": lambda: 1 // 0, "b": lambda: 2}, PATIENT)
    assert isinstance(results["a"], ZeroDivisionError)
    assert results["b"] == 2
    assert workers.run({"a": lambda: 3}, PATIENT) == {"a": 3}


def test_hung_job_is_stuck_and_the_others_are_not(workers: DeviceWorkers) -> None:
    let_go = Event()
    began = time.monotonic_ns()
    results = workers.run({"a": let_go.wait, "b": lambda: True}, HASTY)
    assert results["b"] is True
    stuck = results["a"]
    assert isinstance(stuck, Stuck)
    assert stuck.since_mono_ns >= began
    assert workers.busy(["a", "b"])
    assert not workers.busy(["b", "never seen"])
    let_go.set()


def test_hung_job_is_not_queued_twice_and_not_waited_for_again(workers: DeviceWorkers) -> None:
    let_go = Event()
    ran = []
    first = workers.run({"a": let_go.wait}, HASTY)["a"]
    again = workers.run({"a": lambda: ran.append(1), "b": lambda: None}, PATIENT)
    assert again == {"a": first, "b": None}
    let_go.set()
    settle(workers, "a")
    assert ran == []


def test_late_result_stands_in_for_the_next_job(workers: DeviceWorkers) -> None:
    let_go = Event()

    def late() -> str:
        let_go.wait()
        return "late"

    assert isinstance(workers.run({"a": late}, HASTY)["a"], Stuck)
    let_go.set()
    settle(workers, "a")
    assert workers.run({"a": lambda: "new"}, PATIENT) == {"a": "late"}
    assert workers.run({"a": lambda: "new"}, PATIENT) == {"a": "new"}


def test_forgotten_key_begins_anew_without_its_late_result(workers: DeviceWorkers) -> None:
    let_go = Event()
    workers.run({"a": let_go.wait}, HASTY)
    workers.forget(["a", "never seen"])
    assert not workers.busy(["a"])
    assert workers.run({"a": lambda: "new"}, PATIENT) == {"a": "new"}
    let_go.set()


def test_close_does_not_wait_for_a_hung_job() -> None:
    workers = DeviceWorkers(time, "test")
    let_go = Event()
    workers.run({"a": let_go.wait}, HASTY)
    workers.close()
    assert not let_go.is_set()
    let_go.set()
