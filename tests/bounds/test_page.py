"""A pod of many processes hides no other pod's use of the host on the page."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from exporter.agent import hostuse
from exporter.agent.api import About
from exporter.agent.collector.wiring import make_collector, open_sources
from exporter.agent.hostuse import HostUse
from exporter.agent.settings import load
from exporter.agent.web.page.choice import choice_of
from exporter.agent.web.page.nodepage import node_of
from exporter.agent.web.page.page import page
from tests.agent.simulation.clock import ManualClock

DEVICE = {"model": "NVIDIA A10", "memory": "24GiB"}


def read(folder: Path, many: int) -> list[int]:
    """The processes of which a page asks first, beside so many of a tenant."""

    def pod(namespace: str, count: int) -> dict[str, object]:
        one = {"device": 0, "duty": 0, "memory": "64MiB"}
        return {
            "name": "p",
            "namespace": namespace,
            "containers": [{"name": "main", "processes": [one] * count}],
        }

    path = folder / f"{many}.yaml"
    path.write_text(yaml.safe_dump({"devices": [DEVICE], "pods": [pod("aaa", many), pod("zz", 3)]}))
    clock, asked = ManualClock(), list[int]()
    settings = load({"simulate": [str(path)]}, {})
    collector = make_collector(settings, open_sources(settings, clock), clock)
    for _ in range(3):
        clock.move(1)
        collector.cycle()

    def of_host(names: Mapping[int, str]) -> Mapping[int, HostUse]:
        asked.extend([*names][: hostuse.MOST])
        return {}

    snapshot = collector.snapshot
    node = node_of(snapshot, About(window_ns=10**10), 0)
    page(node, choice_of({}), 0.0, "/metrics", {}, of_host)
    return asked


def test_a_pod_of_many_processes_hides_no_others_use_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostuse, "MOST", 6)

    assert len(read(tmp_path, 1)) == 4
    asked = read(tmp_path, 20)

    last = sorted(asked)[-3:]  # the victim's are the last to begin
    assert len(asked) == 6
    assert last[0] - sorted(asked)[2] > 10
    assert last[2] - last[0] == 2
