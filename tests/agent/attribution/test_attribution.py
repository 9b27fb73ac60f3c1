"""The join: whose process it is, and that every unit of a device ends in exactly one place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.attribution.join import account, place, share_memory
from exporter.agent.attribution.ownership import owner_of
from exporter.agent.attribution.shares import SCALE_CAP
from exporter.model import (
    QUANTITIES,
    Allocation,
    CgroupIdentity,
    CgroupMemory,
    Container,
    ContainerKey,
    Device,
    DeviceMemory,
    DeviceUsage,
    Engines,
    GroupKey,
    MemoryHeld,
    Owner,
    Pod,
    PodSlot,
    PodTable,
    ProcessActivity,
    ProcessMemory,
    Unattributed,
    Unexplained,
    Window,
)

CID = "a" * 64
OTHER = "b" * 64
POD = Pod(
    uid="api-uid",
    namespace="ml",
    name="train-0",
    static_hash="c" * 32,
    containers=(
        Container("main", container_ids=(CID,)),
        Container("logs", container_ids=()),
    ),
)
VICTIM = "e" * 64
TABLE = PodTable(
    pods={"api-uid": POD, "victim": Pod("victim", "other", "victim")},
    by_kubelet_uid={"api-uid": "api-uid", "c" * 32: "api-uid", "victim": "victim"},
    by_container_id={CID: ("api-uid", "main"), VICTIM: ("victim", "main")},
)
DEVICE = Device("GPU-0", 0, "nvidia")
MAIN = ContainerKey("ml", "train-0", "main")
LOGS = ContainerKey("ml", "train-0", "logs")


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (CgroupIdentity("api-uid", CID), MAIN),
        (CgroupIdentity(None, CID, "containerd"), MAIN),
        (CgroupIdentity("c" * 32, CID), MAIN),
        (CgroupIdentity("api-uid", OTHER), LOGS),
        (CgroupIdentity("c" * 32, None), LOGS),
        (CgroupIdentity("inner", OTHER, enclosing=(PodSlot("api-uid", CID),)), MAIN),
        (CgroupIdentity("victim", VICTIM, enclosing=(PodSlot("api-uid", CID),)), MAIN),
        (CgroupIdentity("victim", VICTIM), ContainerKey("other", "victim", "main")),
        (CgroupIdentity("inner", OTHER, enclosing=(PodSlot("api-uid", OTHER),)), LOGS),
        (CgroupIdentity("unknown", OTHER), GroupKey("pod", f"unknown/{OTHER}")),
        (CgroupIdentity("unknown", None), GroupKey("pod", "unknown/")),
        (CgroupIdentity(None, OTHER, "docker"), GroupKey("docker", OTHER)),
        (CgroupIdentity(None, OTHER), GroupKey("container", OTHER)),
        (CgroupIdentity(), Unattributed.HOST_PROCESS),
        (Unattributed.EXITED, Unattributed.EXITED),
    ],
)
def test_owner_is_found_by_container_then_pod_then_group(
    identity: CgroupIdentity | Unattributed, expected: Owner
) -> None:
    assert owner_of(identity, TABLE) == expected


def test_container_stays_unnamed_when_several_of_its_pod_have_no_id_yet() -> None:
    pod = Pod("u", "ml", "p", containers=(Container("a"), Container("b")))
    table = PodTable(pods={"u": pod}, by_kubelet_uid={"u": "u"})

    assert owner_of(CgroupIdentity("u", CID), table) == ContainerKey("ml", "p", "")


def window(
    core: int | None, rows: dict[int, int], *, rejected: int = 0, energy: int | None = None
) -> Window:
    return Window(
        start_unix_ns=0,
        end_unix_ns=1_000,
        observed_ns=1_000,
        unobserved_ns=0,
        busy=Engines(core=core),
        processes=tuple(ProcessActivity(pid, Engines(core=ns)) for pid, ns in rows.items()),
        rejected={"pid": rejected} if rejected else {},
        energy_uj=energy,
    )


def core_of(usage: DeviceUsage) -> dict[Owner, int | None]:
    return {owner: spent.busy.core for owner, spent in usage.shares.items()}


A, B = ContainerKey("n", "a", "c"), ContainerKey("n", "b", "c")
OWNERS: dict[int, Owner] = {1: A, 2: B, 3: A, 4: Unattributed.HOST_PROCESS}


@pytest.mark.parametrize(
    ("busy", "rows", "rejected", "expected"),
    [
        (900, {1: 300, 2: 300}, 0, {A: 450, B: 450}),
        (600, {1: 200, 3: 100, 2: 300}, 0, {A: 300, B: 300}),
        (500, {1: 600, 2: 400}, 0, {A: 300, B: 200}),
        (1000, {1: 10}, 0, {A: 10 * SCALE_CAP, Unattributed.NO_PID: 1000 - 40}),
        (1000, {}, 0, {Unattributed.NO_PID: 1000}),
        (0, {}, 0, {}),
        (900, {1: 300, 4: 300}, 0, {A: 450, Unattributed.HOST_PROCESS: 450}),
        (900, {1: 300, 9: 300}, 0, {A: 450, Unattributed.UNKNOWN_CGROUP: 450}),
        (900, {1: 300}, 1, {A: 300, Unattributed.NO_PID: 600}),
    ],
)
def test_averages_are_scaled_in_proportion_within_the_cap(
    busy: int, rows: dict[int, int], rejected: int, expected: dict[Owner, int]
) -> None:
    usage = account(DEVICE, window(busy, rows, rejected=rejected), OWNERS)

    assert core_of(usage) == expected


def test_rows_beside_rejected_ones_are_not_scaled_for_any_engine() -> None:
    busy = Engines(core=900, memory_active=900)
    rows = (ProcessActivity(1, Engines(core=300, memory_active=300)),)
    seen = window(900, {}, rejected=1)._replace(busy=busy, processes=rows)

    shares = account(DEVICE, seen, OWNERS).shares

    assert shares[A].busy[:2] == (300, 300)
    assert shares[Unattributed.NO_PID].busy[:2] == (600, 600)


def sampled(core: int, rows: dict[int, int], *, rejected: int = 0) -> Window:
    """A window whose samples were told apart; ``rows``: pid → busy ns."""
    return Window(
        start_unix_ns=0,
        end_unix_ns=1_000,
        observed_ns=1_000,
        unobserved_ns=0,
        busy=Engines(core=core),
        processes=tuple(ProcessActivity(pid, Engines(core=ns)) for pid, ns in rows.items()),
        rejected={"pid": rejected} if rejected else {},
        per_sample=True,
    )


@pytest.mark.parametrize(
    ("seen", "expected", "why"),
    [
        (sampled(900, {1: 600, 2: 300}), {A: 600, B: 300}, {}),
        (
            sampled(500, {1: 300, 2: 100}),
            {A: 300, B: 100, Unattributed.NO_PID: 100},
            {Unexplained.NO_PROCESS: 100},
        ),
        (
            sampled(500, {1: 200}, rejected=1),
            {A: 200, Unattributed.NO_PID: 300},
            {Unexplained.REJECTED_ROWS: 300},
        ),
        (sampled(0, {}), {}, {}),
        (sampled(500, {}), {Unattributed.NO_PID: 500}, {Unexplained.NO_PROCESS: 500}),
        (window(1000, {1: 10}), {A: 40, Unattributed.NO_PID: 960}, {Unexplained.CAP: 960}),
        (window(1000, {}), {Unattributed.NO_PID: 1000}, {Unexplained.NO_PROCESS: 1000}),
    ],
)
def test_what_no_sample_names_has_no_owner_and_a_reason(
    seen: Window, expected: dict[Owner, int], why: dict[Unexplained, int]
) -> None:
    usage = account(DEVICE, seen, OWNERS)

    assert core_of(usage) == expected
    assert {reason: ns for reason, ns in usage.unexplained.items() if ns} == why


def test_what_a_device_does_not_measure_is_unknown_for_everyone() -> None:
    usage = account(DEVICE, window(None, {1: 300}), OWNERS)

    assert usage.total.busy.core is None
    assert usage.shares == {}


def test_energy_is_idle_part_apart_and_active_part_by_core() -> None:
    seen = Window(
        0,
        2_000,
        1_000,
        1_000,
        Engines(core=1_000),
        (
            ProcessActivity(1, Engines(core=750)),
            ProcessActivity(2, Engines(core=250)),
        ),
        energy_uj=1_000,
        idle_energy_uj=100,
    )

    usage = account(DEVICE, seen, OWNERS)

    assert {owner: spent.energy_uj for owner, spent in usage.shares.items()} == {
        A: 300,
        B: 100,
        Unattributed.UNOBSERVED: 500,
        Unattributed.IDLE: 100,
    }
    assert usage.idle_energy_uj == 100


@pytest.mark.parametrize(
    ("unobserved_ns", "expected"),
    [
        (0, {A: 500, Unattributed.UNOBSERVED: 400, Unattributed.IDLE: 100}),
        (1000, {A: 200, Unattributed.UNOBSERVED: 700, Unattributed.IDLE: 100}),
    ],
)
def test_energy_of_windows_before_is_charged_to_nobody_who_works_now(
    unobserved_ns: int, expected: dict[Owner, int]
) -> None:
    seen = idling(100)._replace(late_energy_uj=400, unobserved_ns=unobserved_ns)

    usage = account(DEVICE, seen, OWNERS)

    assert {owner: spent.energy_uj for owner, spent in usage.shares.items()} == expected


def idling(idle: int) -> Window:
    """A window of 1000 µJ in which one process was at work."""
    return Window(
        0,
        1_000,
        1_000,
        0,
        Engines(core=500),
        (ProcessActivity(1, Engines(core=500)),),
        energy_uj=1_000,
        idle_energy_uj=idle,
    )


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, {A: 600, Unattributed.IDLE: 400}),
        ({A: 1, B: 1}, {A: 800, B: 200}),
        ({B: 500, Unattributed.IDLE: 500}, {A: 600, B: 200, Unattributed.IDLE: 200}),
        ({A: 0}, {A: 600, Unattributed.IDLE: 400}),
    ],
)
def test_idle_energy_goes_by_the_weights_given_and_else_to_nobody(
    weights: dict[Owner, int], expected: dict[Owner, int]
) -> None:
    usage = account(DEVICE, idling(400), OWNERS, weights)

    assert {owner: spent.energy_uj for owner, spent in usage.shares.items()} == expected
    assert usage.idle_energy_uj == 400


@pytest.mark.parametrize(
    ("core", "reason"),
    [(0, Unattributed.IDLE), (9, Unattributed.NO_PID), (None, Unattributed.NO_PID)],
)
def test_energy_of_a_window_without_a_named_process_is_unattributed(
    core: int | None, reason: Unattributed
) -> None:
    usage = account(DEVICE, window(core, {}, energy=70), OWNERS)

    assert {o: s.energy_uj for o, s in usage.shares.items() if s.energy_uj} == {reason: 70}


pids = st.integers(1, 6)
rows = st.dictionaries(pids, st.integers(0, 10**9), max_size=6)
amounts = st.one_of(st.none(), st.integers(0, 10**9))
owners = st.dictionaries(
    pids, st.sampled_from([A, B, GroupKey("docker", "x"), *Unattributed]), max_size=6
)


@st.composite
def windows(draw: st.DrawFn) -> Window:
    busy = Engines(*(draw(amounts) for _ in QUANTITIES))
    energy = draw(st.one_of(st.none(), st.integers(0, 10**12)))
    per_pid = {pid: Engines(*(draw(amounts) for _ in QUANTITIES)) for pid in draw(rows)}
    return Window(
        start_unix_ns=0,
        end_unix_ns=1,
        observed_ns=draw(st.integers(0, 10**9)),
        unobserved_ns=draw(st.integers(0, 10**9)),
        busy=busy,
        processes=tuple(ProcessActivity(pid, e) for pid, e in per_pid.items()),
        rejected=draw(st.sampled_from([{}, {"pid": 1}])),
        energy_uj=energy,
        idle_energy_uj=draw(st.one_of(st.none(), st.integers(0, 10**12))),
        per_sample=draw(st.booleans()),
    )


idle_weights = st.dictionaries(
    st.sampled_from([A, B, GroupKey("docker", "x"), Unattributed.IDLE]), st.integers(0, 10**6)
)


@given(windows(), owners, idle_weights)
def test_shares_add_up_to_the_device_for_every_quantity(
    seen: Window,
    known: dict[int, Owner],
    weights: dict[Owner, int],
) -> None:
    usage = account(DEVICE, seen, known, weights)

    for quantity in QUANTITIES:
        whole = getattr(seen.busy, quantity)
        parts = [getattr(spent.busy, quantity) for spent in usage.shares.values()]
        if whole is None:
            assert all(part is None for part in parts)
        else:
            assert sum(parts) == whole
            assert all(part >= 0 for part in parts)
    assert all(ns >= 0 for ns in usage.unexplained.values())
    if seen.energy_uj is not None:
        energies = [spent.energy_uj or 0 for spent in usage.shares.values()]
        assert sum(energies) == seen.energy_uj
        assert all(part >= 0 for part in energies)


def test_memory_goes_to_its_holders_and_the_rest_has_no_pid() -> None:
    compute = frozenset({"compute"})
    memory = DeviceMemory(
        100,
        80,
        None,
        (
            ProcessMemory(1, 30, compute),
            ProcessMemory(3, 5, compute),
            ProcessMemory(2, None, compute),
            ProcessMemory(4, 10, compute),
        ),
    )

    assert share_memory(memory, OWNERS) == {
        A: MemoryHeld(35, 2),
        B: MemoryHeld(None, 1),
        Unattributed.HOST_PROCESS: MemoryHeld(10, 1),
        Unattributed.NO_PID: MemoryHeld(35, 0),
    }


def test_a_cgroups_charge_is_the_figure_where_the_driver_has_none() -> None:
    inner, outer = CgroupMemory(20, 10, 50, "kernel"), CgroupMemory(40, 10, 50, "kernel")
    refused = CgroupMemory(refused="not_found")
    processes = (
        ProcessMemory(1, None, frozenset(), inner),
        ProcessMemory(3, 5, frozenset(), outer),
        ProcessMemory(2, 7, frozenset(), outer),
        ProcessMemory(4, None, frozenset(), refused),
    )
    assert share_memory(DeviceMemory(100, 60, None, processes), OWNERS) == {
        A: MemoryHeld(40, 2, cgroup=outer, is_charge=True),
        B: MemoryHeld(7, 1, cgroup=outer),
        Unattributed.HOST_PROCESS: MemoryHeld(None, 1),
        Unattributed.NO_PID: MemoryHeld(13, 0),
    }


def test_memory_that_is_counted_twice_is_overlap_and_no_holder_loses_any() -> None:
    compute = frozenset({"compute"})
    twice = (ProcessMemory(1, 60, compute), ProcessMemory(2, 60, compute))

    assert share_memory(DeviceMemory(100, 80, None, twice), OWNERS) == {
        A: MemoryHeld(60, 1),
        B: MemoryHeld(60, 1),
        Unattributed.OVERLAP: MemoryHeld(-40, 0),
    }


@given(
    st.integers(0, 10**12),
    st.lists(
        st.builds(
            ProcessMemory,
            st.integers(1, 6),
            st.one_of(st.none(), st.integers(0, 10**12)),
            st.just(frozenset({"compute"})),
            st.none(),
        )
    ),
)
def test_memory_adds_up_to_what_the_device_has_in_use(
    used: int, processes: list[ProcessMemory]
) -> None:
    held = share_memory(DeviceMemory(10**12, used, None, tuple(processes)), OWNERS)

    unsized = {
        OWNERS.get(p.pid, Unattributed.UNKNOWN_CGROUP) for p in processes if p.used_bytes is None
    }
    assert sum(part.used_bytes or 0 for part in held.values()) == used
    assert {owner for owner, part in held.items() if part.used_bytes is None} == unsized
    assert sum(part.processes for part in held.values()) == len(processes)


def test_memory_is_not_shared_out_where_processes_are_not_listed() -> None:
    assert share_memory(DeviceMemory(100, 80, None, None), OWNERS) == {}


def allocation(
    container: str,
    device: str | None,
    *,
    core: float | None = 0.5,
    memory: int | None = None,
    replicas: int | None = None,
) -> Allocation:
    return Allocation("u", container, device, core, memory, "test", replicas=replicas)


@pytest.mark.parametrize(
    ("declared", "seen", "expected"),
    [
        ([None], ["x"], ["x"]),
        ([None, None], ["x"], ["x", None]),
        ([None, None], ["x", "y"], ["x", "y"]),
        ([None], ["x", "y"], [None]),
        (["x", None], ["x", "y"], ["x", "y"]),
        (["x"], ["y"], ["x"]),
        ([None], [], [None]),
    ],
)
def test_unplaced_allocations_take_the_devices_that_were_seen_unless_ambiguous(
    declared: list[str | None], seen: list[str], expected: list[str | None]
) -> None:
    placed = place([allocation("c", device) for device in declared], {"c": seen})

    assert [a.device for a in placed] == expected


@pytest.mark.parametrize(
    ("replicas", "seen", "expected"),
    [
        (2, ["x"], [("x", 1), (None, 1)]),
        (2, ["x", "y"], [("x", 1), ("y", 1)]),
        (3, ["x", "y"], [("x", 1), ("y", 1), (None, 1)]),
        (1, ["x", "y"], [(None, 1)]),
        (10**18, ["x"], [("x", 1), (None, 10**18 - 1)]),
        (2, [], [(None, 2)]),
    ],
)
def test_replicas_that_may_be_of_several_cards_are_placed_one_for_each_card_seen(
    replicas: int, seen: list[str], expected: list[tuple[str | None, int]]
) -> None:
    placed = place([allocation("c", None, core=None, replicas=replicas)], {"c": seen})

    assert [(a.device, a.replicas) for a in placed] == expected


def test_replicas_with_a_share_are_of_one_card() -> None:
    (placed,) = place([allocation("c", None, memory=9, replicas=2)], {"c": ["x"]})

    assert (placed.device, placed.replicas) == ("x", 2)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ({"a": ["x"]}, "x"),
        ({"": ["x"]}, "x"),
        ({"a": ["x"], "b": ["x"]}, "x"),
        ({"a": ["x"], "b": ["y"]}, None),
        ({"own": ["x"]}, None),
        ({"own": ["x"], "a": ["y"]}, "y"),
    ],
)
def test_an_allocation_to_the_pod_goes_where_containers_without_their_own_were_seen(
    seen: dict[str, list[str]], expected: str | None
) -> None:
    own, of_pod = place([allocation("own", "z"), allocation("", None)], seen)

    assert own.device == "z"
    assert of_pod.device == expected


ALLOCATIONS = st.lists(
    st.builds(
        allocation,
        st.sampled_from(["", "a", "b"]),
        st.sampled_from([None, None, "x", "y"]),
        core=st.sampled_from([None, 0.5]),
        replicas=st.sampled_from([None, 1, 3]),
    ),
    max_size=5,
)
SEEN = st.dictionaries(
    st.sampled_from(["", "a", "b", "c"]), st.lists(st.sampled_from("xyz"), unique=True)
)


@given(ALLOCATIONS, SEEN)
def test_placing_changes_nothing_but_what_was_unplaced_and_loses_nothing(
    allocations: list[Allocation], seen: dict[str, list[str]]
) -> None:
    placed = place(allocations, seen)

    for container in ("", "a", "b"):
        before = [a for a in allocations if a.container == container]
        after = [a for a in placed if a.container == container]
        named = [a.device for a in before if a.device]
        assert sum(a.core or 0 for a in after) == sum(a.core or 0 for a in before)
        assert sum(a.replicas or 0 for a in after) == sum(a.replicas or 0 for a in before)
        added = [a.device for a in after if a.device]
        for device in named:
            added.remove(device)
        assert len(set(added)) == len(added)
        assert not set(added) & set(named)
        if container:
            assert set(added) <= set(seen.get(container, ()))


def test_where_the_whole_devices_memory_is_not_told_its_holders_are_all_there_is() -> None:
    memory = DeviceMemory(None, None, None, (ProcessMemory(1, 5, frozenset({"compute"})),))

    assert share_memory(memory, {1: Unattributed.HOST_PROCESS}) == {
        Unattributed.HOST_PROCESS: MemoryHeld(5, 1)
    }
