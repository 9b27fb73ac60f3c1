"""Histories of exporters in one real Prometheus, each in a span of time of its own.

A module of reports has one ``Histories``, to which each report adds a function of the time at which
its range begins. They are back-filled together, so that a report costs a query and not a server.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.answers.reading.ranges import written
from exporter.cli import main
from tests.history import Scrape, backfilled

HOUR, DAY = 3600, 86_400
FIRST_S = 1_400_004_000  # on the full hour, and long enough ago for many spans
APART_S = 100 * DAY  # a range may have a month before it and one after it

History = Callable[[int], Iterable[Scrape]]


class Said(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str


class Served(NamedTuple):
    """The server of all of them."""

    address: str
    begins: dict[str, int]

    def command(
        self,
        capsys: pytest.CaptureFixture[str],
        name: str,
        *arguments: str,
        hours: float = 4,
    ) -> Said:
        """Run a command such as ``bill --price=1`` over the range of the history of this name."""
        begin_s = self.begins[name]
        times = [f"--since={written(begin_s)}", f"--until={written(begin_s + int(hours * HOUR))}"]
        first, *rest = arguments
        status = main([first, f"--prometheus=http://{self.address}", *times, *rest])
        said = capsys.readouterr()
        return Said(status, said.out, said.err)


class Histories:
    """``@HISTORIES.add`` above a function of the second at which its range begins."""

    def __init__(self) -> None:
        self._made: dict[str, History] = {}

    def add(self, history: History) -> History:
        """Add it under its function's name."""
        name = history.__name__
        assert name not in self._made, name
        self._made[name] = history
        return history

    @contextmanager
    def served(self, folder: Path, program: str = "prometheus") -> Iterator[Served]:
        """Back-fill all and start the server."""
        begins = {name: FIRST_S + n * APART_S for n, name in enumerate(self._made)}
        scrapes: Sequence[Scrape] = [
            one for name, make in self._made.items() for one in make(begins[name])
        ]
        with backfilled(folder, program, scrapes) as address:
            yield Served(address, begins)
