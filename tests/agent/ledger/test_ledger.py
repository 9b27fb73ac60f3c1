"""The accounts' rules: they never fall, they balance, they go by time, and blindness hides them."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent.ledger.device_ledger import DeviceLedger, since
from exporter.model import (
    QUANTITIES,
    Container,
    ContainerKey,
    Device,
    DeviceState,
    DeviceUsage,
    Engines,
    MemoryHeld,
    Methods,
    Naming,
    Owner,
    PartCost,
    ProcessActivity,
    Sampling,
    Sensors,
    Unattributed,
    Unmeasured,
    Used,
    Window,
    XidCount,
)
from tests.agent.ledger.node import (
    GPU,
    GROUP,
    ROW_A,
    SECOND,
    A,
    B,
    Node,
    allocated,
    at,
    window,
)
from tests.rows import Row, Value

COUNTED = {"core_seconds_total", "core_waiting_seconds_total"}


def test_allocated_container_is_shown_at_zero_before_it_uses_anything() -> None:
    node = Node()

    rows = node.cycle(0, {"GPU-0": window({})}, allocated=(allocated(A),))

    assert rows["container"][ROW_A].values["core_seconds_total"] == 0
    assert rows["container"][ROW_A].values["core_utilization_ratio"] == 0.0
    assert rows["pod"]["n", "a"].values["core_seconds_total"] == 0
    assert rows["namespace"]["n", "GPU-0"].values["core_seconds_total"] == 0


def test_nothing_is_claimed_before_the_first_window() -> None:
    rows = Node().cycle(0, allocated=(allocated(A),))

    assert "core_seconds_total" not in rows["container"][ROW_A].values
    assert "core_utilization_ratio" not in rows["container"][ROW_A].values
    assert rows["container"][ROW_A].values["core_limit_ratio"] == 0.5


def test_use_is_summed_per_container_pod_namespace_and_device() -> None:
    node = Node()

    node.cycle(0, {"GPU-0": window({1: 300, 2: 200, 3: 100, 4: 50})})
    rows = node.cycle(1, {"GPU-0": window({1: 300, 2: 200, 3: 100, 4: 50}, busy=1300)})

    assert rows["container"][ROW_A].values["core_seconds_total"] == 900
    assert rows["pod"]["m", "b"].values["core_seconds_total"] == 600
    assert rows["namespace"]["n", "GPU-0"].values["core_seconds_total"] == 900
    assert rows["group"][(*GROUP, "0", "GPU-0")].values["core_seconds_total"] == 300
    device = rows["device"]["0", "GPU-0"].values
    assert device["busy_seconds_total"] == 1950
    assert device["unattributed_core_seconds_total"] == {
        ("host_process",): 150,
        ("unknown_cgroup",): 0,
        ("exited",): 0,
        ("no_pid",): 0,
    }


def test_ratio_is_an_average_over_the_observed_window() -> None:
    node = Node()

    for second in range(4):
        node.cycle(second, {"GPU-0": window({})})
    rows = node.cycle(4, {"GPU-0": window({1: SECOND})})

    assert rows["container"][ROW_A].values["core_utilization_ratio"] == pytest.approx(1 / 5)
    assert rows["device"]["0", "GPU-0"].values["utilization_ratio"] == pytest.approx(1 / 5)


def used(core_ns: int) -> DeviceUsage:
    return DeviceUsage(GPU, SECOND, 0, Used(Engines(core=core_ns)), {})


def test_gauges_go_at_once_and_counters_stay_for_the_retention() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: 300})}, held={A: MemoryHeld(10, 1)})

    gone = node.cycle(1, {"GPU-0": window({})}, held={})
    kept = node.cycle(299, {"GPU-0": window({})}, held={})
    closed = node.cycle(301, {"GPU-0": window({})}, held={})

    assert set(gone["container"][ROW_A].values) == COUNTED
    assert kept["container"][ROW_A].values["core_seconds_total"] == 300
    assert ROW_A not in closed["container"]
    assert ("n", "a") not in closed["pod"]
    assert closed["namespace"]["n", "GPU-0"].values["core_seconds_total"] == 300


def test_processes_too_short_for_any_process_list_keep_their_account() -> None:
    node = Node()
    for second in range(0, 1000, 10):  # at work in each window, gone whenever they are listed
        rows = node.cycle(second, {"GPU-0": window({1: SECOND, 3: SECOND})}, held={})

    total = 100 * SECOND
    assert rows["container"][ROW_A].values["core_seconds_total"] == total
    assert rows["group"][*GROUP, "0", "GPU-0"].values["core_seconds_total"] == total
    assert rows["pod"]["n", "a"].values["core_seconds_total"] == total


def test_late_samples_of_a_process_that_has_ended_are_no_sign_of_life() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: 300})}, held={A: MemoryHeld(10, 1)})

    rows = node.cycle(1, {"GPU-0": window({1: 200})}, held={})

    values = rows["container"][ROW_A].values
    assert values == {"core_seconds_total": 500, "core_waiting_seconds_total": 0}


def test_a_pod_lives_as_long_as_one_of_its_containers_does() -> None:
    node = Node()
    for second in range(0, 1000, 100):
        windows = {} if second else {"GPU-0": window({1: 300})}
        rows = node.cycle(second, windows, held={A: MemoryHeld(10, 1)})

    assert rows["pod"]["n", "a"].values["core_seconds_total"] == 300
    assert rows["pod"]["n", "a"].values["memory_used_bytes"] == 10


def test_a_window_that_ended_when_the_average_begins_is_not_in_it() -> None:
    book = DeviceLedger(GPU, at(0))
    for second in (1, 2):
        book.record(used(second * SECOND // 2), at(second))

    busy, observed = [], []
    for second in (0, 1, 2):
        after = at(second).mono_ns
        then = since(book.pasts, after)
        book.settle(at(0).mono_ns, after)
        assert since(book.pasts, after) == then
        observed.append(then.observed_ns)
        busy.append(book.total.counters.core - then.before(None, book.total).core)

    assert busy == [1.5 * SECOND, SECOND, 0]
    assert observed == [2 * SECOND, SECOND, 0]


def test_successor_under_the_same_name_goes_on_with_the_account() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: 300})}, held={A: MemoryHeld(10, 1)})
    node.cycle(1, {"GPU-0": window({})}, held={})
    node.owners[7] = A

    rows = node.cycle(100, {"GPU-0": window({7: 50})}, held={A: MemoryHeld(5, 1)})

    assert rows["container"][ROW_A].values["core_seconds_total"] == 350


def test_peak_memory_outlives_the_moment() -> None:
    node = Node()
    node.cycle(0, held={A: MemoryHeld(700, 1)})

    values = node.cycle(1, held={A: MemoryHeld(100, 1)})["container"][ROW_A].values

    assert values["memory_used_bytes"] == 100
    assert values["memory_used_peak_bytes"] == 700


def test_the_peak_of_an_account_that_is_opened_again_is_its_own() -> None:
    node = Node()
    node.cycle(0, held={A: MemoryHeld(900, 1)})
    devices, node.devices = node.devices, ()
    node.cycle(1)
    node.devices = devices

    values = node.cycle(2, held={A: MemoryHeld(10, 1)})["container"][ROW_A].values

    assert values["memory_used_peak_bytes"] == 10


def test_memory_that_the_driver_does_not_tell_is_absent_with_its_reason() -> None:
    values = Node().cycle(0, held={A: MemoryHeld(None, 2)})["container"][ROW_A].values

    assert "memory_used_bytes" not in values
    assert values["processes"] == 2
    assert values["unmeasured"] == {("memory", "not_supported"): 1}


def test_device_blind_for_three_cycles_withholds_counters_and_comes_back_with_them() -> None:
    node = Node()
    grant = (allocated(A),)
    node.cycle(0, {"GPU-0": window({1: 300})}, allocated=grant)
    lost = {"GPU-0": DeviceState.LOST}

    second = [node.cycle(s, states=lost, allocated=grant) for s in (1, 2)][-1]
    third = node.cycle(3, states=lost, allocated=grant)
    back = node.cycle(4, {"GPU-0": window({1: 5})}, allocated=grant)

    assert second["container"][ROW_A].values["core_seconds_total"] == 300
    assert third["container"][ROW_A].values == {
        "unmeasured": {("core", "gpu_lost"): 1, ("memory", "gpu_lost"): 1}
    }
    assert "core_seconds_total" not in third["pod"]["n", "a"].values
    assert third["namespace"] == {}
    assert third["device"]["0", "GPU-0"].values["up"] == 0
    assert third["device"]["0", "GPU-0"].values["unmeasured"] == {("device", "gpu_lost"): 1}
    assert "busy_seconds_total" not in third["device"]["0", "GPU-0"].values
    assert back["container"][ROW_A].values["core_seconds_total"] == 305


def test_blind_device_withholds_only_its_own_containers() -> None:
    other = Device("GPU-1", 1, "nvidia")
    node = Node((GPU, other))
    grants = (allocated(A), allocated(B, device="GPU-1"))
    both = {"GPU-0": window({1: 10}), "GPU-1": window({2: 20})}
    node.cycle(0, both, allocated=grants)

    stuck = {"GPU-0": DeviceState.STUCK}
    rows = [node.cycle(s, both, states=stuck, allocated=grants) for s in (1, 2, 3)][-1]

    assert "core_seconds_total" not in rows["pod"]["n", "a"].values
    assert rows["pod"]["m", "b"].values["core_seconds_total"] == 80


OWNER_OF_PID: dict[int, Owner] = {
    1: A,
    2: B,
    3: GROUP,
    4: ContainerKey("n", "a", "side"),
    5: Unattributed.EXITED,
}
steps = st.lists(
    st.tuples(
        st.floats(0.1, 400),
        st.dictionaries(
            st.sampled_from([0, 1]),
            st.dictionaries(st.integers(1, 6), st.integers(0, SECOND), max_size=4),
        ),
        st.dictionaries(st.sampled_from([0, 1]), st.sampled_from(list(DeviceState))),
        st.integers(0, 2 * SECOND),
        st.booleans(),
    ),
    max_size=25,
)


@settings(max_examples=settings().max_examples * 3 // 2)
@given(steps)
def test_accounts_never_fall_and_books_balance_over_any_history(
    history: list[tuple[float, dict[int, dict[int, int]], dict[int, DeviceState], int, bool]],
) -> None:
    gpus = (GPU, Device("GPU-1", 1, "nvidia"))
    node = Node(gpus)
    node.owners = dict(OWNER_OF_PID)
    clock = 0.0
    shown: dict[tuple[str, tuple[str, ...], str], float] = {}
    for wait, use, states, busy, grant in history:
        clock += wait
        before = {uuid: _sums(node, uuid) for uuid in node.ledger.devices}
        rows = node.cycle(
            clock,
            {gpus[i].uuid: window(core, busy, energy=busy) for i, core in use.items()},
            states={gpus[i].uuid: state for i, state in states.items()},
            allocated=(allocated(A),) if grant else (),
        )
        for uuid, sums in before.items():
            _check_balance(sums, _sums(node, uuid))
        _check_counters(rows, shown)


def _sums(node: Node, uuid: str) -> dict[str, int]:
    """What the device used in all, less what its owners and reasons are charged with."""
    book = node.ledger.devices[uuid]
    parts = [*book.owners.values(), *book.unattributed.values()]
    return {
        q: getattr(book.total.counters, q) - sum(getattr(p.counters, q) for p in parts)
        for q in (*QUANTITIES, "energy")
    }


def _check_balance(before: dict[str, int], after: dict[str, int]) -> None:
    """Only an account that was closed may open a gap; then it is what that account held."""
    for quantity, gap in after.items():
        assert gap >= before[quantity] >= 0


def _check_counters(
    rows: dict[str, dict[tuple[str, ...], Row]],
    shown: dict[tuple[str, tuple[str, ...], str], float],
) -> None:
    """No counter falls; one starts anew only after its account was closed and its row gone."""
    for level, labels, name in list(shown):
        if level in {"container", "pod", "group"} and labels not in rows[level]:
            del shown[level, labels, name]
    for level, many in rows.items():
        for labels, row in many.items():
            for name, value in row.values.items():
                if name.endswith("_total") and isinstance(value, int | float):
                    assert value >= shown.get((level, labels, name), 0), (level, labels, name)
                    shown[level, labels, name] = value


@given(
    st.lists(st.dictionaries(st.integers(1, 6), st.integers(0, SECOND), max_size=5), max_size=10)
)
def test_every_window_balances_to_the_nanosecond(uses: list[dict[int, int]]) -> None:
    node = Node()
    node.owners = dict(OWNER_OF_PID)

    rows = {}
    for second, core in enumerate(uses):
        seen = window(core, busy=sum(core.values()) // 2, energy=1000)
        rows = node.cycle(second, {"GPU-0": seen})

    if uses:
        assert set(_sums(node, "GPU-0").values()) == {0}
        book = node.ledger.devices["GPU-0"]
        named = [a for k, a in book.owners.items() if isinstance(k, ContainerKey)]
        for quantity, name in (("core", "core_seconds_total"), ("energy", "energy_joules_total")):
            containers = sum(getattr(a.counters, quantity) for a in named)
            of_pods = (row.values[name] for row in rows["pod"].values())
            assert containers == sum(used for used in of_pods if isinstance(used, int))
            namespaces = book.sums(ContainerKey).values()
            assert containers == sum(getattr(totals, quantity) for totals in namespaces)


def test_an_account_that_is_opened_anew_is_averaged_from_nothing() -> None:
    node = Node()
    node.ledger.retention_ns = SECOND
    node.cycle(0, {"GPU-0": window({1: SECOND})}, held={A: MemoryHeld(1, 1)})
    node.cycle(1, {"GPU-0": window({})}, held={})
    assert ROW_A not in node.cycle(3, {"GPU-0": window({})}, held={})["container"]

    values = node.cycle(4, {"GPU-0": window({1: SECOND})})["container"][ROW_A].values

    assert values["core_seconds_total"] == SECOND
    assert values["core_utilization_ratio"] == pytest.approx(1 / 4)


def test_what_closed_accounts_used_stays_with_their_pod_and_namespace() -> None:
    node = Node((GPU, Device("GPU-1", 1, "nvidia")))
    node.owners[8] = ContainerKey("n", "a", "side")
    grant = (allocated(A),)
    both = {"GPU-0": window({8: 300}), "GPU-1": window({1: 200})}
    node.cycle(0, both, allocated=grant, held={})
    node.devices = (GPU,)

    for second in (200, 400):  # the one account goes with its owner, the other with its device
        rows = node.cycle(second, {"GPU-0": window({1: 5})}, allocated=grant, held={})

    assert [row[2] for row in rows["container"]] == ["c"]
    assert rows["container"][ROW_A].values["core_seconds_total"] == 10
    assert rows["pod"]["n", "a"].values["core_seconds_total"] == 510
    assert rows["namespace"]["n", "GPU-0"].values["core_seconds_total"] == 310


def test_who_holds_memory_no_more_has_gone_though_another_came_at_the_same_moment() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: 300})}, held={A: MemoryHeld(10, 1)})

    rows = node.cycle(1, {"GPU-0": window({2: 100})}, held={})

    assert set(rows["container"][ROW_A].values) == COUNTED
    assert "core_utilization_ratio" in rows["container"][*B, "0", "GPU-0"].values


def test_a_device_that_comes_back_after_its_book_was_closed_has_its_allocations() -> None:
    node = Node()
    grant = (allocated(A),)
    node.cycle(0, allocated=grant)
    node.devices = ()
    assert not node.cycle(301, allocated=grant)["device"]
    node.devices = (GPU,)

    rows = node.cycle(302, {"GPU-0": window({})}, allocated=grant)

    assert rows["container"][ROW_A].values["core_limit_ratio"] == 0.5
    assert rows["namespace"]["n", "GPU-0"].values["core_seconds_total"] == 0


def test_idle_energy_is_unknown_until_the_board_was_seen_idle() -> None:
    node = Node()

    first = node.cycle(0, {"GPU-0": window({1: 10}, energy=70)})["device"]["0", "GPU-0"].values
    known = window({}, energy=70)._replace(idle_energy_uj=60)
    second = node.cycle(1, {"GPU-0": known})["device"]["0", "GPU-0"].values

    assert "idle_energy_joules_total" not in first
    assert first["unmeasured"] == {("idle_energy", "never_idle"): 1}
    assert second["idle_energy_joules_total"] == 60
    assert "unmeasured" not in second


def test_what_the_driver_tells_of_the_device_only_is_unknown_for_its_owners() -> None:
    node = Node()
    grant = (allocated(A),)

    rows = [
        node.cycle(
            second,
            {"GPU-0": window({}, busy=SECOND, energy=70)},
            unmeasured={"core": Unmeasured.NOT_SUPPORTED, "power": Unmeasured.NO_PERMISSION},
            allocated=grant,
            held={},
        )
        for second in (0, 1)
    ][-1]

    container = rows["container"][ROW_A].values
    assert not {n for n in container if "core_seconds" in n and "allocated" not in n}
    assert "energy_joules_total" not in container
    assert "core_utilization_ratio" not in container
    assert container["unmeasured"] == {("core", "not_supported"): 1, ("energy", "not_supported"): 1}
    assert "core_seconds_total" not in rows["pod"]["n", "a"].values
    assert "core_usage_gpus" not in rows["pod"]["n", "a"].values
    assert rows["namespace"]["n", "GPU-0"].values.keys() == {"allocated_core_seconds_total"}
    device = rows["device"]["0", "GPU-0"].values
    assert device["busy_seconds_total"] == 2 * SECOND
    assert device["unmeasured"] == {("power", "no_permission"): 1, ("idle_energy", "never_idle"): 1}


def test_a_quantity_that_is_no_longer_measured_is_absent_not_flat() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: 10})})

    values = node.cycle(1, {"GPU-0": Window(0, 1, SECOND, 0, Engines())})["device"]["0", "GPU-0"]

    assert "busy_seconds_total" not in values.values


def test_a_pod_that_went_on_elsewhere_is_not_withheld_for_a_lost_device() -> None:
    node = Node((GPU, Device("GPU-1", 1, "nvidia")))
    node.cycle(0, {"GPU-0": window({1: 10})}, held={A: MemoryHeld(10, 1)})
    lost = {"GPU-0": DeviceState.LOST}
    there = (allocated(A, device="GPU-1"),)

    early = [node.cycle(s, states=lost, allocated=there) for s in (1, 2, 3)][-1]
    for second in (4, 5):
        rows = node.cycle(second, {"GPU-1": window({1: 7})}, states=lost, allocated=there)
    late = node.cycle(400, {"GPU-1": window({})}, states=lost, allocated=there)

    assert early["container"][ROW_A].values["unmeasured"]
    assert rows["pod"]["n", "a"].values["core_seconds_total"] == 24
    assert ROW_A not in late["container"]


def test_a_device_that_is_not_listed_any_more_leaves_the_page_at_once() -> None:
    other = Device("GPU-1", 1, "nvidia")
    node = Node((GPU, other))
    node.cycle(0, {"GPU-0": window({1: 10}), "GPU-1": window({1: 7})})
    node.devices = (other,)

    rows = node.cycle(1, {"GPU-1": window({})})

    assert set(rows["device"]) == {("1", "GPU-1")}
    assert ROW_A not in rows["container"]
    assert rows["pod"]["n", "a"].values["core_seconds_total"] == 17


@pytest.mark.parametrize(("away_s", "before"), [(299, 10), (301, 0)])
def test_a_device_that_comes_back_within_the_retention_goes_on_counting(
    away_s: int, before: int
) -> None:
    node = Node()
    grant = (allocated(A),)
    node.cycle(0, {"GPU-0": window({1: 10})}, allocated=grant)
    node.devices = ()
    node.cycle(1, allocated=grant)
    node.cycle(away_s, allocated=grant)
    node.devices = (GPU,)

    rows = node.cycle(away_s + 1, {"GPU-0": window({1: 5})}, allocated=grant)

    assert rows["device"]["0", "GPU-0"].values["busy_seconds_total"] == before + 5
    assert rows["namespace"]["n", "GPU-0"].values["core_seconds_total"] == before + 5
    assert rows["pod"]["n", "a"].values["core_seconds_total"] == 15


def test_a_pod_whose_placement_is_unknown_counts_from_zero() -> None:
    node = Node()
    grant = (allocated(A, device=None),)

    node.cycle(0, {"GPU-0": window({})}, allocated=grant)
    rows = node.cycle(1, {"GPU-0": window({})}, allocated=grant)

    assert rows["pod"]["n", "a"].values["core_seconds_total"] == 0
    assert rows["namespace"]["n", "GPU-0"].values["core_seconds_total"] == 0


def test_containers_that_cannot_be_told_apart_yet_are_pending_and_their_pod_is_not() -> None:
    node = Node()
    node.pod = replace(node.pod, containers=(Container("c"), Container("side")))
    node.owners[9] = ContainerKey("n", "a", "")
    grant = (allocated(A),)
    held: dict[Owner, MemoryHeld] = {ContainerKey("n", "a", ""): MemoryHeld(100, 1)}

    for second in (0, 1):
        rows = node.cycle(second, {"GPU-0": window({9: SECOND // 4})}, allocated=grant, held=held)

    values = rows["container"][ROW_A].values
    assert values["unmeasured"] == {
        ("core", "container_pending"): 1,
        ("memory", "container_pending"): 1,
    }
    assert "core_seconds_total" not in values
    assert "core_limit_utilization_ratio" not in values
    pod = rows["pod"]["n", "a"].values
    assert pod["core_limit_utilization_ratio"] == pytest.approx(0.5)
    assert pod["memory_limit_utilization_ratio"] == pytest.approx(0.2)


def test_an_allocation_to_no_container_in_particular_is_the_pods() -> None:
    node = Node()
    grant = (allocated(ContainerKey("n", "a", "")),)

    for second in (0, 1):
        rows = node.cycle(second, {"GPU-0": window({1: SECOND // 4})}, allocated=grant)

    assert rows["container"][*A[:2], "", "0", "GPU-0"].values == {
        "unmeasured": {},
        "allocation_info": {("test", "", ""): 1},
        "allocated_core_seconds_total": SECOND // 2,
        "allocated_idle_core_seconds_total": SECOND // 4,
        "borrowed_core_seconds_total": 0,
    }
    container = rows["container"][ROW_A].values
    assert "core_limit_ratio" not in container
    assert container["unmeasured"] == {
        ("core_limit", "placement"): 1,
        ("memory_limit", "placement"): 1,
    }
    pod = rows["pod"]["n", "a"].values
    assert pod["core_limit_utilization_ratio"] == pytest.approx(0.5)


def test_a_pod_without_allocation_is_withheld_where_it_was_last_seen() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: 10})}, held={A: MemoryHeld(10, 1)})

    lost = {"GPU-0": DeviceState.LOST}
    rows = [node.cycle(second, states=lost) for second in range(1, 60)][-1]

    assert set(rows["pod"]["n", "a"].values) == {"info"}
    assert set(rows["container"][ROW_A].values) == {"unmeasured"}


SENSORS = Sensors.of(
    power_watts=70.0,
    temperature_celsius={"gpu": 50.0},
    sm_active_ratio=0.5,
    throttle_seconds_total={"sw_power_cap": 5 * SECOND},
    ecc_errors_total={"corrected": 2},
    remapped_rows={"uncorrected": 1},
    row_remapping={"pending": 1},
    pcie_bytes_total={"receive": 7},
    nvlink_bytes_total={"transmit": 8},
)


def test_what_the_board_tells_stands_beside_its_accounts() -> None:
    values = Node().cycle(0, sensors=SENSORS)["device"]["0", "GPU-0"].values

    assert values["power_watts"] == 70.0
    assert values["sm_active_ratio"] == 0.5
    assert "tensor_active_ratio" not in values
    assert values["temperature_celsius"] == {("gpu",): 50.0}
    assert values["throttle_seconds_total"] == {("sw_power_cap",): 5 * SECOND}
    assert values["ecc_errors_total"] == {("corrected",): 2}
    assert values["remapped_rows"] == {("uncorrected",): 1}
    assert values["row_remapping"] == {("pending",): 1}
    assert values["pcie_bytes_total"] == {("receive",): 7}
    assert values["nvlink_bytes_total"] == {("transmit",): 8}


def test_a_device_that_cannot_be_read_shows_its_xids_and_nothing_else_of_the_board() -> None:
    node = Node()
    xids = {"79": XidCount(1, 5 * SECOND), "31": XidCount()}
    lost = {"GPU-0": DeviceState.LOST}
    rows = [node.cycle(at, states=lost, sensors=SENSORS, xids=xids) for at in range(9)][-1]
    values = rows["device"]["0", "GPU-0"].values

    assert values["xid_errors_total"] == {("79",): 1, ("31",): 0}
    assert values["xid_last_timestamp_seconds"] == {("79",): 5 * SECOND}
    assert "power_watts" not in values
    assert "throttle_seconds_total" not in values


@pytest.mark.parametrize("state", [DeviceState.UP, DeviceState.STUCK])
def test_what_a_device_costs_is_told_whether_it_can_be_read_or_not(state: DeviceState) -> None:
    costs = {"samples": PartCost(7), "processes": PartCost(9, 10 * SECOND)}
    states = {"GPU-0": state}
    values = Node().cycle(0, states=states, costs=costs)["device"]["0", "GPU-0"].values

    assert values["driver_seconds_total"] == {("samples",): 7, ("processes",): 9}
    assert values["read_interval_seconds"] == {("processes",): 10 * SECOND}


BOTH: dict[Owner, MemoryHeld] = {A: MemoryHeld(10, 1), B: MemoryHeld(10, 1)}


def test_where_the_clients_of_one_owner_are_too_many_the_others_are_measured() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: 300, 2: 200}, energy=70)}, held=BOTH)
    node.untold = {A: Unmeasured.READ_FAILED}
    by_client = window({2: 200}, energy=70)._replace(
        methods=Methods("fdinfo", "fdinfo"), unmeasured_pids=frozenset({1})
    )
    rows = node.cycle(1, {"GPU-0": by_client}, held={**BOTH, A: MemoryHeld(None, 1)})

    withheld, others = (rows["container"][*k, "0", "GPU-0"].values for k in (A, B))
    assert withheld["unmeasured"] == dict.fromkeys(
        [("core", "read_failed"), ("energy", "read_failed"), ("memory", "read_failed")], 1
    )
    assert "core_seconds_total" not in withheld
    assert (others["core_seconds_total"], others["memory_used_bytes"]) == (400, 10)
    assert others["unmeasured"] == {("energy", "read_failed"): 1}
    device = rows["device"]["0", "GPU-0"].values
    assert "busy_seconds_total" not in device
    assert ("core", "read_failed") in device["unmeasured"]  # type: ignore[operator] # a mapping
    assert device["energy_joules_total"] == 140


def told_by_clients(core: dict[int, int], untold: Collection[int] = ()) -> Window:
    """A window of a device that is told by its clients, all of them but for these processes."""
    told = {pid: ns for pid, ns in core.items() if pid not in untold}
    methods = Methods("fdinfo", "fdinfo")
    return window(told)._replace(methods=methods, unmeasured_pids=frozenset(untold))


def test_who_is_told_again_is_shown_once_the_averages_hold_nothing_of_the_time_before() -> None:
    node = Node()
    both = {1: SECOND // 2, 2: SECOND // 2}
    shown: list[tuple[object, ...]] = []
    for second in range(60):
        is_untold = second in {20, 21, 30}
        node.untold = {A: Unmeasured.READ_FAILED} if is_untold else {}
        seen = told_by_clients(both, {1} if is_untold else ())
        rows = node.cycle(second, {"GPU-0": seen}, held=BOTH)
        a, b = (rows["container"][*k, "0", "GPU-0"].values for k in (A, B))
        device, pod = rows["device"]["0", "GPU-0"].values, rows["pod"]["n", "a"].values
        shown.append(
            (
                a.get("core_utilization_ratio"),
                b["core_utilization_ratio"],
                device.get("utilization_ratio"),
                pod.get("core_usage_gpus"),
            )
        )
        assert ("core_seconds_total" in a) is ("core_utilization_ratio" in a)
        assert ("busy_seconds_total" in device) is ("utilization_ratio" in device)
        assert bool(a["unmeasured"]) is ("core_utilization_ratio" not in a)

    untold = range(20, 30 + 15)
    assert shown == [
        (None, 0.5, None, None) if second in untold else (0.5, 0.5, 1.0, 0.5)
        for second in range(60)
    ]
    assert a["core_seconds_total"] == 57 * SECOND // 2
    assert device["busy_seconds_total"] == (60 + 57) * SECOND // 2


def test_who_was_not_told_last_stays_withheld_while_no_window_comes() -> None:
    node = Node()
    node.untold = {A: Unmeasured.READ_FAILED}
    node.cycle(0, {"GPU-0": told_by_clients({2: 5}, {1})}, held=BOTH)

    rows = node.cycle(20, held=BOTH)

    assert "core_seconds_total" not in rows["container"][ROW_A].values
    assert "busy_seconds_total" not in rows["device"]["0", "GPU-0"].values


def test_what_is_not_told_stands_in_the_same_order_in_every_process() -> None:
    node = Node()
    node.untold = {A: Unmeasured.READ_FAILED}
    seen = told_by_clients({2: 5}, {1})._replace(busy=Engines(5, 5, 5, 5))

    rows = node.cycle(0, {"GPU-0": seen}, held=BOTH)

    of_owner = rows["container"][ROW_A].values["unmeasured"]
    of_device = rows["device"]["0", "GPU-0"].values["unmeasured"]
    assert isinstance(of_owner, Mapping)
    assert isinstance(of_device, Mapping)
    quantities = [quantity for quantity, _ in of_owner]
    assert quantities == ["core", "memory_active", "encoder", "decoder", "energy"]
    assert [quantity for quantity, _ in of_device] == [
        "core",
        "decoder",
        "encoder",
        "memory_active",
    ]


def test_the_boards_own_reason_stands_before_that_of_clients_who_are_too_many() -> None:
    node = Node()
    by_client = window({2: 200})._replace(
        methods=Methods("fdinfo", "fdinfo"), unmeasured_pids=frozenset({1})
    )
    rows = node.cycle(
        0, {"GPU-0": by_client}, held=BOTH, unmeasured={"energy": Unmeasured.NOT_SUPPORTED}
    )

    assert rows["container"][*B, "0", "GPU-0"].values["unmeasured"] == {
        ("energy", "not_supported"): 1
    }


def test_owner_who_cannot_be_told_from_others_is_withheld_with_its_pod_and_namespace() -> None:
    node = Node()
    grants = (allocated(A), allocated(B))
    node.cycle(0, {"GPU-0": window({1: 300, 2: 200}, energy=70)}, allocated=grants, held=BOTH)
    node.untold = {A: Unmeasured.MIG}

    rows = node.cycle(1, {"GPU-0": window({2: 200}, energy=70)}, allocated=grants, held=BOTH)

    withheld, pod = rows["container"][ROW_A].values, rows["pod"]["n", "a"].values
    told = dict.fromkeys([(q, "mig") for q in ("core", "memory_active", "energy")], 1)
    assert withheld["unmeasured"] == told
    for values in (withheld, pod):
        assert not {"core_seconds_total", "energy_joules_total"} & values.keys()
        assert not {"core_utilization_ratio", "core_usage_gpus"} & values.keys()
        assert "core_limit_utilization_ratio" not in values
        assert values["memory_used_bytes"] == 10
    assert withheld["core_limit_ratio"] == 0.5
    assert "core_seconds_total" not in rows["namespace"]["n", "GPU-0"].values
    for level, labels in (("container", (*B, "0", "GPU-0")), ("pod", ("m", "b"))):
        assert rows[level][labels].values["core_seconds_total"] == 400
    assert rows["namespace"]["m", "GPU-0"].values["core_seconds_total"] == 400
    assert rows["device"]["0", "GPU-0"].values["busy_seconds_total"] == 700


class Mps(Node):
    """A device under MPS with the clients 1 and 2; the second is busy and named all the time."""

    def second(self, at: float, *, named: bool = False, idle: bool = False) -> dict[str, Value]:
        """One window; gives the container's values of the first client."""
        core = {} if idle else {1: 5, 2: 9} if named else {2: 9}
        self.untold = {} if idle or named else {A: Unmeasured.MPS}
        rows = self.cycle(at, {"GPU-0": window(core)}, held=BOTH)
        values = rows["container"][ROW_A].values
        if ("n", "GPU-0") in rows["namespace"]:  # goes with its only container
            namespace = rows["namespace"]["n", "GPU-0"].values
            assert ("core_seconds_total" in namespace) is ("core_seconds_total" in values)
        return dict(values)


