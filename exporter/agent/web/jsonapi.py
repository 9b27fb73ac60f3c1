"""``/api/v1/``: the JSON documents of the newest Snapshot, and their schema."""

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial

from aiohttp import web

from exporter.agent import api
from exporter.agent.api import About, Document
from exporter.agent.web.access import Access, Route
from exporter.agent.web.renderedanswers import Answers
from exporter.agent.web.views import EVERYTHING, NamespaceView
from exporter.model import Snapshot

JSON = "application/json"
PREFIX = "/api/v1"
_NO_POD = "no such pod uses or is allocated a GPU of this node"

MAX_MINUTES = 60
_LONGEST_NUMBER = 10
_OF_NODE = {"snapshot": api.snapshot, "devices": api.devices}


class Api:
    """The handlers of the documents that ``exporter.agent.api`` makes."""

    def __init__(
        self,
        answers: Answers,
        about: Callable[[], About],
        view: Callable[[web.Request], NamespaceView] = lambda _: EVERYTHING,
    ) -> None:
        self._answers = answers
        self._about = about
        self._view = view
        self._schema = _encoded(api.schema())

    def routes(self) -> Sequence[Route]:
        """The routes. Documents are for those who may see what they name: pods."""
        pods = f"{PREFIX}/pods/{{namespace:[^/]+}}/{{pod:[^/]+}}"
        return (
            *(
                Route(f"{PREFIX}/{name}", partial(self._answer, (name,), make), Access.VIEW)
                for name, make in _OF_NODE.items()
            ),
            Route(f"{PREFIX}/history", self._history, Access.VIEW),
            Route(pods, self._pod, Access.VIEW),
            Route(f"{PREFIX}/schema", self._serve_schema, Access.OPEN),
            Route(f"{PREFIX}/{{unknown:.*}}", self._unknown, Access.OPEN),
        )

    async def _history(self, request: web.Request) -> web.StreamResponse:
        asked = request.query.get("minutes", str(api.HISTORY_MINUTES))
        # int() takes digits of other scripts too, and a long number takes it long.
        is_number = asked.isascii() and asked.isdecimal() and len(asked) < _LONGEST_NUMBER
        minutes = int(asked) if is_number else 0
        if not 0 < minutes <= MAX_MINUTES:
            return _error(400, f"minutes is a number from 1 to {MAX_MINUTES}")
        make = partial(api.history, minutes=minutes)
        return await self._answer(("history", f"{minutes}"), make, request)

    async def _pod(self, request: web.Request) -> web.StreamResponse:
        name = (request.match_info["namespace"], request.match_info["pod"])
        return await self._answer(("pod", *name), partial(api.pod, name=name), request)

    async def _answer(
        self,
        name: tuple[str, ...],
        make: Callable[[Snapshot, About, int, Collection[str] | None], Document | None],
        request: web.Request,
    ) -> web.StreamResponse:
        """The document of this name, of which a client sees no more than its view.

        A pod that it may not see is not there, so that nothing can be guessed.
        """
        view = self._view(request)

        def render(snapshot: Snapshot, age_ns: int) -> bytes | None:
            document = make(snapshot, self._about(), age_ns, view.namespaces)
            return None if document is None else _encoded(document)

        # The view is in the key: clients with other rights never share an answer.
        answer = await self._answers.respond(request, (*name, view), render, JSON, view)
        return answer or _error(404, _NO_POD)

    async def _serve_schema(self, _: web.Request) -> web.StreamResponse:
        return web.Response(body=self._schema, content_type="application/schema+json")

    async def _unknown(self, _: web.Request) -> web.StreamResponse:
        paths = ", ".join([*_OF_NODE, "history", "pods/{namespace}/{pod}", "schema"])
        return _error(404, f"no such path; there are {paths} below {PREFIX}")


def _error(status: int, words: str) -> web.Response:
    return web.Response(status=status, body=_encoded(api.error(words)), content_type=JSON)


def _encoded(document: Document) -> bytes:
    """The document in ASCII, because UTF-8 cannot encode lone surrogates, which names may have."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
