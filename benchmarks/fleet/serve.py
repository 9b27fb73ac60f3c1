"""``python -m benchmarks.fleet.serve --nodes 100``: the fleet behind one address.

``/node/<i>/`` is node i's exporter, whole: ``/node/<i>/metrics``, ``/node/<i>/-/ready``.
"""

import argparse
import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler

from benchmarks.fleet.agent import CYCLE_S, Agent, settings
from benchmarks.fleet.clock import SetClock
from benchmarks.fleet.nodes import Trouble, scenario, trouble
from exporter.agent.web import make_app

NOTHING = Trouble("none", 0, 0)


class Member:
    """A node of the fleet, and what is wrong with it now; ``age_s`` is that of the fleet.

    Its clock moves with its cycles: where the machine is too busy for them, its page stands still
    instead of being withheld as too old, for it is the servers that are measured.
    """

    def __init__(self, number: int, age_s: Callable[[], float]) -> None:
        self.number = number
        self._age_s = age_s
        self._trouble = trouble(number) or NOTHING
        self._was_down = False
        self.settings = settings()
        self.clock = SetClock(int(time.time()))
        blind = partial(self.suffers, "blind")
        self.agent = Agent(scenario(number), self.settings, self.clock, blind)

    def suffers(self, kind: str) -> bool:
        """Whether this is wrong with it now."""
        return self._trouble.kind == kind and self._trouble.at(self._age_s())

    @property
    def delay_s(self) -> float:
        """How long its answers take."""
        return self._trouble.delay_s if self.suffers("slow") else 0.0

    def cycle(self) -> None:
        """Do a cycle, unless the node is down; the first one after that has empty accounts."""
        down = self.suffers("down")
        if self._was_down and not down:
            self.agent.restart()
        self._was_down = down
        if not down:
            self.clock.now_ns = time.time_ns()
            self.agent.cycle()


class Fleet:
    """All nodes, and the thread that lets each do its cycles, spread over the interval."""

    def __init__(self, count: int, now_s: Callable[[], float] = time.monotonic) -> None:
        began_s = now_s()
        self.members = [Member(number, lambda: now_s() - began_s) for number in range(count)]
        self.late = 0  # cycles that began more than an interval after they were due
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cycles", daemon=True)

    def first(self) -> None:
        """Let every node do its first cycle."""
        for member in self.members:
            member.cycle()

    def start(self) -> None:
        """Begin to cycle."""
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        step_s, due_s = CYCLE_S / len(self.members), time.monotonic()
        while not self._stop.is_set():
            for member in self.members:
                due_s += step_s
                behind_s = time.monotonic() - due_s
                if behind_s > CYCLE_S:
                    self.late += 1
                    due_s = time.monotonic()
                if self._stop.wait(max(0.0, -behind_s)):
                    return
                member.cycle()


def application(fleet: Fleet) -> web.Application:
    """Each node's own application under its path, and what is wrong with the node before it."""
    app = web.Application()
    for member in fleet.members:
        node = make_app(member.agent.pages, member.agent, member.settings, member.clock)
        node.middlewares.insert(0, _troubled(member))
        app.add_subapp(f"/node/{member.number}", node)

    async def late(_: web.Request) -> web.Response:
        return web.Response(text=str(fleet.late))

    app.router.add_get("/late", late)
    return app


def _troubled(member: Member) -> web.middleware:  # type: ignore[valid-type] # a decorator
    @web.middleware
    async def suffer(request: web.Request, handler: Handler) -> web.StreamResponse:
        if member.suffers("down"):
            if request.transport is not None:
                request.transport.abort()
            raise web.HTTPServiceUnavailable
        await asyncio.sleep(member.delay_s)
        return await handler(request)

    return suffer


async def serve(fleet: Fleet) -> None:
    """Serve on a free port of the loopback interface, which is printed, until ended."""
    runner = web.AppRunner(application(fleet), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(*runner.addresses[0][:2], sep=":", flush=True)
    await asyncio.Event().wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=100)
    fleet = Fleet(parser.parse_args(arguments).nodes)
    fleet.first()
    fleet.start()
    asyncio.run(serve(fleet))


if __name__ == "__main__":
    main()