def test_mps_client_is_unmeasured_as_soon_as_it_is_not_named() -> None:
    node = Mps()
    named = node.second(0, named=True)

    values = [node.second(at) for at in range(1, 18)]

    assert named["core_seconds_total"] == 5
    assert all("core_seconds_total" not in v for v in values)
    assert ("core", "mps") in values[0]["unmeasured"]  # type: ignore[operator]


def test_mps_client_is_measured_again_when_the_averages_have_no_window_without_its_name() -> None:
    node = Mps()
    node.second(0)

    values = [node.second(at, named=True) for at in range(1, 18)]

    assert ["core_seconds_total" in v for v in values] == [False] * 14 + [True] * 3


def test_owner_that_ends_unmeasured_stays_so_because_its_counters_lack_that_use() -> None:
    node = Mps()
    node.second(0)
    node.owners[5] = beside = ContainerKey("n", "z", "c")
    held: dict[Owner, MemoryHeld] = {beside: BOTH[B]}

    node.untold = {}
    rows = [node.cycle(second, {"GPU-0": window({5: 9})}, held=held) for second in range(1, 40)]

    assert "core_seconds_total" not in rows[-1]["container"][ROW_A].values
    assert "core_seconds_total" in rows[-1]["namespace"]["n", "GPU-0"].values


