"""Whether two targets count alike."""

from exporter.answers.reading.agreement import Key, Samples, disagreeing
from exporter.answers.reading.lives import Target

EXPORTER, COPY = frozenset({("instance", "a")}), frozenset({("instance", "b")})


def test_a_copy_of_a_quarter_of_an_hour_ago_is_found_where_scrapes_are_close() -> None:
    times = [float(at_s) for at_s in range(0, 3600, 15)]
    behind = [max(0.0, at_s - 900) for at_s in times]
    counters: dict[Key, dict[Target, Samples]] = {
        ("busy",): {EXPORTER: (times, times), COPY: (times, behind)}
    }
    found = disagreeing(counters, {EXPORTER: times, COPY: times}, 3600)
    assert found == (EXPORTER, COPY, ("busy",))
