"""``/api/v1/cardinality``: where the series come from. Counted once for each Snapshot."""

import asyncio
import json
from collections.abc import Callable, Sequence

from aiohttp import web

from exporter.cardinality import SCHEMA, cardinality
from exporter.families import Family
from exporter.model import Snapshot
from exporter.web.access import Access, Route

PATH = "/api/v1/cardinality"


class Cardinality:
    """The handlers; ``families`` are those that are served now."""

    def __init__(
        self, newest: Callable[[], Snapshot], families: Callable[[], Sequence[Family]]
    ) -> None:
        self._newest = newest
        self._families = families
        self._made: tuple[object, bytes] = (None, b"")
        self._one_at_a_time = asyncio.Lock()

    def routes(self) -> tuple[Route, ...]:
        """What is served, and to whom: values of labels are not told, but how many there are."""
        return (Route(PATH, self._document), Route(f"{PATH}/schema", self._schema, Access.OPEN))

    async def _document(self, _: web.Request) -> web.StreamResponse:
        async with self._one_at_a_time:
            snapshot, families = self._newest(), self._families()
            stamp = (snapshot.version, families)
            if self._made[0] != stamp:
                self._made = stamp, await asyncio.to_thread(_written, snapshot, families)
        return web.Response(body=self._made[1], content_type="application/json")

    async def _schema(self, _: web.Request) -> web.StreamResponse:
        return web.json_response(SCHEMA, content_type="application/schema+json")


def _written(snapshot: Snapshot, families: Sequence[Family]) -> bytes:
    return json.dumps(cardinality(snapshot, families)).encode()
