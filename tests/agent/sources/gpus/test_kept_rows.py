"""A driver forgets a process when it ends, and may give its samples to the next one.

The rows of each second are kept until the ring is read, so that nobody loses more than what it used
after the last of them, and nobody has what another used.
"""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.sources.gpus.processpresence import ProcessPresence
from exporter.agent.sources.gpus.window import WindowCursor
from exporter.model import ProcessSample
from tests.agent.sources.gpus import test_seldom_property as seldom
from tests.agent.sources.gpus.test_seldom_property import EVERY_NS, SETTLED_S, by_process
from tests.agent.sources.gpus.test_window_steps import SECOND

STAYS = 6  # a process that is there throughout
SECONDS = 40
seeds = st.integers(0, 2**32).map(Random)


@dataclass
class Forgetful(seldom.Device):
    """Its rows name whoever is there. ``inherits``: the newest process has what others had."""

    inherits: bool = False
    alive: set[int] = field(default_factory=lambda: {STAYS})

    def process_samples(self, newer_than_us: int) -> list[ProcessSample]:
        """The averages, by who is named when they are asked for."""
        there = max(self.alive)
        samples = [
            (at, there if (pid or 0) > STAYS and there > STAYS and self.inherits else pid)
            for at, pid, _ in self._newer(newer_than_us)
        ]
        rows = {}
        for at, pid in samples:
            if pid in self.alive:
                part = 100 * [own for _, own in samples].count(pid) // len(samples)
                rows[pid] = ProcessSample(pid, at, part, 0, 0, 0)
        return list(rows.values())


@dataclass
class Job:
    """A process of some pid, from second to second, which works from ``works_s`` on."""

    pid: int
    begin_s: float
    works_s: float
    end_s: float


def jobs_of(random: Random) -> list[Job]:
    """One after the other, most of them of a second or two."""
    found: list[Job] = []
    at_s = random.uniform(2, 4)
    while at_s < SECONDS:
        works_s = at_s + random.choice((0.0, 0.2, 0.6))
        end_s = works_s + random.choice((0.3, 0.8, 1.5, 1.5, 2.5, 7.0))
        found.append(Job(100 + len(found), at_s, works_s, end_s))
        at_s = end_s + random.choice((1.1, 1.6, 3.0))
    return found


class Life:
    """What was used and named of a device with some jobs, looked at in each second.

    ``seen_us`` is what each process had used when its row was read last.
    """

    def __init__(self, random: Random, device: Forgetful, jobs: list[Job]) -> None:
        device.pass_time(SETTLED_S * SECOND)
        cursor, presence = WindowCursor(device, device), ProcessPresence()
        begun_us = device.mono
        cursor.next()
        self.named, self.seen_us = Counter[int](), Counter[int]()
        for second in range(1, SECONDS + 10):
            until_us = begun_us + second * SECOND + random.randint(0, 20_000)
            while device.mono < until_us:
                at_s = (device.mono - begun_us) / SECOND
                now = [job for job in jobs if job.begin_s <= at_s < job.end_s]
                device.alive = {STAYS, *[job.pid for job in now]}
                works = [job.pid for job in now if job.works_s <= at_s]
                device.working_pid = works[0] if works else random.choice((None, STAYS))
                device.pass_time(min(device.period // 2, until_us - device.mono))
            presence.list(frozenset(device.alive), device.mono)
            cursor.absent_until_us = presence.absent_until_us
            for window in cursor.next() if cursor.is_due(EVERY_NS) else ():
                self.named += by_process((window,))
            if cursor.rows_read_us != device.mono:
                cursor.look()
            self.seen_us |= Counter({pid: device.by_pid[pid] for pid in device.alive})


def life_of(random: Random, *, inherits: bool) -> tuple[Forgetful, list[Job], Life]:
    period, depth = random.choice([each for each in seldom.RINGS if each[0] * each[1] > 7 * SECOND])
    device = Forgetful("samples", "wall", period=period, depth=depth, inherits=inherits)
    jobs = jobs_of(random)
    return device, jobs, Life(random, device, jobs)


@settings(max_examples=settings().max_examples // 3)
@given(seeds)
def test_a_process_loses_only_what_it_used_after_the_last_look(random: Random) -> None:
    device, jobs, life = life_of(random, inherits=False)
    for job in jobs:
        # The clock is known up to a sample, and averages are cut to whole percents.
        slack_ns = 2 * device.period * 1000 + 10**8
        assert life.named[job.pid] >= life.seen_us[job.pid] * 1000 - slack_ns, job


@settings(max_examples=settings().max_examples // 3)
@pytest.mark.parametrize("inherits", [False, True])
@given(seeds)
def test_no_process_has_what_another_used(inherits: bool, random: Random) -> None:  # noqa: FBT001
    device, jobs, life = life_of(random, inherits=inherits)
    for job in jobs:
        slack_ns = 2 * device.period * 1000 + 10**8
        if inherits:  # what was used in the second in which it came may be its own
            slack_ns += SECOND * 1000
        assert life.named[job.pid] <= device.by_pid[job.pid] * 1000 + slack_ns, job
