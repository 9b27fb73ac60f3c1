"""What users of Grafana's dashboards met with variables."""

import json
import re
from pathlib import Path

import pytest

from tests.chart.rendering import ROOT
from tests.field.report import report

BOARDS = sorted((ROOT / "dashboards").glob("*.json"))


@report(
    round=3,
    source="grafana/grafana#42761, grafana/grafana#67832",
    seen="A list of what there was, such as pods, was that of the time when the page was opened: "
    "of another time range nothing could be chosen.",
    first="right",
    group="configuration",
)
@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.stem)
def test_what_can_be_chosen_is_of_the_time_range(path: Path) -> None:
    board = json.loads(path.read_text())
    queried = [one for one in board["templating"]["list"] if one["type"] == "query"]
    assert queried
    assert {one["name"]: one["refresh"] for one in queried} == {one["name"]: 2 for one in queried}
    several = {one["name"] for one in board["templating"]["list"] if one.get("multi")}
    text = json.dumps(board)
    for name in several:  # an equals sign would find none of several
        assert not re.search(rf'[^!=]=\\\\?"\$\{{?{name}\b', text), name
