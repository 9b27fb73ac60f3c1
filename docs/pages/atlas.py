"""The table of accuracy.md that lists the boards of the atlas."""

import json
from pathlib import Path
from typing import Any

from pages.tables import table

ATLAS = Path(__file__).parents[2] / "tests" / "atlas"
BEGIN = "<!-- boards: written by docs/generate.py from tests/atlas -->\n"
END = "<!-- end of boards -->\n"


def accuracy(page: str) -> str:
    """Return the page with the table of real boards as the atlas has them.

    Raises:
        ValueError: one of the two marks is not on the page.

    """
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        message = "accuracy.md has lost the marks around its table of real boards"
        raise ValueError(message)
    heads = ("board", "driver", "sample period", "which process is named", "refused", "source")
    paths = sorted(ATLAS.glob("*.json"))
    rows = [_row(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    return f"{before}{BEGIN}\n{table(heads, rows)}\n{END}{after}"


def _row(board: dict[str, Any]) -> tuple[str, ...]:
    period = f"{board['period_s']:.3g} s: " if board["period_s"] else ""
    refused = ", ".join(name.replace("_", " ") for name in board.get("refused", ()))
    source = board["source"].partition(" internal/")[0]
    return (
        board["board"] or "not said",
        f"{board['driver'] or 'not said'} ({board['os']})",
        f"{period}{board['period_evidence']}",
        board["rule_evidence"],
        refused or "nothing",
        f"{source}, {board['recorded']}, {board['licence']}",
    )
