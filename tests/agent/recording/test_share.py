"""``record --share``: a board alone, masked, and replayed byte for byte."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "exporter"]
pytestmark = pytest.mark.slow
PRIVATE = (b"chat-7b", b"inference", b"research", b"node-1", b"0000:", b"ffmpeg")


def test_a_shared_board_is_masked_and_replayed_byte_for_byte(tmp_path: Path) -> None:
    file = tmp_path / "board.rec.gz"
    flags = ("--simulate=demo", "--duration=3s", "--collection.interval=200ms", "--share")
    done = subprocess.run(
        [*COMMAND, "record", *flags, f"--output={file}"], capture_output=True, check=False
    )
    content = gzip.decompress(file.read_bytes())

    assert done.returncode == 0, done.stderr
    assert b" x NVIDIA " in done.stderr
    [driver] = set(re.findall(rb'"driver_version":"([^"]+)"', content))
    assert b", driver " + driver + b"\n" in done.stderr
    assert b"A board for the atlas" in done.stderr
    assert not [word for word in PRIVATE if word in content]
    assert b'"raw":' in content
    pids = {int(pid) for pid in re.findall(rb'"pid":(\d+)', content)}
    assert len(pids) > 5
    assert pids <= set(range(1001, 1100))
    replayed = subprocess.run([*COMMAND, "replay", str(file)], capture_output=True, check=True)
    assert b"every page is as it was recorded" in replayed.stderr
