"""The file: bounded, readable whatever happened to it, and never trusted."""

import gzip
import io
import json
import tracemalloc
from pathlib import Path

import pytest

from exporter.agent.ledger import Moment
from exporter.agent.recording.recordedcycle import FORMAT, Cycle, Head
from exporter.agent.recording.recordingfile import (
    LONGEST_LINE,
    RecordingError,
    RecordingReader,
    RecordingWriter,
)
from exporter.model import (
    Device,
    DeviceMemory,
    DeviceReading,
    Engines,
    RawSamples,
    Reading,
    Sensors,
    SourceStatus,
    Window,
)

HEAD = Head(FORMAT, "1.2.3", "3.11.7", ("nvml",), "cgroups", "pods_api")
MOMENT = {"mono_ns": 1, "unix_ns": 2}
HEAD_LINE = {
    "mgpu_recording": FORMAT,
    "version": "1",
    "python": "3",
    "gpus": [],
    "processes": "",
    "pods": "",
}


def cycle(number: int) -> Cycle:
    moment = Moment(number, number)
    return Cycle((moment, moment), gpus=(Reading(SourceStatus("nvml", up=True)),))


def written(most: int = 1 << 20, cycles: int = 3) -> bytes:
    file = io.BytesIO()
    tape = RecordingWriter(file, most, HEAD)
    for number in range(cycles):
        if not tape.write(cycle(number)):
            break
    tape.end()
    assert tape.bytes == len(file.getvalue())
    return file.getvalue()


def read(path: Path) -> tuple[list[Cycle], bool]:
    with RecordingReader(str(path)) as tape:
        return list(tape.cycles()), tape.broken_off


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "node.rec.gz"


def test_a_recording_is_read_as_it_was_written(path: Path) -> None:
    path.write_bytes(written())

    with RecordingReader(str(path)) as tape:
        assert tape.head == HEAD
        assert list(tape.cycles()) == [cycle(number) for number in range(3)]
        assert not tape.broken_off


def test_what_a_driver_says_with_all_bits_set_is_read_as_it_was_written(path: Path) -> None:
    """It is for such a driver that recordings are made."""
    unknown = 2**64 - 1
    reading = DeviceReading(
        Device("GPU-0", 0, "nvidia"),
        window=Window(0, 1, 1, 0, Engines(), energy_uj=1000 * unknown),
        memory=DeviceMemory(unknown, unknown, unknown, ()),
        sensors=Sensors.of(nvlink_bytes_total={"receive": 1024 * unknown}),
        raw=RawSamples(((unknown, 100.0),), ((7, unknown, 1, 2, 3, 4),)),
    )
    moment = Moment(1, 1)
    lying = Cycle(
        (moment, moment), gpus=(Reading(SourceStatus("nvml", up=True), devices=(reading,)),)
    )
    with path.open("wb") as file:
        tape = RecordingWriter(file, 1 << 20, HEAD)
        tape.write(lying)
        tape.end()

    assert read(path) == ([lying], False)


def test_it_is_a_gzip_file_of_json_lines() -> None:
    lines = gzip.decompress(written()).splitlines()

    assert [type(json.loads(line)) for line in lines] == [dict] * 4


@pytest.mark.parametrize("most", [500, 1000, 4000])
def test_the_file_is_never_longer_than_allowed(path: Path, most: int) -> None:
    content = written(most, cycles=10**6)
    path.write_bytes(content)

    assert most - 200 < len(content) <= most
    cycles, broken_off = read(path)
    assert cycles == [cycle(number) for number in range(len(cycles))]
    assert cycles
    assert not broken_off


def test_too_little_room_for_anything_is_an_error() -> None:
    with pytest.raises(RecordingError, match="too few"):
        RecordingWriter(io.BytesIO(), 50, HEAD)


def test_every_cycle_is_in_the_file_as_soon_as_it_is_written(path: Path) -> None:
    with path.open("wb") as file:
        tape = RecordingWriter(file, 1 << 20, HEAD)
        tape.write(cycle(0))
        tape.write(cycle(1))

        assert read(path) == ([cycle(0), cycle(1)], True)


@pytest.mark.parametrize("lost", [1, 8, 12, 40])
def test_a_file_that_is_cut_off_is_read_as_far_as_it_goes(path: Path, lost: int) -> None:
    path.write_bytes(written()[:-lost])

    cycles, broken_off = read(path)

    assert broken_off
    assert cycles == [cycle(number) for number in range(len(cycles))]
    assert len(cycles) >= 1


def test_a_line_that_is_cut_off_is_left_out(path: Path) -> None:
    path.write_bytes(gzip.compress(gzip.decompress(written())[:-5]))

    assert read(path) == ([cycle(0), cycle(1)], True)


def line(content: object) -> bytes:
    return json.dumps(content).encode() + b"\n"


def packed(content: bytes) -> bytes:
    """The content as gzip without a time stamp, so that it is the same at every collection."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "no recording: the file is empty or cut off"),
        (packed(b""), "no recording: the file is empty or cut off"),
        (b"# HELP no gzip", "line 1: not gzip, or damaged"),
        (packed(b"hello\n"), "line 1: not JSON"),
        (packed(b"\xff\n"), "line 1: not JSON"),
        (packed(b"9" * 5000 + b"\n"), "line 1: not JSON"),
        (packed(line({"version": "1"})), "line 1: gpus is missing"),
        (packed(line(HEAD_LINE | {"mgpu_recording": 99})), "format 99; this version reads"),
        (packed(line(HEAD_LINE | {"gpus": 3})), "line 1: gpus: list expected"),
        (packed(line(HEAD_LINE) + b"[" * 10**6 + b"\n"), "line 2: nested too deeply"),
        (packed(line(HEAD_LINE) + b"{}\n"), "line 2: moments is missing"),
        (
            packed(line(HEAD_LINE) + line({"moments": []})),
            "line 2: a moment for the beginning and each GPU source expected",
        ),
        (
            packed(
                line(HEAD_LINE) + line({"moments": [{"mono_ns": 1, "unix_ns": 2}]}) * 2 + line([])
            ),
            "line 4: object expected",
        ),
    ],
    ids=[
        "empty",
        "nothing packed",
        "not gzip",
        "not JSON",
        "not UTF-8",
        "endless number",
        "no version",
        "other format",
        "head of another type",
        "nested",
        "no moments",
        "too few moments",
        "not an object",
    ],
)
def test_what_is_no_recording_is_refused_with_its_line(
    path: Path, content: bytes, complaint: str
) -> None:
    path.write_bytes(content)

    with pytest.raises(RecordingError) as refusal:
        read(path)

    assert str(refusal.value).startswith(str(path))
    assert complaint in str(refusal.value)


def test_damage_is_noticed(path: Path) -> None:
    content = bytearray(written())
    content[-6] ^= 0xFF  # of the checksum
    path.write_bytes(content)

    with pytest.raises(RecordingError, match="not gzip, or damaged: CRC"):
        read(path)


def test_a_line_without_end_is_not_unpacked(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(line(HEAD_LINE))
        for _ in range(6 * LONGEST_LINE >> 20):
            file.write(b" " * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(RecordingError, match="line 2: too long"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * LONGEST_LINE
    finally:
        tracemalloc.stop()
