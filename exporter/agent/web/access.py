"""Access control: the one place where a request is let in or refused.

A handler declares its ``Access`` where it is routed. A handler that declares none is PRIVATE.

A listener on loopback trusts everybody who reaches it, so web pages of other sites must be kept
out: a browser on this machine sends their requests. Such a request has an ``Origin`` of another
site, or another machine's name in ``Host`` if the owner of that name resolves it to 127.0.0.1 (DNS
rebinding).
"""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Address, IPv6Address

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler

from exporter.agent.web.connection import ClientConnection, peer
from exporter.agent.web.passwords import Passwords, credentials
from exporter.agent.web.peers import UNIX, Busy
from exporter.agent.web.views import EVERYTHING, NOTHING, PAGE, RELOAD, SCRAPE, NamespaceView, Views
from exporter.agent.web.webconfig import WebConfig
from exporter.agent.web.webfile import RateLimit, WebFile
from exporter.model import Clock

_HOST = re.compile(
    r"(?:\[([0-9a-f:.]{2,45})\]|([0-9a-z._-]{1,253}))(?::[0-9]{1,5})?", re.ASCII | re.IGNORECASE
)


def named_in(host: str) -> str | IPv4Address | IPv6Address | None:
    """The name or address in a ``Host`` header, without its port; None if it has another form.

    "" stands for no header.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return None if host else ""
    bracketed, name = found.groups()
    try:
        return IPv6Address(bracketed) if bracketed else IPv4Address(name)
    except ValueError:
        return None if bracketed else str(name).lower().removesuffix(".")


def is_this_machine(host: str) -> bool:
    """Whether a ``Host`` header names localhost, a loopback address or this machine.

    A request without the header does not come from a browser.
    """
    name = named_in(host)
    if isinstance(name, str):
        own = socket.gethostname().lower()
        return name in {"", "localhost", own, own.partition(".")[0]}
    return name is not None and name.is_loopback


def may_be_rebound(host: str) -> bool:
    """Whether a browser may send this ``Host`` header here for a page of another site.

    That needs a name, which its owner lets stand for 127.0.0.1. An address stands for itself, and a
    proxy may pass on the pod's.
    """
    return not is_this_machine(host) and isinstance(named_in(host), str | None)


def is_foreign(origin: str, host: str) -> bool:
    """Whether an ``Origin`` header names another site than ``Host``; "" stands for no header."""
    return bool(origin) and origin.partition("://")[2].lower() != host.lower()


class TokenBucket:
    """A token bucket, as exporter-toolkit's ``rate_limit``.

    It holds at most ``rate.burst`` tokens and gains one each ``rate.interval_ns``.
    """

    def __init__(self, rate: RateLimit, clock: Clock) -> None:
        self.rate = rate
        self._clock = clock
        # One time says how many tokens are there: those that come until then are missing.
        self._full_ns = clock.monotonic_ns()  # when the bucket is, or was, full

    def take(self) -> bool:
        """Takes a token and returns True, or returns False if there is none."""
        now_ns = self._clock.monotonic_ns()
        full_ns = max(self._full_ns, now_ns) + self.rate.interval_ns
        if full_ns - now_ns > self.rate.burst * self.rate.interval_ns:
            return False
        self._full_ns = full_ns
        return True


_NO_CREDENTIALS = (
    "This needs authentication, and none is set up here: see basic_auth_users and client_auth_type "
    "in --web.config.file, or --web.kubernetes-access. --web.open-page serves it to everybody.\n"
)
_OTHER_SITE = (
    "The request names another machine, or comes from a web page of another site: use localhost or "
    "the name of this machine. A proxy that passes on its own name needs users, client "
    "certificates or --web.open-page.\n"
)


class Access(Enum):
    """The clients that a handler serves.

    With ``--web.kubernetes-access`` OPEN serves every client with a valid token, and PRIVATE those
    with the right to the page. A handler with VIEW must ask ``Gate.view`` what a client may see.
    """

    HEALTH = "probes, without credentials and without a rate limit"
    OPEN = "everybody who reaches the listener; with credentials if users are configured"
    METRICS = "as OPEN; with Kubernetes' access control who may scrape"
    RELOAD = "as OPEN; with Kubernetes' access control who may reload the settings"
    PRIVATE = "authenticated clients and this machine; everybody with --web.open-page"
    VIEW = "as PRIVATE; with Kubernetes' access control who may see the page, or some namespaces"


_RIGHTS = {Access.METRICS: SCRAPE, Access.RELOAD: RELOAD, Access.PRIVATE: PAGE}
_VIEW = web.RequestKey("view", NamespaceView)


@dataclass(frozen=True, slots=True)
class Route:
    """A path with its handler and access. ``method`` is GET (with HEAD) or POST."""

    path: str
    handler: Handler
    access: Access = Access.PRIVATE
    method: str = "GET"


@dataclass
class Gate:
    """Lets requests in or refuses them. ``check`` is a middleware of the application."""

    config: WebConfig
    clock: Clock
    open_page: bool = False
    views: Views | None = None
    passwords: Passwords = field(default_factory=Passwords)
    _accesses: dict[str, Access] = field(default_factory=dict)
    _bucket: TokenBucket | None = None

    def add(self, app: web.Application, route: Route) -> None:
        """Adds a route to the application and remembers its access."""
        add = app.router.add_post if route.method == "POST" else app.router.add_get
        resource = add(route.path, route.handler).resource
        if resource is not None:
            self._accesses[resource.canonical] = route.access

    def access(self, request: web.Request) -> Access:
        """The access of the requested path; OPEN if there is no such path."""
        resource = request.match_info.route.resource
        if resource is None:
            # Its answer is 404, which says nothing of the node.
            return Access.OPEN
        return self._accesses.get(resource.canonical, Access.PRIVATE)

    def trusts(self, request: web.Request) -> bool:
        """Whether a request that was let in may read what is PRIVATE."""
        if self.views is not None:
            return self.view(request).sees_all
        known = self._is_known(request) or _is_local(request)
        return known and not self._is_of_other_site(request)

    def view(self, request: web.Request) -> NamespaceView:
        """What a request that was let in may see. Only VIEW lets in who may not see everything."""
        view: NamespaceView = request.get(_VIEW, NOTHING if self.views is not None else EVERYTHING)
        return view

    def _is_known(self, request: web.Request) -> bool:
        """Whether it may read what is PRIVATE from any machine."""
        connection = request.protocol
        certified = isinstance(connection, ClientConnection) and connection.certified
        identified = self.views is not None or bool(self.config.active.file.users)
        return self.open_page or identified or certified

    def _is_of_other_site(self, request: web.Request) -> bool:
        """Whether a browser sends it for a page of another site.

        It matters on loopback listeners, because they trust every local client, and for POST on all
        listeners. Another machine's name in ``Host`` is accepted if the request is trusted anyway,
        because proxies pass such names on.
        """
        host, origin = (request.headers.get(name, "") for name in (hdrs.HOST, hdrs.ORIGIN))
        loopback = _is_loopback(request)
        if loopback and not is_this_machine(host) and (origin or not self._is_known(request)):
            return True
        return (loopback or request.method == hdrs.METH_POST) and is_foreign(origin, host)

    def _is_rebound(self, request: web.Request) -> bool:
        """Whether it may come by DNS rebinding to a listener that trusts every local client."""
        host = request.headers.get(hdrs.HOST, "")
        return _is_loopback(request) and may_be_rebound(host) and not self._is_known(request)

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuses requests. The rate limit is checked first, as in exporter-toolkit."""
        access = self.access(request)
        # A kubelet that is refused would restart the pod, so probes pass whatever comes in beside
        # them.
        if access is not Access.HEALTH:
            file = self.config.active.file
            self._limit_rate(file)
            if self.views is not None:
                await self._review(request, access, self.views)
            elif file.users:
                await self._authenticate(request, file.users)
            guarded_page = access in {Access.PRIVATE, Access.VIEW}
            guarded = guarded_page or request.method == hdrs.METH_POST
            if self._is_of_other_site(request) if guarded else self._is_rebound(request):
                raise web.HTTPForbidden(text=_OTHER_SITE)
            # With views, ``_review`` has let in nobody who may not see it.
            if self.views is None and guarded_page and not self.trusts(request):
                raise web.HTTPForbidden(text=_NO_CREDENTIALS)
        return await handler(request)

    async def _review(self, request: web.Request, access: Access, views: Views) -> None:
        """Refuses a request by Kubernetes' verdicts, or notes what it may see.

        A Unix socket is guarded by its file. A loopback address is not: every process of the
        machine, or of the pod, reaches it.
        """
        if _is_local(request) and peer(request) == UNIX:
            request[_VIEW] = EVERYTHING
            return
        # A right may change at any time, so each request asks for it. What was answered lately is
        # cached (``verdicts``).
        async with views.deciding():
            client = await views.client(request)
            if access is Access.VIEW:
                request[_VIEW] = await views.view(client)
            elif (right := _RIGHTS.get(access)) is not None:
                await views.need(client, right)
                request[_VIEW] = EVERYTHING if access is Access.PRIVATE else NOTHING

    def _limit_rate(self, file: WebFile) -> None:
        if file.rate is None:
            self._bucket = None
            return
        if self._bucket is None or self._bucket.rate != file.rate:
            self._bucket = TokenBucket(file.rate, self.clock)
        if not self._bucket.take():
            # Rounded up: whoever comes a moment too early is refused once more.
            wait_s = -(-file.rate.interval_ns // 1_000_000_000)
            raise web.HTTPTooManyRequests(
                text="more requests than rate_limit in --web.config.file allows\n",
                headers={"Retry-After": str(wait_s)},
            )

    async def _authenticate(self, request: web.Request, users: Mapping[str, bytes]) -> None:
        given = credentials(request.headers.get("Authorization", ""))
        try:
            if given is not None and await self.passwords.verify(given, users, peer(request)):
                return
        except Busy:
            raise web.HTTPServiceUnavailable(
                text="too many passwords wait to be checked\n", headers={"Retry-After": "1"}
            ) from None
        raise web.HTTPUnauthorized(
            text="a user and a password are needed\n", headers={"WWW-Authenticate": "Basic"}
        )


def _is_local(request: web.Request) -> bool:
    """Whether it came through a listener that only this machine can reach."""
    connection = request.protocol
    return isinstance(connection, ClientConnection) and connection.local


def _is_loopback(request: web.Request) -> bool:
    """Whether a browser of this machine may have sent it: none comes through a Unix socket."""
    return _is_local(request) and peer(request) != UNIX
