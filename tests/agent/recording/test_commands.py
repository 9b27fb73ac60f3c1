"""The commands, as processes."""

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.agent.commands.replay import Replay
from exporter.agent.recording.recordingfile import RecordingError, RecordingReader, RecordingWriter
from exporter.cli import main
from exporter.metrics.text import Format

SINGLE = Path(__file__).parents[2] / "replay" / "single.rec.gz"
RECORD = [sys.executable, "-m", "exporter", "record", "--simulate=demo", "--duration=2s"]
REPLAY = [sys.executable, "-m", "exporter", "replay"]
HASTE = "--collection.interval=200ms"


def run(*command: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(command, capture_output=True, check=False, timeout=60)


def pages(form: Format) -> list[bytes]:
    with RecordingReader(str(SINGLE)) as tape:
        run = Replay(tape)
        renderer = run.renderer()
        return [renderer.render(snapshot, form) for snapshot in run.snapshots()]


def test_what_was_recorded_is_replayed_to_the_same_pages(tmp_path: Path) -> None:
    file = tmp_path / "node.rec.gz"

    recorded = run(*RECORD, HASTE, f"--output={file}")
    replayed = run(*REPLAY, str(file))

    said = re.search(rb"recorded (\d+) cycles in (\d+) bytes", recorded.stderr)
    assert recorded.returncode == 0
    assert said, recorded.stderr
    assert int(said[2]) == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert b"%b cycles replayed; every page is as it was recorded" % said[1] in replayed.stderr
    assert b"\nmgpu_exporter_cycles_total %b\n" % said[1] in replayed.stdout
    assert b"\nprocess_" not in replayed.stdout


@pytest.mark.slow
def test_a_recording_can_go_to_standard_output(tmp_path: Path) -> None:
    recorded = run(*RECORD, HASTE, "--output=-", "--anonymise")
    file = tmp_path / "node.rec.gz"
    file.write_bytes(recorded.stdout)

    replayed = run(*REPLAY, str(file))

    assert b"every page is as it was recorded" in replayed.stderr
    assert b'mgpu_container_core_seconds_total{namespace="x' in replayed.stdout
    assert b"chat-7b" not in replayed.stdout
    said = b"recording GPUs by simulated, processes by cgroups, pods by pods_simulated, "
    assert said + b"with pseudonyms, for 2 s into standard output" in recorded.stderr


@pytest.mark.slow
def test_a_signal_ends_the_recording_with_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "node.rec.gz"
    command = [*RECORD, HASTE, "--duration=1h", f"--output={file}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        while process.poll() is None and (not file.exists() or file.stat().st_size < 5000):
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == 0
        finally:
            process.kill()

    assert b"every page is as it was recorded" in run(*REPLAY, str(file)).stderr


@pytest.mark.slow
def test_a_command_that_is_broken_off_shows_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "never.rec.gz"
    os.mkfifo(file)
    command = [*REPLAY, str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process, file.open("wb"):
        process.send_signal(signal.SIGINT)  # the file is open as soon as it is read
        said = process.communicate(timeout=60)[1]

    assert (process.returncode, said) == (130, b"")


@pytest.mark.slow
def test_a_command_whose_output_is_not_read_to_the_end_shows_no_traceback() -> None:
    command = [*REPLAY, "--cycle=each", str(SINGLE)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"# cycle 1\n"
        process.stdout.close()
        said = process.stderr.read() if process.stderr else b""

    assert (process.returncode, said) == (141, b"")


@pytest.mark.slow
def test_force_replaces_a_file(tmp_path: Path) -> None:
    file = tmp_path / "node.rec.gz"
    file.write_text("something dear")

    done = run(*RECORD, HASTE, f"--output={file}", "--force")

    assert done.returncode == 0
    assert run(*REPLAY, str(file)).returncode == 0


@pytest.mark.slow
def test_a_recording_in_which_no_gpu_was_read_is_a_failure(tmp_path: Path) -> None:
    file = tmp_path / "node.rec.gz"
    record = [*RECORD[:4], "--duration=1s", HASTE, "--nvml.library=/nonexistent/lib.so"]

    done = run(*record, "--pods.source=none", f"--output={file}")

    assert done.returncode == 1
    assert b"no GPU was read: no NVIDIA management library: /nonexistent/lib.so" in done.stderr
    assert not file.exists()  # the next try is not refused


def test_a_recording_that_has_no_room_for_its_head_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "node.rec.gz"
    monkeypatch.setattr(RecordingWriter, "__init__", _refusing)

    assert main(["record", "--simulate=demo", "--duration=1s", f"--output={file}"]) == 1
    assert not file.exists()


def _refusing(*_: object) -> None:
    raise RecordingError("4096 bytes are too few for a recording")


@pytest.mark.slow
@pytest.mark.parametrize("form", Format)
def test_the_page_after_the_last_cycle_is_printed(form: Format) -> None:
    done = run(*REPLAY, str(SINGLE), f"--format={form.value}")

    end = b"# EOF\n" if form is Format.OPENMETRICS else b""
    assert done.stdout == pages(form)[-1] + end
    assert done.returncode == 0


@pytest.mark.slow
def test_every_page_is_printed_under_its_number() -> None:
    done = run(*REPLAY, str(SINGLE), "--cycle=each")

    numbered = enumerate(pages(Format.TEXT), 1)
    assert done.stdout == b"".join(b"# cycle %d\n" % n + page for n, page in numbered)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ([*REPLAY, "/nonexistent.rec.gz"], "/nonexistent.rec.gz: No such file or directory"),
        ([*REPLAY, __file__], "line 1: not gzip, or damaged: mgpu-exporter record"),
        ([*REPLAY, str(SINGLE), "--cycle=21"], "cycle 21 is not in the recording, which has 20"),
        (
            [*RECORD, "--output=/nonexistent/file"],
            "cannot write /nonexistent/file: No such file or directory; make its folder first",
        ),
        ([*RECORD, f"--output={__file__}"], "test_commands.py already exists; --force replaces"),
        ([*RECORD, "--output=-", "--simulate=/nonexistent.yaml"], "given 2 times"),
    ],
)
def test_what_cannot_be_done_is_one_line(command: list[str], complaint: str) -> None:
    done = run(*command)

    assert done.returncode in {1, 2}
    assert complaint in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert done.stdout == b""


def test_a_recording_needs_a_file_unless_it_is_for_sharing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["record"]) == 2
    assert (
        "--output FILE is missing; it may be left out with --share only" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["record", "--output=-", "--duration=1d"], "'1d' is not a duration from 1s to 24h"),
        (["record", "--output=-", "--max-bytes=-1"], "'-1' is not a number from 4096"),
        (["replay"], "the following arguments are required: FILE"),
        (["replay", "f", "--cycle=0"], "'0' is not a number from 1, last or each"),
        (["replay", "f", "--format=json"], "invalid choice: 'json'"),
        (["replay", "f", "--output=x"], "no flag of replay: --output; it is one of record, bill"),
    ],
)
def test_arguments_that_are_not_allowed_are_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.slow
def test_a_recording_that_is_cut_off_says_so(tmp_path: Path) -> None:
    file = tmp_path / "node.rec.gz"
    file.write_bytes(SINGLE.read_bytes()[:-100])

    done = run(*REPLAY, str(file))

    assert done.returncode == 0
    assert b"is cut off; what precedes that was replayed" in done.stderr
    assert b"\nmgpu_exporter_cycles_total " in done.stdout
