"""Recorded and replayed: the same bytes, whatever the sources did."""

import io
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from exporter.agent.collector import Sources
from exporter.agent.collector.wiring import open_sources
from exporter.agent.commands.record import Session, Stop
from exporter.agent.commands.replay import Replay
from exporter.agent.recording.pseudonyms import Pseudonyms
from exporter.agent.recording.recordedcycle import Cycle
from exporter.agent.recording.recordingfile import RecordingReader, RecordingWriter
from exporter.agent.settings import Settings, load
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.gpusource import RestartRequiredError
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.agent.sources.node.nodesource import StaticNodeSource
from exporter.agent.sources.pods.podsource import SimulatedPods
from exporter.metrics.families import families_without
from exporter.metrics.text import Format, Renderer
from exporter.model import (
    CgroupIdentity,
    ClaimedDevice,
    Container,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Grant,
    NodeFacts,
    OfferedDevice,
    Pod,
    PodTable,
    ProcessActivity,
    ProcessMemory,
    Reading,
    Snapshot,
    SourceStatus,
    Unmeasured,
    Window,
)
from tests.agent.collector.bench import CID, PLACED, POD, Bench
from tests.agent.collector.sources import SetGpus, SetPods, SetProcesses
from tests.agent.simulation.clock import ManualClock
from tests.agent.simulation.nodes import A10, SCENARIOS
from tests.rows import rows_of

SECOND = 10**9
FORMS = tuple(Format)


class Recording:
    """A session whose cycles a test does one by one, and its file."""

    def __init__(
        self,
        path: Path,
        settings: Settings,
        sources: Sources,
        clock: ManualClock,
        *,
        anonymise: bool = False,
    ) -> None:
        self.pages: list[bytes] = []
        self.cycles: list[Cycle] = []
        self._path = path
        self._clock = clock
        names = Pseudonyms(bytes(32)) if anonymise else None
        self.session = Session(settings, sources, clock, names)
        self._renderer = Renderer(families_without(settings.metrics_left_out))
        self._file = io.BytesIO()
        self._tape = RecordingWriter(self._file, 1 << 24, self.session.head)

    def cycle(self, seconds: float = 1) -> Snapshot:
        """Some time later, one cycle."""
        self._clock.move(seconds)
        cycle = self.session.cycle()
        assert self._tape.write(cycle)
        self.cycles.append(cycle)
        snapshot = self.session.collector.snapshot
        self.pages += [self._renderer.render(snapshot, form) for form in FORMS]
        return snapshot

    def replayed(self) -> list[bytes]:
        """The pages that the file comes to."""
        self._tape.end()
        self._path.write_bytes(self._file.getvalue())
        with RecordingReader(str(self._path)) as tape:
            run = Replay(tape)
            renderer = run.renderer()
            pages = [renderer.render(s, form) for s in run.snapshots() for form in FORMS]
        assert "every page is as it was recorded" in run.verdict
        return pages


def simulated(path: Path, scenario: str, *, anonymise: bool = False) -> Recording:
    clock = ManualClock()
    settings = load({"simulate": [scenario], "ledger.retention": ["10s"]}, {})
    return Recording(path, settings, open_sources(settings, clock), clock, anonymise=anonymise)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.rec.gz"


@pytest.mark.slow
@pytest.mark.parametrize("anonymise", [False, True])
@pytest.mark.parametrize("scenario", ["single", "demo", "hpc", "mixed"])
def test_a_simulated_node_is_replayed_byte_for_byte(
    path: Path, scenario: str, *, anonymise: bool
) -> None:
    recording = simulated(path, scenario, anonymise=anonymise)
    for _ in range(60):
        recording.cycle()

    assert recording.replayed() == recording.pages


@given(SCENARIOS, st.lists(st.floats(0.2, 20), min_size=3, max_size=6))
@hypothesis_settings(max_examples=hypothesis_settings().max_examples // 7)
def test_any_node_is_replayed_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, scenario: dict[str, Any], steps: list[float]
) -> None:
    clock = ManualClock()
    node = Node(describe({"devices": [A10, A10], **scenario}, "any"), clock)
    sources = Sources(
        gpus=(SimulatedGpus(node, clock),),
        processes=SimulatedProcesses(node.cgroup_paths),
        pods=SimulatedPods(node.pod_table, clock=clock),
    )
    file = tmp_path_factory.mktemp("any") / "node.rec.gz"
    recording = Recording(file, load({}, {}), sources, clock)
    for seconds in steps:
        recording.cycle(seconds)

    assert recording.replayed() == recording.pages


