"""What is refused before a route is looked for, in words that repeat nothing of the request."""

from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web
from aiohttp.http import HttpVersion10

from exporter.web.connection import HEADERS, Connection

_MAX_PATH = 2048  # bytes; the time to look for a route grows with the square of it

Serve = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def admitting(serve: Serve) -> Serve:
    """Serve what is well-formed, and note in its connection that it has arrived."""

    async def admit(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.begin()
        refusal = _refusal(request)
        if refusal is None:
            return await serve(request)
        refusal.headers.update(HEADERS)
        refusal.force_close()
        return refusal

    return admit


def _refusal(request: web.BaseRequest) -> web.Response | None:
    if request.version < HttpVersion10:
        return _said(505, "HTTP/1.0 or HTTP/1.1 is needed")
    if len(request.rel_url.raw_path) > _MAX_PATH:
        return _said(414, f"a path may have {_MAX_PATH} bytes")
    if request.body_exists:
        return _said(413, "no request may have a body")
    if request.headers.get(hdrs.EXPECT, "100-continue").lower() != "100-continue":
        return _said(417, "only 100-continue may be expected")
    return None


def _said(status: int, words: str) -> web.Response:
    return web.Response(status=status, text=f"{words}\n")
