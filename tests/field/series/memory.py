"""Scrapes in a store of this process, which answers as a Prometheus does, without a server."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.field.histories import Served
from tests.histories.store import MemoryStore, answering
from tests.history import Scrape
from tests.store import Target, parsed

BEGIN_S = 1_780_005_600  # on the full hour
NAME = "range"


class Noted(MemoryStore):
    """A store whose answers have ``note`` in them, as a server's remark."""

    note: Mapping[str, Any] = {}

    def json(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The answer of the query API, with the remark."""
        return {**super().json(path, query), **self.note}


@contextmanager
def served(scrapes: Iterable[Scrape], note: Mapping[str, Any] | None = None) -> Iterator[Served]:
    """Who asks is answered of these scrapes; the range of ``NAME`` begins at ``BEGIN_S``."""
    store = Noted()
    store.note = note or {}
    for labels, at_s, page in sorted(scrapes, key=lambda one: one.at_s):
        target = Target(labels, honors="exported_node" not in page)
        values = {
            target.label({"__name__": name, **dict(own)}): value
            for name, own, value in parsed(page)
        }
        store.show(
            tuple(sorted(labels.items())), values | {target.label({"__name__": "up"}): 1.0}, at_s
        )
    with answering(store) as url:
        yield Served(url.partition("//")[2], {NAME: BEGIN_S})
