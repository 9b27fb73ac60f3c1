"""What ``advise`` says of the workloads of histories, held to the truth."""

import pytest

from tests.histories.checks import stored
from tests.histories.making import made
from tests.histories.store import answering
from tests.histories.workloads import wrong_advice


@pytest.mark.parametrize(
    ("kind", "seed"),
    [("two_replicas", 8), ("pods_that_borrow", 4), ("namespace_made_anew", 19)],
)
def test_workloads_are_allocated_and_use_what_is_said(kind: str, seed: int) -> None:
    history = made(seed, kind)
    with answering(stored(history, gauges=True)) as address:
        assert list(wrong_advice(history, address)) == []
