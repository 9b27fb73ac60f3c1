from collections.abc import Mapping

import pytest

from exporter.model import (
    Averages,
    ContainerHolding,
    ContainerKey,
    Device,
    DeviceFacts,
    Engines,
    Facts,
    Owner,
    Process,
    ProcessActivity,
    ProcessInfo,
    ProcessMemory,
    SharedWindow,
    Snapshot,
    Tenants,
    Unattributed,
    Used,
)
from exporter.shown.processtree import processes_of, unattributed_core
from tests.agent.ledger.node import SECOND, A, B

COMPUTE = frozenset({"compute"})
OWNERS: dict[int, Owner] = {1: A, 2: A, 3: B, 4: Unattributed.HOST_PROCESS, 9: Unattributed.EXITED}
MEASURED = Averages(0.5)


def shared(
    credited: Mapping[int, int],
    shares: Mapping[Owner, int],
    owners: Mapping[int, Owner] = OWNERS,
) -> SharedWindow:
    """A window of 1000 ns: what the driver credits pids with, and what owners were given."""
    return SharedWindow(
        SECOND,
        1000,
        tuple(ProcessActivity(pid, Engines(core=ns)) for pid, ns in credited.items()),
        {owner: Used(Engines(core=ns)) for owner, ns in shares.items()},
        owners,
    )


def found(
    *windows: SharedWindow,
    listed: tuple[int, ...] | None = (1, 2, 3),
    kinds: frozenset[str] = COMPUTE,
    averages: Mapping[ContainerKey, Averages] | None = None,
) -> dict[int, Process]:
    """The processes by pid; both containers' core is measured unless ``averages`` say otherwise."""
    holders = None if listed is None else tuple(ProcessMemory(p, p * 10, kinds) for p in listed)
    known = averages or dict.fromkeys((A, B), MEASURED)
    device = DeviceFacts(device=Device("GPU-0", 0, "nvidia"), average=MEASURED)
    containers = tuple(
        ContainerHolding(owner=owner, index=0, uuid="GPU-0", average=average)
        for owner, average in known.items()
    )
    snapshot = Snapshot(
        measured=lambda: Facts((device,), containers),
        tenants=(Tenants("GPU-0", holders, windows),),
        owners=OWNERS,
        processes={1: ProcessInfo("python", 5)},
    )
    return {process.pid: process for process in processes_of(snapshot)}


def test_processes_share_what_their_container_was_given() -> None:
    by_pid = found(shared({1: 100, 2: 300, 3: 50}, {A: 600, B: 50}))
    assert [by_pid[pid].core for pid in (1, 2, 3)] == pytest.approx([0.15, 0.45, 0.05])


def test_a_process_that_did_nothing_is_idle_and_not_unknown() -> None:
    assert found(shared({1: 100}, {A: 100}))[3].core == 0


def test_each_window_is_shared_by_its_own_figures() -> None:
    by_pid = found(shared({1: 10}, {A: 800}), shared({2: 10}, {A: 200}))
    assert (by_pid[1].core, by_pid[2].core) == (0.4, 0.1)


def test_a_process_that_has_ended_takes_its_part_along() -> None:
    gone = {**OWNERS, 7: A}
    by_pid = found(shared({1: 100, 7: 100}, {A: 400}, gone))
    assert by_pid[1].core == 0.2
    assert 7 not in by_pid


def test_what_an_owner_was_given_unnamed_is_its_only_processs() -> None:
    assert found(shared({}, {B: 500}))[3].core == 0.5


def test_what_an_owner_was_given_unnamed_cannot_be_told_between_several() -> None:
    by_pid = found(shared({}, {A: 500}))
    assert (by_pid[1].core, by_pid[2].core) == (None, None)


def test_what_was_given_unnamed_goes_as_the_rest_does() -> None:
    by_pid = found(shared({1: 100, 2: 300}, {A: 400}), shared({}, {A: 400}))
    assert (by_pid[1].core, by_pid[2].core) == (0.1, 0.3)


def test_a_process_is_not_measured_where_its_container_is_not() -> None:
    by_pid = found(shared({1: 100, 3: 50}, {A: 100, B: 50}), averages={A: Averages(), B: MEASURED})
    assert (by_pid[1].core, by_pid[3].core) == (None, 0.05)


def test_a_host_process_is_measured_as_its_device_is() -> None:
    by_pid = found(shared({4: 100}, {Unattributed.HOST_PROCESS: 250}), listed=(4,))
    assert (by_pid[4].owner, by_pid[4].core) == (Unattributed.HOST_PROCESS, 0.25)


def test_the_server_of_mps_has_no_figures_of_its_own() -> None:
    by_pid = found(shared({1: 100}, {A: 100}), listed=(1,), kinds=frozenset({"mps_server"}))
    assert by_pid[1].core is None


def test_a_process_has_what_is_known_of_it() -> None:
    assert found(shared({1: 100}, {A: 100}))[1] == Process(
        1, "GPU-0", A, COMPUTE, 10, core=0.1, name="python", start_unix_ns=5
    )


def test_before_the_first_window_nothing_is_known_of_use() -> None:
    assert found()[1].core is None


def test_who_has_exited_is_not_there() -> None:
    assert 9 not in found(listed=(1, 9))


def test_where_none_is_listed_those_named_lately_are_there() -> None:
    by_pid = found(shared({3: 100}, {B: 100}), listed=None)
    assert list(by_pid) == [3]
    assert (by_pid[3].kinds, by_pid[3].memory_bytes, by_pid[3].core) == (None, None, 0.1)


def test_what_nobody_is_named_for_is_told_by_its_reason() -> None:
    windows = (shared({}, {Unattributed.NO_PID: 300, A: 100}), shared({}, {}))
    assert unattributed_core(Tenants("GPU-0", (), windows)) == {Unattributed.NO_PID: 0.15}


def test_of_a_device_without_windows_nothing_is_told() -> None:
    assert unattributed_core(Tenants("GPU-0")) == {}
