"""What the rules of cost record of histories in a real Prometheus, held to the bill."""

import json
from collections import defaultdict
from pathlib import Path
from random import Random

import pytest
import yaml

from rules.generate import FOLDER
from tests.histories.checks import bill, stored
from tests.histories.making import HOUR, plain, twisted
from tests.histories.store import written
from tests.histories.values import History
from tests.store import Store

EVALUATED_S = 120
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "mgpu-recording.yaml").read_text())["groups"]
    if group["name"] == "mgpu-cost"
    for rule in group["rules"]
]


@pytest.mark.slow
@pytest.mark.program("prometheus")
@pytest.mark.parametrize(
    "twists",
    [
        ("two_jobs", "exporter_restarts"),
        ("card_taken_out", "cards_overcommitted"),
        ("instances_made_anew", "groups_beside_pods"),
    ],
)
def test_an_estimate_is_the_bill(twists: tuple[str, ...], tmp_path: Path) -> None:
    rng = Random(3)  # noqa: S311 - no secret
    history = twisted(rng, plain(rng, 3 * HOUR, 15), twists)
    with Store(tmp_path) as real:
        written(stored(history), real)
        for at_s in range(history.since_s, history.until_s + 1, EVALUATED_S):
            real.evaluate(RULES, at_s)
        address = f"http://{real.address}"
        for method in ("allocation", "use"):
            exact, found = (
                _hours(history, address, tmp_path, method, *flags)
                for flags in ((), ("--estimate",))
            )
            late = (300 + EVALUATED_S) / 3600  # rates are of five minutes, and looked at each two
            assert sum(found.values()) == pytest.approx(sum(exact.values()), rel=0.01)
            for key in found.keys() | exact.keys():
                close = pytest.approx(exact.get(key, 0.0), rel=0.01, abs=late)
                assert found.get(key, 0.0) == close, (method, key)


def _hours(
    history: History, address: str, folder: Path, method: str, *flags: str
) -> dict[tuple[str, ...], float]:
    """The hours by payer, model and part."""
    said = bill(history, address, folder, "namespace", method, *flags)
    assert said.status == 0, said.err
    found: dict[tuple[str, ...], float] = defaultdict(float)
    for row in json.loads(said.out)["rows"]:
        key = tuple(row[name] for name in ("namespace", "owner", "model", "part"))
        found[key] += row["gpu_seconds"] / 3600
    return found
