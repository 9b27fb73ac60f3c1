"""Where the driver cannot tell tenants apart nothing is invented, and the books balance still."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.attribution.tenancy import Residents, account_for, residents_of
from exporter.model import (
    ContainerKey,
    Device,
    DeviceUsage,
    Engines,
    Methods,
    Owner,
    ProcessActivity,
    ProcessMemory,
    Unattributed,
    Unexplained,
    Unmeasured,
    Window,
)

CARD = Device("GPU-0", 0, "nvidia")
BOARD = Device("GPU-0", 0, "nvidia", sharing="mig")
DIE = Device("GPU-0", 0, "amd", sharing="module")
INSTANCE = Device("MIG-0", 0, "nvidia", parent_uuid="GPU-0", core_share=3 / 7)
A, B = ContainerKey("n", "a", "c"), ContainerKey("n", "b", "c")
OWNERS: dict[int, Owner] = {
    1: A,
    2: B,
    3: A,
    4: Unattributed.HOST_PROCESS,
    5: Unattributed.EXITED,
    6: A,
}


def holder(pid: int, *kinds: str) -> ProcessMemory:
    return ProcessMemory(pid, 10, frozenset(kinds or ("compute",)))


def listed(*processes: ProcessMemory) -> Residents:
    return residents_of(processes, OWNERS)


def activity(core: int) -> Window:
    return Window(
        *(0, 1000, 1000, 0),
        Engines(core=core),
        methods=Methods("gpm", "sole_owner"),
    )


def sampled(core: int, rows: dict[int, int]) -> Window:
    processes = tuple(ProcessActivity(pid, Engines(core=ns)) for pid, ns in rows.items())
    return Window(0, 1000, 1000, 0, Engines(core=core), processes)


def core_of(usage: DeviceUsage) -> dict[Owner, int | None]:
    return {owner: spent.busy.core for owner, spent in usage.shares.items()}


@pytest.mark.parametrize(
    ("residents", "owner"),
    [
        (listed(holder(1)), A),
        (listed(holder(1), holder(3)), A),
        (listed(holder(1), holder(5)), A),
        (listed(holder(4)), Unattributed.HOST_PROCESS),
        (listed(), Unattributed.NO_PID),
        (listed(holder(5)), Unattributed.NO_PID),
        (None, Unattributed.MIG),
        (listed(holder(9)), Unattributed.UNKNOWN_CGROUP),
        (listed(holder(1, "mps"), holder(4, "compute", "mps_server")), A),
    ],
)
def test_all_of_an_instance_is_its_only_owners(residents: Residents | None, owner: Owner) -> None:
    usage = account_for(INSTANCE, activity(300), OWNERS, residents)

    assert core_of(usage) == {owner: 300}
    assert usage.unmeasured == {}
    assert usage.reported_core_ns == 0


def test_an_instance_of_several_owners_is_nobodys_and_unmeasured_for_each() -> None:
    usage = account_for(INSTANCE, activity(300), OWNERS, listed(holder(1), holder(2)))

    assert core_of(usage) == {Unattributed.MIG: 300}
    assert usage.unmeasured == {A: "mig", B: "mig"}


def test_owners_of_a_shared_instance_are_unmeasured_while_it_idles_too() -> None:
    usage = account_for(INSTANCE, activity(0), OWNERS, listed(holder(1), holder(2)))

    assert usage.shares == {}
    assert usage.unmeasured == {A: "mig", B: "mig"}


def test_energy_of_a_board_is_that_of_its_instances_together() -> None:
    window = Window(
        *(0, 1000, 500, 500), Engines(), energy_uj=100, idle_energy_uj=30, methods=Methods()
    )

    usage = account_for(BOARD, window, {}, None)

    assert {owner: spent.energy_uj for owner, spent in usage.shares.items()} == {
        Unattributed.MIG: 20,
        Unattributed.IDLE: 30,
        Unattributed.UNOBSERVED: 50,
    }


SERVER = holder(4, "compute", "mps_server")


@pytest.mark.parametrize(
    ("clients", "credited"),
    [
        ((1,), {A: 800}),
        ((1, 3), {A: 800}),  # two of one container
        ((1, 5), {A: 800}),  # one that has ended
        ((1, 2), {A: 200, Unattributed.MPS: 600}),
        ((1, 9), {A: 200, Unattributed.MPS: 600}),  # one whose owner is not known
        ((), {A: 200, Unattributed.MPS: 600}),
    ],
)
def test_what_the_mps_server_is_credited_with_is_the_only_owners_of_clients_or_nobodys(
    clients: tuple[int, ...], credited: dict[Owner, int]
) -> None:
    residents = listed(SERVER, *(holder(pid, "mps") for pid in clients))

    usage = account_for(CARD, sampled(800, {1: 200, 4: 600}), OWNERS, residents)

    assert core_of(usage) == credited


def test_the_only_owner_of_mps_clients_is_measured_if_the_driver_names_the_server() -> None:
    usage = account_for(CARD, sampled(800, {4: 800}), OWNERS, listed(SERVER, holder(1, "mps")))

    assert usage.unmeasured == {}


@pytest.mark.parametrize(
    ("busy", "rows", "unmeasured"),
    [
        (800, {1: 800}, {B: "mps"}),
        (800, {3: 800}, {A: "mps", B: "mps"}),  # one of the container's that is no client
        (800, {4: 800}, {A: "mps", B: "mps"}),
        (800, {}, {A: "mps", B: "mps"}),
        (800, {1: 400, 2: 400}, {}),
        (0, {}, {}),
    ],
)
def test_mps_client_without_a_row_is_unmeasured_unless_the_device_is_idle(
    busy: int, rows: dict[int, int], unmeasured: dict[Owner, str]
) -> None:
    residents = listed(holder(1, "mps"), holder(2, "mps"), holder(4, "compute", "mps_server"))

    assert account_for(CARD, sampled(busy, rows), OWNERS, residents).unmeasured == unmeasured


def test_process_beside_mps_that_has_no_row_is_idle() -> None:
    residents = listed(holder(1, "mps"), holder(2))

    assert account_for(CARD, sampled(800, {1: 800}), OWNERS, residents).unmeasured == {}


def test_card_without_mps_or_mig_is_shared_by_its_rows() -> None:
    usage = account_for(CARD, sampled(900, {1: 300, 2: 300}), OWNERS, listed(holder(1), holder(2)))

    assert core_of(usage) == {A: 450, B: 450}
    assert usage.unmeasured == {}


def test_the_energy_of_a_module_is_nobodys_on_its_die() -> None:
    """Else who works on the first die would pay for who works on the second."""
    window = sampled(900, {1: 300, 2: 300})._replace(energy_uj=500, idle_energy_uj=50)

    usage = account_for(DIE, window, OWNERS, listed(holder(1), holder(2)), {A: 1})

    assert core_of(usage) == {A: 450, B: 450, Unattributed.MODULE: 0}
    assert {owner: spent.energy_uj for owner, spent in usage.shares.items()} == {
        A: None,
        B: None,
        Unattributed.MODULE: 500,
    }
    assert (usage.total.energy_uj, usage.idle_energy_uj) == (500, None)


@given(
    st.sampled_from([CARD, BOARD, INSTANCE, DIE]),
    st.booleans(),
    st.integers(0, 10**9),
    st.dictionaries(st.integers(1, 7), st.integers(0, 10**9)),
    st.one_of(
        st.none(),
        st.lists(
            st.builds(
                holder,
                st.integers(1, 7),
                st.sampled_from(["compute", "mps", "mps_server"]),
            )
        ),
    ),
    st.integers(0, 10**9),
)
def test_shares_add_up_whoever_shares_the_device(
    device: Device,
    whole: bool,  # noqa: FBT001 - drawn
    busy: int,
    rows: dict[int, int],
    residents: list[ProcessMemory] | None,
    energy: int,
) -> None:
    processes = tuple(ProcessActivity(pid, Engines(core=ns)) for pid, ns in rows.items())
    methods = Methods("gpm", "sole_owner") if whole else Methods()
    window = Window(*(0, 1, 1, 0), Engines(core=busy), processes, energy_uj=energy, methods=methods)

    known = None if residents is None else listed(*residents)
    usage = account_for(device, window, OWNERS, known)

    assert sum(spent.busy.core or 0 for spent in usage.shares.values()) == busy
    assert sum(spent.energy_uj or 0 for spent in usage.shares.values()) == energy


def test_activity_of_an_instance_without_a_tenant_has_no_process_to_explain_it() -> None:
    usage = account_for(INSTANCE, activity(300), OWNERS, listed())

    assert core_of(usage) == {Unattributed.NO_PID: 300}
    assert usage.unexplained[Unexplained.NO_PROCESS] == 300


def test_who_has_queues_that_fdinfo_does_not_time_is_unmeasured_and_the_others_are_not() -> None:
    """A process of ROCm and one of Mesa on a Radeon: what is left of its busy time is nobody's."""
    window = sampled(800, {2: 100})._replace(methods=Methods("rates", "fdinfo"), per_sample=True)

    usage = account_for(CARD, window, OWNERS, listed(holder(1), ProcessMemory(2, 10, frozenset())))

    assert usage.unmeasured == {A: Unmeasured.NOT_SUPPORTED}
    assert core_of(usage) == {B: 100, Unattributed.NO_PID: 700}


