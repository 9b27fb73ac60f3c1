"""docs/samples-life.md names functions, of walks and of decisions: each is there under its name."""

import re
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "samples-life.md").read_text()
BLOCKS = PAGE.split("```text")[1:]
*WALKS, DECISIONS = [re.findall(r"^([\w.]+) {2,}\S", block, re.MULTILINE) for block in BLOCKS]


def test_there_are_three_walks_of_about_a_dozen_steps() -> None:
    assert [8 <= len(walk) <= 16 for walk in WALKS] == [True] * 3


@pytest.mark.parametrize("name", sorted({name for some in (*WALKS, DECISIONS) for name in some}))
def test_a_function_that_the_page_names_exists(name: str) -> None:
    parts = name.split(".")
    end = next(at for at, part in enumerate(parts) if part[0].isupper() or at == len(parts) - 1)
    module = import_module(".".join(("exporter", *parts[:end])))

    found: object = reduce(getattr, parts[end:], module)
    assert callable(found) or isinstance(found, property)
