"""``make mutations``: plants a fault in a copy of the tree, and runs the tests of its room.

The faults are in ``mutations.toml``. A test that fails has found one. At least 36 of 40 must be
found: a cut of tests that loses more has cut too much. ``ARGS=facts``: one room only.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
NOT_COPIED = shutil.ignore_patterns(".venv", ".git", "__pycache__", "dist", "_site", ".*_cache")
LEAST_FOUND = 0.9
FAILED = 1  # pytest's exit status if tests failed; all others mean that it could not run them


def main(arguments: Sequence[str]) -> int:
    """Print each fault that nobody found; 1 if too many are left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*", help="the rooms whose faults are planted")
    asked = parser.parse_args(arguments).rooms
    table = tomllib.loads((HERE / "tools/mutations.toml").read_text(encoding="utf-8"))
    rooms = [room for room in table["room"] if room["name"] in asked or not asked]
    for fault in (fault for room in rooms for fault in room["faults"]):
        text_with(fault)
    planted = left = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(HERE, tree, ignore=NOT_COPIED, symlinks=True)
        for room in rooms:
            for fault in room["faults"]:
                planted += 1
                if not is_found(tree, fault, room["tests"]):
                    left += 1
                    print(f"not found: {fault['file']}: {fault['was']} -> {fault['is']}")
            print(f"{room['name']}: {planted - left} of {planted} found so far", flush=True)
    return int(planted - left < LEAST_FOUND * planted)


def text_with(fault: dict[str, str]) -> str:
    """Return the text of the fault's file with the fault in it.

    Raises:
        ValueError: what the fault replaces is not there once.

    """
    text = (HERE / "exporter" / fault["file"]).read_text(encoding="utf-8")
    if text.count(fault["was"]) != 1:
        raise ValueError(f"{fault['file']} does not have this text once: {fault['was']}")
    return text.replace(fault["was"], fault["is"])


def is_found(tree: Path, fault: dict[str, str], tests: Sequence[str]) -> bool:
    """Whether a test fails with this fault in the tree.

    Raises:
        CalledProcessError: the tests could not be run.

    """
    path = tree / "exporter" / fault["file"]
    text = path.read_text(encoding="utf-8")
    path.write_text(text_with(fault), encoding="utf-8")
    try:
        done = subprocess.run(
            [*(sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-m", "not slow"), *tests],
            cwd=tree,
            env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            check=False,
        )
    finally:
        path.write_text(text, encoding="utf-8")
    if done.returncode not in {0, FAILED}:
        done.check_returncode()
    return done.returncode == FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
