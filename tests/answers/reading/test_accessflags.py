"""What is sent to another machine, what it may refuse, and files that never end."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.agent.commands.check_config import check_config
from exporter.answers.kubectl.plugin import main as plugin
from exporter.answers.reading.accessflags import far_feed, far_prometheus
from exporter.answers.reading.headers import MAX_HEADERS, headers_of
from exporter.answers.reading.jsonclient import Credentials, HttpClient
from exporter.cli import main
from exporter.httpclient import NoAnswerError
from exporter.inputs import files
from tests.answers.reading.flags import arguments
from tests.answers.reading.hostile import honest, question_of
from tests.answers.reading.test_remote import Answer, Server

SECRET = "correct-horse"  # noqa: S105 - of a test
TENANT = "X-Scope-OrgID: team"
PROMETHEUS = "--prometheus=http://a:1"


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


def sent(server: Server) -> list[str]:
    """The tenant that each question names."""
    return [headers.get("X-Scope-OrgID", "") for headers in server.headers]


@pytest.mark.parametrize(
    ("run", "command"),
    [
        (main, ["why", "team/chat"]),
        (main, ["top", "--once"]),
        (main, ["advise"]),
        (main, ["bill", "--price=1", "--since=1h"]),
        (plugin, ["why", "team/chat", "-A"]),
        (plugin, ["top", "--once", "-A"]),
        (plugin, ["advise", "-A"]),
        (plugin, ["bill", "--price=1", "--since=1h"]),
    ],
)
def test_every_question_has_the_headers(
    run: Callable[[list[str]], int],
    command: list[str],
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    server.answer = lambda path, _: (200, {}, _json(honest(question_of(path))))
    (tmp_path / "headers").write_text(f"# of Mimir\n\n{TENANT}\n")
    where = f"--prometheus={server.url}"

    for given in (["--header", TENANT], [f"--header-file={tmp_path / 'headers'}"]):
        assert run([*command, where, *given]) == 0
        assert server.headers
        assert set(sent(server)) == {"team"}
        server.headers.clear()
    monkeypatch.setenv("MGPU_REMOTE_HEADER", TENANT)
    run([*command, where])
    assert set(sent(server)) == {"team"}


def test_an_exporter_is_asked_with_them_too(server: Server) -> None:
    main(["top", "--once", f"--url={server.url}", "--header", TENANT])
    main(["top", "--once", f"--url={server.url}", "--header", TENANT])
    main(["why", "team/chat", f"--url={server.url}", "--header", TENANT])

    assert sent(server) == ["team"] * 3


def _json(document: object) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("X-Scope-OrgID", "NAME: VALUE"),
        (": team", "NAME: VALUE"),
        ("X Scope: team", "NAME: VALUE"),
        ("X-Scope-OrgID:", "no value"),
        ("X-Scope-OrgID: a\r\nHost: b", "no value, or one of other characters"),
        ("X-Scope-OrgID: a\nHost: b", "no value, or one of other characters"),
        ("X-Scope-OrgID: \x00", "no value, or one of other characters"),
        ("X-Scope-OrgID: é", "no value, or one of other characters"),
        ("X-Scope-OrgID: \udcff", "no value, or one of other characters"),
        (f"X-Scope-OrgID: {'x' * 9000}", "no value, or one of other characters"),
        ("Host: other", "is written by this program itself"),
        ("content-length: 7", "is written by this program itself"),
        ("Transfer-Encoding: chunked", "is written by this program itself"),
        (f"Authorization: Bearer {SECRET}", "everybody on this machine can read a command line"),
        (f"cookie: {SECRET}", "everybody on this machine can read a command line"),
    ],
)
def test_a_header_that_cannot_be_sent_is_named(header: str, words: str) -> None:
    with pytest.raises(NoAnswerError) as caught:
        far_prometheus(arguments(PROMETHEUS, "--header", header, prometheus=True), {})

    assert str(caught.value).startswith("--header: ")
    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def test_headers_are_bounded_and_given_once() -> None:
    with pytest.raises(ValueError, match="x-scope-orgid is given twice"):
        headers_of([TENANT], ["x-scope-orgid: other"])
    with pytest.raises(ValueError, match=f"more than {MAX_HEADERS} headers"):
        headers_of([f"X-{n}: a" for n in range(MAX_HEADERS + 1)], [])


def test_a_file_may_log_in_by_a_header_but_not_twice(server: Server, tmp_path: Path) -> None:
    (tmp_path / "headers").write_text(f"Authorization: ApiKey {SECRET}\n")
    given = [f"--url={server.url}", f"--header-file={tmp_path / 'headers'}"]
    feed = far_feed(arguments(*given), {})
    assert feed is not None
    with pytest.raises(NoAnswerError):
        feed.read()
    assert [said for _, said in server.asked] == [f"ApiKey {SECRET}"]

    with pytest.raises(NoAnswerError, match="Authorization is given twice"):
        far_feed(arguments(*given), {"MGPU_REMOTE_TOKEN": "t"})


NO_CREDENTIALS = "asks for a user and a password, or a token, and none was given"


ESCAPED = '{{"message": "{}"}}'.format("".join(f"\\u{ord(each):04x}" for each in SECRET))


@pytest.mark.parametrize(
    ("status", "credentials", "body", "words"),
    [
        (401, Credentials(), b"", NO_CREDENTIALS),
        (401, Credentials(), b"<html>login</html>", NO_CREDENTIALS),
        (401, Credentials(token=SECRET), b"", "refuses the token"),
        (401, Credentials("alice", SECRET), b"", "refuses the password of alice"),
        (401, Credentials("a\x1bb", SECRET), b"", "refuses the password of a\\x1bb"),
        (401, Credentials(), b"no org id\n", "--header 'X-Scope-OrgID: TENANT' (no org id)"),
        (401, Credentials(token=SECRET), b"expired", "refuses the token; it says: expired"),
        (403, Credentials(token=SECRET), b"", "does not let you see this, by the token"),
        (403, Credentials("bob", "x"), b"", "see this, by the password of bob"),
        (403, Credentials(), b"not you", "by no password or token; its operator may"),
        (401, Credentials(headers=(("X-Api-Key", SECRET),)), b"", "refuses the header X-Api-Key"),
        (401, Credentials(token=SECRET), SECRET.encode(), "refuses the token"),
        (400, Credentials(token=SECRET), SECRET.encode(), "no reason given"),
        *(
            (status, Credentials(token=SECRET), body, "it says: Missing Authentication Token")
            for status in (401, 403)
            for body in (
                b'{"message": "Missing Authentication Token"}',
                b'{"Message":"Missing Authentication Token","code":7}',
                b'{"error": {"code": 403, "message": "Missing Authentication Token"}}',
                b'[{"errors": [{"detail": "Missing Authentication Token"}]}]',
                b'"Missing Authentication Token"',
            )
        ),
        (403, Credentials(), b'{"code": 7, "x": "y"}', 'it says: {"code": 7, "x": "y"}'),
        (403, Credentials(), b'{"message": "cut', 'it says: {"message": "cut'),
        (403, Credentials(token=SECRET), ESCAPED.encode(), "by the token; its operator may"),
    ],
)
def test_a_refusal_says_what_was_refused(
    status: int, credentials: Credentials, body: bytes, words: str, server: Server
) -> None:
    server.answer = lambda *_: (status, {}, body)

    with pytest.raises(NoAnswerError) as caught:
        HttpClient(server.url, credentials).json("/x")

    assert words in str(caught.value)
    assert SECRET not in str(caught.value)


def of_an_exporter(path: str, _: str) -> Answer:
    is_ours = path == "/api/v1/snapshot"
    return (200, {}, b'{"api_version": "v1"}') if is_ours else (404, {}, b"")


@pytest.mark.parametrize("command", ["top --once", "why a/b", "advise", "bill --price=1"])
def test_an_exporter_that_is_asked_as_a_prometheus_is_said(
    command: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = of_an_exporter

    assert main([*command.split(), f"--prometheus={server.url}"]) == 2
    assert "is an exporter, no Prometheus: give it with --url" in capsys.readouterr().err


@pytest.mark.parametrize("status", [404, 400])  # VictoriaMetrics: 400
@pytest.mark.parametrize("command", ["top --once", "why a/b", "top --once --format=json"])
def test_a_prometheus_that_is_asked_as_an_exporter_is_said(
    command: str, status: int, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(path: str, _: str) -> Answer:
        is_question = path == "/api/v1/query?query=1"
        return (200, {}, b'{"status": "success"}') if is_question else (status, {}, b"")

    server.answer = answer

    assert main([*command.split(), f"--url={server.url}"]) == 2
    assert "is a Prometheus, no exporter: give it with --prometheus" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "given"),
    [
        ("MGPU_REMOTE_PASSWORD", ("--url=http://a:1", "--user=me")),
        ("MGPU_REMOTE_TOKEN", ("--url=http://a:1",)),
        ("MGPU_REMOTE_USER", ("--url=http://a:1",)),
        ("MGPU_REMOTE_URL", ()),
        ("MGPU_REMOTE_PROMETHEUS", ()),
        ("MGPU_REMOTE_NAMESPACE", (PROMETHEUS,)),
        ("MGPU_REMOTE_JOB", (PROMETHEUS,)),
    ],
)
def test_a_variable_that_is_not_utf8_is_named(variable: str, given: tuple[str, ...]) -> None:
    with pytest.raises(NoAnswerError, match=f"^{variable}: not UTF-8$"):
        far_feed(arguments(*given, prometheus=True), {variable: "caf\udce9"})


def test_arguments_that_are_not_utf8_are_no_traceback(
    server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answer = lambda path, _: (200, {}, _json(honest(question_of(path)) | {"status": ""}))
    where = f"--prometheus={server.url}"
    for command in (["why", "a/caf\udce9"], ["bill", "--price=1", "--by=label:\udce9"]):
        assert main([*command, where]) == 2
    assert main(["why", "a/b", where, "-n=\udce9"]) == 2
    assert "--namespace: not UTF-8" in capsys.readouterr().err


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A named pipe that nobody writes to."""
    monkeypatch.setattr(files, "WAIT_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


@pytest.mark.parametrize(
    "command",
    [
        "bill --price=1 --prices={pipe} --prometheus=http://a:1",
        "top --once --url=http://a:1 --token-file={pipe}",
        "top --once --url=http://a:1 --user=me --password-file={pipe}",
        "top --once --url=http://a:1 --header-file={pipe}",
        "top --once --url=https://a:1 --ca-file={pipe}",
        "top --once --url=https://a:1 --cert-file={pipe}",
        "top --once --url=https://a:1 --cert-file=/dev/null --key-file={pipe}",
        "replay {pipe}",
        "snapshot --simulate={pipe}",
        "snapshot --config.file={pipe}",
        "check-config --config.file={pipe}",
        "check-config --web.config.file={pipe}",
        "check-config --kubeconfig={pipe}",
    ],
)
def test_a_pipe_that_nobody_writes_to_ends_a_command(
    command: str, pipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command.format(pipe=pipe).split()) in {1, 2}
    said = capsys.readouterr()
    assert any(word in said.out + said.err for word in ("pipe that nobody", "a pipe", "regular"))


def test_a_pipe_that_somebody_writes_to_is_read(pipe: Path, server: Server) -> None:
    """As a shell's ``<(pass show token)``."""
    writer = threading.Thread(target=lambda: pipe.write_text(f"{SECRET}\n"))
    writer.start()
    files.WAIT_S = 30.0  # the pipe's fixture gives it back
    feed = far_feed(arguments(f"--url={server.url}", f"--token-file={pipe}"), {})
    writer.join()
    assert feed is not None
    with pytest.raises(NoAnswerError):
        feed.read()
    assert [said for _, said in server.asked] == [f"Bearer {SECRET}"]


def test_settings_in_a_pipe_are_read_once(pipe: Path) -> None:
    writer = threading.Thread(target=lambda: pipe.write_text("log: {level: debug}\n"))
    writer.start()
    files.WAIT_S = 30.0
    assert check_config({"config.file": [str(pipe)]}, environ={}) == 0
    writer.join()
