"""Rows of processes that were read between two reads of the ring, and joined with it. Pure.

A driver may forget a process when it ends, as an H200's does. Its ring keeps the samples, and says
of none whose it was. So rows alone are read while a process is young (``processpresence`` says
when), which costs a fifth of all.
Each such row is the average since the last read of the ring: the newest one of a process has all
that it used since then, up to that moment.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.agent.sources.gpus.samples import ProcessRow


class KeptRow(NamedTuple):
    """A row, and the moment up to which it is an average. Times are of the ring's clock.

    ``absent_us`` is when its process was not there yet, if that is known.
    """

    row: ProcessRow
    until_us: int
    absent_us: int | None = None


class KeptRows:
    """The first and the newest row of each process since the last read of the ring."""

    def __init__(self) -> None:
        self._since_us = 0
        self._first: dict[int, KeptRow] = {}
        self._newest: dict[int, KeptRow] = {}

    def keep(
        self,
        since_us: int,
        rows: Iterable[ProcessRow],
        until_us: int,
        absent_us: Mapping[int, int],
    ) -> None:
        """Takes rows that are averages from ``since_us`` to ``until_us``."""
        if since_us != self._since_us:
            self._since_us, self._first, self._newest = since_us, {}, {}
        for row in rows:
            kept = KeptRow(row, until_us, absent_us.get(row[0]))
            self._first.setdefault(row[0], kept)
            self._newest[row[0]] = kept

    def first(self, since_us: int) -> Mapping[int, KeptRow]:
        """The first row of each process since this read of the ring, by pid."""
        return self._first if since_us == self._since_us else {}

    def forgotten(self, since_us: int, pids: Collection[int]) -> Sequence[KeptRow]:
        """The newest rows of all other processes than these, which the driver still has."""
        if since_us != self._since_us:
            return ()
        return [kept for pid, kept in self._newest.items() if pid not in pids]
