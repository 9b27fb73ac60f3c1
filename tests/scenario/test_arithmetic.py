"""Each sharing system's limits and ratios, from the marks that it leaves to the page."""

from typing import Any

import pytest

from exporter.simulation.description import Scheme
from tests.scenario.arithmetic import check_limits, check_use
from tests.scenario.promises import SERVED_AS
from tests.scenario.shared_nodes import NODES
from tests.scenario.watched import watched

pytestmark = pytest.mark.slow

SECONDS = 60


@pytest.mark.parametrize("name", NODES)
def test_use_limit_and_ratio_are_the_sharing_system_s_own(name: str) -> None:
    node = watched(NODES[name], SECONDS)
    check_limits(node.truth, node.read)
    check_use(node.truth, node.read)


@pytest.mark.parametrize("name", NODES)
def test_each_pod_is_known_to_be_of_its_sharing_system(name: str) -> None:
    node = watched(NODES[name], 1)
    found = node.read("mgpu_container_allocation_info", ("pod", "scheme"))
    pods: list[dict[str, Any]] = NODES[name]["pods"]
    promised = {key.pod for key, _ in node.truth.promised}
    systems = {p["name"]: SERVED_AS[Scheme(p["scheme"])] for p in pods if p["name"] in promised}
    assert set(found) == set(systems.items())


@pytest.mark.parametrize("name", NODES)
def test_nothing_of_a_pod_was_unreadable(name: str) -> None:
    node = watched(NODES[name], 1)
    rejected = {
        labels["reason"]: count
        for labels, count in node.page.all("mgpu_exporter_rejected_samples_total")
        if count
    }
    assert rejected == {}