def test_a_failed_look_at_who_is_there_settles_no_doubt() -> None:
    node = Mps()
    for second in range(20):
        node.second(second)
    node.untold = None
    unknown = node.cycle(20, {"GPU-0": window({2: 9})}, held=BOTH)["container"][ROW_A].values

    after = [node.second(second) for second in range(21, 25)]

    assert all("core_seconds_total" not in values for values in (unknown, *after))


def test_idle_moments_of_a_device_do_not_settle_who_was_busy_in_the_others() -> None:
    node = Mps()

    values = [node.second(at, idle=at % 2 == 1) for at in range(40)]

    assert all("core_seconds_total" not in v for v in values[16:])


def test_device_that_stays_idle_settles_that_its_clients_are() -> None:
    node = Mps()
    for second in range(20):
        node.second(second)

    values = [node.second(at, idle=True) for at in range(20, 40)]

    assert "core_seconds_total" not in values[0]
    assert values[-1]["core_seconds_total"] == 0
    assert values[-1]["unmeasured"] == {}


@pytest.mark.parametrize(
    ("device", "quantity", "reason"),
    [
        (replace(GPU, sharing="mps"), "unattributed_core_seconds_total", "mps"),
        (replace(GPU, sharing="mig"), "unattributed_energy_joules_total", "mig"),
        (replace(GPU, parent_uuid="GPU-9"), "unattributed_core_seconds_total", "mig"),
    ],
)
def test_reasons_of_sharing_stand_at_zero_where_they_can_apply(
    device: Device, quantity: str, reason: str
) -> None:
    shared = Node((device,)).cycle(0, {"GPU-0": window({}, energy=7)})["device"]["0", "GPU-0"]
    plain = Node().cycle(0, {"GPU-0": window({}, energy=7)})["device"]["0", "GPU-0"]

    assert shared.values[quantity][reason,] == 0  # type: ignore[index]
    assert (reason,) not in plain.values[quantity]  # type: ignore[operator]


