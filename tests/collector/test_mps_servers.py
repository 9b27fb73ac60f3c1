"""Whoever calls a process as MPS's server is called hides nothing of his use."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter.collector import CycleRules
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
from tests.collector.bench import DEVICE, SECOND, Bench
from tests.rows import rows_of

CLIENT, SERVES = 10, 11
CLIENTS = ("team", "client", "c")
CYCLES = 20
BUSY = SECOND // 2
MPS_UNIT = CgroupIdentity(unit=Unit("systemd", "nvidia-mps.service"))
OWN_UNIT = CgroupIdentity(unit=Unit("systemd", "jupyter-mallory.service"))


def pod(namespace: str, name: str) -> Pod:
    container = Container("c", container_ids=(cid(name),))
    return Pod(name, namespace, name, phase="Running", containers=(container,))


def cid(name: str) -> str:
    return name.encode().hex().zfill(64)


def run(server: Pod | CgroupIdentity) -> Snapshot:
    """Twenty seconds: a client of MPS that idles, and a busy process with the server's name."""
    bench = Bench()
    hosts = frozenset({"gpu-operator", "nvidia-mps.service"})
    bench.collector.follow(CycleRules(mps_servers=hosts))
    client = pod("team", "client")
    pods = [client, server] if isinstance(server, Pod) else [client]
    bench.pods.current = PodTable(
        1,
        {each.uid: each for each in pods},
        {each.uid: each.uid for each in pods},
        {cid(each.name): (each.uid, "c") for each in pods},
    )
    of_server = CgroupIdentity(server.uid, cid(server.name)) if isinstance(server, Pod) else server
    bench.processes.identities = {
        CLIENT: CgroupIdentity("client", cid("client")),
        SERVES: of_server,
    }
    core = Engines(core=BUSY)
    window = Window(0, SECOND, SECOND, 0, core, (ProcessActivity(SERVES, core),), energy_uj=10**6)
    holders = (
        ProcessMemory(CLIENT, 100, frozenset({"mps"})),
        ProcessMemory(SERVES, 100, frozenset({"compute", "mps_server"})),
    )
    memory = DeviceMemory(1000, 200, None, holders)
    bench.gpus.devices = (
        DeviceReading(replace(DEVICE, sharing="mps"), window=window, memory=memory),
    )
    return [bench.cycle() for _ in range(CYCLES)][-1]


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


def test_the_server_of_a_process_that_nobody_owns_works_for_its_clients() -> None:
    assert of_nobody(run(CgroupIdentity())) == {"mps": CYCLES * BUSY}
