"""What a client may see of the node: everything, or some namespaces.

The rights of a token of Kubernetes are non-resource URLs. That of the page and the JSON is not
their own path, because ``system:discovery`` gives every authenticated client ``get`` on ``/api/*``,
and OpenShift on ``/``.
"""

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import compress

from aiohttp import hdrs, web

from exporter.agent.web.connection import peer
from exporter.agent.web.passwords import credentials
from exporter.agent.web.verdicts import Client, Unavailable, Verdicts
from exporter.model import Right, Snapshot


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """The namespaces whose rows a client may see; None stands for all of the node."""

    namespaces: frozenset[str] | None = None

    @property
    def sees_all(self) -> bool:
        """Whether the client may see everything."""
        return self.namespaces is None

    @property
    def tag(self) -> str:
        """The end of an entity tag; different views have different ones."""
        if self.namespaces is None:
            return ""
        names = "/".join(sorted(self.namespaces))
        return f"-{hashlib.sha256(names.encode(errors='surrogatepass')).hexdigest()[:32]}"


EVERYTHING = NamespaceView()
NOTHING = NamespaceView(frozenset())


SCRAPE = Right("get", path="/metrics")
PAGE = Right("get", path="/mgpu-exporter/page")
RELOAD = Right("post", path="/mgpu-exporter/reload")
MAX_NAMESPACES = 512  # of a node that a client's rights are asked in: more than pods fit on it
_AT_ONCE = 8
_LONGEST_TOKEN = 6144
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
_LATE = "the API server takes too long to say what you may see; try again"
_NEEDED = "A token of Kubernetes is needed: as a bearer token, or as the password of any user.\n"


def token_of(request: web.Request) -> str | None:
    """The token that a request shows; None without one that could be Kubernetes'.

    Browsers can only ask for a user and a password.
    """
    given = request.headers.getall(hdrs.AUTHORIZATION, ())
    if len(given) != 1:
        return None
    scheme, _, token = given[0].partition(" ")
    if scheme.lower() == "basic":
        basic = credentials(given[0])
        token = basic.password.decode("ascii", "replace") if basic else ""
    elif scheme.lower() != "bearer":
        return None
    token = token.strip()
    return token if len(token) <= _LONGEST_TOKEN and _TOKEN.fullmatch(token) else None


class Views:
    """Decides by Kubernetes' verdicts what a request may do. ``newest`` returns the Snapshot."""

    def __init__(self, verdicts: Verdicts, newest: Callable[[], Snapshot]) -> None:
        self._verdicts = verdicts
        self._newest = newest

    @asynccontextmanager
    async def deciding(self) -> AsyncIterator[None]:
        """Bounds the time of all decisions on a request; refuses it if they cannot be made.

        Reviews that run on serve the next request.
        """
        try:
            async with asyncio.timeout(self._verdicts.limits.request_s):
                yield
        except (Unavailable, TimeoutError) as error:
            raise web.HTTPServiceUnavailable(
                text=f"{str(error) or _LATE}\n", headers={"Retry-After": "1"}
            ) from None

    async def client(self, request: web.Request) -> Client:
        """The client that sent a request; raises the refusal if its token is not valid."""
        token = token_of(request)
        client = token and await self._verdicts.identify(token, peer(request))
        if not client:
            refusal = web.HTTPUnauthorized(text=_NEEDED)
            refusal.headers.add(hdrs.WWW_AUTHENTICATE, "Bearer")
            refusal.headers.add(hdrs.WWW_AUTHENTICATE, 'Basic realm="password: a token"')
            raise refusal
        return client

    async def need(self, client: Client, right: Right) -> None:
        """Raises the refusal if a client lacks a right."""
        if not await self._verdicts.permits(client, right):
            text = f"You need the right to {right.verb} the non-resource URL {right.path}.\n"
            raise web.HTTPForbidden(text=text)

    async def view(self, client: Client) -> NamespaceView:
        """What a client may see; raises the refusal if that is nothing."""
        if await self._verdicts.permits(client, PAGE):
            return EVERYTHING
        here = await asyncio.to_thread(namespaces_of, self._newest())
        # One review for who may see all pods, in place of one for each namespace.
        if here and await self._verdicts.permits(client, _pods_of("")):
            return NamespaceView(frozenset(here))
        # Whoever may see a namespace's pods may see what they use. A few are asked about at once,
        # so that one client does not take all of the API server's time.
        seen: set[str] = set()
        asked = here[:MAX_NAMESPACES]
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            rights = (self._verdicts.permits(client, _pods_of(name)) for name in some)
            seen.update(compress(some, await asyncio.gather(*rights)))
        if not seen:
            raise web.HTTPForbidden(
                text=f"You need the right to get the non-resource URL {PAGE.path}, or to get pods "
                "in a namespace that uses a GPU of this node.\n"
            )
        return NamespaceView(frozenset(seen))


def namespaces_of(snapshot: Snapshot) -> Sequence[str]:
    """The namespaces that a Snapshot shows, by name; those of pods that are there stand first.

    The others are of pods that have ended, since the exporter's start: there may be many.
    """
    facts = snapshot.facts
    there = {pod.namespace for pod in facts.pods if not pod.ended}
    there |= {holding.owner.namespace for holding in facts.containers if not holding.ended}
    gone = {pod.namespace for pod in facts.pods} | {each.namespace for each in facts.namespaces}
    gone |= {holding.owner.namespace for holding in facts.containers}
    return [*sorted(there), *sorted(gone - there)]


def _pods_of(namespace: str) -> Right:
    return Right("get", resource="pods", namespace=namespace)
