"""Who may ask for what: the one place where a request is let in or turned away.

A handler declares its ``Access`` where it is routed. One that declares none is PRIVATE.

Whether a web page of another site asks, through a browser on this machine.

A browser sends such a page's requests to a listener on loopback, which trusts everybody. They have
an ``Origin`` of another site, or the page's own name in ``Host`` where its owner has let that name
stand for 127.0.0.1 (DNS rebinding). Pure, but for the machine's name.

A token bucket, as exporter-toolkit's ``rate_limit``. Pure; the clock is a parameter.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from exporter.model import Clock
from exporter.web.connection import ClientConnection, peer
from exporter.web.passwords import Busy, Passwords, credentials
from exporter.web.peers import UNIX
from exporter.web.webconfig import WebConfig
from exporter.web.webfile import RateLimit, WebFile


def is_this_machine(host: str) -> bool:
    """Whether a ``Host`` header has localhost, a loopback address or this machine's name.

    One without the header is no browser's.
    """
    name = _without_port(host).lower().removesuffix(".")
    own = socket.gethostname().lower()
    if name in {"", "localhost", own, own.partition(".")[0]}:
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_foreign(origin: str, host: str) -> bool:
    """Whether an ``Origin`` header is of another site than the one asked; "" is of none."""
    return bool(origin) and origin.partition("://")[2].lower() != host.lower()


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


class TokenBucket:
    """Holds at most ``rate.burst`` tokens and gains one each ``rate.interval_ns``."""

    def __init__(self, rate: RateLimit, clock: Clock) -> None:
        self.rate = rate
        self._clock = clock
        self._full_ns = clock.monotonic_ns()  # when the bucket is, or was, full

    def take(self) -> bool:
        """Take a token if there is one."""
        now_ns = self._clock.monotonic_ns()
        full_ns = max(self._full_ns, now_ns) + self.rate.interval_ns
        if full_ns - now_ns > self.rate.burst * self.rate.interval_ns:
            return False
        self._full_ns = full_ns
        return True


_NO_CREDENTIALS = (
    "This needs authentication, and none is set up here: see basic_auth_users and client_auth_type "
    "in --web.config.file. --web.open-page serves it to everybody.\n"
)
_OTHER_SITE = (
    "This was asked for by the name of another machine, or by a web page of another site: ask for "
    "localhost, or for this machine by its name.\n"
)


class Access(Enum):
    """What a handler serves: to whom."""

    HEALTH = "probes, which have no credentials and no rate"
    OPEN = "whoever reaches the listener; with credentials, once there are users"
    PRIVATE = "who is authenticated, or on this machine; everybody with --web.open-page"


@dataclass(frozen=True, slots=True)
class Route:
    """A path, and who may have it, by whichever method. ``method``: GET (and HEAD) or POST."""

    path: str
    handler: Handler
    access: Access = Access.PRIVATE
    method: str = "GET"


@dataclass
class Gate:
    """Lets requests in. Its ``check`` is the application's middleware."""

    config: WebConfig
    clock: Clock
    open_page: bool = False
    passwords: Passwords = field(default_factory=Passwords)
    _accesses: dict[str, Access] = field(default_factory=dict)
    _bucket: TokenBucket | None = None

    def add(self, app: web.Application, route: Route) -> None:
        """Route a handler, with its access."""
        add = app.router.add_post if route.method == "POST" else app.router.add_get
        resource = add(route.path, route.handler).resource
        if resource is not None:
            self._accesses[resource.canonical] = route.access

    def access(self, request: web.Request) -> Access:
        """What a request asks for; what is not there is OPEN."""
        resource = request.match_info.route.resource
        if resource is None:
            return Access.OPEN
        return self._accesses.get(resource.canonical, Access.PRIVATE)

    def trusts(self, request: web.Request) -> bool:
        """Whether a request that was let in may have what is PRIVATE."""
        known = self._is_known(request) or _is_local(request)
        return known and not self._is_of_other_site(request)

    def _is_known(self, request: web.Request) -> bool:
        """Whether it may have that wherever it comes from."""
        connection = request.protocol
        certified = isinstance(connection, ClientConnection) and connection.certified
        return self.open_page or bool(self.config.in_force.file.users) or certified

    def _is_of_other_site(self, request: web.Request) -> bool:
        """Whether a browser sends it for a page that this server has not served.

        Only a listener on loopback trusts a browser for where it runs; what is asked for by POST
        needs no trust. The name of another machine is no harm where that trust is not needed: a
        proxy may pass it on.
        """
        host, origin = (request.headers.get(name, "") for name in (hdrs.HOST, hdrs.ORIGIN))
        loopback = _is_local(request) and peer(request) != UNIX
        if loopback and not is_this_machine(host) and (origin or not self._is_known(request)):
            return True
        return (loopback or request.method == hdrs.METH_POST) and is_foreign(origin, host)

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn away what may not come in; the rate is held first, as in exporter-toolkit."""
        access = self.access(request)
        if access is not Access.HEALTH:
            file = self.config.in_force.file
            self._hold_rate(file)
            if file.users:
                await self._authenticate(request, file.users)
            guarded = access is Access.PRIVATE or request.method == hdrs.METH_POST
            if guarded and self._is_of_other_site(request):
                raise web.HTTPForbidden(text=_OTHER_SITE)
            if access is Access.PRIVATE and not self.trusts(request):
                raise web.HTTPForbidden(text=_NO_CREDENTIALS)
        return await handler(request)

    def _hold_rate(self, file: WebFile) -> None:
        if file.rate is None:
            self._bucket = None
            return
        if self._bucket is None or self._bucket.rate != file.rate:
            self._bucket = TokenBucket(file.rate, self.clock)
        if not self._bucket.take():
            wait_s = -(-file.rate.interval_ns // 1_000_000_000)
            raise web.HTTPTooManyRequests(
                text="more requests than rate_limit in --web.config.file lets through\n",
                headers={"Retry-After": str(wait_s)},
            )

    async def _authenticate(self, request: web.Request, users: Mapping[str, bytes]) -> None:
        given = credentials(request.headers.get("Authorization", ""))
        try:
            if given is not None and await self.passwords.right(given, users, peer(request)):
                return
        except Busy:
            raise web.HTTPServiceUnavailable(
                text="too many passwords wait to be checked\n", headers={"Retry-After": "1"}
            ) from None
        raise web.HTTPUnauthorized(
            text="a user and a password are needed\n", headers={"WWW-Authenticate": "Basic"}
        )


def _is_local(request: web.Request) -> bool:
    """Whether it comes by a listener that only this machine reaches."""
    connection = request.protocol
    return isinstance(connection, ClientConnection) and connection.local