def test_methods_are_those_of_the_newest_window() -> None:
    node = Node()
    first = node.cycle(0)["device"]["0", "GPU-0"].values
    seen = window({})._replace(
        methods=Methods("samples", "sole_owner", "counter"),
        sampling=Sampling(500_000, (Naming.ALWAYS,)),
    )

    second = node.cycle(1, {"GPU-0": seen})["device"]["0", "GPU-0"].values
    third = node.cycle(2)["device"]["0", "GPU-0"].values

    assert "method_info" not in first
    assert second["method_info"] == {("samples", "sole_owner", "counter", "always", "0.5"): 1}
    assert third["method_info"] == second["method_info"]


def sampled(core: int, busy: int) -> Window:
    """A window of a second in which samples name the process 1 for ``core`` ns."""
    processes = (ProcessActivity(1, Engines(core=core)),) if core else ()
    return window({}, busy)._replace(processes=processes, per_sample=True)


def test_normalization_is_an_average_over_the_window_of_the_gauges() -> None:
    node = Node()
    node.cycle(1, {"GPU-0": sampled(100, 100)})
    rows = node.cycle(2, {"GPU-0": window({1: 100}, busy=200)})
    assert rows["device"]["0", "GPU-0"].values["normalization_ratio"] == 300 / 200

    rows = node.cycle(16.5, {"GPU-0": sampled(0, 0)})
    assert rows["device"]["0", "GPU-0"].values["normalization_ratio"] == 2

    rows = node.cycle(40, {"GPU-0": sampled(0, 0)})
    assert "normalization_ratio" not in rows["device"]["0", "GPU-0"].values


