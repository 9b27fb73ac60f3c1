"""A day of pods that began, ended, and were read by an exporter that began again: what they idled.

Scrapes are each 15 s, as of a fleet.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

import pytest
import yaml

from rules.generate import FOLDER as RULES
from tests.dashboards.grafana import FOLDER, fill, load, panels
from tests.dashboards.test_silent import AT, EVERYTHING
from tests.store import Store, Target, sent

EVERY_S, MINUTE, HOUR = 15, 60, 3600
DAY = 24 * HOUR
GRAIN_S = 5 * MINUTE  # of what is recorded
MOST_SAMPLES = 5_000_000 / (300 * 24)  # of a pod: with 300 nodes of 24 pods each
PANELS = {"mgpu-overview": "Pods that idle most", "mgpu-cost": "Idle, by owner"}
TARGET = Target({"job": "mgpu", "instance": "node"})


class Life(NamedTuple):
    """Of a pod: when it began and ended, and when its exporter began again, from the range on."""

    began: int
    ended: int
    again: int = 2 * DAY


# Each idles half a GPU while it is there.
PODS = {
    "whole": Life(-DAY, DAY),
    "again": Life(-DAY, DAY, 7 * HOUR + 100),
    "began": Life(20 * HOUR + 40, DAY),
    "ended": Life(-DAY, 3 * HOUR + 70),
    "inside": Life(5 * HOUR + 130, 6 * HOUR + 10),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp("prometheus")
    with Store(folder) as store:
        store.write(one for pod, life in PODS.items() for one in _series(pod, life))
        groups = yaml.safe_load((RULES / "mgpu-recording.yaml").read_text())["groups"]
        wanted = [one for one in groups if one["name"] in {"mgpu-workloads", "mgpu-pods-recorded"}]
        file = folder / "rules.yaml"
        file.write_text(yaml.safe_dump({"groups": wanted}))
        store.record(file, round(AT - DAY), round(AT), "1m")
        yield store


def _series(pod: str, life: Life) -> Iterator[bytes]:
    there = [at for at in range(0, DAY + 1, EVERY_S) if life.began <= at <= life.ended]
    own = {"namespace": "n", "pod": pod}
    idle = [(at - (life.began if at < life.again else life.again)) / 2 for at in there]
    for name, labels, values in (
        ("mgpu_pod_allocated_idle_core_seconds_total", own, idle),
        ("mgpu_pod_allocated_core_seconds_total", own, [2 * one for one in idle]),
        ("mgpu_pod_info", own | {"owner_kind": "Job", "owner_name": pod}, [1.0] * len(there)),
    ):
        stamped = [
            (round(AT - DAY + at) * 1000, one) for at, one in zip(there, values, strict=True)
        ]
        yield sent(
            TARGET.label({"__name__": name, **labels}),
            [(at, struct.pack("<d", value)) for at, value in stamped],
        )


def _asked(board: str) -> list[str]:
    """The queries of a board's panel, of a day."""
    (panel,) = (
        one for one in panels(load(FOLDER / f"{board}.json")) if one["title"] == PANELS[board]
    )
    return [fill(one["expr"], EVERYTHING | {"__range": "1d"}) for one in panel["targets"]]


@pytest.mark.program("prometheus")
@pytest.mark.parametrize(
    ("board", "label"), [("mgpu-overview", "pod"), ("mgpu-cost", "owner_name")]
)
def test_what_a_pod_idled_in_a_day_is_known_to_its_grain(
    store: Store, board: str, label: str
) -> None:
    found = store.values(_asked(board)[0], AT, label)
    for pod, life in PODS.items():
        expected = (min(life.ended, DAY) - max(life.began, 0)) / 2 / HOUR
        assert found[(pod,)] == pytest.approx(expected, abs=GRAIN_S / 2 / HOUR), pod
    assert found[("whole",)] == pytest.approx(12)


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("board", PANELS)
def test_no_query_of_a_day_of_300_nodes_reads_more_than_five_million_samples(
    store: Store, board: str
) -> None:
    for query in _asked(board):
        answer = store.get("query", query=query, time=str(AT), stats="all")
        read = answer["stats"]["samples"]["totalQueryableSamples"]
        days = sum(min(one.ended, DAY) - max(one.began, 0) for one in PODS.values()) / DAY
        assert read / days <= MOST_SAMPLES, query
