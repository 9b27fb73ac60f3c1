"""Pods by namespace and name."""

import pytest

from exporter.collector.allocations import by_name
from exporter.model import Pod
from exporter.sources.pods.table import indexed

OLD, NEW, OTHER = (
    Pod("a", "ns", "db-0", deleted=True),
    Pod("b", "ns", "db-0"),
    Pod("c", "ns", "web"),
)


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_pods_with_one_name_the_living_one_is_found(order: int) -> None:
    pods = [OLD, NEW, OTHER][::order]
    found = by_name(indexed({pod.uid: pod for pod in pods}))

    assert found == {("ns", "db-0"): NEW, ("ns", "web"): OTHER}