def test_whose_clients_could_not_all_be_read_is_unmeasured_beside_compute_units() -> None:
    window = sampled(800, {1: 300, 2: 100})._replace(
        methods=Methods("rates", "cu_occupancy"), unmeasured_pids=frozenset({2})
    )

    usage = account_for(CARD, window, OWNERS, listed(holder(1), holder(2)))

    assert usage.unmeasured == {B: Unmeasured.READ_FAILED}


@pytest.mark.parametrize(("busy", "energy_of_b"), [("fdinfo", None), ("rates", 10)])
def test_who_is_not_told_costs_nobody_else_energy(busy: str, energy_of_b: int | None) -> None:
    """Where the device's busy time is the sum of what is told, nobody's part of the energy is."""
    window = sampled(800, {2: 100})._replace(
        methods=Methods(busy, "fdinfo"),
        per_sample=True,
        unmeasured_pids=frozenset({1}),
        energy_uj=80,
    )

    usage = account_for(CARD, window, OWNERS, listed(holder(1), ProcessMemory(2, 10, frozenset())))

    assert usage.unmeasured is not None
    assert usage.unmeasured[A] is Unmeasured.READ_FAILED
    assert B not in usage.unmeasured
    assert usage.is_lower_bound is (busy == "fdinfo")
    assert usage.shares[B].energy_uj == (energy_of_b or 0)
    assert sum(spent.energy_uj or 0 for spent in usage.shares.values()) == 80
