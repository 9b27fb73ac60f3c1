"""The page that lists the boards of the atlas."""

import json
from pathlib import Path
from typing import Any

import exporter
from pages.tables import table

ATLAS = Path(exporter.__file__).parents[1] / "tests" / "atlas"
PREFACE = """\
# Boards of others

<!-- Written by docs/generate.py from the files of this folder: do not edit. -->

Boards that others recorded, and that tests replay through the exporter
([accuracy](../../docs/accuracy.md#hardware)).

"""


def boards() -> str:
    """Return the README beside the boards."""
    heads = ("board, driver", "sample period", "which process is named", "source")
    paths = sorted(ATLAS.glob("*.json"))
    rows = [_row(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    return PREFACE + table(heads, rows)


def _row(board: dict[str, Any]) -> tuple[str, ...]:
    period = f"{board['period_s']:.3g} s: " if board["period_s"] else ""
    refused = ", ".join(name.replace("_", " ") for name in board.get("refused", ()))
    source = board["source"].partition(" internal/")[0]
    name = f"{board['board'] or 'unknown'}, {board['driver'] or 'unknown driver'} ({board['os']})"
    return (
        f"{name}; refuses {refused}" if refused else name,
        f"{period}{board['period_evidence']}",
        board["rule_evidence"],
        f"{source}, {board['recorded']}, {board['licence']}",
    )
