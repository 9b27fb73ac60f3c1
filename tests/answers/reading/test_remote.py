"""Requests of the live view, against servers that are wrong in every way."""

import contextlib
import gzip
import json
import socket
import threading
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from exporter.answers.reading.accessflags import VARIABLES, far_feed
from exporter.answers.reading.feeds.prometheus import PrometheusFeed
from exporter.answers.reading.feeds.remote import RemoteFeed
from exporter.answers.reading.jsonclient import Credentials, HttpClient
from exporter.httpclient import LARGEST, NoAnswerError
from tests.answers.reading.flags import arguments, parser

Answer = tuple[int, dict[str, str], bytes]
SECRET = "correct-horse"  # noqa: S105 - of a test


class Quiet(ThreadingHTTPServer):
    """Says nothing of clients that hang up."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """It is the client's right."""


class Server:
    """``answer`` is given the request's path and Authorization."""

    def __init__(self) -> None:
        self.answer: Callable[[str, str], Answer] = lambda *_: (200, {}, b"{}")
        self.asked: list[tuple[str, str]] = []
        self.headers: list[Message] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Answer as told."""
                said = self.headers.get("Authorization", "")
                server.asked.append((self.path, said))
                server.headers.append(self.headers)
                status, headers, body = server.answer(self.path, said)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Stay quiet."""

        self._http = Quiet(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def stop(self) -> None:
        """Listen no more."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@contextlib.contextmanager
def talking(said: bytes, path: str = "") -> Iterator[str]:
    """A server that answers each request with this and hangs up."""

    def talk(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # until it listens no more
            while True:
                with listener.accept()[0] as connection:
                    connection.recv(4096)
                    connection.sendall(said)

    with socket.socket(socket.AF_UNIX if path else socket.AF_INET) as listener:
        listener.bind(path or ("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=talk, args=(listener,), daemon=True)
        thread.start()
        yield "" if path else f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def refusal(server: Server, **credentials: Any) -> str:
    with pytest.raises(NoAnswerError) as caught:
        HttpClient(server.url, Credentials(**credentials)).json("/x")
    return str(caught.value)


def test_an_object_is_read(server: Server) -> None:
    server.answer = lambda *_: (200, {}, b'{"a": 1}')

    assert HttpClient(f"{server.url}/").json("/x", {"q": "a b"}) == {"a": 1}
    assert server.asked == [("/x?q=a+b", "")]


def test_gzip_is_unpacked(server: Server) -> None:
    server.answer = lambda *_: (200, {"Content-Encoding": "gzip"}, gzip.compress(b'{"a": 1}'))

    assert HttpClient(server.url).json("/x") == {"a": 1}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "asks for a user and a password"),
        (403, "does not let you see this"),
        (404, "has no such page"),
        (429, "is asked too often"),
        (302, "redirects"),
        (500, "it is on fire"),
        (799, "it is on fire"),
    ],
)
def test_a_refusal_is_a_sentence_with_the_address(status: int, words: str, server: Server) -> None:
    server.answer = lambda *_: (status, {"Location": "/y"}, b"it is on fire")

    said = refusal(server)

    assert said.startswith(f"{server.url} answers {status}: ")
    assert words in said


def test_credentials_are_sent_and_never_said(server: Server) -> None:
    server.answer = lambda *_: (401, {}, b"")
    who = Credentials(user="me", password=SECRET)

    said = refusal(server, user="me", password=SECRET) + refusal(server, token=SECRET)

    assert [one for _, one in server.asked] == [
        "Basic bWU6Y29ycmVjdC1ob3JzZQ==",
        f"Bearer {SECRET}",
    ]
    assert SECRET not in said + repr(who)


def test_a_tenant_is_no_secret_that_would_hide_what_a_store_says(server: Server) -> None:
    server.answer = lambda *_: (422, {}, b"the query exceeded 1000 series")

    said = refusal(server, headers=(("X-Scope-OrgID", "1"),))

    assert said.endswith("the query exceeded 1000 series")


def test_credentials_go_nowhere_else(server: Server) -> None:
    other = Server()
    server.answer = lambda *_: (302, {"Location": f"{other.url}/x"}, b"")

    said = refusal(server, token=SECRET)

    other.stop()
    assert "redirects" in said
    assert other.asked == []


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"<html>", b"{", b"[" * 100_000, b"\xff"),
        *(b'{"a": NaN}', b'{"a": -Infinity}', b'{"a": 1e999}'),  # Python reads and writes these
    ],
)
def test_what_is_no_object_is_refused(body: bytes, server: Server) -> None:
    server.answer = lambda *_: (200, {}, body)

    assert "something else than a JSON object" in refusal(server)


def test_a_bomb_is_not_unpacked(server: Server) -> None:
    bomb = gzip.compress(bytes(LARGEST + 1000), 9)
    server.answer = lambda *_: (200, {"Content-Encoding": "gzip"}, bomb)

    assert "more than" in refusal(server)


def test_an_answer_that_drips_ends_in_time() -> None:
    """A byte now and then keeps every single read within its time."""
    ended = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not ended.wait(0.02):
                connection.sendall(b"a")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener,), daemon=True)
        server.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(NoAnswerError, match=r"no whole answer within 0\.3 s$"):
            HttpClient(url, timeout_s=0.3).get("/")
        ended.set()
        server.join()


def test_a_longer_answer_than_allowed_is_none(server: Server) -> None:
    server.answer = lambda *_: (200, {}, b"x" * 101)

    assert len(HttpClient(server.url, largest=101).get("/")) == 101
    with pytest.raises(NoAnswerError, match="answers with more than 100 bytes"):
        HttpClient(server.url, largest=100).get("/")


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
        b"220 ready\r\n",
        b"\x15\x03\x01\x00\x02\x02\x16",
    ],
)
def test_what_is_no_whole_answer_is_none(said: bytes) -> None:
    with talking(said) as url, pytest.raises(NoAnswerError, match="does not answer: "):
        HttpClient(url).get("/")


def test_a_unix_socket_is_asked_too(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with pytest.raises(NoAnswerError, match="No such file or directory") as gone:
        HttpClient(socket=path).get("/")
    with talking(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", path):
        assert HttpClient(socket=path).json("/x") == {}
    assert gone.value.absent


def test_what_a_server_says_cannot_act_on_the_terminal(server: Server) -> None:
    server.answer = lambda *_: (500, {}, b"\x1b[2Jgone")

    assert r"\x1b[2Jgone" in refusal(server)


def test_nobody_there_is_said_in_words() -> None:
    with pytest.raises(
        NoAnswerError, match=r"^http://127\.0\.0\.1:1 does not answer: Connection refused"
    ):
        HttpClient("http://127.0.0.1:1").get("/")


def test_https_to_a_plain_server_says_so(server: Server) -> None:
    with pytest.raises(NoAnswerError, match=r"does not answer: what is there does not speak TLS"):
        HttpClient(server.url.replace("http:", "https:")).get("/")


def test_a_server_that_hangs_up_may_be_one_of_tls() -> None:
    with talking(b"") as url, pytest.raises(NoAnswerError, match=r"see whether it is https://$"):
        HttpClient(url).get("/")


@pytest.mark.parametrize("url", ["node:10045", "ftp://node", "file:///etc/passwd", "http://", "x"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(NoAnswerError, match="is no address such as"):
        HttpClient(url)


def test_an_address_with_a_password_is_refused_without_saying_it() -> None:
    with pytest.raises(NoAnswerError) as caught:
        HttpClient(f"http://me:{SECRET}@node:1")

    assert SECRET not in str(caught.value)


def test_an_exporter_of_another_version_is_refused(server: Server) -> None:
    server.answer = lambda *_: (200, {}, json.dumps({"api_version": "v9\x1b"}).encode())

    with pytest.raises(NoAnswerError, match=r"speaks v9\\x1b; this version v1"):
        RemoteFeed(HttpClient(server.url)).read()


def test_an_exporter_is_shown_without_the_last_minutes_where_these_do_not_come(
    server: Server,
) -> None:
    body = json.dumps({"api_version": "v1", "node": "n1"}).encode()
    server.answer = lambda path, _: (500, {}, b"") if "history" in path else (200, {}, body)

    assert [node.name for node in RemoteFeed(HttpClient(server.url)).read().nodes] == ["n1"]


def test_without_flags_and_variables_it_is_this_node() -> None:
    assert far_feed(arguments(prometheus=True), {}) is None


def test_variables_name_a_feed_as_flags_do() -> None:
    by_flag = far_feed(arguments("--url=http://a:1", prometheus=True), {})
    by_variable = far_feed(arguments(prometheus=True), {"MGPU_REMOTE_URL": "http://a:1"})
    prometheus = far_feed(arguments("--prometheus=http://p", "-n", "ns", prometheus=True), {})

    assert isinstance(by_flag, RemoteFeed)
    assert isinstance(by_variable, RemoteFeed)
    assert by_flag.name == by_variable.name == "http://a:1"
    assert isinstance(prometheus, PrometheusFeed)
    assert prometheus.name == "ns by http://p"


def test_a_variable_counts_only_where_its_flag_is() -> None:
    assert far_feed(arguments(), {"MGPU_REMOTE_PROMETHEUS": "http://p"}) is None


@pytest.mark.parametrize(
    ("flags", "variables", "said"),
    [
        (("--url=http://a", "--prometheus=http://b"), (), "--url and --prometheus are both given"),
        ((), ("URL", "PROMETHEUS"), "MGPU_REMOTE_URL and MGPU_REMOTE_PROMETHEUS are both given"),
    ],
)
def test_two_feeds_contradict_one_another(
    flags: tuple[str, ...], variables: tuple[str, ...], said: str
) -> None:
    environ = {f"MGPU_REMOTE_{name}": "http://c" for name in variables}
    with pytest.raises(NoAnswerError, match=said):
        far_feed(arguments(*flags, prometheus=True), environ)


@pytest.mark.parametrize("flag", ["url", "prometheus"])
def test_a_flag_wins_over_the_variable_of_the_other(flag: str) -> None:
    environ = {"MGPU_REMOTE_URL": "http://b", "MGPU_REMOTE_PROMETHEUS": "http://b"}
    found = far_feed(arguments(f"--{flag}=http://a", prometheus=True), environ)
    assert isinstance(found, RemoteFeed if flag == "url" else PrometheusFeed)
    assert found.name.endswith("http://a")


def test_secrets_come_from_files_or_variables(server: Server, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{SECRET}\n")
    server.answer = lambda *_: (200, {}, b'{"api_version": "v1"}')
    given = arguments(
        f"--url={server.url}", "--user=me", f"--password-file={tmp_path / 'password'}"
    )
    for made in (
        far_feed(given, {}),
        far_feed(arguments(f"--url={server.url}"), {"MGPU_REMOTE_TOKEN": SECRET}),
    ):
        assert made is not None
        made.read()

    said = {one for _, one in server.asked}
    assert said == {"Basic bWU6Y29ycmVjdC1ob3JzZQ==", f"Bearer {SECRET}"}


@pytest.mark.parametrize("flag", ["--password-file", "--token-file", "--ca-file", "--cert-file"])
def test_a_file_that_cannot_be_read_is_named(flag: str) -> None:
    with pytest.raises(NoAnswerError) as caught:
        far_feed(arguments("--url=https://a:1", f"{flag}=/nonexistent"), {})

    assert "No such file or directory" in str(caught.value)
    assert "Errno" not in str(caught.value)


def test_help_names_every_variable() -> None:
    text = parser(prometheus=True).format_help()

    assert all(f"${variable}" in text for variable in VARIABLES)