def test_the_reasons_for_giving_no_process_core_time_add_up_to_it() -> None:
    node = Node()
    node.cycle(1, {"GPU-0": window({1: 100}, busy=1000)})
    node.cycle(2, {"GPU-0": window({1: 100}, busy=150)._replace(rejected={"pid": 1})})
    rows = node.cycle(3, {"GPU-0": sampled(100, 700)})

    device = rows["device"]["0", "GPU-0"].values
    assert device["unexplained_core_seconds_total"] == {
        ("no_process",): 600,
        ("rejected_rows",): 50,
        ("cap",): 600,
    }
    unattributed = device["unattributed_core_seconds_total"]
    assert isinstance(unattributed, Mapping)
    assert unattributed["no_pid",] == 600 + 50 + 600


REFUSED = {"core": Unmeasured.NOT_SUPPORTED}


@pytest.mark.parametrize("state", [s for s in DeviceState if s is not DeviceState.UP])
def test_what_was_unmeasured_stays_so_while_the_device_cannot_be_read(state: DeviceState) -> None:
    node = Node()
    busy = {"GPU-0": window({}, busy=SECOND)}
    grant = (allocated(A),)
    node.cycle(0, busy, allocated=grant, held={A: MemoryHeld(1, 1)}, unmeasured=REFUSED)

    for second in (1, 2):  # the device is not blind yet
        rows = node.cycle(second, states={"GPU-0": state}, allocated=grant)
        values = rows["container"][ROW_A].values

        assert "core_utilization_ratio" not in values
        assert "core_seconds_total" not in values
        assert values["unmeasured"] == {
            ("core", "not_supported"): 1,
            ("energy", "not_supported"): 1,
        }


