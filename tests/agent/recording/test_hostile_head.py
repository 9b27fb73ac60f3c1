"""Whatever a recording's first line says, a replay ends with a page or with a message."""

import gzip
import json
from pathlib import Path

import pytest

from exporter.agent.commands.replay import Replay
from exporter.agent.recording.recordedcycle import Head
from exporter.agent.recording.recordedsettings import restored
from exporter.agent.recording.recordingfile import RecordingError, RecordingReader
from exporter.agent.settings import TABLE, load
from tests.agent.recording.test_rules import SETTINGS, recorded

BOUNDED = [
    setting.name
    for setting in TABLE.values()
    if setting.kind.allowed.startswith(("a number", "a duration"))
]
STRANGE = [0, -1, 10**30, 0.5, "0", "", [], ["x", 1], {}, {"x": "y"}, None, True]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    file = tmp_path_factory.mktemp("recording") / "x.rec.gz"
    recorded(file, SETTINGS)
    return gzip.decompress(file.read_bytes()).splitlines(keepends=True)


def outcome(path: Path, lines: list[bytes], head: dict[str, object]) -> str:
    """What is said of the recording with this head; "" if it can be replayed."""
    path.write_bytes(gzip.compress(json.dumps(head).encode() + b"\n" + b"".join(lines[1:])))
    try:
        with RecordingReader(str(path)) as reader:
            assert len(list(Replay(reader).snapshots())) == 3
    except RecordingError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("field", BOUNDED)
def test_a_number_out_of_its_bounds_is_named(
    tmp_path: Path, lines: list[bytes], field: str
) -> None:
    for text in ("-1", "9" * 30, "0x1"):
        head = json.loads(lines[0])
        head["settings"][field] = text
        assert f"{field}={text!r}" in outcome(tmp_path / "y.rec.gz", lines, head)


def test_a_head_sets_nothing_that_names_a_place() -> None:
    said = {"node.name": "x", "kubeconfig": "/x", "simulate": "demo", "no.such": "1"}
    assert restored(said) == load({}, {})


def test_an_interval_of_0_is_named_with_its_bounds(tmp_path: Path, lines: list[bytes]) -> None:
    head = json.loads(lines[0])
    head["settings"]["collection.interval"] = "0s"
    said = outcome(tmp_path / "y.rec.gz", lines, head)
    assert "collection.interval='0s': a duration from 100ms to 5s" in said


@pytest.mark.parametrize("field", Head.__dataclass_fields__)
def test_no_value_of_a_field_is_too_strange(tmp_path: Path, lines: list[bytes], field: str) -> None:
    for value in STRANGE:
        outcome(tmp_path / "y.rec.gz", lines, {**json.loads(lines[0]), field: value})


@pytest.mark.parametrize("value", [*STRANGE, "[{name: x}]", "[{}, 3]", "x=y"], ids=repr)
def test_no_value_of_a_setting_is_too_strange(
    tmp_path: Path, lines: list[bytes], value: object
) -> None:
    for key in json.loads(lines[0])["settings"]:
        head = json.loads(lines[0])
        head["settings"][key] = value
        outcome(tmp_path / "y.rec.gz", lines, head)
