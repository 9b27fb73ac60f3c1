"""What scrapes can know of a machine: which time they enclose, and how closely."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf

from tests.histories.page import KEPT_S, WITHHELD_S, is_at
from tests.histories.values import History, Lasting, Machine, Run

STALE_S = 300.0
DAY_S = 86_400.0


class Seen:
    """The scrapes of one machine up to the end of the range, by the run that answered them."""

    def __init__(self, history: History, machine: Machine) -> None:
        self._history, self._machine = history, machine
        self.runs = [run for run in history.runs if run.machine == machine.id]
        self.targets = [
            [at for at in one.times if history.kept_from_s <= at <= history.until_s]
            for one in history.targets
            if one.machine == machine.id
            and not (one.forged or one.adopts or one.behind_s or one.foreign)
        ]
        self.times = sorted({at for times in self.targets for at in times})
        self.answered = [[at for at in self.times if is_at(run.there, at)] for run in self.runs]
        self._shown_by: dict[tuple[str, Lasting], list[tuple[Run, list[float]]]] = {}

    def spacing_s(self, unix_s: float) -> float:
        """How far apart the scrapes around a time are; of several targets, the farthest."""
        return max((_around(times, unix_s) for times in (*self.targets, self.times)), default=0.0)

    def enclosed(self, uuid: str, there: Lasting) -> list[tuple[float, float, bool]]:
        """The stretches of a card's time that scrapes of one run enclose, in the range.

        The last value: whether it is all certain. Where the range begins in a gap, it is not.
        """
        found: list[tuple[float, float, bool]] = []
        for one in sorted(self._enclosed(uuid, there)):
            goes_on = found and found[-1][1:] == (one[0], one[2])
            found.append((found.pop()[0], *one[1:]) if goes_on else one)
        return found

    def _enclosed(self, uuid: str, there: Lasting) -> Iterator[tuple[float, float, bool]]:
        since_s = float(self._history.since_s)
        for run, answered in zip(self.runs, self.answered, strict=True):
            shown = [at for at in answered if self._is_shown(uuid, there, at)]
            if not shown:
                continue
            begin_s = max(run.there.begin_s, there.begin_s)
            is_new = begin_s >= since_s or bool(answered and answered[0] < there.begin_s)
            # A bill is read day by day, so each midnight is the begin of a range, too.
            if is_new and shown[-1] > since_s:
                is_sure = begin_s >= shown[0] // DAY_S * DAY_S
                yield max(begin_s, since_s), max(shown[0], since_s), is_sure
            for one_s, other_s in pairwise(shown):
                if other_s > since_s:
                    midnight_s = other_s // DAY_S * DAY_S
                    is_sure = one_s >= max(since_s, midnight_s) - STALE_S
                    yield max(one_s, since_s), other_s, is_sure

    def _is_shown(self, uuid: str, there: Lasting, unix_s: float) -> bool:
        return is_at(there, unix_s) and not any(
            lost == uuid and begin_s + WITHHELD_S <= unix_s < end_s
            for lost, (begin_s, end_s) in self._machine.lost
        )

    def last_read(self, uuid: str, there: Lasting, pod: Lasting) -> Iterator[float]:
        """The last scrape of each run that has a pod's series of a card: they outlive it a while.

        Of a card that is lost no series is shown.
        """
        for run, answered in self._showing(uuid, there):
            end_s = min(pod.end_s + KEPT_S, run.there.end_s)
            at = bisect_left(answered, end_s)
            if at and answered[at - 1] >= pod.begin_s:
                yield answered[at - 1]

    def is_read(self, uuid: str, there: Lasting, pod: Lasting, unix_s: float) -> bool:
        """Whether what a pod had of a card at a time stands in a series of its own."""
        return any(
            is_at(run.there, unix_s)
            and _is_any(answered, unix_s, min(pod.end_s + KEPT_S, run.there.end_s))
            for run, answered in self._showing(uuid, there)
        )

    def _showing(self, uuid: str, there: Lasting) -> list[tuple[Run, list[float]]]:
        """The scrapes of each run that show a card."""
        if (uuid, there) not in self._shown_by:
            self._shown_by[uuid, there] = [
                (run, [at for at in answered if self._is_shown(uuid, there, at)])
                for run, answered in zip(self.runs, self.answered, strict=True)
            ]
        return self._shown_by[uuid, there]

    def is_scraped(self, begin_s: float, end_s: float) -> bool:
        """Whether a run answered in a time; its end is no part of it."""
        return any(_is_any(answered, begin_s, end_s) for answered in self.answered)

    def shown(self, uuid: str, there: Lasting) -> list[tuple[Run, float]]:
        """All scrapes that show a card, by run."""
        return [(run, at) for run, answered in self._showing(uuid, there) for at in answered]

    def without(self, uuid: str, there: Lasting, after_s: float) -> float:
        """When an exporter answered first, after a time, that the card is not there any more."""
        lost = [times for card, times in self._machine.lost if card == uuid]
        return min(
            (
                at
                for answered in self.answered
                for at in answered
                if at > after_s
                and not self._is_shown(uuid, there, at)
                and not any(is_at(times, at) for times in lost)
            ),
            default=inf,
        )


def _is_any(times: Sequence[float], begin_s: float, end_s: float) -> bool:
    at = bisect_left(times, begin_s)
    return at < len(times) and times[at] < end_s


def _around(times: Sequence[float], unix_s: float) -> float:
    """The time between the two scrapes around a time; 0 where it is not between any."""
    at = bisect_right(times, unix_s)
    return times[at] - times[at - 1] if 0 < at < len(times) else 0.0
