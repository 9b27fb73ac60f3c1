"""What ``why`` and ``top`` say of pods of histories, held to the truth: fixed seeds, then any."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories.checks import REFUSED, stored
from tests.histories.making import RANDOM, TWISTS, made, plain, twisted
from tests.histories.pods import moments, wrong_top, wrong_why
from tests.histories.store import answering
from tests.histories.values import History

FIXED = ["namespace_made_anew", "pod_name_again_at_once", "two_replicas", "labels_renamed"]
KINDS = sorted(TWISTS.keys() - REFUSED - {"instances_made_anew"})  # their gauges are not modelled


def wrong(history: History, rng: Random) -> list[str]:
    """What both say that is not the truth, at some moments."""
    store = stored(history, gauges=True)
    found: list[str] = []
    with answering(store) as address:
        for moment in moments(history, rng, 3):
            store.now_s = moment.unix_s
            found += wrong_why(history, address, moment)
            found += wrong_top(history, address, moment.unix_s)
    return found


@pytest.mark.parametrize("kind", FIXED)
def test_pods_are_what_is_said_of_them(kind: str) -> None:
    assert wrong(made(19, kind), Random(19)) == []  # noqa: S311 - no secret


@pytest.mark.slow
@settings(max_examples=settings().max_examples // 5)
@given(RANDOM, st.lists(st.sampled_from(KINDS), max_size=2))
def test_so_they_are_in_any_history(rng: Random, twists: list[str]) -> None:
    assert wrong(twisted(rng, plain(rng), twists), rng) == []
