"""Workers under a deadline: what hangs costs only itself."""

import time
from collections.abc import Callable, Iterator
from threading import Event, Thread, current_thread, get_ident

import pytest

from exporter.agent.sources.gpus.pool import ALONE_RUNS, SHARED_TIMEOUT_S, DeviceWorkers, Stuck
from tests.agent.simulation.clock import ManualClock

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
    results = workers.run({"a": let_go.wait, "b": lambda: True}, LONG)
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


class Reader:
    """Tells which thread a job runs in, and takes so long for it."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.takes_s = 0.0

    def job(self) -> Thread:
        """Its thread."""
        self._clock.move(self.takes_s)
        return current_thread()


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


class Two:
    """A pool with two readers."""

    def __init__(self) -> None:
        clock = ManualClock()
        self.workers = DeviceWorkers(clock, "test")
        self.a, self.b = Reader(clock), Reader(clock)

    def run(self) -> list[Thread]:
        """The threads that each ran in."""
        results = self.workers.run({"a": self.a.job, "b": self.b.job}, PATIENT).values()
        return [thread for thread in results if isinstance(thread, Thread)]

    def apart(self) -> bool:
        """Run them, and tell whether each had a thread of its own."""
        a, b = self.run()
        return a != b


@pytest.fixture
def two() -> Iterator[Two]:
    made = Two()
    yield made
    made.workers.close()


def test_slow_job_leaves_the_shared_thread_and_comes_back_when_it_is_quick(two: Two) -> None:
    two.a.takes_s = 1
    assert [two.apart() for _ in range(4)] == [False, False, True, True]
    two.a.takes_s = 0
    runs = [two.apart() for _ in range(2 * ALONE_RUNS)]
    assert runs == [True] * ALONE_RUNS + [False] * ALONE_RUNS


@pytest.mark.parametrize(("part", "apart"), [(0.45, False), (0.55, True)])
def test_of_two_each_may_take_half_of_what_all_may(
    two: Two,
    part: float,
    apart: bool,  # noqa: FBT001 - a column
) -> None:
    two.a.takes_s = part * SHARED_TIMEOUT_S

    assert [two.apart() for _ in range(4)] == [False, False, apart, apart]


def test_the_thread_of_who_was_slow_ends_when_it_shares_again(two: Two) -> None:
    two.a.takes_s = 1
    for _ in range(3):
        own, _ = two.run()
    two.a.takes_s = 0
    for _ in range(ALONE_RUNS + 2):
        shared, _ = two.run()

    own.join(PATIENT)

    assert not own.is_alive()
    assert shared.is_alive()


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


def test_one_slow_run_alone_parts_nobody(two: Two) -> None:
    for two.a.takes_s in (1, 0) * 3:
        assert not two.apart()


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
    workers.run({"a": let_go.wait, "b": get_ident}, LONG)
    let_go.set()
    settle(workers, "a")
    workers.run({"a": get_ident}, PATIENT)
    results = workers.run({"a": get_ident, "b": get_ident, "c": get_ident}, PATIENT)
    assert results["a"] != results["b"] == results["c"]


def test_who_hangs_alone_leaves_the_others_their_shared_thread(workers: DeviceWorkers) -> None:
    let_go = Event()
    workers.run({"a": let_go.wait}, HASTY)
    let_go.set()
    settle(workers, "a")
    workers.run({"a": tuple}, PATIENT)
    let_go.clear()
    together = workers.run({"a": let_go.wait, "b": get_ident}, LONG)
    assert isinstance(together["a"], Stuck)
    assert workers.run({"b": get_ident}, PATIENT) == {"b": together["b"]}
    let_go.set()


def test_who_was_done_before_another_hung_shares_on(workers: DeviceWorkers) -> None:
    let_go = Event()
    workers.run({"a": get_ident, "b": let_go.wait}, LONG)
    a, c = workers.run({"a": get_ident, "c": get_ident}, PATIENT).values()
    assert a == c
    let_go.set()
