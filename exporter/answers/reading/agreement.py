"""Whether two targets show one exporter: their counters agree, series by series. Pure.

When a process started and which cards it has is what its page says, so whoever writes a page can
say the same. What two targets of one exporter read differs only by when they read it: each value
of the one lies between what the other read before it and after it, however high counters are.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from math import inf

from exporter.answers.reading.lives import Target

Key = tuple[str, ...]
"""A counter's family and its own labels."""

Times = Sequence[float]
Samples = tuple[Sequence[float], Sequence[float]]
"""When a counter was read, and its values."""

_CLOCKS_S = 60  # by which the clocks of two servers differ
_TIE_S = 1
_NONE: Samples = ((), ())


def disagreeing(
    counters: Mapping[Key, Mapping[Target, Samples]], pages: Mapping[Target, Times], old_s: float
) -> tuple[Target, Target, Key] | None:
    """Two targets of one life that do not agree, and in which counter; None if all agree.

    ``old_s``: how old a sample may be at its time, if the one before it is as long ago.
    """
    families = {
        target: {key[0] for key, by_target in counters.items() if target in by_target}
        for target in pages
    }
    lag_s = old_s + _CLOCKS_S
    for one, other in combinations(sorted(pages, key=sorted), 2):
        both_s = max(pages[one][0], pages[other][0]), min(pages[one][-1], pages[other][-1])
        if both_s[1] < both_s[0]:
            continue
        # Sorted, so that the order of an answer does not choose which counter is named.
        for key in sorted(counters):
            by_target = counters[key]
            # A target may be scraped without a family; with it, it has all series of it.
            if key[0] not in families[one] or key[0] not in families[other]:
                continue
            mine, theirs = by_target.get(one, _NONE), by_target.get(other, _NONE)
            if (
                not _lies_between(mine, theirs, both_s, old_s)
                or not _lies_between(theirs, mine, both_s, old_s)
                or _lacks(mine, theirs[0], pages[other], lag_s)
                or _lacks(theirs, mine[0], pages[one], lag_s)
            ):
                return one, other, key
    return None


def _lies_between(
    mine: Samples, theirs: Samples, both_s: tuple[float, float], old_s: float
) -> bool:
    """Whether each of my values may be one that the other could have read, too."""
    times, values = theirs
    if not times or not mine[0]:
        return True
    read_s, their_read_s = _read_from(mine[0], old_s), _read_from(times, old_s)
    for at_s, from_s, value in zip(mine[0], read_s, mine[1], strict=True):
        if not both_s[0] <= at_s <= both_s[1]:
            continue
        before = bisect_right(times, from_s - _CLOCKS_S) - 1
        after = bisect_left(their_read_s, at_s + _CLOCKS_S)
        window = values[max(0, before) : after + 1]
        if any(later < earlier for earlier, later in pairwise(window)):
            continue  # the account began again: by then it may have been any of both
        is_known = after < len(times)
        is_less = before >= 0 and value < values[before] - _CLOCKS_S
        # It may have begun again between two samples of the other's, and have passed the height
        # of before by the second of them.
        if is_less and (not is_known or values[after] > times[after] - times[before] + _CLOCKS_S):
            return False
        if is_known and value > values[after] + _CLOCKS_S:
            return False
    return True


def _read_from(times: Times, old_s: float) -> Sequence[float]:
    """Since when each sample was read: after the one before it, which is close to it or not."""
    return [max(at - old_s, before) for before, at in pairwise([-inf, *times])]


def _lacks(mine: Samples, theirs: Times, pages: Times, lag_s: float) -> bool:
    """Whether the other was read in the middle of a time in which I have this counter, without it.

    A counter that begins and ends between two of the other's scrapes is in none of them.
    """
    times, values = mine
    for page_s in pages:
        before, after = bisect_right(times, page_s - lag_s) - 1, bisect_left(times, page_s + lag_s)
        if before < 0 or after >= len(times) or _has(theirs, page_s):
            continue
        around = times[before : after + 1]
        # I have it all the time, and it did not begin again.
        is_there = all(b - a <= lag_s for a, b in pairwise(around))
        if is_there and values[after] >= values[before]:
            return True
    return False


def _has(times: Times, at_s: float) -> bool:
    at = bisect_left(times, at_s - _TIE_S)
    return at < len(times) and times[at] <= at_s + _TIE_S
