"""Places at moments that a real client seldom meets."""

import asyncio
import logging
import time
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from exporter.web.connection import ClientLimits
from exporter.web.slots import RequestSlots

WRITE_S = 0.02
REQUEST = cast("web.Request", SimpleNamespace(path="/metrics", protocol=None, transport=None))


class NeverTaken(web.Response):
    """A response whose client reads nothing of it."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Wait for the client."""
        del request
        await asyncio.Event().wait()
        return None


async def stuck(_: web.Request) -> web.StreamResponse:
    return NeverTaken()


async def ended(_: web.Request) -> web.StreamResponse:
    raise web.HTTPNoContent


def test_an_answer_that_is_just_being_cut_off_does_not_fail_who_comes_in_that_moment() -> None:
    async def meet() -> None:
        slots = RequestSlots(1, ClientLimits(write_s=WRITE_S, slow_s=0))
        come = asyncio.Event()

        async def newcomer() -> None:
            await come.wait()
            await slots.check(REQUEST, ended)

        slow = asyncio.create_task(slots.check(REQUEST, stuck))
        new = asyncio.create_task(newcomer())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(WRITE_S / 2, come.set)
        time.sleep(2 * WRITE_S)  # noqa: ASYNC251 - both timers are due in one step of the loop
        await slow
        with pytest.raises(web.HTTPNoContent):
            await new

    asyncio.run(meet())


def test_that_answers_are_dropped_is_not_said_for_each(caplog: pytest.LogCaptureFixture) -> None:
    async def crowd() -> None:
        slots = RequestSlots(1, ClientLimits(slow_s=-1))
        asked = [asyncio.create_task(slots.check(REQUEST, stuck)) for _ in range(10)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for one in asked:
            one.cancel()
        results = await asyncio.gather(*asked, return_exceptions=True)
        assert not any(isinstance(result, web.HTTPServiceUnavailable) for result in results)

    with caplog.at_level(logging.WARNING):
        asyncio.run(crowd())

    assert len(caplog.records) == 1
