"""The store in this process against real Prometheis, by the very questions that readers asked."""

import json
import math
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.histories.checks import bill, stored
from tests.histories.making import TWISTS, made
from tests.histories.promql import RefusedError, parsed
from tests.histories.store import answering, written
from tests.store import Store

KINDS = [kind for kind in TWISTS if kind != "store_averages"]  # which a Prometheus never does


def vector(result: list[dict[str, Any]]) -> dict[frozenset[tuple[str, str]], list[Any]]:
    """An answer by labels, whatever its order."""
    found = {}
    for one in result:
        values = one["values"] if "values" in one else [one["value"]]
        found[frozenset(one["metric"].items())] = [
            (round(float(at_s), 3), float(value)) for at_s, value in values
        ]
    return found


def is_same(one: Any, other: Any) -> bool:
    if one.keys() != other.keys():
        return False
    return all(
        len(one[key]) == len(other[key])
        and all(
            at == at_too and math.isclose(value, value_too, rel_tol=1e-9, abs_tol=1e-9)
            for (at, value), (at_too, value_too) in zip(one[key], other[key], strict=True)
        )
        for key in one
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "opens"),
    [
        pytest.param("prometheus", False, marks=pytest.mark.program("prometheus")),
        pytest.param("prometheus3", True, marks=pytest.mark.program("prometheus3")),
    ],
)
def test_it_answers_as_a_prometheus_does(program: str, opens: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter
    for seed, kind in enumerate(KINDS[::6]):
        history = made(seed, kind)
        store = stored(history, opens=opens)
        with answering(store) as address:
            for by in ("namespace", "owner"):
                bill(history, address, tmp_path, by, "allocation")
        folder = tmp_path / kind
        folder.mkdir()
        with Store(folder, program=program) as real:
            written(store, real)
            for path, query in list(store.asked):
                if path == "query" and "time" not in query:
                    continue  # of now, which is years later
                mine = vector(store.json(path, query)["data"]["result"])
                its = vector(asked(real, path, query))
                assert is_same(mine, its), (kind, query["query"])


def asked(real: Store, path: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
    url = f"http://{real.address}/api/v1/{path}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=60) as answer:
        return list(json.load(answer)["data"]["result"])


@pytest.mark.parametrize(
    "text", ["histogram_quantile(0.9, x)", "x @ 5", "topk(3, x)", "absent(x)", "x or"]
)
def test_what_it_does_not_know_it_refuses(text: str) -> None:
    with pytest.raises(RefusedError):
        parsed(text)
