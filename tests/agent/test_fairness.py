import string
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.fairness import Held, in_turn

OWNED = st.lists(st.sampled_from("aaaab"), max_size=60)
MANY = st.lists(st.sampled_from(string.ascii_lowercase), max_size=60)


def fair(counts: Counter[str], most: int) -> Counter[str]:
    """What each may have, found by giving one to each in turn."""
    given_, left = Counter[str](), most
    while left and (hungry := [o for o in counts if given_[o] < counts[o]]):
        for owner in hungry[:left]:
            given_[owner] += 1
        left -= len(hungry[:left])
    return given_


@given(OWNED | MANY, st.integers(1, 30))
def test_the_first_in_turn_are_a_fair_part_of_each(owners: list[str], most: int) -> None:
    items = list(enumerate(owners))
    taken = in_turn(items, lambda item: item[1])[:most]

    parts, counts = Counter(owner for _, owner in taken), Counter(owners)
    ideal = fair(counts, most)
    assert parts.total() == ideal.total()
    assert all(abs(parts[owner] - ideal[owner]) <= 1 for owner in counts)  # the rest is anybody's
    for owner in counts:
        own = [item for item in items if item[1] == owner]
        assert [item for item in taken if item[1] == owner] == own[: parts[owner]]


@given(OWNED | MANY, st.integers(1, 30), st.booleans())
def test_at_the_bound_the_owner_with_most_gives_way(
    owners: list[str],
    most: int,
    newest: bool,  # noqa: FBT001 - drawn
) -> None:
    held, counts = Held[int](most, newest=newest), Counter[str]()
    for key, owner in enumerate(owners):
        counts[owner] += 1
        full = len(held) == most
        before = {each: held.of(each) for each in counts}
        before[owner] += 1
        gone = held.add(key, owner)

        assert (gone is not None) is full
        if gone is not None:
            loser = owners[gone]
            assert before[loser] == max(before.values())
        assert len(held) == min(most, key + 1)
        assert all(held.of(each) >= min(counts[each], most // len(counts)) for each in counts)


def test_a_key_keeps_its_age_and_may_change_its_owner() -> None:
    held = Held[str](3)
    assert [held.add(key, "a") for key in ("x", "y", "x")] == [None] * 3
    assert held.add("x", "b") is None
    assert (held.of("a"), held.of("b")) == (1, 1)
    assert [held.add(key, "a") for key in ("z", "w")] == [None, "y"]
    held.discard("x")
    held.discard("x")
    assert "x" not in held
    assert len(held) == 2
