"""Ports of pods on this machine, as ``kubectl port-forward``: WebSockets through the API server.

Each connection to a local port is a WebSocket of its own (``v4.channel.k8s.io``): each message
begins with the number of a channel, 0 for data and 1 for errors, and the first of a channel is the
port. The API server's proxy of pods would drop the ``Authorization`` that an exporter asks for;
this way keeps it. Local ports listen on 127.0.0.1, where every user of this machine reaches them,
so nothing is sent for them but what the client of the port sends itself.

The kubernetes package forwards ports too. Its WebSockets (37.0) send no header but
``Authorization``, so who acts as another would come as himself, and they keep without bound what
the other side does not read.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Self, TypeVar
from urllib.parse import quote

import aiohttp

from exporter.answers.kubectl.apiroute import Door
from exporter.apiserver.serveranswers import message_of

T = TypeVar("T")

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_CHUNK = 64 * 1024
_LARGEST_MESSAGE = 4 << 20
_TIMEOUT_S = 15.0
_LARGEST_REASON = 2048
_FAREWELL_S = 1.0  # an end that is not answered is one too


class ForwardError(Exception):
    """A port cannot be reached, with the reason."""


class Forwarder:
    """Local ports that lead to ports of pods. A context manager; leaving it closes all."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._session: aiohttp.ClientSession | None = None
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()  # one for each connection

    def __enter__(self) -> Self:
        async def begin() -> None:  # a session is made in the loop in which it is used
            self._session = aiohttp.ClientSession()

        self._thread.start()
        self._run(begin())
        return self

    def __exit__(self, *_: object) -> None:
        async def end() -> None:
            # First, so that no connection comes while those that there are end.
            for server in self._servers:
                server.close()
            if self._session is not None:
                await self._session.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, namespace: str, pod: str, port: int) -> int:
        """The local port that leads there.

        Raises:
            ForwardError: the API server lets no connection to it through.

        """
        return self._run(self._open(namespace, pod, port))

    def _run(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()

    async def _open(self, namespace: str, pod: str, port: int) -> int:
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/portforward?ports={port}"
        # What would fail later, without words, is tried now: a user who may not forward ports
        # would otherwise see a connection that ends.
        socket = await self._connected(path)
        await socket.close()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ForwardError, OSError, aiohttp.ClientError):
                try:
                    await _carry(await self._connected(path), reader, writer)
                finally:
                    writer.close()
                    await writer.wait_closed()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def _connected(self, path: str) -> aiohttp.ClientWebSocketResponse:
        assert self._session is not None  # noqa: S101 - within the context
        door = self._door
        # In a thread, because a credential plugin may run. Asked for a type of document, the API
        # server says that a port-forward is none (406).
        credentials = await asyncio.to_thread(door.headers)
        headers = [pair for pair in credentials if pair[0] != "Accept"]
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await self._session.ws_connect(
                    f"{door.host}{path}",
                    headers=[*headers, ("Accept", "*/*")],
                    protocols=(_PROTOCOL,),
                    timeout=aiohttp.ClientWSTimeout(ws_close=_FAREWELL_S),
                    ssl=door.tls if door.tls is not None else True,
                    server_hostname=door.server_name or None,
                    proxy=door.proxy or None,
                    max_msg_size=_LARGEST_MESSAGE,
                )
        except aiohttp.WSServerHandshakeError as error:
            raise ForwardError(await self._refusal(path, headers, error.status)) from None
        except TimeoutError:
            said = f"the API server does not answer within {_TIMEOUT_S:.0f} s"
            raise ForwardError(said) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ForwardError(f"the API server cannot be reached: {error}") from None

    async def _refusal(self, path: str, headers: Sequence[tuple[str, str]], status: int) -> str:
        """What a refusal means. A failed upgrade has no words: they are asked for once more."""
        assert self._session is not None  # noqa: S101 - within the context
        door = self._door
        try:
            async with (
                asyncio.timeout(_TIMEOUT_S),
                self._session.get(
                    f"{door.host}{path}",
                    headers=headers,
                    ssl=door.tls if door.tls is not None else True,
                    server_hostname=door.server_name or None,
                    proxy=door.proxy or None,
                    allow_redirects=False,
                ) as answer,
            ):
                words = message_of(await answer.content.read(_LARGEST_REASON))
                is_same = answer.status == status
        except (aiohttp.ClientError, OSError, ValueError):
            words, is_same = "", False
        if not is_same or words.startswith("<"):  # a page of HTML is a proxy's
            words = ""
        if status in {401, 403} and (not words or "portforward" in words):
            return (
                "you may not forward its ports; you need get and create on pods/portforward in its "
                "namespace (docs/kubectl.md has the Role)"
            )
        return (
            f"the API server, or a proxy before it, answers {status} to a port-forward by WebSocket"
            f"{words and f' ({words})'}; --url and --prometheus do without"
        )


async def _carry(
    socket: aiohttp.ClientWebSocketResponse,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Carry bytes both ways until one side ends."""

    async def send() -> None:
        try:
            while chunk := await reader.read(_CHUNK):
                await socket.send_bytes(bytes([_DATA]) + chunk)
        finally:
            await socket.close()

    # The pod ends a connection. A client that goes away ends ``send``, which closes the WebSocket,
    # and with it the loop.
    forth = asyncio.create_task(send())
    begun: set[int] = set()
    try:
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                return
            channel, data = message.data[0], message.data[1:]
            if channel not in begun:  # its first message is the port
                begun.add(channel)
                continue
            if channel == _ERROR and data:
                return
            if channel == _DATA:
                writer.write(data)
                await writer.drain()
    finally:
        forth.cancel()
        await asyncio.gather(forth, return_exceptions=True)
        await socket.close()
