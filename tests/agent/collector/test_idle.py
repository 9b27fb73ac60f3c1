"""Whom a board's idle energy is charged to: nobody, those who are there, or those with a claim."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.collector.cyclerules import PARTS, IdlePolicy, idle_weights
from exporter.agent.ledger import Allocated
from exporter.agent.settings import TABLE
from exporter.model import (
    Allocation,
    CgroupIdentity,
    ContainerKey,
    DeviceMemory,
    DeviceReading,
    Engines,
    GroupKey,
    Number,
    Owner,
    ProcessMemory,
    Unattributed,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, SECOND, Bench, row
from tests.agent.collector.test_blindness import PLACED_POD
from tests.rows import Row, rows_of

A, B, C = (ContainerKey("n", name, "c") for name in "abc")
GROUP = GroupKey("docker", "x")


def allocated(key: ContainerKey, core: float | None) -> Allocated:
    return Allocated(key, Allocation("u", key.container, "GPU-0", core, None, "test"))


GRANTS = (allocated(A, 0.5), allocated(B, 0.2), allocated(C, None))


@pytest.mark.parametrize(
    ("policy", "grants", "expected"),
    [
        (IdlePolicy.UNATTRIBUTED, GRANTS, {}),
        (IdlePolicy.EQUAL, GRANTS, {A: 1, GROUP: 1}),
        (
            IdlePolicy.ALLOCATION,
            GRANTS,
            {A: 500_000, B: 200_000, C: 0, Unattributed.IDLE: 300_000},
        ),
        (
            IdlePolicy.ALLOCATION,
            (allocated(A, 0.9), allocated(B, 0.6)),
            {A: 900_000, B: 600_000, Unattributed.IDLE: 0},
        ),
        (
            IdlePolicy.ALLOCATION,
            (allocated(A, 0.3), allocated(A, 0.3)),
            {A: 600_000, Unattributed.IDLE: 400_000},
        ),
        (IdlePolicy.ALLOCATION, (), {Unattributed.IDLE: PARTS}),
    ],
)
def test_weights_follow_the_policy(
    policy: IdlePolicy, grants: tuple[Allocated, ...], expected: dict[Owner, int]
) -> None:
    residents = (A, GROUP, Unattributed.HOST_PROCESS, Unattributed.NO_PID)

    elsewhere = Allocated(A, Allocation("u", "c", "GPU-1", 1.0, None, "test"))
    found = idle_weights(policy, "GPU-0", residents, (*grants, elsewhere))

    assert found == expected


def test_the_settings_choices_are_the_policies() -> None:
    assert TABLE["energy_idle"].kind.allowed == f"one of {', '.join(IdlePolicy)}"


def bench_of(policy: IdlePolicy) -> Bench:
    """A pod that is allocated half a device, and a Docker container, both idle and resident."""
    bench = Bench(policy)
    bench.name_pod(PLACED_POD)
    bench.processes.identities = {
        7: CgroupIdentity("uid-1", CID, "containerd"),
        8: CgroupIdentity(None, "b" * 64, "docker"),
    }
    show(bench, energy_uj=100, idle_uj=100)
    return bench


def show(bench: Bench, energy_uj: int, idle_uj: int | None, core_ns: int = 0) -> None:
    """Let the board use this energy in the next cycles."""
    holders = tuple(ProcessMemory(pid, 100, frozenset({"compute"})) for pid in (7, 8))
    bench.gpus.devices = (
        DeviceReading(
            DEVICE,
            window=Window(
                0,
                SECOND,
                SECOND,
                0,
                Engines(core=core_ns),
                energy_uj=energy_uj,
                idle_energy_uj=idle_uj,
            ),
            memory=DeviceMemory(1000, 200, None, holders),
        ),
    )


def joules(bench: Bench) -> dict[str, Number]:
    """The device's energy and its parts, as on the page."""
    rows = rows_of(bench.collector.snapshot)
    device = row(bench.collector.snapshot, "device", "0", "GPU-0").values
    parts: dict[str, Number] = {
        f"unattributed {reason}": amount
        for (reason,), amount in device["unattributed_energy_joules_total"].items()  # type: ignore[union-attr] # labelled
    }
    for level in ("container", "group"):
        parts[level] = sum(_energy(row) for row in rows[level])
    return {name: amount for name, amount in parts.items() if amount}


def _energy(row: Row) -> Number:
    value = row.values["energy_joules_total"]
    assert isinstance(value, int)
    return value


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (IdlePolicy.UNATTRIBUTED, {"unattributed idle": 200}),
        (IdlePolicy.EQUAL, {"container": 100, "group": 100}),
        # the container's allocation is known from the first cycle on, and used from the second
        (IdlePolicy.ALLOCATION, {"container": 50, "unattributed idle": 150}),
    ],
)
def test_idle_energy_is_charged_by_the_policy(
    policy: IdlePolicy, expected: dict[str, Number]
) -> None:
    bench = bench_of(policy)

    bench.cycle()
    device = row(bench.cycle(), "device", "0", "GPU-0").values

    assert joules(bench) == expected
    assert device["energy_joules_total"] == device["idle_energy_joules_total"] == 200


def test_an_allocation_elsewhere_is_no_claim() -> None:
    bench = bench_of(IdlePolicy.ALLOCATION)
    (reading,) = bench.gpus.devices
    bench.gpus.devices = (reading, reading._replace(device=replace(DEVICE, uuid="GPU-1", index=1)))

    bench.cycle()
    device = row(bench.cycle(), "device", "1", "GPU-1").values

    idle = device["unattributed_energy_joules_total"]
    assert isinstance(idle, Mapping)
    assert idle["idle",] == device["energy_joules_total"] == 200


@pytest.mark.parametrize("policy", IdlePolicy)
def test_the_policy_is_on_the_page(policy: IdlePolicy) -> None:
    own = row(bench_of(policy).cycle(), "exporter").values

    assert own["config_info"] == {(str(policy),): 1}


@settings(deadline=None)
@given(
    st.sampled_from(IdlePolicy),
    st.lists(
        st.tuples(
            st.integers(0, 10**9),
            st.one_of(st.none(), st.integers(0, 10**9)),
            st.integers(0, SECOND),
        ),
        max_size=6,
    ),
)
def test_the_parts_always_add_up_to_the_boards_counter(
    policy: IdlePolicy, windows: list[tuple[int, int | None, int]]
) -> None:
    bench = bench_of(policy)
    bench.cycle()
    for energy, idle, core in windows:
        show(bench, energy, idle, core)
        bench.cycle()

    device = row(bench.collector.snapshot, "device", "0", "GPU-0").values
    assert sum(joules(bench).values()) == device["energy_joules_total"]
