"""dcgm-exporter's names out of what simulated nodes really measure."""

from dataclasses import replace

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics

from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.settings import load
from exporter.metrics.compat.compatpage import CompatPage, Rates
from exporter.metrics.compat.dcgm import ALIASES
from exporter.metrics.text import Format
from exporter.model import Device, DeviceFacts, Sensors, Snapshot
from tests.agent.simulation.clock import ManualClock
from tests.snapshots import snapshot_of

SECOND = 10**9

# etc/default-counters.csv of NVIDIA/dcgm-exporter d5e5f51: the lines that are no comment
DEFAULT_COUNTERS = (
    "SM_CLOCK MEM_CLOCK MEMORY_TEMP GPU_TEMP POWER_USAGE TOTAL_ENERGY_CONSUMPTION "
    "PCIE_REPLAY_COUNTER "
    "GPU_UTIL MEM_COPY_UTIL ENC_UTIL DEC_UTIL XID_ERRORS FB_FREE FB_USED FB_RESERVED "
    "NVLINK_BANDWIDTH_TOTAL VGPU_LICENSE_STATUS UNCORRECTABLE_REMAPPED_ROWS "
    "CORRECTABLE_REMAPPED_ROWS ROW_REMAP_FAILURE"
)
DEFAULT_PROFILING = "GR_ENGINE_ACTIVE PIPE_TENSOR_ACTIVE DRAM_ACTIVE PCIE_TX_BYTES PCIE_RX_BYTES"
DEFAULT = {
    *(f"DCGM_FI_DEV_{name}" for name in DEFAULT_COUNTERS.split()),
    *(f"DCGM_FI_PROF_{name}" for name in DEFAULT_PROFILING.split()),
}

Samples = dict[str, list[tuple[dict[str, str], float]]]


