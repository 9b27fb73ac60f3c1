"""Workers under a deadline: what hangs costs only itself."""

import time
from collections.abc import Callable, Iterator
from threading import Event, Thread, current_thread, get_ident

import pytest

from exporter.sources.gpus.pool import ALONE_RUNS, DeviceWorkers, Stuck

PATIENT, HASTY = 60.0, 0.05
LONG = 1.0  # waited for to the end


@pytest.fixture
def workers() -> Iterator[DeviceWorkers]:
    """A pool of none yet."""
    workers = DeviceWorkers(time, "test")
    yield workers
    workers.close()


def settle(workers: DeviceWorkers, key: str) -> None:
    """Wait until the job of a key has come back."""
    assert workers._wait([workers._tasks[key]], PATIENT)


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


def test_quick_jobs_share_a_thread_that_is_named_after_what_it_is_at(
    workers: DeviceWorkers,
) -> None:
    names: list[str] = []

    def job() -> int:
        names.append(current_thread().name)
        return get_ident()

    a, b, c = workers.run(dict.fromkeys("abc", job), PATIENT).values()
    assert a == b == c != get_ident()
    assert names == ["test a", "test b", "test c"]


def test_the_thread_of_a_forgotten_key_ends_when_its_job_has_come_back(
    workers: DeviceWorkers,
) -> None:
    let_go = Event()
    threads = []

    def hang() -> None:
        threads.append(current_thread())
        let_go.wait()

    workers.run({"a": hang}, HASTY)
    workers.forget(["a"])
    let_go.set()
    threads[0].join(PATIENT)

    assert not threads[0].is_alive()


def test_close_ends_the_shared_thread(workers: DeviceWorkers) -> None:
    shared = workers.run({"a": current_thread}, PATIENT)["a"]
    assert isinstance(shared, Thread)

    workers.close()
    shared.join(PATIENT)

    assert not shared.is_alive()


def test_job_that_hangs_first_keeps_nobody_behind_it_waiting(workers: DeviceWorkers) -> None:
    let_go = Event()
    jobs: dict[str, Callable[[], object]] = {"a": let_go.wait}
    results = workers.run(jobs | dict.fromkeys("bcd", lambda: current_thread().name), LONG)
    assert isinstance(results.pop("a"), Stuck)
    assert results == {"b": "test b", "c": "test c", "d": "test d"}
    let_go.set()


def test_jobs_that_hang_one_behind_the_other_keep_nobody_waiting(workers: DeviceWorkers) -> None:
    let_go = Event()
    hung = dict.fromkeys("abcdefgh", let_go.wait)
    results = workers.run({**hung, "z": lambda: True}, LONG)
    assert results.pop("z") is True
    assert all(isinstance(result, Stuck) for result in results.values())
    let_go.set()


def test_hung_job_that_is_back_stays_alone_for_a_while(workers: DeviceWorkers) -> None:
    let_go = Event()
    workers.run({"a": let_go.wait, "b": get_ident}, HASTY)
    let_go.set()
    settle(workers, "a")
    workers.run({"a": get_ident}, PATIENT)
    jobs = dict.fromkeys("abc", current_thread)
    runs = [workers.run(jobs, PATIENT) for _ in range(ALONE_RUNS + 1)]
    assert runs[0]["a"] != runs[0]["b"] == runs[0]["c"]
    assert [run["a"] == run["b"] for run in runs] == [False] * ALONE_RUNS + [True]
    alone = runs[0]["a"]
    assert isinstance(alone, Thread)
    alone.join(PATIENT)
    assert not alone.is_alive()


def test_who_hangs_alone_leaves_the_others_their_shared_thread(workers: DeviceWorkers) -> None:
    let_go = Event()
    workers.run({"a": let_go.wait}, HASTY)
    let_go.set()
    settle(workers, "a")
    workers.run({"a": tuple}, PATIENT)
    let_go.clear()
    together = workers.run({"a": let_go.wait, "b": get_ident}, HASTY)
    assert isinstance(together["a"], Stuck)
    assert workers.run({"b": get_ident}, PATIENT) == {"b": together["b"]}
    let_go.set()


def test_who_was_done_before_another_hung_shares_on(workers: DeviceWorkers) -> None:
    let_go = Event()
    workers.run({"a": get_ident, "b": let_go.wait}, HASTY)
    a, c = workers.run({"a": get_ident, "c": get_ident}, PATIENT).values()
    assert a == c
    let_go.set()
