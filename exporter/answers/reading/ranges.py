"""Ranges of time: as people write them, and in steps."""

import re
from argparse import Namespace, _ArgumentGroup
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from exporter.answers.reading.queryapi import Grid
from exporter.shown.words import ago

_AGO = re.compile(r"^(\d{1,6})(s|m|h|d|w)$")
DAY_S = 86_400
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def add_range(group: _ArgumentGroup, since: str | None, usual: str = "") -> None:
    """Add the flags of a range; ``usual`` says the beginning if that is not always ``since``."""
    usual = usual or f"{since}, ago"
    about = f"begin: 5m, 7d, 2w (ago), 2026-11-01 or 2026-11-01T12:00:00Z [default {usual}]"
    group.add_argument("--since", default=since, metavar="TIME", help=about)
    group.add_argument("--until", default="now", metavar="TIME", help="end [default now]")


def range_of(arguments: Namespace, now_s: int, least_s: int) -> tuple[int, int]:
    """Where the range of the flags begins and ends; no later than now, of which all is known.

    Raises:
        ValueError: a time is none, or the range is shorter than ``least_s``.

    """
    since_s, until_s = (moment(text, now_s) for text in (arguments.since, arguments.until))
    until_s = min(until_s, now_s)
    if until_s - since_s < least_s:
        least = ago(least_s).removesuffix(" ago")
        raise ValueError(f"--since has to be at least {least} before --until")
    return since_s, until_s


def moment(text: str, now_s: int) -> int:
    """A time in Unix seconds: ``now``, ``7d`` (ago), a date, or a date with a time, in UTC.

    Raises:
        ValueError: it is none of these, or before 1970.

    """
    unix_s = -1
    if text == "now":
        unix_s = now_s
    elif ago := _AGO.match(text):
        unix_s = now_s - int(ago[1]) * _SECONDS[ago[2]]
    else:
        with suppress(ValueError, OverflowError):
            found = datetime.fromisoformat(text)
            unix_s = int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    if unix_s < 0:
        raise ValueError(
            f"{text[:40]!r} is no time: give now, 7d (7 days ago), 2026-11-01 or "
            "2026-11-01T12:00:00Z"
        )
    return unix_s


def written(unix_s: int) -> str:
    """A time in UTC, to the second."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def days_of(since_s: int, until_s: int) -> list[tuple[int, int]]:
    """A range, divided at each midnight (UTC): where each part begins and ends, in Unix seconds."""
    cuts = range((since_s // DAY_S + 1) * DAY_S, until_s, DAY_S)
    return list(pairwise([since_s, *cuts, until_s]))


class Span(NamedTuple):
    """A range in Unix seconds, divided at the multiples of ``step_s``.

    VictoriaMetrics and Thanos move the times of a range query to these multiples.
    """

    since_s: int
    until_s: int
    step_s: int

    @property
    def grid(self) -> Grid:
        """The end of each step; the last may be after the range."""
        first = self.since_s // self.step_s + 1
        return Grid(first * self.step_s, -(-self.until_s // self.step_s) * self.step_s, self.step_s)

    @property
    def ends(self) -> list[int]:
        """The end of each step. The first and the last step may be shorter than the others."""
        return [*self.grid.times[:-1], self.until_s]

    def begin(self, step: int) -> int:
        """When a step begins."""
        return self.ends[step - 1] if step else self.since_s

    def step_of(self, at_s: float) -> int:
        """The step that a time is in."""
        return max(0, ceil(at_s / self.step_s) - self.since_s // self.step_s - 1)

    def divided(self, begin_s: float, end_s: float) -> Iterator[tuple[int, float]]:
        """The steps that a time in the range lies in, and the part of it that each has."""
        last = self.step_of(end_s)
        first = min(self.step_of(begin_s), last)
        if first + 1 >= last:  # what was scraped in one step grew in it, but for a scrape
            yield last, 1.0
            return
        before = self.since_s // self.step_s + 1  # steps that end by the first one's end
        for step in range(first, last + 1):
            since_s = max(begin_s, (before + step - 1) * self.step_s)
            until_s = min(end_s, (before + step) * self.step_s)
            yield step, max(0.0, until_s - since_s) / (end_s - begin_s)
