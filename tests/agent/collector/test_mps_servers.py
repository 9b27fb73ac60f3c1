"""Whoever calls a process as MPS's server is called hides nothing of his use."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.agent.collector import CycleRules
from exporter.model import (
    CgroupIdentity,
    Container,
    DeviceMemory,
    DeviceReading,
    Engines,
    Pod,
    PodTable,
    ProcessActivity,
    ProcessMemory,
    Snapshot,
    Unit,
    Window,
)
from tests.agent.collector.bench import DEVICE, SECOND, Bench
from tests.rows import rows_of

CLIENT, SERVES, SECOND_CLIENT = 10, 11, 12
CLIENTS = ("team", "client", "c")
CYCLES = 20
BUSY = SECOND // 2
MPS_UNIT = CgroupIdentity(unit=Unit("systemd", "nvidia-mps.service"))
OWN_UNIT = CgroupIdentity(unit=Unit("systemd", "jupyter-mallory.service"))
OF_ROOT = CgroupIdentity(unit=Unit("user", "0", uid=0))
OF_NO_UNIT = CgroupIdentity(unit=Unit("host", "0", uid=0))
OF_A_USER = CgroupIdentity(unit=Unit("user", "1000", uid=1000))


def pod(namespace: str, name: str) -> Pod:
    container = Container("c", container_ids=(cid(name),))
    return Pod(name, namespace, name, phase="Running", containers=(container,))


def cid(name: str) -> str:
    return name.encode().hex().zfill(64)


def run(
    server: Pod | CgroupIdentity, *, clients: int = 2, cycles: int = CYCLES, reloaded: int = 0
) -> Snapshot:
    """Some seconds: clients of MPS, and a process with the server's name that the driver names.

    ``reloaded``: so many seconds pass before it is set whose servers work for others.
    """
    bench = Bench()
    hosts = frozenset({"gpu-operator", "nvidia-mps.service"})
    pods = [pod("team", "client"), pod("team", "other")]
    if isinstance(server, Pod):
        pods.append(server)
    bench.pods.current = PodTable(
        1,
        {each.uid: each for each in pods},
        {each.uid: each.uid for each in pods},
        {cid(each.name): (each.uid, "c") for each in pods},
    )
    of_server = CgroupIdentity(server.uid, cid(server.name)) if isinstance(server, Pod) else server
    bench.processes.identities = {
        CLIENT: CgroupIdentity("client", cid("client")),
        SECOND_CLIENT: CgroupIdentity("other", cid("other")),
        SERVES: of_server,
    }
    core = Engines(core=BUSY)
    window = Window(0, SECOND, SECOND, 0, core, (ProcessActivity(SERVES, core),), energy_uj=10**6)
    holders = (
        ProcessMemory(SERVES, 100, frozenset({"compute", "mps_server"})),
        *(ProcessMemory(p, 100, frozenset({"mps"})) for p in (CLIENT, SECOND_CLIENT)[:clients]),
    )
    memory = DeviceMemory(1000, 300, None, holders)
    bench.gpus.devices = (
        DeviceReading(replace(DEVICE, sharing="mps"), window=window, memory=memory),
    )
    for number in range(cycles + reloaded):
        if number == reloaded:
            bench.collector.follow(CycleRules(mps_servers=hosts))
        bench.cycle()
    return bench.collector.snapshot


def figures(snapshot: Snapshot, level: str, *labels: str) -> dict[str, object]:
    for row in rows_of(snapshot)[level]:
        if row.labels == (*labels, "0", "GPU-0"):
            return dict(row.values)
    return {}


def of_nobody(snapshot: Snapshot) -> object:
    (device,) = rows_of(snapshot)["device"]
    unattributed = device.values["unattributed_core_seconds_total"]
    assert isinstance(unattributed, Mapping)
    return {reason: ns for (reason,), ns in unattributed.items() if ns}


def test_a_tenants_process_with_the_servers_name_is_charged_to_his_container() -> None:
    snapshot = run(pod("team", "mallory"))

    own = figures(snapshot, "container", "team", "mallory", "c")
    assert own["core_utilization_ratio"] == pytest.approx(0.5)
    assert own["core_seconds_total"] == CYCLES * BUSY
    assert own["energy_joules_total"] == CYCLES * 10**6
    assert of_nobody(snapshot) == {}


def test_so_is_one_in_a_group_that_may_be_a_tenants() -> None:
    snapshot = run(OWN_UNIT)

    own = figures(snapshot, "group", "systemd", "jupyter-mallory.service")
    assert own["core_seconds_total"] == CYCLES * BUSY
    assert of_nobody(snapshot) == {}


@pytest.mark.parametrize(
    ("server", "level", "labels"),
    [
        (pod("gpu-operator", "mps"), "container", ("gpu-operator", "mps", "c")),
        (MPS_UNIT, "group", ("systemd", "nvidia-mps.service")),
        (OF_ROOT, "group", ("user", "0")),
        (OF_NO_UNIT, "group", ("host", "0")),
    ],
)
def test_the_sharing_systems_server_works_for_its_clients_and_both_have_a_reason(
    server: Pod | CgroupIdentity, level: str, labels: tuple[str, ...]
) -> None:
    snapshot = run(server)

    assert of_nobody(snapshot) == {"mps": CYCLES * BUSY}
    for own in (figures(snapshot, level, *labels), figures(snapshot, "container", *CLIENTS)):
        assert own["memory_used_bytes"] == 100
        assert not {"core_seconds_total", "core_utilization_ratio", "energy_joules_total"} & set(
            own
        )
        reasons = own["unmeasured"]
        assert isinstance(reasons, Mapping)
        assert ("core", "mps") in reasons


def test_clients_of_several_owners_are_unmeasured_from_the_first_second_not_idle() -> None:
    snapshot = run(MPS_UNIT, cycles=1)

    own = figures(snapshot, "container", *CLIENTS)
    assert "core_utilization_ratio" not in own
    assert ("core", "mps") in own["unmeasured"]  # type: ignore[operator]


def test_what_the_server_does_for_one_container_alone_is_that_containers() -> None:
    snapshot = run(MPS_UNIT, clients=1)

    own = figures(snapshot, "container", *CLIENTS)
    assert own["core_utilization_ratio"] == pytest.approx(0.5)
    assert own["core_seconds_total"] == CYCLES * BUSY
    assert own["energy_joules_total"] == CYCLES * 10**6
    assert of_nobody(snapshot) == {}


def test_a_users_own_server_is_his() -> None:
    snapshot = run(OF_A_USER)

    assert figures(snapshot, "group", "user", "1000")["core_seconds_total"] == CYCLES * BUSY
    assert of_nobody(snapshot) == {}


def test_the_server_of_a_process_that_nobody_owns_works_for_its_clients() -> None:
    assert of_nobody(run(CgroupIdentity())) == {"mps": CYCLES * BUSY}


def test_whose_servers_work_for_others_holds_from_its_reload_on() -> None:
    own = figures(run(MPS_UNIT, clients=1, reloaded=3), "container", *CLIENTS)

    assert own["core_seconds_total"] == CYCLES * BUSY
