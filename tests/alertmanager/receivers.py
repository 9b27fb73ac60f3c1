"""Those who are told: Discord's webhook, a plain webhook and a mail server, all on loopback."""

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_string
from email.policy import default
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DISCORD = "/api/webhooks/1/token"
PAGER = "/alertmanager"
MOST = {"title": 256, "description": 4096}  # characters that Discord takes of an embed


@dataclass
class Inbox:
    """What each was sent. ``refused`` is what Discord would have answered 400."""

    discord: list[dict[str, Any]] = field(default_factory=list)
    pager: list[dict[str, Any]] = field(default_factory=list)
    mail: list[tuple[str, str]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def discord_titles(self) -> list[str]:
        """The titles of all that Discord shows."""
        return [embed["title"] for message in self.discord for embed in message["embeds"]]


def refusal(message: dict[str, Any]) -> str | None:
    """Why Discord's "Execute Webhook" does not take a message; None: it does."""
    embeds = message.get("embeds", [])
    if not message.get("content") and not embeds:
        return "Cannot send an empty message"
    if len(message.get("content", "")) > 2000 or len(embeds) > 10:
        return "Must be 2000 or fewer in length"
    for embed in embeds:
        for part, most in MOST.items():
            if len(embed.get(part, "")) > most:
                return f"{part} must be {most} or fewer in length, is {len(embed[part])}"
        if not 0 <= embed.get("color", 0) <= 0xFFFFFF:
            return "color must be a number of 24 bits"
    return None


def _web(inbox: Inbox) -> type[BaseHTTPRequestHandler]:
    class Web(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status = 204
            if self.path == PAGER:
                inbox.pager.append(body)
            elif self.path == DISCORD and (reason := refusal(body)) is None:
                inbox.discord.append(body)
            else:
                inbox.refused.append(f"{self.path}: {reason if self.path == DISCORD else body}")
                status = 400
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Web


def _smtp(inbox: Inbox) -> type[socketserver.StreamRequestHandler]:
    class Smtp(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 mail")
            recipient = ""
            for line in iter(self._line, "QUIT"):
                if line.startswith("RCPT TO:"):
                    recipient = line.partition(":")[2].strip("<>")
                if line == "DATA":
                    self._say("354 go on")
                    inbox.mail.append((recipient, "\n".join(iter(self._line, "."))))
                self._say("250 ok")
            self._say("221 bye")

        def _line(self) -> str:
            read = self.rfile.readline()
            return read.decode().rstrip("\r\n") if read else "QUIT"

        def _say(self, words: str) -> None:
            self.wfile.write(f"{words}\r\n".encode())

    return Smtp


def mail_of(inbox: Inbox) -> Iterator[tuple[str, str, str]]:
    """Recipient, subject and text of each mail."""
    for recipient, source in inbox.mail:
        message = message_from_string(source, policy=default)
        body = message.get_body(("plain",))
        assert body is not None
        yield recipient, str(message["Subject"]), body.get_content()


@contextmanager
def receivers() -> Iterator[tuple[Inbox, str, str]]:
    """The inbox, and where web and mail listen."""
    inbox = Inbox()
    web = ThreadingHTTPServer(("127.0.0.1", 0), _web(inbox))
    mail = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _smtp(inbox))
    mail.daemon_threads = True
    with web, mail, _served(web.serve_forever), _served(mail.serve_forever):
        try:
            yield inbox, f"127.0.0.1:{web.server_port}", f"127.0.0.1:{mail.server_address[1]}"
        finally:
            web.shutdown()
            mail.shutdown()


@contextmanager
def _served(serve: Callable[[float], None]) -> Iterator[None]:
    thread = threading.Thread(target=serve, args=(0.05,))
    thread.start()
    yield
    thread.join()
