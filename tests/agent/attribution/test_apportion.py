"""Whatever is divided adds up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.attribution.shares import apportion
from exporter.model import ContainerKey, GroupKey, Owner, Unattributed

A, B = ContainerKey("n", "a", "c"), ContainerKey("n", "b", "c")

owners: st.SearchStrategy[Owner] = st.sampled_from([A, B, GroupKey("docker", "x"), *Unattributed])
amounts = st.integers(0, 10**12)


@given(amounts, st.dictionaries(owners, amounts))
def test_apportioned_parts_add_up_and_follow_their_weights(
    total: int, weights: dict[Owner, int]
) -> None:
    parts = apportion(total, weights)

    whole = sum(weights.values())
    assert sum(parts.values()) == (total if whole else 0)
    for owner, part in parts.items():
        assert part == pytest.approx(total * weights[owner] / whole, rel=1e-9, abs=1)
