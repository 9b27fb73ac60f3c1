"""An API server that remembers what it was asked by whom, and kubeconfigs that lead to it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from tests.answers.kubectl.cluster import Cluster, pod

NAMESPACE, POD = "vision", "segment-0"
NEAR = f"no pod {NAMESPACE}/segment; did you mean {POD}?"  # said by who asked the cluster


class Asked(Cluster):
    """``heard`` has the path and the headers of each request. ``words`` are of its refusals."""

    def __init__(
        self, pods: list[dict[str, Any]] | None = None, words: str = "", **others: Any
    ) -> None:
        super().__init__([pod(POD, NAMESPACE, "n1"), *(pods or [])], **others)
        self._words = words
        self.heard: list[tuple[str, CIMultiDict[str]]] = []

    @web.middleware
    async def _checked(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.heard.append((request.path, request.headers.copy()))
        answer: web.StreamResponse = await super()._checked(request, handler)
        if self._words and answer.status == self._refusal:
            return web.json_response({"message": self._words}, status=answer.status)
        return answer

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


@dataclass
class Kubeconfig:
    """A kubeconfig of the cluster at ``server``; a part that is None is written as null."""

    server: str
    user: Mapping[str, Any] = field(default_factory=lambda: {"token": "mine"})
    cluster: Mapping[str, Any] = field(default_factory=dict)
    parts: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def write(self, path: Path) -> Path:
        """Write it there."""
        whole = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "c", "cluster": {"server": self.server, **self.cluster}}],
            "users": [{"name": "u", "user": self.user}],
            "contexts": [
                {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}
            ],
            **self.parts,
        }
        path.write_text(json.dumps({k: v for k, v in whole.items() if k not in self.without}))
        return path
