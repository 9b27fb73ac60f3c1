"""The soak notices what it is there for: what grows, what falls, what does not add up."""

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from benchmarks.soak.books import Books
from benchmarks.soak.child import Pace
from benchmarks.soak.judge import ALLOWED, Look, grown, table
from benchmarks.soak.node import sources
from exporter.agent.collector.wiring import make_collector
from exporter.agent.settings import load
from exporter.metrics.families import families_without
from exporter.metrics.profiles import left_out
from exporter.metrics.text import Format, Renderer
from exporter.model import Engines, Facts, Snapshot
from tests.agent.simulation.clock import ManualClock
from tests.e2e.programs import Page

MIB, MINUTE = 1 << 20, 60 * 10**9
LOOK = Look(0.0, 60 * MIB, 9, 7, 280_000, 70_000, 2000)
LOOKS = 60


def run(field: str, *, each: float = 0.0, wave: int = 0) -> list[Look]:
    """A run in which one figure grows by ``each`` a look, and goes up and down by ``wave``."""
    start = getattr(LOOK, field)
    return [
        LOOK._replace(minute=float(n), **{field: int(start + each * n + wave * (n % 3 - 1))})
        for n in range(LOOKS)
    ]


def leaks(looks: list[Look]) -> list[str]:
    return [one.name for one in grown(looks) if one.leaks]


@pytest.mark.parametrize(
    ("field", "each"),
    [("rss", MIB // 4), ("fds", 0.1), ("threads", 0.1), ("blocks", 600), ("objects", 500)],
)
def test_a_slow_leak_is_seen_and_named(field: str, each: float) -> None:
    assert leaks(run(field, each=each)) == [field]


@pytest.mark.parametrize(
    ("field", "wave"),
    [("rss", 5 * MIB), ("fds", 3), ("threads", 2), ("blocks", 20_000), ("series", 400)],
)
def test_what_goes_up_and_down_is_no_leak(field: str, wave: int) -> None:
    assert leaks(run(field, wave=wave)) == []


def test_what_grows_in_the_first_third_only_is_no_leak() -> None:
    looks = [LOOK._replace(blocks=1000 * min(n, LOOKS // 3)) for n in range(LOOKS)]

    assert leaks(looks) == []


def test_every_figure_has_its_line() -> None:
    text = table(grown(run("fds", each=0.2)))

    assert len(text.splitlines()) == 2 + len(ALLOWED)
    assert text.count("GROWS") == 1
    assert "| resident memory | 60.0 MiB | 60.0 MiB | 60.0 MiB | steady |" in text


class Node:
    """The soak's own node, without a process of its own."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        settings = load({"ledger.retention": ["1m"]}, {})
        self.collector = make_collector(settings, sources(self.clock), self.clock)

    def after(self, seconds: int) -> Snapshot:
        """The Snapshot so many cycles of a second later."""
        for _ in range(seconds):
            self.clock.move(1)
            self.collector.cycle()
        return self.collector.snapshot


def page(snapshot: Snapshot) -> Page:
    return Page(Renderer(families_without(left_out("full"))).render(snapshot, Format.TEXT).decode())


@pytest.mark.slow
def test_the_books_of_its_node_balance_over_all_that_fails() -> None:
    node, books = Node(), Books()
    wrong = [fault for _ in range(16) for fault in books.check(page(node.after(5)))]

    assert wrong == []
    assert 8 < books.whole_pages < books.pages


def test_a_counter_that_falls_and_a_part_that_is_missing_are_seen() -> None:
    node, books = Node(), Books()
    books.check(page(node.after(20)))
    snapshot = node.after(5)
    first, *others = sorted(snapshot.facts.containers, key=lambda held: held.owner)
    less = replace(first, used=first.used._replace(busy=Engines(0)))
    facts = replace(snapshot.facts, containers=(less, *others))
    wrong = books.check(page(replace(snapshot, measured=lambda: facts)))

    assert any("core_seconds_total" in fault and "fell" in fault for fault in wrong)
    assert any("busy_seconds_total rose by" in fault for fault in wrong)


def idle_more(facts: Facts) -> Facts:
    """A container left a minute more idle."""
    held = next(held for held in facts.containers if held.allocation.core)
    more = held.allocated._replace(idle_ns=MINUTE + (held.allocated.idle_ns or 0))
    others = [one for one in facts.containers if one is not held]
    return replace(facts, containers=(replace(held, allocated=more), *others))


def free_more(facts: Facts) -> Facts:
    """A minute more of a device was nobody's."""
    first, *others = facts.devices
    more = replace(first.allocated, free_ns=MINUTE + (first.allocated.free_ns or 0))
    return replace(facts, devices=(replace(first, allocated=more), *others))


def unobserved_more(facts: Facts) -> Facts:
    """A minute more of a device was not observed."""
    first, *others = facts.devices
    return replace(facts, devices=(replace(first, unobserved_ns=MINUTE), *others))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (idle_more, "is not the allocated"),
        (free_more, "were allocated or nobody's"),
        (unobserved_more, "were busy or unobserved"),
    ],
)
def test_time_that_is_counted_twice_is_seen(planted: Callable[[Facts], Facts], said: str) -> None:
    node, books = Node(), Books()
    assert books.check(page(node.after(20))) == []
    facts = planted(node.after(5).facts)
    [wrong] = books.check(page(replace(node.collector.snapshot, measured=lambda: facts)))
    assert said in wrong


def test_time_passes_as_the_cycle_waits_and_for_nobody_else() -> None:
    pace = Pace(speed=1e9)
    seen = []
    before = pace.monotonic_ns()
    pace.wait(2.5)
    seen.append(pace.monotonic_ns() - before)
    cycle = threading.Thread(target=pace.wait, args=(2.5,), name="collector")
    cycle.start()
    cycle.join()
    seen.append(pace.monotonic_ns() - before)

    assert seen == [0, 2_500_000_000]
