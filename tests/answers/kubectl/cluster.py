"""An API server with pods, services and port-forwards to this machine's ports; real HTTP."""

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from aiohttp import WSMsgType, web

TOKEN = "a-tenants-token"  # noqa: S105 - of this test's server
_FORWARD = "v4.channel.k8s.io"


def pod(
    name: str, namespace: str, node: str, port: int = 0, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A pod that is ready, with a port called metrics."""
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {})},
        "spec": {
            "nodeName": node,
            "containers": [{"ports": [{"name": "metrics", "containerPort": port}]}],
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


class Cluster:
    """``with Cluster(pods, services) as cluster``.

    ``refused`` are beginnings of paths, which are answered by ``refusal``.
    ``hangs``: a port-forward begins, and nothing comes back. A list has ``page`` pods at a time.
    """

    def __init__(
        self,
        pods: list[dict[str, Any]],
        services: list[dict[str, Any]] | None = None,
        refused: tuple[str, ...] = (),
        *,
        refusal: int = 403,
        hangs: bool = False,
        page: int = 500,
    ) -> None:
        self._hangs, self._page = hangs, page
        self._ends = asyncio.Event()
        self._pods = pods
        self._services = services or []
        self._refused, self._refusal = refused, refusal
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._runner: web.AppRunner | None = None
        self.port = 0

    def kubeconfig(self, folder: Path, namespace: str, *, token: str = TOKEN) -> Path:
        """A kubeconfig of a user of it."""
        user = {"token": token} if token else {}
        path = folder / "kubeconfig"
        path.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "here",
                    "clusters": [
                        {"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
                    ],
                    "users": [{"name": "u", "user": user}],
                    "contexts": [
                        {
                            "name": "here",
                            "context": {"cluster": "c", "user": "u", "namespace": namespace},
                        }
                    ],
                }
            )
        )
        return path

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._runner is not None
        self._loop.call_soon_threadsafe(self._ends.set)
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(middlewares=[self._checked])
        app.router.add_get("/api/v1/pods", self._list)
        app.router.add_get("/api/v1/namespaces/{namespace}/services", self._list_services)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods", self._list)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}", self._one)
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{name}/portforward", self._forward)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if any(request.path.startswith(each) for each in self._refused):
            return web.json_response(
                {"message": f"{request.path} is forbidden"}, status=self._refusal
            )
        answer: web.StreamResponse = await handler(request)
        return answer

    async def _list(self, request: web.Request) -> web.Response:
        wanted = dict(
            each.split("=") for each in request.query.get("labelSelector", "").split(",") if each
        )
        field, _, value = request.query.get("fieldSelector", "").partition("=")
        namespace = request.match_info.get("namespace")
        found = [
            each
            for each in self._pods
            if wanted.items() <= each["metadata"]["labels"].items()
            and namespace in {None, each["metadata"]["namespace"]}
            and (field != "spec.nodeName" or value == each["spec"]["nodeName"])
            and (field != "metadata.name" or value == each["metadata"]["name"])
        ]
        # As an API server does: a page at a time, and the place at which the next one begins.
        begin = int(request.query.get("continue") or 0)
        end = begin + min(int(request.query["limit"]), self._page)
        more = {"continue": str(end)} if end < len(found) else {}
        return web.json_response({"metadata": more, "items": found[begin:end]})

    async def _list_services(self, request: web.Request) -> web.Response:
        wanted = request.query["labelSelector"].split("=")
        namespace = request.match_info["namespace"]
        found = [
            one
            for one in self._services
            if wanted in map(list, _labels(one)) and one["metadata"]["namespace"] == namespace
        ]
        return web.json_response({"items": found})

    async def _one(self, request: web.Request) -> web.Response:
        for each in self._pods:
            if (each["metadata"]["namespace"], each["metadata"]["name"]) == (
                request.match_info["namespace"],
                request.match_info["name"],
            ):
                return web.json_response(each)
        return web.json_response({"message": "not found"}, status=404)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if request.headers["Accept"] != "*/*":
            return web.json_response({"message": "only protocols are served"}, status=406)
        socket = web.WebSocketResponse(protocols=(_FORWARD,))
        await socket.prepare(request)
        if self._hangs:
            await self._ends.wait()
            return socket
        port = int(request.query["ports"])
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def back() -> None:
            while chunk := await reader.read(4096):
                await socket.send_bytes(b"\x00" + chunk)
            await socket.close()

        task = asyncio.create_task(back())
        try:
            async for message in socket:
                if message.type is WSMsgType.BINARY:
                    writer.write(message.data[1:])
                    await writer.drain()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            writer.close()
            await writer.wait_closed()
        return socket


def _labels(service: dict[str, Any]) -> list[tuple[str, str]]:
    return list(service["metadata"]["labels"].items())
