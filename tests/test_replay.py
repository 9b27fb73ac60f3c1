"""Recordings that are kept: reports from the field and old files, with the pages they come to.

``NAME.rec.gz`` is a recording, ``NAME.CYCLE.prom`` the page after one of its cycles. A page that is
not there yet is made by naming it: ``touch NAME.CYCLE.prom``, then ``make golden``.
"""

from pathlib import Path

import pytest

from exporter.agent.commands.replay import Replay
from exporter.agent.recording.recordingfile import RecordingReader
from exporter.metrics.text import Format, Renderer

FOLDER = Path(__file__).parent / "replay"
PAGES = sorted(FOLDER.glob("*.prom"))


def page_after(recording: Path, number: int) -> bytes:
    with RecordingReader(str(recording)) as reader:
        snapshots = dict(enumerate(Replay(reader).snapshots(), 1))
    return Renderer().render(snapshots[number], Format.TEXT)


@pytest.mark.parametrize("kept", PAGES, ids=[page.name for page in PAGES])
def test_a_kept_recording_comes_to_the_same_page(kept: Path, pytestconfig: pytest.Config) -> None:
    name, number, _ = kept.name.split(".")

    page = page_after(FOLDER / f"{name}.rec.gz", int(number))

    if pytestconfig.getoption("--refresh-golden"):
        kept.write_bytes(page)
    assert page == kept.read_bytes()


def test_every_kept_recording_has_a_page() -> None:
    recordings = {path.name.split(".")[0] for path in FOLDER.glob("*.rec.gz")}

    assert recordings == {path.name.split(".")[0] for path in PAGES}
    assert len(recordings) >= 2
