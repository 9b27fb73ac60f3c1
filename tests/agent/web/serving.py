"""A real server on a real socket, in a thread, over a collector that stands still."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path

from exporter.agent.collector import Pulse
from exporter.agent.settings import Settings, load
from exporter.agent.web import (
    ClientLimits,
    Gate,
    HttpServer,
    Pages,
    Reload,
    Route,
    Verdicts,
    WebConfig,
    listen,
    make_app,
)
from exporter.inputs.values import Address
from exporter.metrics.text import Renderer
from exporter.model import Snapshot
from tests.agent.simulation.clock import START, ManualClock

PATIENCE_S = 60
LOOPBACK = Address("127.0.0.1", 0)


@dataclass
class FakeCollector:
    """What a collector shows to readers."""

    snapshot: Snapshot = field(default_factory=lambda: Snapshot(version=1, mono_ns=START))
    pulse: Pulse = field(default_factory=lambda: Pulse(START, 1))


@dataclass
class Answer:
    """A response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """A running server and the means to change what it serves."""

    port: int
    collector: FakeCollector
    clock: ManualClock
    pages: Pages
    config: WebConfig
    server: HttpServer
    loop: asyncio.AbstractEventLoop
    host: str = "127.0.0.1"

    def connect(self, tls: ssl.SSLContext | None = None, source: str = "") -> HTTPConnection:
        """A client that keeps its connection; close it. ``source`` is its address."""
        own = (source, 0) if source else None
        if tls is not None:
            return HTTPSConnection(
                self.host, self.port, timeout=PATIENCE_S, context=tls, source_address=own
            )
        return HTTPConnection(self.host, self.port, PATIENCE_S, own)

    def reconfigure(self) -> None:
        """Let what its configuration's files say now be in force: two looks find them equal."""
        self.config.look()
        self.config.look()

    def show(self, snapshot: Snapshot) -> None:
        """Let another snapshot be the newest, and fresh."""
        self.collector.snapshot = replace(snapshot, mono_ns=self.clock.monotonic_ns())

    def raw(self, source: str = "", buffer: int = 0) -> socket.socket:
        """A connection to send anything on. ``buffer``: of what is received, in bytes."""
        client = socket.socket()
        if buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        client.settimeout(PATIENCE_S)
        client.bind((source, 0))
        client.connect(("127.0.0.1", self.port))
        return client

    def ask(
        self,
        path: str,
        method: str = "GET",
        tls: ssl.SSLContext | None = None,
        source: str = "",
        **headers: str,
    ) -> Answer:
        """One request on a connection of its own; ``Accept_Encoding`` stands for the header."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with closing(self.connect(tls, source)) as connection:
            connection.request(method, path, headers=named)
            return answer(connection.getresponse())


def answer(response: HTTPResponse) -> Answer:
    return Answer(response.status, dict(response.getheaders()), response.read())


def settings(**changes: object) -> Settings:
    return replace(load({}, {}), **changes)  # type: ignore[arg-type]


@contextmanager
def serving(  # noqa: PLR0913 - a site and what it serves
    snapshot: Snapshot | None = None,
    *,
    limits: ClientLimits | None = None,
    renderer: Renderer | None = None,
    config: Path | None = None,
    address: Address = LOOPBACK,
    reload: Reload | None = None,
    verdicts: Verdicts | None = None,
    routes: Callable[[Gate], Sequence[Route]] = lambda _: (),
    **changes: object,
) -> Iterator[Site]:
    """Serve; the snapshot, if given, is stamped as fresh. ``config`` is a web configuration."""
    collector, clock = FakeCollector(), ManualClock()
    if snapshot is not None:
        collector.snapshot = replace(snapshot, mono_ns=clock.monotonic_ns())
    pages = Pages(lambda: collector.snapshot, clock, renderer)
    web_config = WebConfig(str(config or ""), tokens=verdicts is not None)
    app = make_app(
        *(pages, collector, settings(**changes), clock, limits),
        config=web_config,
        reload=reload,
        verdicts=verdicts,
        routes=routes,
    )
    [sock] = listen([address])
    host, port = ("", 0) if address.path else sock.getsockname()[:2]
    started, ended = threading.Event(), asyncio.Event()

    server = HttpServer(app)

    async def run() -> None:
        await server.start([sock])
        loops.append(asyncio.get_running_loop())
        started.set()
        await ended.wait()
        await server.stop()

    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    try:
        assert started.wait(PATIENCE_S)
        local = "127.0.0.1" if host in {"::", "0.0.0.0"} else host  # noqa: S104 - compared
        yield Site(port, collector, clock, pages, web_config, server, loops[0], local)
    finally:
        loops[0].call_soon_threadsafe(ended.set)
        thread.join()
