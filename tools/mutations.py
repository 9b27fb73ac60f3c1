"""``make mutations``: plants a fault in a copy of the tree, and runs the tests of its room.

The faults are in ``mutations.toml``. A test that fails has found one. At least 36 of 40 must be
found: a cut of tests that loses more has cut too much. ``ARGS=facts``: one room only. ``--check``
plants nothing: it fails where a fault's text is no longer in its file, and ``make lint`` runs it.
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
QUICK = ("--hypothesis-profile=quick",)  # as `make test` has it
FAILED = 1  # pytest's exit status if tests failed; all others mean that it could not run them


def main(arguments: Sequence[str]) -> int:
    """Print each fault that nobody found; 1 if too many are left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rooms", nargs="*", help="the rooms whose faults are planted")
    parser.add_argument("--check", action="store_true", help="only look each fault's text up")
    asked = parser.parse_args(arguments)
    table = tomllib.loads((HERE / "tools/mutations.toml").read_text(encoding="utf-8"))
    rooms = [room for room in table["room"] if room["name"] in asked.rooms or not asked.rooms]
    stale = [said for room in rooms for fault in room["faults"] if (said := why_stale(fault))]
    for said in stale:
        print(f"tools/mutations.toml: {said}")
    if stale or asked.check:
        return int(bool(stale))
    planted = left = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(HERE, tree, ignore=NOT_COPIED, symlinks=True)
        for room in rooms:
            if not passes(tree, room["tests"]):
                print(f"{room['name']}: its tests fail without a fault, so they can find none")
                return 1
            for fault in room["faults"]:
                planted += 1
                if not is_found(tree, fault, room["tests"]):
                    left += 1
                    print(f"not found: {fault['file']}: {fault['was']} -> {fault['is']}")
            print(f"{room['name']}: {planted - left} of {planted} found so far", flush=True)
    return int(planted - left < LEAST_FOUND * planted)


def why_stale(fault: dict[str, str]) -> str:
    """Return why a fault cannot be planted, and what to do; "" if it can."""
    path = HERE / "exporter" / fault["file"]
    if not path.is_file():
        return f"there is no {fault['file']}: name the file that has its code now"
    times = path.read_text(encoding="utf-8").count(fault["was"])
    if times == 1:
        return ""
    return (
        f"{fault['file']} has this text {times} times, and must have it once: {fault['was']}; "
        "write the code that does the same now"
    )


def is_found(tree: Path, fault: dict[str, str], tests: Sequence[str]) -> bool:
    """Whether a test fails with this fault in the tree."""
    path = tree / "exporter" / fault["file"]
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(fault["was"], fault["is"]), encoding="utf-8")
    try:
        return not passes(tree, tests)
    finally:
        path.write_text(text, encoding="utf-8")


def passes(tree: Path, tests: Sequence[str]) -> bool:
    """Whether these tests pass in the tree.

    Raises:
        CalledProcessError: the tests could not be run.

    """
    done = subprocess.run(
        [*(sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-m", "not slow"), *QUICK, *tests],
        cwd=tree,
        env={"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=False,
    )
    if done.returncode not in {0, FAILED}:
        done.check_returncode()
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
