"""The aiohttp application: routes, limits and headers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from exporter.agent.api import About
from exporter.agent.collector.viewers import Viewers
from exporter.agent.hostuse import HostUses
from exporter.agent.settings import Settings
from exporter.agent.web import runbooks
from exporter.agent.web.access import Access, Gate, Route
from exporter.agent.web.connection import CLIENTS, HEADERS, ClientLimits, Clients, peer
from exporter.agent.web.health import (
    CollectorState,
    ProbeAnswer,
    Reload,
    alive,
    ready,
    reload_handler,
)
from exporter.agent.web.jsonapi import Api
from exporter.agent.web.landing import landing
from exporter.agent.web.live import LivePage, static_routes
from exporter.agent.web.negotiation import accepts_gzip, choose_format, header
from exporter.agent.web.pages import Pages
from exporter.agent.web.renderedanswers import Answers, Body
from exporter.agent.web.selection import SelectionError, select
from exporter.agent.web.verdicts import Verdicts
from exporter.agent.web.views import Views
from exporter.agent.web.webconfig import WebConfig
from exporter.model import Clock


def make_app(  # noqa: PLR0913 - what it serves, and for whom
    pages: Pages,
    health: CollectorState,
    settings: Settings,
    clock: Clock,
    limits: ClientLimits | None = None,
    *,
    config: WebConfig | None = None,
    about: Callable[[], About] | None = None,
    reload: Reload | None = None,
    viewers: Viewers | None = None,
    verdicts: Verdicts | None = None,
    routes: Callable[[Gate], Sequence[Route]] = lambda _: (),
) -> web.Application:
    """The application. It serves ``pages`` and the state of ``health``, and starts nothing.

    ``about`` returns the node's facts for the JSON documents and the page. ``POST /-/reload`` calls
    ``reload`` in a thread. ``viewers`` note who looks. With ``verdicts`` clients need tokens of
    Kubernetes. ``routes`` returns further routes; its gate has the access rules.
    """
    config = config or WebConfig()
    views = None if verdicts is None else Views(verdicts, lambda: health.snapshot)
    gate = Gate(config, clock, open_page=settings.web_open_page, views=views)
    clients = Clients(limits or ClientLimits(), settings.web_max_requests, config)
    noted = _noting(viewers or Viewers(clock), settings.web_telemetry_path, gate)
    # The order matters. The gate comes first, so that a refused client takes no place. Viewers come
    # last, because a driver is asked more often for each of them.
    app = web.Application(middlewares=[gate.check, clients.check, noted])
    app[CLIENTS] = clients
    app.on_response_prepare.append(_add_headers(config))
    for route in (
        *_checks(health, clock),
        Route(
            "/-/reload",
            reload_handler(reload if settings.web_enable_lifecycle else None),
            Access.RELOAD,
            "POST",
        ),
        Route(settings.web_telemetry_path, _metrics(pages), Access.METRICS),
    ):
        gate.add(app, route)
    if not settings.web_metrics_only:
        about = about or (lambda: About(window_ns=settings.collection_window_ns))
        answers = Answers(lambda: health.snapshot, clock)
        host = HostUses(str(settings.path_procfs), clock)
        live = LivePage(answers, about, settings.web_telemetry_path, host)
        home = _home(gate, live, health, clock, settings.web_telemetry_path)
        for route in (
            *routes(gate),
            # Who may not see the page has the landing page there, unless Kubernetes decides.
            Route("/", home, Access.OPEN if views is None else Access.VIEW),
            *static_routes(),
            *runbooks.routes(gate),
            *Api(answers, about, gate.view).routes(),
        ):
            gate.add(app, route)
    return app


def _noting(viewers: Viewers, metrics: str, gate: Gate) -> Middleware:
    @web.middleware
    async def noted(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Notes who looks, of those that were let in."""
        if request.path == metrics:
            viewers.scrape(peer(request), header(request, "User-Agent"))
        elif gate.access(request) in {Access.PRIVATE, Access.VIEW} or (
            request.path == "/" and gate.trusts(request)
        ):
            viewers.look()
        return await handler(request)

    return noted


def _home(
    gate: Gate, live: LivePage, health: CollectorState, clock: Clock, metrics: str
) -> Handler:
    async def home(request: web.Request) -> web.StreamResponse:
        view = gate.view(request)
        if gate.trusts(request) or not view.sees_all:
            return await live.show(request, view)
        snapshot = health.snapshot
        age_ns = clock.monotonic_ns() - snapshot.mono_ns
        return web.Response(text=landing(snapshot, age_ns, metrics), content_type="text/html")

    return home


def _checks(health: CollectorState, clock: Clock) -> Iterator[Route]:
    async def healthy(_: web.Request) -> web.Response:
        return _answer(alive(health, clock))

    async def is_ready(_: web.Request) -> web.Response:
        return _answer(ready(health))

    yield Route("/-/healthy", healthy, Access.HEALTH)
    yield Route("/-/ready", is_ready, Access.HEALTH)


def _metrics(pages: Pages) -> Handler:
    async def metrics(request: web.Request) -> web.Response:
        try:
            families = select(request.query) if request.query_string else None
        except SelectionError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        form, content_type = choose_format(header(request, "Accept"))
        zipped = accepts_gzip(header(request, "Accept-Encoding"))
        body = pages.cached(form, families, zipped=zipped)
        if body is None:  # rendered in a thread, so that the probes are answered meanwhile
            body = await asyncio.to_thread(pages.page, form, families, zipped=zipped)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=Body(body), headers=headers)

    return metrics


def _add_headers(config: WebConfig) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    async def add_headers(_: web.Request, response: web.StreamResponse) -> None:
        """Adds the default headers that are missing, and sets the configured ones."""
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers["Server"] = HEADERS["Server"]  # aiohttp has named itself already
        response.headers.update(config.active.file.headers)

    return add_headers


def _answer(verdict: ProbeAnswer) -> web.Response:
    return web.Response(text=f"{verdict.words}\n", status=200 if verdict.good else 503)
