"""The words of all faces: amounts, lengths of time, counts and lists."""

import pytest

from exporter.shown import words


@pytest.mark.parametrize(
    ("names", "most", "expected"),
    [
        ([], None, ""),
        (["jobs"], None, "jobs"),
        (["jobs", "units"], None, "jobs and units"),
        (["jobs", "containers", "users"], None, "jobs, containers and users"),
        (["a", "b", "c"], 2, "a, b and 1 other"),
        (["a", "b", "c", "d"], 2, "a, b and 2 others"),
    ],
)
def test_names_are_joined_as_in_a_sentence(
    names: list[str], most: int | None, expected: str
) -> None:
    assert words.joined(names, most) == expected


def test_beyond_the_first_names_there_is_a_number() -> None:
    assert words.some_of("cab", most=3) == "a, b, c"
    assert words.some_of("dcab", most=3) == "a, b, c and 1 more"


@pytest.mark.parametrize(("count", "expected"), [(1, "1 pod"), (2, "2 pods"), ("no", "no pods")])
def test_a_noun_is_in_the_number_of_its_count(count: int | str, expected: str) -> None:
    assert words.plural(count, "pod") == expected


@pytest.mark.parametrize(
    ("seconds", "short", "sentence"),
    [
        (0.9, "0 s", "second"),
        (15, "15 s", "15 seconds"),
        (60, "1 min", "minute"),
        (3900, "1 h 5 min", "hour"),
        (90_000, "1 d 1 h", "day"),
    ],
)
def test_a_length_of_time_has_a_short_form_and_one_for_sentences(
    seconds: float, short: str, sentence: str
) -> None:
    assert words.duration(seconds).replace(words.NBSP, " ") == short
    assert words.length(seconds) == sentence


@pytest.mark.parametrize(
    ("microjoules", "expected"), [(999_999_999, "1000 J"), (1e9, "1.0 kJ"), (3.6e12, "1.00 kWh")]
)
def test_energy_is_in_its_largest_unit(microjoules: float, expected: str) -> None:
    assert words.energy(microjoules) == expected