def test_nothing_of_the_real_names_is_in_an_anonymised_recording(path: Path) -> None:
    plain, disguised = simulated(path, "demo"), simulated(path, "demo", anonymise=True)
    real = plain.cycle()
    disguised.cycle()

    text = "".join(repr(cycle) for cycle in disguised.cycles)
    names = {label for row in rows_of(real)["container"] for label in row.labels if len(label) > 3}
    assert len(names) > 20
    assert not [name for name in names if name in text]


@pytest.mark.slow
def test_the_pages_of_an_anonymised_recording_have_the_same_figures(path: Path) -> None:
    plain, disguised = simulated(path, "demo"), simulated(path, "demo", anonymise=True)
    for _ in range(30):
        plain.cycle()
        disguised.cycle()

    real, made = plain.cycle(), disguised.cycle()
    for level in rows_of(real):
        assert _figures(real, level) == _figures(made, level)


def _figures(snapshot: Snapshot, level: str) -> list[list[str]]:
    """The figures of each row; those by names of pods without the names."""
    by_name = {"info", "core_waiting_on_seconds_total"}
    return sorted(
        sorted(f"{name} {value}" for name, value in row.values.items() if name not in by_name)
        for row in rows_of(snapshot)[level]
    )


class Told(Recording):
    """A recording over sources that the test sets."""

    def __init__(self, path: Path, **more: bool) -> None:
        bench = Bench()
        self.bench = bench
        self.node_facts = NodeFacts()
        self.node_error: Exception | None = None
        node = StaticNodeSource("node", self._node, bench.clock)
        sources = Sources((bench.gpus,), bench.processes, bench.pods, (node,))
        bench.processes.identities[7] = CgroupIdentity("uid-1", CID, "containerd")
        bench.use(7, SECOND // 2)
        super().__init__(path, load({}, {}), sources, bench.clock, **more)

    def _node(self) -> NodeFacts:
        if self.node_error is not None:
            raise self.node_error
        return self.node_facts


UUID = "3f2b1c4d-0000-4000-8000-00000000abcd"
WHOLE = replace(
    POD, containers=(Container("main", container_ids=(CID,), limits={"nvidia.com/gpu": "1"}),)
)
MAIN = ("ml", "train", "main", "0", "GPU-0")


def held(uid: str) -> NodeFacts:
    """What the kubelet and the node's labels say of the pod with a whole GPU."""
    return NodeFacts(
        labels={"nvidia.com/gpu.count": "1"},
        grants={uid: (Grant("main", "nvidia.com/gpu", ("GPU-0",)),)},
        claims={
            ("ml", "secret-claim"): (ClaimedDevice("gpu", "gpu.nvidia.com", "secret", "gpu-0"),)
        },
        offered={("gpu.nvidia.com", "secret", "gpu-0"): OfferedDevice({"uuid": f"GPU-{UUID}"}, {})},
        card_policies={0: "secret"},
    )


def test_what_sources_raise_is_raised_again(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = Told(path)
    told.cycle()
    told.bench.gpus.error = OSError("driver on fire")
    told.cycle()
    told.bench.gpus.error = None
    told.bench.processes.error = OSError("no /proc")
    told.cycle()
    told.bench.processes.error = None
    told.cycle()
    caplog.clear()

    assert told.replayed() == told.pages
    assert "driver on fire" in caplog.text
    assert "no /proc" in caplog.text


def test_a_cycle_that_fails_is_replayed_as_such(path: Path) -> None:
    told = Told(path)
    told.cycle()
    claims = Pod("u", "ns", "p", containers=(Container("main", container_ids=(CID,)),))
    told.bench.pods.current = PodTable(1, {"u": claims}, {}, {CID: ("not there", "main")})
    told.cycle()
    told.bench.pods.current = PodTable(2)
    told.cycle()

    assert [bool(cycle.page) for cycle in told.cycles] == [True, False, True]
    assert told.replayed() == told.pages


def test_a_node_source_that_fails_is_replayed_as_such(path: Path) -> None:
    told = Told(path)
    told.cycle()
    told.node_error = OSError("gone")
    failed = told.cycle()
    told.node_error = None
    told.cycle()

    up = rows_of(failed)["exporter"][0].values["source_up"]
    assert up == {("set",): 1, ("cgroups",): 1, ("pods",): 1, ("node",): 0}
    assert told.replayed() == told.pages


def test_what_node_sources_know_is_anonymised_alike(path: Path) -> None:
    """The grants still find their pods and devices, and give no name away."""
    plain, disguised = Told(path), Told(path, anonymise=True)
    for told in (plain, disguised):
        told.node_facts = held("uid-1")
        told.bench.name_pod(WHOLE)
        for _ in range(3):
            told.cycle()
    real, made = plain.cycle(), disguised.cycle()

    text = "".join(repr(cycle) for cycle in disguised.cycles)
    assert not [name for name in ("uid-1", "train", "main", "secret", UUID) if name in text]
    for level in rows_of(real):
        assert _figures(real, level) == _figures(made, level)
    assert any("core_limit_ratio" in r.values for r in rows_of(made)["container"])
    assert disguised.replayed() == disguised.pages


def test_the_pod_table_the_node_and_identities_are_kept_once(path: Path) -> None:
    told = Told(path)
    told.bench.name_pod()
    told.cycle()
    told.cycle()
    told.bench.name_pod(replace(POD, annotations=PLACED))
    told.cycle()

    assert [bool(cycle.pod_table) for cycle in told.cycles] == [True, False, True]
    assert [[bool(one) for one in cycle.node_facts] for cycle in told.cycles] == [
        [True],
        [False],
        [False],
    ]
    assert [list(cycle.identities) for cycle in told.cycles] == [[7], [], []]
    assert told.replayed() == told.pages


def test_a_process_that_comes_back_without_an_answer_has_none(path: Path) -> None:
    told = Told(path)
    told.cycle()
    told.bench.processes.identities[7] = CgroupIdentity(None, CID, "docker")
    told.cycle()
    told.bench.use(8, SECOND // 4)
    told.cycle()
    told.bench.use(7, SECOND // 4)
    told.cycle()

    assert told.replayed() == told.pages


def test_the_time_that_a_source_took_is_replayed(path: Path) -> None:
    class Slow(SetGpus):
        def read(self) -> Reading:
            clock.move(0.25)
            return super().read()

    clock = ManualClock()
    sources = Sources((Slow(), Slow()), SetProcesses(), SetPods())
    recording = Recording(path, load({}, {}), sources, clock)
    snapshot = recording.cycle()

    durations = rows_of(snapshot)["exporter"][0].values["source_duration_seconds"]
    assert durations == {("set",): SECOND // 4, ("cgroups",): 0, ("pods",): 0}
    assert recording.replayed() == recording.pages


def test_a_device_in_every_state_is_replayed(path: Path) -> None:
    told = Told(path)
    for state in DeviceState:
        device = Device("GPU-0", 0, "nvidia")
        told.bench.gpus.devices = (
            DeviceReading(device, state, unmeasured={"encoder": Unmeasured.MIG}),
        )
        for _ in range(4):
            told.cycle()
    busy = Engines(core=SECOND, encoder=0)  # and with odd figures
    window = Window(5, 6, SECOND, 7, busy, (ProcessActivity(7, busy),), {"pid": 2}, 2**62, 2**61)
    memory = DeviceMemory(9, 8, None, (ProcessMemory(7, None, frozenset({"mps", "compute"})),))
    part = Device("GPU-0", 0, "nvidia", parent_uuid="GPU-p", profile="1g.5gb")
    told.bench.gpus.devices = (DeviceReading(part, window=window, memory=memory),)
    told.cycle()

    assert told.replayed() == told.pages


def test_what_only_a_restart_mends_ends_the_recording_and_is_in_it(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(path)
    told.bench.gpus.error = RestartRequiredError("library and driver disagree")
    file = io.BytesIO()
    tape = RecordingWriter(file, 1 << 20, told.session.head)

    told.session.run(tape, 60 * SECOND, Stop())

    path.write_bytes(file.getvalue())
    caplog.clear()
    with RecordingReader(str(path)) as reader, caplog.at_level(logging.WARNING):
        assert len(list(Replay(reader).snapshots())) == 1
    assert "library and driver disagree" in caplog.text


def test_a_full_file_ends_the_recording(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = Told(path)
    file = io.BytesIO()
    tape = RecordingWriter(file, 1500, told.session.head)

    with caplog.at_level(logging.WARNING):
        told.session.run(tape, 10**9 * SECOND, Moving(told.bench.clock))

    assert "the file is full" in caplog.text
    assert tape.cycles > 1
    assert len(file.getvalue()) <= 1500


class Moving(Stop):
    """One that is not awaited: the clock moves instead."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout_s: float) -> None:
        """Let the time pass."""
        self._clock.move(timeout_s)


def test_a_recording_has_a_cycle_for_each_interval_of_its_length(path: Path) -> None:
    told = Told(path)
    tape = RecordingWriter(io.BytesIO(), 1 << 20, told.session.head)

    told.session.run(tape, 30 * SECOND, Moving(told.bench.clock))

    assert tape.cycles == 30


def test_the_settings_that_shape_the_result_go_with_it(path: Path) -> None:
    flags = {"collection.window": ["40s"], "ledger.retention": ["7s"], "node.name": ["secret"]}
    groups = {"metrics.disable": ["power,clocks"]}
    settings = load(flags | groups | {"simulate": ["single"]}, {})
    clock = ManualClock()
    recording = Recording(path, settings, open_sources(settings, clock), clock)
    for _ in range(50):
        recording.cycle()

    assert recording.session.head.settings["collection.window"] == "40.000000000s"
    assert "secret" not in repr(recording.session.head)
    assert not [page for page in recording.pages if b"power_watts" in page]
    assert recording.replayed() == recording.pages


LABELLED = replace(
    POD,
    labels={"team": "s3cret", "x.s3cret.io/key": "s3cret", "app.kubernetes.io/name": "s3cret"},
    annotations={**PLACED, "s3cret": "s3cret", "vke.volcengine.com/mgpu-compute-policy": "s3cret"},
)
SHOWN = {
    "pods.labels": ["team,x.s3cret.io/*,app.kubernetes.io/name"],
    "pods.annotations": ["s3cret,vke.volcengine.com/*"],
}


def labelled(path: Path, *, anonymise: bool) -> Recording:
    bench = Bench()
    bench.name_pod(LABELLED)
    bench.use(7, SECOND // 2)
    bench.processes.identities = {7: CgroupIdentity(POD.uid, CID, "containerd")}
    others = (SourceStatus("pods_files", up=True, detail="s3cret"),)
    sources = Sources((bench.gpus,), bench.processes, bench.pods, others=lambda: others)
    recording = Recording(path, load(SHOWN, {}), sources, bench.clock, anonymise=anonymise)
    for _ in range(5):
        recording.cycle()
    return recording


@pytest.mark.parametrize("anonymise", [False, True])
def test_labels_of_pods_and_further_sources_are_replayed(path: Path, *, anonymise: bool) -> None:
    recording = labelled(path, anonymise=anonymise)

    assert b'mgpu_exporter_source_up{source="pods_files"} 1' in recording.pages[-2]
    assert b"label_team=" in recording.pages[-2]
    assert recording.replayed() == recording.pages


def test_an_anonymised_recording_has_no_value_of_a_label_and_no_key_of_somebodys(
    path: Path,
) -> None:
    plain, disguised = (labelled(path, anonymise=anonymise) for anonymise in (False, True))

    assert b'annotation_s3cret="s3cret"' in plain.pages[-2]
    said = repr(disguised.cycles) + repr(disguised.session.head) + str(disguised.pages)
    assert "s3cret" not in said
    assert disguised.session.head.settings["pods.labels"] == "team,app.kubernetes.io/name"
    assert disguised.session.head.settings["pods.annotations"] == "vke.volcengine.com/*"


def test_the_version_on_the_page_is_the_one_that_recorded(path: Path) -> None:
    told = Told(path)
    file = io.BytesIO()
    tape = RecordingWriter(
        file, 1 << 20, replace(told.session.head, version="0.0.7", python="3.99")
    )
    told.cycle()
    tape.write(told.cycles[0])
    tape.end()
    path.write_bytes(file.getvalue())

    with RecordingReader(str(path)) as reader:
        [snapshot] = Replay(reader).snapshots()

    assert snapshot.exporter is not None
    assert (snapshot.exporter.version, snapshot.exporter.python) == ("0.0.7", "3.99")


def test_a_page_that_differs_from_the_recorded_one_is_noticed(path: Path) -> None:
    told = Told(path)
    file = io.BytesIO()
    tape = RecordingWriter(file, 1 << 20, told.session.head)
    told.cycle()
    told.cycle()
    tape.write(told.cycles[0])
    tape.write(replace(told.cycles[1], page="0" * 32))
    tape.end()
    path.write_bytes(file.getvalue())

    with RecordingReader(str(path)) as reader:
        run = Replay(reader)
        list(run.snapshots())

    assert "1 pages are not as they were" in run.verdict
    assert "the first after cycle 2" in run.verdict
