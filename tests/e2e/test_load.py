"""A crowd at the exporter's door: its cycle keeps its cadence, its memory its size.

Counts are those of the exporter itself, and bounds are ratios. With ``--long`` the crowd stays ten
times as long: 10,000 bad requests.
"""

import asyncio
import itertools
import socket
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agent.simulation.pods import shared
from tests.e2e.programs import Exporter, Page

pytestmark = pytest.mark.slow

SCRAPERS = 100
SLOW = 40
HALF_OPEN = 60
BAD = 1_000  # each round
SCRAPES = 2  # of each scraper, each round
BAD_AT_ONCE = 40
MAX_RSS = 1.5  # of what it was before
LEAST_CYCLES = 6
PODS = 120

CLOSED = (ConnectionError, asyncio.IncompleteReadError)
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n"

BAD_REQUESTS = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",  # TLS
    b"GET\r\n\r\n",
    b"GET /metrics HTTP/9.9\r\n\r\n",
    GET + b"A\0b: c\r\n\r\n",
    GET + b": no name\r\n\r\n",
    GET + b"Host: localhost\r\nContent-Length: -1\r\n\r\n",
    GET + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    GET + b"Transfer-Encoding: chunked\r\n\r\nzzz\r\n",
    GET + b"A: " + b"a" * 20_000 + b"\r\n\r\n",
    GET + b"A: a\r\n" * 200 + b"\r\n",
    GET + b"Accept: " + b"a/b;q=x," * 900 + b"\r\n\r\n",
    b"GET /metrics?" + b"a=b&" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /metrics?" + b"collect[]=x&" * 300 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /metrics?collect[]=pod&exclude[]=pod HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /" + b"%00" * 200 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000\r\n\r\n"
    + b"a" * 70_000,
    b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000000\r\n\r\n",
    b"DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n"
    * 1_000,  # many at once, of which one answer is read
)


def scenario(folder: Path) -> Path:
    """A node whose page is larger than the buffers of its slow readers."""
    idle = {"duty": 0, "memory": "512MiB"}
    pods = [
        shared(
            {
                "name": f"pod-{number}-{'x' * 40}",
                "namespace": f"team-{number % 8}",
                "containers": [{"name": "main", "processes": [{**idle, "device": number % 8}]}],
            },
            *("mgpu", [number % 8], 5, 1),
        )
        for number in range(PODS)
    ]
    device = {"model": "NVIDIA A10", "memory": "24GiB", "idle_power": 20, "max_power": 150}
    path = folder / "crowded.yaml"
    path.write_text(yaml.safe_dump({"devices": [device] * 8, "pods": pods}))
    return path


class Crowd:
    """Clients of one exporter, of all kinds. ``statuses`` counts what they were answered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.statuses: dict[str, Counter[int]] = {"scraper": Counter(), "bad": Counter()}
        self.slow_bytes = 0

    @asynccontextmanager
    async def connect(
        self, buffer: int = 0
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection; a small receive ``buffer`` makes a slow reader of it."""
        sock = socket.socket()
        if buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 16)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()

    async def scrape(self, times: int, *, zipped: bool) -> None:
        """Scrape on one connection, time after time."""
        encoding = b"Accept-Encoding: gzip\r\n" if zipped else b""
        async with self.connect() as (reader, writer):
            for _ in range(times):
                writer.write(GET + encoding + b"\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split()[0])
                await reader.readexactly(length)
                self.statuses["scraper"][int(head.split()[1])] += 1

    async def read_slowly(self, over: asyncio.Event) -> None:
        """Ask for the page and read a little of it; come again when cut off."""
        while not over.is_set():
            with suppress(*CLOSED, TimeoutError):
                async with self.connect(buffer=4096) as (reader, writer):
                    writer.write(GET + b"\r\n")
                    while not over.is_set():
                        self.slow_bytes += len(await reader.readexactly(100))
                        async with asyncio.timeout(0.2):
                            await over.wait()

    async def stay_half_open(self, over: asyncio.Event) -> None:
        """Send half a request and wait to be cut off; come again."""
        while not over.is_set():
            with suppress(*CLOSED):
                async with self.connect() as (reader, writer):
                    writer.write(GET)
                    await reader.read()

    async def misbehave(self, requests: "itertools.islice[bytes]") -> None:
        """Send what is no request, or no good one; read the first answer, if there is one."""
        for request in requests:
            with suppress(*CLOSED):
                async with self.connect() as (reader, writer):
                    writer.write(request)
                    head = await reader.readuntil(b"\r\n")
                    self.statuses["bad"][int(head.split()[1])] += 1

    async def come(self, exporter: Exporter, rounds: int) -> list[Page]:
        """All at once, until the scrapers and the bad ones are through. The exporter's pages."""
        over = asyncio.Event()
        bad = itertools.islice(itertools.cycle(BAD_REQUESTS), BAD * rounds)
        pages: list[Page] = []
        busy: list[Coroutine[Any, Any, None]] = [
            *(self.scrape(SCRAPES * rounds, zipped=n % 2 == 0) for n in range(SCRAPERS)),
            *(self.misbehave(bad) for _ in range(BAD_AT_ONCE)),
        ]
        async with asyncio.TaskGroup() as group:
            for _ in range(SLOW):
                group.create_task(self.read_slowly(over))
            half_open = [group.create_task(self.stay_half_open(over)) for _ in range(HALF_OPEN)]
            work = asyncio.gather(*busy)
            while not work.done() or cycles(pages) < LEAST_CYCLES:
                pages.append(await asyncio.to_thread(exporter.scrape))
                await asyncio.wait([work], timeout=0.5)
            await work
            over.set()
            for task in half_open:
                task.cancel()
        return pages


def cycles(pages: list[Page], name: str = "cycles_total") -> float:
    """How much one of the cycle's counters rose over these pages."""
    values = [page.value(f"mgpu_exporter_{name}") or 0 for page in pages]
    return values[-1] - values[0] if values else 0


def rss(page: Page) -> float:
    value = page.value("process_resident_memory_bytes")
    assert value is not None
    return value


@pytest.mark.timeout(600)
def test_a_crowd_changes_neither_cadence_nor_memory(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    flags = (f"--simulate={scenario(tmp_path)}", "--web.max-requests=200")
    with Exporter(*flags) as exporter:
        exporter.ready()
        crowd = Crowd(int(exporter.url.rpartition(":")[2]))
        before = exporter.when(
            lambda page: (page.value("mgpu_exporter_cycles_total") or 0) > 2, "some cycles"
        )
        pages = asyncio.run(crowd.come(exporter, 10 if pytestconfig.getoption("--long") else 1))
        after = exporter.scrape()
        errors = [line for line in exporter.log if "level=error" in line]

    done, late = cycles([before, after]), cycles([before, after], "cycle_overruns_total")
    assert set(crowd.statuses["scraper"]) == {200}
    assert {400, 404, 405} <= crowd.statuses["bad"].keys() <= {200, 400, 403, 404, 405, 413}
    assert crowd.slow_bytes
    assert late <= done / 5
    assert max(map(rss, (*pages, after))) <= MAX_RSS * rss(before)
    assert errors == []
