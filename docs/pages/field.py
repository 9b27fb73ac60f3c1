"""The page of public reports that were replayed, from the marks of ``tests/field``."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import exporter
from pages.tables import table

FOLDER = Path(exporter.__file__).parents[1] / "tests" / "field"
GROUPS = {
    "kubernetes": "Kubernetes",
    "nvidia": "NVIDIA",
    "vendors": "other vendors",
    "batch": "batch",
    "runtimes": "runtimes",
    "series": "series",
    "configuration": "configuration",
}
THIRD = 3
PREFACE = """\
# Reports of others

<!-- Written by docs/generate.py from the marks in tests/field: do not edit. -->

Public reports about other programs, replayed here with inputs of our own. Each verdict
was written down before any fix. The rate leaves out what cannot be known.

"""


def reports() -> Iterator[dict[str, Any]]:
    """The arguments of every mark, in the order of the files."""
    for path in sorted(FOLDER.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "report":
                yield {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}


def field() -> str:
    """Return tests/field/README.md."""
    found = list(reports())
    third = [one for one in found if one.get("round") == THIRD]
    text = PREFACE + _rates(found)
    if third:
        text += "\n## Round three\n\n" + _rates(third)
    if taught := [one for one in third if one.get("taught")]:
        text += "\nThese taught most:\n\n"
        text += "".join(f"- {one['source']}: {one['seen']} {one['taught']}\n" for one in taught)
    return text


def _rates(found: list[dict[str, Any]]) -> str:
    by_group = {
        title: [one["first"] for one in found if one["group"] == group]
        for group, title in GROUPS.items()
    }
    rows = [_row(title, verdicts) for title, verdicts in by_group.items() if verdicts]
    rows.append(_row("all", [one["first"] for one in found]))
    return table(("group", "reports", "right", "wrong", "unknown", "rate"), rows)


def _row(title: str, verdicts: list[str]) -> tuple[str, ...]:
    count = Counter(verdicts)
    right, wrong, unknown = (count[each] for each in ("right", "wrong", "unknown"))
    rate = f"{100 * right / (right + wrong):.0f} %" if right + wrong else ""
    return title, str(len(verdicts)), str(right), str(wrong), str(unknown), rate
