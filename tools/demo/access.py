"""A stand-in of the API server that says who shows a token, and what he may see.

It answers the two reviews of Kubernetes that ``--web.kubernetes-access`` asks for, and no more.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

OPERATOR, TENANT = "operator", "tenant"
"""The tokens, and the names of their owners: one sees all, the other one namespace."""
NAMESPACE = "inference"


def _status(kind: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """What a review finds."""
    if kind == "TokenReview":
        token = spec.get("token")
        known = token in {OPERATOR, TENANT}
        return {"authenticated": known, **({"user": {"username": token}} if known else {})}
    pods = spec.get("resourceAttributes", {})
    owns = pods.get("namespace") == NAMESPACE and pods.get("resource") == "pods"
    return {"allowed": spec.get("user") == OPERATOR or owns}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answer a review."""
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        review["status"] = _status(review["kind"], review["spec"])
        body = json.dumps(review).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the output of the demo is for people."""


@contextmanager
def reviews(folder: Path) -> Iterator[Path]:
    """A kubeconfig of the stand-in, which answers as long as this lasts; the tokens lie beside."""
    for token in (OPERATOR, TENANT):
        (folder / token).write_text(token)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "demo",
        "clusters": [{"name": "demo", "cluster": {"server": address}}],
        "users": [{"name": "demo", "user": {"token": "demo"}}],
        "contexts": [{"name": "demo", "context": {"cluster": "demo", "user": "demo"}}],
    }
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(document))  # JSON is YAML
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield kubeconfig
    finally:
        server.shutdown()
        server.server_close()
