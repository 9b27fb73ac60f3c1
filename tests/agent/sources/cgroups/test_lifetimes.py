import errno
import os
import select
import signal
import subprocess
from collections.abc import Iterator
from typing import cast

import pytest

from exporter.agent.sources.cgroups.heldprocess import Hold, Lifetimes


@pytest.fixture
def lifetimes() -> Iterator[Lifetimes]:
    made = Lifetimes()
    yield made
    made.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "infinity"]) as process:
        yield process
        process.kill()


def become_zombie(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_the_end_of_a_process_is_told_once_and_before_it_is_reaped(
    lifetimes: Lifetimes, sleeper: subprocess.Popen[bytes]
) -> None:
    for _ in range(2):
        assert lifetimes.hold(sleeper.pid) is Hold.HELD
    assert lifetimes.ended() == []
    become_zombie(sleeper.pid)
    assert lifetimes.ended() == [sleeper.pid]
    assert lifetimes.ended() == []


def test_all_ends_at_once_are_told_but_of_those_released(lifetimes: Lifetimes) -> None:
    sleepers = [subprocess.Popen(["sleep", "infinity"]) for _ in range(9)]
    for process in sleepers:
        lifetimes.hold(process.pid)
    lifetimes.release(sleepers[0].pid)
    for process in sleepers:
        process.kill()
        process.wait()
    assert sorted(lifetimes.ended()) == sorted(process.pid for process in sleepers[1:])
    assert lifetimes.hold(sleepers[0].pid) is Hold.GONE


def test_nothing_is_held_where_pids_are_not_the_kernels_own() -> None:
    lifetimes = Lifetimes(enabled=False)
    assert lifetimes.hold(os.getpid()) is Hold.IMPOSSIBLE
    assert lifetimes.ended() == []
    lifetimes.close()


class FullEpoll:
    """The answer of a kernel whose fs.epoll.max_user_watches is reached."""

    def register(self, *_: int) -> None:
        """No space."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Nothing is open."""


def test_a_process_that_the_kernel_does_not_watch_is_not_held_and_costs_no_descriptor(
    sleeper: subprocess.Popen[bytes],
) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not used
    lifetimes = Lifetimes(epoll=cast("select.epoll", FullEpoll()))
    assert lifetimes.hold(sleeper.pid) is Hold.IMPOSSIBLE
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - counted, not used
    assert lifetimes.ended() == []
    lifetimes.close()
