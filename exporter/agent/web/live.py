"""The live page at ``/`` and its files below ``/static/``."""

import gzip
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib.resources import files

from aiohttp import hdrs, web

from exporter.agent.api import About
from exporter.agent.hostuse import HostUses
from exporter.agent.web.access import Access, Route
from exporter.agent.web.negotiation import accepts_gzip, header
from exporter.agent.web.page import CONTENT_SECURITY_POLICY, choice_of, node_of, page
from exporter.agent.web.renderedanswers import Answers, respond_with
from exporter.agent.web.views import EVERYTHING, NamespaceView
from exporter.model import Snapshot
from exporter.shown.marks import Earlier

HTML = "text/html; charset=utf-8"
_COMPARED_NS = 10 * 10**9
STATIC = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class LivePage:
    """The page of the newest Snapshot, for each choice and view."""

    def __init__(
        self, answers: Answers, about: Callable[[], About], metrics_path: str, host: HostUses
    ) -> None:
        self._answers = answers
        self._about = about
        self._metrics_path = metrics_path
        self._host = host
        self._earlier: Mapping[str, Earlier] = {}
        self._newer: Mapping[str, Earlier] = {}

    async def show(
        self, request: web.Request, view: NamespaceView = EVERYTHING
    ) -> web.StreamResponse:
        """The page for the request's choice and its view."""
        choice = choice_of(dict(request.query.items()))  # of two values, the button's is the last

        def render(snapshot: Snapshot, age_ns: int) -> bytes:
            # The devices of one page in ten seconds are kept, to compare the next ones with them:
            # what was throttled shows only in between.
            newer = next(iter(self._newer.values()), None)
            if newer is None or snapshot.unix_ns - newer.unix_ns >= _COMPARED_NS:
                self._earlier = self._newer
                devices = snapshot.facts.devices
                self._newer = {each.uuid: Earlier(each, snapshot.unix_ns) for each in devices}
            node = node_of(snapshot, self._about(), age_ns, view.namespaces)
            age_s = (max(age_ns, 0) + snapshot.figures_age_ns) / 1e9
            # the processes of a simulated node are none of this machine
            read = (lambda _: {}) if snapshot.simulated else self._host.of
            return page(node, choice, age_s, self._metrics_path, self._earlier, read).encode()

        response = await self._answers.respond(request, ("page", choice, view), render, HTML, view)
        if response is None:
            raise web.HTTPNotFound
        response.headers[hdrs.CONTENT_SECURITY_POLICY] = CONTENT_SECURITY_POLICY
        return response


def static_routes() -> Sequence[Route]:
    """The routes of the page's own files, which are in the package."""
    folder = files("exporter.agent.web") / "static"
    return [
        Route(f"/static/{name}", partial(_serve, _StaticFile(file.read_bytes(), kind)), Access.VIEW)
        for name, kind in STATIC.items()
        for file in [folder / name]
    ]


class _StaticFile:
    """A file, plain and zipped, with its entity tag."""

    def __init__(self, body: bytes, content_type: str) -> None:
        self.body = body
        self.zipped = gzip.compress(body, mtime=0)
        self.content_type = content_type
        self.tag = sha256(body).hexdigest()[:32]


async def _serve(file: _StaticFile, request: web.Request) -> web.StreamResponse:
    zipped = accepts_gzip(header(request, hdrs.ACCEPT_ENCODING))
    tag = f"{file.tag}-gzip" if zipped else file.tag
    headers: dict[str, str] = {
        hdrs.CACHE_CONTROL: "no-cache",
        hdrs.CONTENT_TYPE: file.content_type,
        hdrs.ETAG: f'"{tag}"',
        hdrs.VARY: hdrs.ACCEPT_ENCODING,
    }
    body = file.zipped if zipped else file.body
    return respond_with(request, body, tag, headers, zipped=zipped)
