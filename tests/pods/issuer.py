"""An OpenID Connect issuer, which gives a new token for a refresh token; as a server over TLS."""

import base64
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

EXPIRED, GIVEN = 1, 1 << 40  # seconds since 1970


def id_token(expires: int, signature: str = "c2ln") -> str:
    """A token such as a kubeconfig keeps: three parts, of which the second says when it ends."""
    parts = ({"alg": "none"}, {"exp": expires})
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in parts]
    return ".".join([*(text.rstrip("=") for text in texts), signature])


class Issuer:
    """``with Issuer(certificate, key) as issuer:``; counts the tokens that it gave."""

    def __init__(self, certificate: Path, key: Path) -> None:
        issuer = self
        self.given = 0

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer({"token_endpoint": f"{issuer.url}/token"})

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                issuer.given += 1
                token = id_token(GIVEN)
                answer = {"id_token": token, "access_token": token, "token_type": "bearer"}
                self._answer({**answer, "refresh_token": "next"})

            def _answer(self, document: Any) -> None:
                body = json.dumps(document).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
