"""What programs in a cluster met with its API server."""

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from exporter.apiserver.client import connect, from_service_account
from tests.agent.sources.pods.authority import make_certificate
from tests.field.report import report


class _Version(BaseHTTPRequestHandler):
    """Answers as an API server that is asked for its version, one request a connection."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(certificate: Path, key: Path, port: int = 0) -> Iterator[int]:
    """An API server with this certificate; its port."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with ThreadingHTTPServer(("127.0.0.1", port), _Version) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@report(
    source="rancher/rancher#25858, kubernetes/website#26188",
    seen="A cluster's authority was exchanged: pods have the new one in their folder, and every "
    "program had to be restarted before it was believed.",
    first="right",
    group="configuration",
)
@pytest.mark.slow
@pytest.mark.program("openssl")
def test_an_authority_that_was_exchanged_is_believed_by_the_next_connection(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    old, new = (make_certificate(tmp_path, name) for name in ("old", "new"))
    (tmp_path / "ca.crt").write_bytes(old[0].read_bytes())
    with served(*old) as port:
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
        client = connect(from_service_account(environ, tmp_path))
        with client.get("/version", {}, 5) as stream:
            assert stream.read(2) == b"{}"
    (tmp_path / "ca.crt").write_bytes(new[0].read_bytes())
    with served(*new, port=port), client.get("/version", {}, 5) as stream:
        assert stream.read(2) == b"{}"
    client.close()
