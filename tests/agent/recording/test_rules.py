"""What the user said of sharing systems goes with the recording, unless it is to name nothing."""

import io
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.agent.commands.record import Session
from exporter.agent.commands.replay import Replay
from exporter.agent.recording.pseudonyms import Pseudonyms
from exporter.agent.recording.recordingfile import RecordingError, RecordingReader, RecordingWriter
from exporter.agent.settings import Settings, load
from exporter.metrics.text import Format
from exporter.model import CgroupIdentity, SchemeDescription
from tests.agent.collector.bench import CID, POD, Bench

ACME = SchemeDescription(
    name="acme",
    core_resource="acme.example/core",
    memory_resource="acme.example/memory",
    placement_annotation="acme.example/card",
)
SETTINGS = replace(
    load({}, {}),
    allocations_schemes=(ACME,),
    allocations_index_basis=(("acme", "pci"), ("vke-mgpu", "minor")),
    allocations_hami=(("resourceCoreName", "acme.example/hami"),),
)


def recorded(path: Path, settings: Settings, *, anonymise: bool = False) -> str:
    """Record a node with a pod of that scheme; the last page."""
    bench = Bench()
    bench.processes.identities[7] = CgroupIdentity("uid-1", CID, "containerd")
    limits = {"acme.example/core": "40", "acme.example/memory": "1"}
    containers = tuple(replace(container, limits=limits) for container in POD.containers)
    bench.name_pod(replace(POD, containers=containers, annotations={"acme.example/card": "0"}))
    bench.use(7, 10**8)
    sources = bench.collector._poller._sources
    names = Pseudonyms(bytes(32)) if anonymise else None
    session = Session(settings, sources, bench.clock, names)
    file = io.BytesIO()
    tape = RecordingWriter(file, 1 << 20, session.head)
    for _ in range(3):
        bench.clock.move(1)
        tape.write(session.cycle())
    tape.end()
    path.write_bytes(file.getvalue())
    return replayed(path)


def replayed(path: Path) -> str:
    with RecordingReader(str(path)) as tape:
        run = Replay(tape)
        pages = [run.renderer().render(snapshot, Format.TEXT) for snapshot in run.snapshots()]
    assert "every page is as it was recorded" in run.verdict
    return pages[-1].decode()


def test_a_described_scheme_is_replayed(tmp_path: Path) -> None:
    page = recorded(tmp_path / "x.rec.gz", SETTINGS)

    [limit] = [
        row for row in page.splitlines() if row.startswith("mgpu_container_core_limit_ratio")
    ]
    assert limit.endswith("} 0.4")


def test_an_anonymised_recording_does_not_hold_it(tmp_path: Path) -> None:
    file = tmp_path / "x.rec.gz"
    page = recorded(file, SETTINGS, anonymise=True)

    with RecordingReader(str(file)) as tape:
        head = tape.head
    assert "acme" not in repr(head)
    assert head.settings["allocations.index-basis"] == "vke-mgpu=minor"
    assert "mgpu_container_core_limit_ratio{" not in page


@pytest.mark.parametrize(
    "said",
    [
        {"allocations.schemes": "[{name: hami, core-resource: a.b/c}]"},
        {"allocations.schemes": "[{name: acme, core-resource: a.b/c, index-basis: moon}]"},
        {"allocations.index-basis": "none=pci"},
    ],
)
def test_what_cannot_be_said_in_this_version_is_refused(
    tmp_path: Path, said: dict[str, str]
) -> None:
    file = tmp_path / "x.rec.gz"
    recorded(file, SETTINGS)
    with RecordingReader(str(file)) as tape:
        tape.head = replace(tape.head, settings={**tape.head.settings, **said})
        with pytest.raises(RecordingError, match="do not fit this version"):
            Replay(tape)
