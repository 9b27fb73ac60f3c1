"""A cycle that only looks shows what one that accounts for everything again would show."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.collector.accounting import Accounting
from exporter.model import (
    CgroupIdentity,
    Container,
    DeviceMemory,
    DeviceState,
    ProcessMemory,
    Sensors,
    Snapshot,
    Unmeasured,
    XidCount,
)
from tests.agent.collector.bench import CID, DEVICE, PLACED, SECOND, Bench, row
from tests.agent.collector.bench import POD as BARE
from tests.rows import rows_of

POD = replace(BARE, annotations=PLACED)
TWO = replace(POD, containers=(*POD.containers, Container("side")))
OTHER = replace(POD, uid="uid-2", name="serve")


class AccountsForAll(Accounting):
    """Never only looks."""

    def _is_as_before(self, *_: Any) -> bool:
        return False


def steady(kind: type[Accounting] = Accounting) -> Bench:
    """A container that has worked for a second, and holds memory."""
    bench = Bench()
    bench.collector._accounting.__class__ = kind
    bench.processes.identities[7] = CgroupIdentity("uid-1", CID)
    bench.name_pod(POD)
    bench.use(7, SECOND // 2)
    bench.cycle()
    change(bench, window=None)
    return bench


def change(bench: Bench, **told: Any) -> None:
    """Let the device say something else in the next cycles."""
    bench.gpus.devices = tuple(each._replace(**told) for each in bench.gpus.devices)


def allocated_ns(snapshot: Snapshot) -> int:
    return next(c.allocated.gpu_ns or 0 for c in snapshot.facts.containers)


def test_what_is_allocated_goes_on_where_no_use_is_measured() -> None:
    bench = steady()
    change(bench, unmeasured={"core": Unmeasured.NOT_SUPPORTED})
    bench.cycle()

    times = [allocated_ns(bench.cycle()) for _ in range(4)]

    half = SECOND // 2  # of a card is allocated
    assert [later - sooner for sooner, later in pairwise(times)] == [half] * 3


def test_sensors_and_xids_are_new_in_each_cycle() -> None:
    bench = steady()
    bench.cycle()
    change(bench, sensors=Sensors({"power_watts": 70.0}), xids={"79": XidCount(1, 5)})

    (device,) = bench.cycle().facts.devices

    assert device.sensors.value("power_watts") == 70
    assert device.xids == {"79": XidCount(1, 5)}


def test_a_cycle_that_failed_half_way_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = steady()
    bench.cycle()
    bench.name_pod(replace(POD, name="renamed"))
    with monkeypatch.context() as patched:
        patched.setattr(bench.ledger, "settle", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bench.cycle()

    assert row(bench.cycle(), "pod", "ml", "renamed")


def served(number: int) -> DeviceMemory:
    """The memory of an MPS server in the container, and of a client of it."""
    server = ProcessMemory(7, 100, frozenset({"compute", "mps_server"}))
    client = ProcessMemory(8, 100 + number % 2, frozenset({"mps"}))
    return DeviceMemory(1000, 300, None, (server, client))


Step = Callable[[Bench, int], Any]


def work(bench: Bench, number: int) -> None:
    bench.use(7, SECOND * (number % 4) // 4, 100 + number)


def hold_more(bench: Bench, number: int) -> None:
    change(bench, memory=replace(served(0), used_bytes=400 + number))


def move(bench: Bench, number: int) -> None:
    bench.processes.identities[7] = CgroupIdentity(f"uid-{number % 3}", CID)


def identify(bench: Bench, number: int) -> None:
    bench.processes.now = bench.processes.now._replace(up=number % 2 == 0)


def add_kind(bench: Bench, number: int) -> None:
    bench.processes.kinds |= {f"kind{number % 3}"}


def name_two(bench: Bench, number: int) -> None:
    bench.name_pod(TWO)
    bench.processes.identities[7] = CgroupIdentity("uid-1", f"{number % 3}" * 64)


NOTHING: Step = lambda *_: None  # noqa: E731 - beside the others
STEPS: list[Step] = [
    *[NOTHING] * 6,
    work,
    hold_more,
    move,
    identify,
    add_kind,
    lambda bench, _: bench.processes.identities.pop(7, None),
    lambda bench, _: bench.name_pod(OTHER),
    lambda bench, _: bench.name_pod(POD),
    lambda bench, _: change(bench, state=DeviceState.LOST),
    lambda bench, _: change(bench, state=DeviceState.UP, unmeasured={}),
    lambda bench, _: change(bench, unmeasured={"power": Unmeasured.NOT_SUPPORTED}),
    lambda bench, _: change(bench, memory=None),
    lambda bench, number: change(bench, seen=frozenset({7, number % 3})),
    name_two,
    lambda bench, number: change(bench, memory=served(number)),
    lambda bench, _: change(bench, device=replace(DEVICE, sharing="mps")),
    lambda bench, number: change(bench, sensors=Sensors({"power_watts": float(number)})),
]


@given(st.lists(st.sampled_from(STEPS), max_size=30))
def test_looking_shows_what_accounting_again_shows(steps: list[Step]) -> None:
    looks, accounts = steady(), steady(AccountsForAll)
    for number, step in enumerate(steps):
        for bench in (looks, accounts):
            change(bench, window=None)
            step(bench, number)
        now, all_of_it = looks.cycle(), accounts.cycle()

        assert rows_of(now) == rows_of(all_of_it)
        assert now.owners == all_of_it.owners
        assert now.tenants == all_of_it.tenants
