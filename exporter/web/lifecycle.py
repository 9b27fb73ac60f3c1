"""``POST /-/reload``, as Prometheus has it."""

import asyncio
from collections.abc import Callable

from aiohttp import web
from aiohttp.typedefs import Handler

Reload = Callable[[], str | None]
"""Reads the settings anew; None, or why the old ones stay. May block; never called twice at once.
"""

_OFF = "reloading is off; switch it on with --web.enable-lifecycle\n"


def reload_handler(reload: Reload | None) -> Handler:
    """Make the handler; without ``reload`` it says that it is off."""
    one_at_a_time = asyncio.Lock()

    async def handler(_: web.Request) -> web.StreamResponse:
        if reload is None:
            raise web.HTTPForbidden(text=_OFF)
        async with one_at_a_time:
            problem = await asyncio.to_thread(reload)
        if problem is not None:
            raise web.HTTPInternalServerError(text=f"the old settings stay: {problem}\n")
        return web.Response(text="reloaded\n")

    return handler