def measured(scenario: str) -> list[Snapshot]:
    """The snapshots of a minute, one cycle a second."""
    clock = ManualClock()
    settings = load({"simulate": [scenario]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    snapshots = []
    for _ in range(60):
        clock.move(1)
        collector.cycle()
        snapshots.append(collector.snapshot)
    return snapshots


def served(snapshots: list[Snapshot], *uids: str) -> Samples:
    compat = CompatPage(["dcgm"], "node-1", uids)
    pages = [compat.render(snapshot, Format.OPENMETRICS) for snapshot in snapshots[::15]]
    text = [*pages, compat.render(snapshots[-1], Format.OPENMETRICS)][-1].decode()
    found: Samples = {}
    for family in read_openmetrics(text + "# EOF\n"):  # type: ignore[no-untyped-call] # its own
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.fixture(scope="module")
def demo() -> list[Snapshot]:
    return measured("demo")


def test_each_default_counter_is_served() -> None:
    assert {alias.name for alias in ALIASES} >= DEFAULT


NOT_SIMULATED = {  # hardware counters of Hopper and newer, fans, pages of boards before Ampere
    *("DCGM_FI_PROF_DRAM_ACTIVE", "DCGM_FI_DEV_FAN_SPEED"),
    *("DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_RETIRED_DBE", "DCGM_FI_DEV_RETIRED_PENDING"),
    *("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"),
}


def test_every_name_is_served_out_of_what_a_node_measures(demo: list[Snapshot]) -> None:
    assert {alias.name for alias in ALIASES} - NOT_SIMULATED == served(demo).keys()


def test_no_series_is_there_twice(demo: list[Snapshot]) -> None:
    for name, series in served(demo).items():
        labels = [tuple(sorted(own.items())) for own, _ in series]
        assert len(labels) == len(set(labels)), name


SPLIT = {
    "DCGM_FI_DEV_GPU_UTIL": ("core", 100),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("core", 1),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_active", 100),
}


@pytest.mark.parametrize("name", SPLIT)
def test_a_sum_over_a_card_is_the_card(name: str, demo: list[Snapshot]) -> None:
    figure, times = SPLIT[name]
    sums: dict[str, float] = {}
    for own, value in served(demo)[name]:
        sums[own["UUID"]] = sums.get(own["UUID"], 0) + value
    cards = {
        device.uuid: average * times
        for device in demo[-1].facts.devices
        if (average := getattr(device.average, figure)) is not None
        and not device.device.parent_uuid
    }
    assert len(cards) >= 4
    for uuid, whole in cards.items():
        assert sums[uuid] == pytest.approx(whole, abs=0.02 * times)


MIG = """
node: {name: mig-node}
devices:
  - {model: NVIDIA H100 80GB HBM3, memory: 80GiB, reserved: 500MiB}
  - {parent: 0, profile: 3g.40gb, memory: 40GiB, uuid: MIG-a}
  - {parent: 0, profile: 1g.10gb, memory: 10GiB, uuid: MIG-b}
  - {parent: 0, profile: 1g.10gb, memory: 10GiB}
pods:
  - name: a
    namespace: ml
    containers:
      - name: main
        limits: {nvidia.com/mig-3g.40gb: "1"}
        granted: {nvidia.com/mig-3g.40gb: [MIG-a]}
        processes: [{device: 1, duty: 0.5, memory: 8GiB}]
  - name: b
    namespace: ml
    containers:
      - name: main
        limits: {nvidia.com/mig-1g.10gb: "1"}
        granted: {nvidia.com/mig-1g.10gb: [MIG-b]}
        processes: [{device: 2, duty: 0.5, memory: 4GiB}]
"""


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> list[Snapshot]:
    """An H100 in three instances, two of one profile, and pods on two of them."""
    folder = tmp_path_factory.mktemp("mig")
    (folder / "mig.yaml").write_text(MIG)
    return measured(str(folder / "mig.yaml"))


@pytest.mark.parametrize("name", ["FB_USED", "FB_FREE", "FB_TOTAL"])
def test_memory_is_the_instances_under_mig_and_not_the_boards_too(
    name: str, divided: list[Snapshot]
) -> None:
    found = [own for own, _ in served(divided)[f"DCGM_FI_DEV_{name}"]]
    assert sorted(own["GPU_I_ID"] for own in found) == ["1", "2", "3"]


def test_a_part_is_its_boards_with_a_number_and_a_profile(divided: list[Snapshot]) -> None:
    devices = (facts.device for facts in divided[-1].facts.devices)
    instances = {device.uuid: device.parent_uuid for device in devices if device.parent_uuid}
    found = {
        (own["UUID"], own["GPU_I_ID"]): own["GPU_I_PROFILE"]
        for own, _ in served(divided)["DCGM_FI_DEV_FB_TOTAL"]
        if "GPU_I_ID" in own
    }
    assert len(found) == len(instances) > 0
    assert {uuid for uuid, _ in found} == set(instances.values())
    assert all(number.isdecimal() for _, number in found)
    assert all(found.values())


def test_opencost_finds_every_container_that_uses_a_gpu(demo: list[Snapshot]) -> None:
    """Its query takes the series with a container: core activity from 0 to 1."""
    found = {
        (own["namespace"], own["pod"], own["container"])
        for own, value in served(demo)["DCGM_FI_PROF_GR_ENGINE_ACTIVE"]
        if own.get("container") and 0 <= value <= 1
    }
    users = {
        holding.owner
        for holding in demo[-1].facts.containers
        if holding.memory.processes is not None and holding.average.core is not None
    }
    assert len(users) > 4
    assert users <= found


def test_a_pods_uid_is_there_on_request_only(demo: list[Snapshot]) -> None:
    uids = {(pod.namespace, pod.name): pod.info.uid for pod in demo[-1].facts.pods if pod.info}
    of_pods = [
        own
        for own, _ in served(demo, "pod_uid", "uid")["DCGM_FI_DEV_GPU_UTIL"]
        if (own.get("namespace"), own.get("pod")) in uids
    ]
    assert len(of_pods) > 4
    assert all(
        own["uid"] == own["pod_uid"] == uids[own["namespace"], own["pod"]] for own in of_pods
    )
    unasked = [own for series in served(demo).values() for own, _ in series]
    assert not any({"uid", "pod_uid"} & own.keys() for own in unasked)


def at(seconds: int, **totals: int) -> Snapshot:
    device = DeviceFacts(
        device=Device("GPU-0", 0, "nvidia"), sensors=Sensors.of(pcie_bytes_total=totals)
    )
    return replace(snapshot_of(devices=[device]), mono_ns=seconds * SECOND)


def test_a_rate_is_over_ten_seconds_or_more_whoever_else_scrapes() -> None:
    rates = Rates()
    assert rates.of(at(100, transmit=0)) == {}
    assert rates.of(at(103, transmit=300)) == {}  # another Prometheus, 3 s later
    assert rates.of(at(115, transmit=1500)) == {"GPU-0": {"pcie_bytes_transmit": 100}}
    assert rates.of(at(118, transmit=3600)) == {"GPU-0": {"pcie_bytes_transmit": 200}}


def test_a_counter_that_fell_or_is_new_has_no_rate() -> None:
    rates = Rates()
    rates.of(at(100, transmit=500))
    assert rates.of(at(115, transmit=20, receive=7)) == {}
