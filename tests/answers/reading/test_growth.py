"""What counters of cards grew by: each second of a card is counted once."""

from collections.abc import Callable, Sequence

from exporter.answers.reading.growth import CardGrowth, cards_of
from exporter.answers.reading.lives import CYCLES, START, Scrapes, Target
from exporter.answers.reading.nodelabels import NodeLabels
from exporter.answers.reading.ranges import Span
from exporter.answers.reading.storedcounters import Stored, StoredCounter
from exporter.answers.reading.who import Who

HOUR = 3600
BEGIN = 1_780_005_600
UNALLOCATED = "mgpu_device_unallocated_gpu_seconds_total"


class Page:
    """A target, when its exporter began, when it was scraped, and what its card counted."""

    def __init__(
        self,
        pod: str,
        began_s: float,
        times: Sequence[int],
        counted: Callable[[float], float] | None = None,
    ) -> None:
        self.target: Target = frozenset({("pod", pod), ("node", "a")})
        self.began_s = BEGIN + began_s
        self.times = [float(BEGIN + at) for at in times]
        self.counted = counted or (lambda at: at - began_s)


def card(*pages: Page) -> CardGrowth:
    """What was counted in an hour of the one card that these pages show."""
    scrapes = Scrapes()
    series = []
    for page in pages:
        labels = dict(page.target)
        scrapes.take({**labels, "__name__": START}, [(at, page.began_s) for at in page.times])
        scrapes.take({**labels, "__name__": CYCLES}, [(at, at - page.began_s) for at in page.times])
        own = {"__name__": UNALLOCATED, "uuid": "GPU-a", **labels}
        counted = [page.counted(at - BEGIN) for at in page.times]
        series.append(StoredCounter(own, [page.target], tuple(page.times), tuple(counted)))
    stored = Stored(series, scrapes, {}, {})
    [found] = cards_of(stored, Span(BEGIN, BEGIN + HOUR, 60), {}, Who(series, NodeLabels()))
    return found


def seconds(found: CardGrowth) -> float:
    return sum(sum(each.values()) for one in found.grown for each in one.counts.values())


def test_of_two_exporters_that_are_both_scraped_while_one_replaces_the_other_one_counts() -> None:
    before = Page("old", -2 * HOUR, range(-60, 2041, 60))
    after = Page("new", 1790, range(1800, HOUR + 1, 60))
    assert HOUR - 60 <= seconds(card(before, after)) <= HOUR
