"""The cycle: what the sources say ends in the Snapshot, and a failing source costs only itself."""

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from exporter.agent.allocations.terms import SHARED
from exporter.agent.collector import Collector, Sources
from exporter.agent.collector.podallocations import limited
from exporter.agent.sources.gpus.gpusource import RestartRequiredError
from exporter.metrics.families import FAMILIES
from exporter.model import (
    Allocation,
    CgroupIdentity,
    Container,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Methods,
    Pod,
    PodTable,
    ProcessMemory,
    Snapshot,
    Unmeasured,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, PLACED, POD, SECOND, Bench, row
from tests.agent.collector.sources import SetGpus
from tests.rows import rows_of


class After(threading.Event):
    """Set once so many cycles are done; the wait for it passes at once."""

    def __init__(self, bench: Bench, cycles: int) -> None:
        super().__init__()
        self._collector, self._clock, self._cycles = bench.collector, bench.clock, cycles
        self.waits: list[float | None] = []

    def is_set(self) -> bool:
        """Whether enough cycles are done."""
        return self._collector.pulse.done >= self._cycles

    def wait(self, timeout: float | None = None) -> bool:
        """Note the time and let it pass."""
        self.waits.append(timeout)
        self._clock.move(timeout or 0)
        return self.is_set()


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.processes.identities[7] = CgroupIdentity("uid-1", CID, "containerd")
    made.use(7, SECOND // 2)
    return made


def test_an_unnamed_pod_is_a_group_until_its_name_is_known(bench: Bench) -> None:
    before = bench.cycle()
    bench.name_pod()
    after = bench.cycle()

    group = ("pod", f"uid-1/{CID}", "0", "GPU-0")
    assert row(before, "group", *group).values["core_seconds_total"] == SECOND // 2
    assert rows_of(before)["container"] == ()
    container = row(after, "container", "ml", "train", "main", "0", "GPU-0").values
    assert container["core_seconds_total"] == SECOND // 2
    assert row(after, "group", *group).values["core_seconds_total"] == SECOND // 2


def test_the_first_cycle_waits_for_the_first_list_so_that_no_named_pod_is_a_group(
    bench: Bench,
) -> None:
    bench.name_pod()
    bench.pods.current, bench.pods.arriving = PodTable(), bench.pods.current

    bench.collector.run(After(bench, 1))

    snapshot = bench.collector.snapshot
    assert rows_of(snapshot)["group"] == ()
    assert [r.labels for r in rows_of(snapshot)["container"]] == [
        ("ml", "train", "main", "0", "GPU-0")
    ]


def test_a_failing_gpu_source_is_down_and_the_cycle_goes_on(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.gpus.error = OSError("boom")

    with caplog.at_level(logging.WARNING):
        snapshot = bench.cycle()

    own = row(snapshot, "exporter").values
    assert own["source_up"] == {("set",): 0, ("cgroups",): 1, ("pods",): 1}
    assert "boom" in caplog.text


def test_a_pod_source_that_fails_keeps_the_pods_it_told_of(bench: Bench) -> None:
    bench.name_pod()
    bench.cycle()
    bench.pods.error = OSError("gone")

    snapshot = bench.cycle()

    labels = ("ml", "train", "main", "0", "GPU-0")
    assert row(snapshot, "container", *labels).values["core_seconds_total"] == SECOND
    assert rows_of(snapshot)["group"] == ()
    assert row(snapshot, "exporter").values["source_up"] == {
        ("set",): 1,
        ("cgroups",): 1,
        ("pods",): 0,
    }


def test_a_pod_that_is_gone_leaves_no_trace_of_where_it_was_seen_or_what_was_told_of_it(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = Container("side", limits={"nvidia.com/gpu": "lots"})
    pod = replace(POD, containers=(*POD.containers, wrong))
    bench.name_pod(pod)
    bench.cycle()
    bench.pods.current = PodTable(bench.pods.current.version + 1)
    bench.cycle()
    bench.gpus.devices = (DeviceReading(DEVICE, memory=DeviceMemory(1000, 0, None, ())),)
    bench.name_pod(pod)

    snapshot = bench.cycle()

    assert caplog.text.count("bad_quantity") == 2
    unplaced = row(snapshot, "container", "ml", "train", "main", "", "").values
    assert unplaced["unmeasured"] == {
        ("core_limit", "placement"): 1,
        ("memory_limit", "placement"): 1,
    }


def test_what_is_wrong_with_a_pod_is_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = Pod(
        "uid-1", "ml", "train", containers=(Container("a", limits={"nvidia.com/gpu": "x"}),)
    )

    with caplog.at_level(logging.WARNING):
        for phase in ("Pending", "Running"):
            bench.name_pod(replace(wrong, phase=phase))
            bench.cycle()

    assert caplog.text.count("bad_quantity") == 1


def test_a_cycle_that_takes_longer_than_the_interval_is_counted_and_the_next_is_not_hurried(
    bench: Bench,
) -> None:
    bench.gpus.took = lambda: bench.clock.move(next(times))
    times = iter((0.2, 3.0, 0.2, 0.2, 0.2))
    stop = After(bench, 5)

    bench.collector.run(stop)

    assert row(bench.collector.snapshot, "exporter").values["cycle_overruns_total"] == 1
    assert stop.waits == pytest.approx([0.8, 0.0, 0.8, 0.8, 0.8])


def test_what_only_a_restart_mends_ends_the_run(bench: Bench) -> None:
    bench.gpus.error = RestartRequiredError("library and driver disagree")

    bench.collector.run(threading.Event())

    assert str(bench.collector.fatal) == "library and driver disagree"


def test_a_restart_does_not_end_what_is_read_of_other_cards(bench: Bench) -> None:
    other = SetGpus()
    other.name = "other"
    sources = Sources((bench.gpus, other), bench.processes, bench.pods)
    collector = Collector(sources, bench.ledger, bench.clock)
    bench.gpus.devices = (DeviceReading(DEVICE),)
    collector.cycle()
    bench.gpus.error = RestartRequiredError("library and driver disagree")
    other.devices = (DeviceReading(replace(DEVICE, uuid="AMD-0", vendor="amd")),)

    snapshot = collector.cycle()

    down = next(source for source in snapshot.sources if source.name == "set")
    assert (down.up, down.detail) == (False, "library and driver disagree")
    states = {device.device.uuid: device.state for device in snapshot.facts.devices}
    assert states == {"GPU-0": DeviceState.FAILED, "AMD-0": DeviceState.UP}

    other.devices = ()
    with pytest.raises(RestartRequiredError):
        collector.cycle()


def test_rejected_items_of_every_source_are_counted(bench: Bench) -> None:
    bad = Window(0, SECOND, SECOND, 0, Engines(core=0), rejected={"percentage": 3})
    bench.gpus.devices = (DeviceReading(DEVICE, window=bad),)
    wrong = Container("main", limits={"vke.volcengine.com/mgpu-core": "lots"})
    bench.name_pod(Pod("uid-1", "ml", "train", containers=(wrong,)))

    bench.cycle()
    rejected = row(bench.cycle(), "exporter").values["rejected_samples_total"]

    assert rejected == {("percentage",): 6, ("vanished",): 1, ("bad_quantity",): 1}


def test_an_unknown_node_is_said_once_and_counted_for_each_pod(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    asks = Container("main", limits={"nvidia.com/gpu": "1"})
    pods = {uid: Pod(uid, "ml", uid, containers=(asks,)) for uid in ("a", "b", "c")}
    bench.pods.current = PodTable(1, pods)

    with caplog.at_level(logging.WARNING):
        bench.cycle()
        bench.pods.current = PodTable(2, pods)
        rejected = row(bench.cycle(), "exporter").values["rejected_samples_total"]

    assert isinstance(rejected, Mapping)
    assert rejected["node_unknown",] == 3
    (said,) = caplog.records
    assert "nvidia-device-plugin's allocations are not exported" in said.getMessage()


INSTANCE = Device(
    "MIG-0", 0, "nvidia", parent_uuid="GPU-0", profile="3g.40gb", memory_bytes=1000, core_share=0.5
)
MIG_POD = Pod(
    "uid-1",
    "ml",
    "train",
    phase="Running",
    containers=(Container("main", container_ids=(CID,), limits={"nvidia.com/mig-3g.40gb": "1"}),),
)


def instance(core_ns: int, *pids: int) -> DeviceReading:
    """A second of a MIG instance on which these processes hold memory."""
    window = Window(
        *(0, SECOND, SECOND, 0),
        Engines(core=core_ns),
        methods=Methods(busy="gpm", shares="sole_owner"),
    )
    holders = tuple(ProcessMemory(pid, 10, frozenset({"compute"})) for pid in pids)
    return DeviceReading(INSTANCE, window=window, memory=DeviceMemory(1000, 10, None, holders))


def test_mig_instance_stands_against_its_share_of_the_gpu(bench: Bench) -> None:
    bench.name_pod(MIG_POD)
    bench.gpus.devices = (instance(SECOND // 4, 7),)

    bench.cycle()
    snapshot = bench.cycle()

    values = row(snapshot, "container", "ml", "train", "main", "0", "MIG-0").values
    assert values["core_seconds_total"] == SECOND // 2
    assert values["core_limit_ratio"] == 0.5
    assert values["core_limit_utilization_ratio"] == pytest.approx(0.5)


def test_an_instance_that_is_not_known_is_looked_for_and_its_board_is_not_allocated(
    bench: Bench,
) -> None:
    """The board has just been divided: a process of the new instance is listed on the whole."""
    bench.name_pod(MIG_POD)
    unfound = [bench.cycle() for _ in range(3)][-1]
    looks = bench.gpus.looks
    board = DeviceReading(replace(DEVICE, sharing="mig"), unmeasured={"core": Unmeasured.MIG})
    bench.gpus.devices = (board, instance(SECOND // 4, 7))
    found = [bench.cycle() for _ in range(2)][-1]

    def allocated(snapshot: Snapshot, uuid: str) -> object:
        namespaces = snapshot.measured().namespaces
        return [each.allocated.gpu_ns for each in namespaces if each.uuid == uuid]

    assert allocated(unfound, "GPU-0") in ([], [None])
    assert allocated(found, "GPU-0") in ([], [None])
    assert allocated(found, "MIG-0") == [SECOND // 2]  # its half, since a cycle
    assert (looks, bench.gpus.looks) == (3, 3)


def test_a_device_that_never_comes_is_looked_for_for_a_minute(bench: Bench) -> None:
    bench.name_pod(MIG_POD)
    for _ in range(100):
        bench.cycle()
    assert bench.gpus.looks == 60


@pytest.mark.parametrize(
    ("said", "is_unhealthy"),
    [
        (("GPU-0",), True),
        (("gpu-0::3",), True),
        (("0000:19:00.0",), True),
        (("amdgpu_xcp_30",), True),
        (("GPU-2", "k8s.gpu.nvidia.com/claim=c-gpu-0", "", "::"), False),
        ((), False),
    ],
)
def test_a_device_that_the_kubelet_names_as_unhealthy_is_marked(
    bench: Bench, said: tuple[str, ...], *, is_unhealthy: bool
) -> None:
    placed = replace(DEVICE, pci_bus_id="0000:19:00.0", sysfs_name="amdgpu_xcp_30")
    other = replace(DEVICE, uuid="GPU-1")
    bench.gpus.devices = (DeviceReading(placed), DeviceReading(other))
    bench.name_pod(replace(POD, unhealthy=said))
    marked = {each.uuid for each in bench.cycle().measured().devices if each.is_unhealthy}
    assert marked == ({"GPU-0"} if is_unhealthy else set())


@pytest.mark.parametrize("ended", [{"phase": "Failed"}, {"phase": "Succeeded"}, {"deleted": True}])
def test_what_a_pod_said_before_it_ended_is_not_how_its_device_is_now(
    bench: Bench, ended: dict[str, Any]
) -> None:
    """A pod that has failed stays until somebody deletes it, and its status as it was."""
    bench.gpus.devices = (DeviceReading(DEVICE),)
    bench.name_pod(replace(POD, unhealthy=("GPU-0",), **ended))
    (device,) = bench.cycle().measured().devices
    assert not device.is_unhealthy


def test_what_names_a_board_in_mig_mode_is_of_the_instance_that_it_works_on(bench: Bench) -> None:
    """The pod asks for a half of the card's core and 1 GiB, and its scheduler names the card."""
    bench.name_pod(replace(POD, annotations=PLACED))
    board = DeviceReading(replace(DEVICE, sharing="mig"))
    bench.gpus.devices = (board, instance(SECOND // 4, 7))

    bench.cycle()
    snapshot = bench.cycle()

    values = row(snapshot, "container", "ml", "train", "main", "0", "MIG-0").values
    assert (values["core_limit_ratio"], values["memory_limit_bytes"]) == (0.5, 1000)


@pytest.mark.parametrize(
    ("device", "sharers", "core", "memory", "replicas", "limits"),
    [
        pytest.param(INSTANCE, 1, None, None, None, (0.5, 1000), id="whole instance"),
        pytest.param(INSTANCE, 1, 0.25, 900, None, (0.5, 1000), id="less was asked for"),
        pytest.param(INSTANCE, 2, None, None, None, (None, None), id="claimed by two"),
        pytest.param(INSTANCE, 1, None, None, 2, (None, None), id="replicas of an instance"),
        pytest.param(INSTANCE, 2, 0.25, 900, None, (0.25, 900), id="parts of an instance"),
        pytest.param(DEVICE, 1, 1.0, None, None, (1.0, 80 * 2**30), id="whole card"),
        pytest.param(DEVICE, 1, 0.5, None, None, (0.5, None), id="half a card"),
        pytest.param(DEVICE, 1, None, None, None, (None, None), id="claimed card"),
        pytest.param(None, 1, 1.0, None, None, (1.0, None), id="unplaced"),
    ],
)
def test_a_whole_device_promises_all_that_it_is(
    device: Device | None,
    sharers: int,
    core: float | None,
    memory: int | None,
    replicas: int | None,
    limits: tuple[float | None, int | None],
) -> None:
    uuid = device.uuid if device else None
    allocation = Allocation("u", "main", uuid, core, memory, "test", replicas=replicas)

    placed = limited(allocation, device, sharers)

    assert (placed.core, placed.memory_bytes) == limits


def test_shared_mig_instance_measures_the_device_and_not_its_containers(bench: Bench) -> None:
    bench.name_pod(MIG_POD)
    bench.processes.identities[8] = CgroupIdentity(None, "b" * 64, "docker")
    bench.gpus.devices = (instance(SECOND // 4, 7, 8),)

    snapshot = bench.cycle()

    values = row(snapshot, "container", "ml", "train", "main", "0", "MIG-0").values
    device = row(snapshot, "device", "0", "MIG-0").values
    assert "core_seconds_total" not in values
    assert values["unmeasured"] == {
        ("core", "mig"): 1,
        ("memory_active", "mig"): 1,
        ("energy", "mig"): 1,
    }
    assert values["memory_used_bytes"] == 10
    assert device["busy_seconds_total"] == SECOND // 4
    unattributed = device["unattributed_core_seconds_total"]
    assert isinstance(unattributed, Mapping)
    assert unattributed["mig",] == SECOND // 4


def test_snapshots_are_numbered_and_the_pulse_moves(bench: Bench) -> None:
    first, second = bench.cycle(), bench.cycle()

    assert (first.version, second.version) == (1, 2)
    assert bench.collector.pulse.done == 2
    assert bench.collector.pulse.moved_mono_ns == bench.clock.monotonic_ns()
    assert bench.collector.snapshot is second


def test_every_value_that_is_published_has_its_family_and_its_labels(bench: Bench) -> None:
    bench.name_pod(
        Pod(POD.uid, POD.namespace, POD.name, annotations=PLACED, containers=POD.containers)
    )
    bench.processes.identities[8] = CgroupIdentity(None, "b" * 64, "docker")

    snapshot = bench.cycle()

    table = {(family.level, family.name): family for family in FAMILIES}
    for level, rows in rows_of(snapshot).items():
        for published in rows:
            for name, value in published.values.items():
                family = table[level, name]
                if isinstance(value, int | float):
                    assert not family.labels
                else:
                    assert all(len(key) == len(family.labels) for key in value)


def test_a_claim_of_a_part_of_an_instance_has_none_of_its_core() -> None:
    part = Allocation("u", "main", INSTANCE.uuid, None, 10, "dra", policy=SHARED)

    assert limited(part, INSTANCE, 1) == part