def test_what_was_unmeasured_stays_so_until_a_window_can_tell() -> None:
    """A driver that was opened anew has refused nothing yet, and has no new samples yet."""
    node = Node()
    busy = {"GPU-0": window({1: 500}, busy=SECOND)}
    grant = (allocated(A),)
    node.cycle(0, busy, allocated=grant, held={A: MemoryHeld(1, 1)}, unmeasured=REFUSED)

    before = node.cycle(1, allocated=grant)["container"][ROW_A].values
    after = node.cycle(2, busy, allocated=grant)["container"][ROW_A].values

    assert "core_utilization_ratio" not in before
    assert ("core", "not_supported") in before["unmeasured"]  # type: ignore[operator]
    assert after["core_utilization_ratio"] > 0  # type: ignore[operator]
    assert "unmeasured" not in after or not after["unmeasured"]


def test_a_device_that_was_never_read_says_why_it_has_no_xids() -> None:
    node = Node()

    rows = node.cycle(
        0, states={"GPU-0": DeviceState.LOST}, unmeasured={"xid": Unmeasured.NO_PERMISSION}
    )

    assert ("xid", "no_permission") in rows["device"]["0", "GPU-0"].values["unmeasured"]  # type: ignore[operator]


def test_who_is_first_seen_between_two_windows_has_no_ratio_until_the_next() -> None:
    """Its name arrived, or it has just begun: 0 would say that it was measured, and idle."""
    node = Node()
    grant = (allocated(A),)
    held: dict[Owner, MemoryHeld] = {A: MemoryHeld(1, 1), GROUP: MemoryHeld(1, 1)}
    named, node.owners = node.owners, {}
    node.cycle(0, {"GPU-0": window({1: 500, 3: 500})}, held={Unattributed.UNKNOWN_CGROUP: HELD})
    node.owners = named

    before = node.cycle(1, allocated=grant, held=held)
    after = node.cycle(2, {"GPU-0": window({1: 500, 3: 500})}, allocated=grant, held=held)
    later = node.cycle(3, allocated=grant, held=held)

    for level, labels in (("container", ROW_A), ("group", (*GROUP, "0", "GPU-0"))):
        assert "core_utilization_ratio" not in before[level][labels].values
        assert before[level][labels].values["processes"] == 1
        assert after[level][labels].values["core_utilization_ratio"] > 0  # type: ignore[operator]
        assert later[level][labels].values["core_utilization_ratio"] > 0  # type: ignore[operator]
    assert "core_usage_gpus" not in before["pod"]["n", "a"].values
    assert "core_usage_gpus" in after["pod"]["n", "a"].values


