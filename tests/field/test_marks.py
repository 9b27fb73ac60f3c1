"""What is counted in README.md beside this: one mark a report, and each says what it has to."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from tests.field.report import Group, Round, Verdict

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
FILES = [path for path in sorted(FOLDER.rglob("test_*.py")) if path.parent != FOLDER]


def marks(path: Path) -> list[dict[str, Any]]:
    """The arguments of the marks of a file."""
    return [
        {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "report"
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_report_says_what_it_has_to(path: Path) -> None:
    """Beside it may stand siblings of its kind that nobody reported; attacks are no reports."""
    assert marks(path) or path.name.startswith("test_hostile_")
    for each in marks(path):
        assert each["first"] in get_args(Verdict)
        assert each["group"] in get_args(Group)
        assert each["group"] == path.relative_to(FOLDER).parts[0]
        assert bool(each.get("kind")) == (each["first"] == "wrong"), each
        assert bool(each.get("settled")) == (each["first"] == "unknown"), each
        assert each["seen"].endswith("."), each
        assert each.get("round", 1) in get_args(Round)
        assert each.get("taught", ".").endswith("."), each


def test_a_report_is_counted_once() -> None:
    sources = [each["source"] for path in FILES for each in marks(path)]
    assert len(sources) == len(set(sources)), [s for s in sources if sources.count(s) > 1]


def test_the_page_has_every_mark() -> None:
    command = [sys.executable, str(ROOT / "docs/generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.stdout
    page = (FOLDER / "README.md").read_text()
    total = [line for line in page.splitlines() if "| all |" in line]
    assert f"| {sum(len(marks(path)) for path in FILES)} |" in total[0]
