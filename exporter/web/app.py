"""The aiohttp application: routes, bounds and headers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from exporter.model import Clock
from exporter.settings import Settings
from exporter.web.connection import HEADERS, at_work
from exporter.web.health import Health, Verdict, alive, ready
from exporter.web.landing import landing
from exporter.web.negotiation import accepts_gzip, choose_format
from exporter.web.pages import Pages


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds for clients.

    ``request_s`` is for a request to arrive whole, ``idle_s`` for the time between two on one
    connection: Prometheus opens a new one where its scrape interval is longer.
    """

    request_s: float = 5.0
    idle_s: float = 30.0
    write_s: float = 30.0
    connections: int = 256


def make_app(
    pages: Pages, health: Health, settings: Settings, clock: Clock, limits: Limits | None = None
) -> web.Application:
    """Make the application. It serves what ``pages`` and ``health`` have and starts nothing."""
    limits = limits or Limits()
    bounded = _bounded(settings.web_max_requests, limits.write_s)
    app = web.Application(middlewares=[at_work, bounded])
    app.on_response_prepare.append(_add_headers)

    async def home(_: web.Request) -> web.Response:
        snapshot = health.snapshot
        age_ns = clock.monotonic_ns() - snapshot.mono_ns
        text = landing(snapshot, age_ns, settings.web_telemetry_path)
        return web.Response(text=text, content_type="text/html")

    async def healthy(_: web.Request) -> web.Response:
        return _answer(alive(health, settings.collection_interval_ns, clock))

    async def is_ready(_: web.Request) -> web.Response:
        return _answer(ready(health))

    app.router.add_get("/", home)
    app.router.add_get("/-/healthy", healthy)
    app.router.add_get("/-/ready", is_ready)
    app.router.add_get(settings.web_telemetry_path, _metrics(pages))
    return app


def _metrics(pages: Pages) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def metrics(request: web.Request) -> web.Response:
        form, content_type = choose_format(_header(request, "Accept"))
        zipped = accepts_gzip(_header(request, "Accept-Encoding"))
        body = pages.made(form, zipped=zipped)
        if body is None:  # made in a thread, so that the probes are answered meanwhile
            body = await asyncio.to_thread(pages.page, form, zipped=zipped)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, headers=headers)

    return metrics


def _bounded(most: int, write_s: float) -> Middleware:
    """Bound the requests at work, each from its handler to the last byte that its client takes.

    The health checks stay outside: a crowd of scrapers must not look like a dead exporter.
    """
    at_work = 0

    @web.middleware
    async def bound(request: web.Request, handler: Handler) -> web.StreamResponse:
        nonlocal at_work
        if request.path.startswith("/-/"):
            return await handler(request)
        if at_work >= most:
            raise web.HTTPServiceUnavailable(
                text=f"{most} requests are being served already; see --web.max-requests\n",
                headers={"Retry-After": "1"},
            )
        at_work += 1
        try:
            response = await handler(request)
            await _send(request, response, write_s)
            return response
        finally:
            at_work -= 1

    return bound


async def _send(request: web.Request, response: web.StreamResponse, write_s: float) -> None:
    """Write the response here and not in aiohttp, which waits for a slow reader for ever."""
    transport = request.transport
    try:
        async with asyncio.timeout(write_s):
            await response.prepare(request)
            await response.write_eof()
    except (TimeoutError, ConnectionError):
        if transport is not None:
            transport.abort()


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)


def _header(request: web.Request, name: str) -> str:
    return ",".join(request.headers.getall(name, ()))


def _answer(verdict: Verdict) -> web.Response:
    return web.Response(text=f"{verdict.words}\n", status=200 if verdict.good else 503)