HELD = MemoryHeld(2, 2)


def test_who_holds_memory_in_a_window_that_does_not_name_it_is_idle() -> None:
    node = Node()
    held: dict[Owner, MemoryHeld] = {A: MemoryHeld(1, 1)}

    node.cycle(0, {"GPU-0": window({2: 500})}, held=held)
    rows = node.cycle(1, held=held)

    assert rows["container"][ROW_A].values["core_utilization_ratio"] == 0.0


def test_without_a_process_list_who_was_active_lately_is_there() -> None:
    """A window need not name everybody who works: what is shown of them must not come and go."""
    node = Node()
    busy, other = {"GPU-0": window({3: 10})}, {"GPU-0": window({2: 10})}
    refused = {"listed": False, "unmeasured": {"memory": Unmeasured.NO_PERMISSION}}
    label = (*GROUP, "0", "GPU-0")
    node.cycle(0, busy, **refused)  # type: ignore[arg-type]

    values = [
        node.cycle(second, busy if second % 3 == 0 else other, **refused)["group"][label].values  # type: ignore[arg-type]
        for second in range(3, 15)
    ]

    assert all(one["unmeasured"] == {("memory", "no_permission"): 1} for one in values)
    assert all("core_utilization_ratio" in one for one in values)
    gone = [node.cycle(second, other, **refused)["group"] for second in range(15, 30)]  # type: ignore[arg-type]
    assert "unmeasured" not in gone[-1][label].values


def test_what_is_remembered_is_bounded_by_the_window_of_the_averages() -> None:
    node = Node()
    for second in range(100):
        node.cycle(second, {"GPU-0": window({1: 300, 3: 100, 4: 50, 9: 10}, busy=1000)})

    book = node.ledger.devices["GPU-0"]
    assert len(book.pasts) == 15
    assert all(past.counters.keys() == {None, *book.owners} for past in book.pasts)
