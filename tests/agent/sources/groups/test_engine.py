"""Questions to engines over real sockets: answers, refusals and hostility."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.groups import engine as engine_module
from exporter.agent.sources.groups.engine import ContainerEngine, is_socket
from exporter.httpclient import NoAnswerError
from tests.agent.sources.groups.engines import serving, short_folder, talking

A, B = "a" * 64, "b" * 64


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_folder() as made:
        yield made


def test_names_are_those_of_the_containers_asked_about(folder: Path) -> None:
    with serving(folder / "docker.sock") as docker:
        docker.containers = [
            {"Id": A, "Names": ["/web"], "Image": "nginx", "Labels": {"secret": "x"}},
            {"Id": B, "Names": ["/web/db", "/db"]},
        ]
        assert ContainerEngine().names(str(docker.path), [A, B]) == {A: "web", B: "db"}
        assert docker.asked == [[A, B]]
        docker.status = 500
        with pytest.raises(NoAnswerError, match="answers 500"):
            ContainerEngine().names(str(docker.path), [A])


def test_many_ids_are_asked_about_in_several_questions(folder: Path) -> None:
    ids = [f"{number:064x}" for number in range(70)]
    with serving(folder / "s") as docker:
        docker.containers = [{"Id": one, "Names": [f"/c{one[-2:]}"]} for one in ids]
        assert len(ContainerEngine().names(str(docker.path), ids)) == 70
        assert max(map(len, docker.asked)) == engine_module.MAX_AT_ONCE
        assert max(map(len, docker.requests)) < 8192


def test_a_container_whose_description_is_too_long_costs_no_other_its_name(folder: Path) -> None:
    """Whoever starts a container chooses how long its labels are."""
    ids = [f"{number:064x}" for number in range(40)]
    with serving(folder / "s") as docker:
        docker.containers = [{"Id": one, "Names": [f"/c{one[-2:]}"]} for one in ids]
        docker.containers[7]["Labels"] = {"x": "x" * engine_module.LARGEST_ANSWER}
        found = ContainerEngine().names(str(docker.path), ids)
        assert {one for one, name in found.items() if not name} == {ids[7]}
        assert found.keys() == set(ids)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["web"], {A: "web"}),  # podman's
        (["/a\nb\x1b[31m"], {A: "a?b?[31m"}),
        (["/" + "x" * 1000], {A: "x" * 128}),
        (["/\udcff"], {A: "?"}),
        ([], {}),
        (["/"], {}),
        ([7, None, {}], {}),
        ("web", {}),
        (None, {}),
    ],
)
def test_a_name_is_text_of_bounded_length_or_none(
    folder: Path, names: object, told: dict[str, str]
) -> None:
    with serving(folder / "s") as docker:
        docker.body = json.dumps([{"Id": A, "Names": names}]).encode()
        assert ContainerEngine().names(str(docker.path), [A]) == told


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"{}", "no list"),
        (b"null", "no list"),
    ],
)
def test_an_answer_of_another_form_is_none(folder: Path, body: bytes, why: str) -> None:
    with serving(folder / "s") as docker:
        docker.body = body
        with pytest.raises(NoAnswerError, match=why):
            ContainerEngine().names(str(docker.path), [A])


@pytest.mark.parametrize(
    "one",
    [
        {"Id": B, "Names": ["/not asked about"]},
        7,
        None,
        [],
        {},
        {"Id": 5},
        {"Id": [A]},
        {"Id": {}, "Names": []},
    ],
)
def test_an_entry_of_another_form_costs_itself_only(folder: Path, one: object) -> None:
    with serving(folder / "s") as docker:
        docker.body = json.dumps([one, {"Id": A, "Names": ["/web"]}]).encode()
        assert ContainerEngine().names(str(docker.path), [A]) == {A: "web"}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_whatever_is_listed_nothing_but_an_engines_error_is_raised(listed: object) -> None:
    try:
        engine_module._names("s", json.dumps([listed]).encode(), frozenset({A}))
    except NoAnswerError:
        pytest.fail("it is a list")


def test_where_nobody_listens_there_is_no_engine(folder: Path) -> None:
    with pytest.raises(NoAnswerError, match="No such file") as gone:
        ContainerEngine().names(str(folder / "s"), [A])
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "left"))
    listener.close()
    with pytest.raises(NoAnswerError, match="Connection refused") as left:
        ContainerEngine().names(str(folder / "left"), [A])
    assert gone.value.absent
    assert left.value.absent


def drip(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:  # a byte now and then keeps every single read within its time
        connection.sendall(b"a")
        threading.Event().wait(0.02)


def half(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[]")


def greet(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"220 smtp ready\r\n")


@pytest.mark.parametrize(
    ("talk", "why", "timeout_s"),
    [
        (drip, r"no whole answer within 0\.2 s", 0.2),
        (half, "is broken off", 60),
        (greet, "does not answer: ", 60),
    ],
)
def test_what_is_no_whole_answer_is_told(
    folder: Path, talk: Callable[[socket.socket], None], why: str, timeout_s: float
) -> None:
    with talking(folder / "s", talk), pytest.raises(NoAnswerError, match=why):
        ContainerEngine(timeout_s).names(str(folder / "s"), [A])


def test_an_answer_that_is_too_long_is_not_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "LARGEST_ANSWER", 1000)
    with serving(folder / "s") as docker:
        docker.body = b"[" + b" " * 2000 + b"]"
        assert ContainerEngine().names(str(docker.path), [A]) == {A: ""}


def test_an_engine_whose_answers_are_all_too_long_is_given_up(folder: Path) -> None:
    """It may be a tenant's own, and take its time over each."""
    asked: list[None] = []

    def slow(connection: socket.socket) -> None:
        asked.append(None)
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (1 << 20))
        ended.wait(0.3)
        connection.sendall(b" " * 10)

    ended = threading.Event()
    with talking(folder / "s", slow), pytest.raises(NoAnswerError, match="more than"):
        ContainerEngine(timeout_s=0.5).names(str(folder / "s"), [f"{n:064x}" for n in range(32)])
    assert len(asked) <= 4


def test_a_question_is_interrupted(folder: Path) -> None:
    heard = threading.Event()

    def silent(connection: socket.socket) -> None:
        connection.recv(65536)
        heard.set()
        connection.recv(1)

    engine = ContainerEngine(timeout_s=60)
    with talking(folder / "s", silent):
        failed: list[NoAnswerError] = []

        def ask() -> None:
            try:
                engine.names(str(folder / "s"), [A])
            except NoAnswerError as error:
                failed.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        assert heard.wait(60)
        engine.interrupt()
        asking.join(60)
        assert failed
        with pytest.raises(NoAnswerError, match="interrupted"):
            engine.names(str(folder / "s"), [A])


def test_only_a_socket_of_the_user_or_of_root_is_asked(folder: Path) -> None:
    with serving(folder / "s") as docker:
        (folder / "link").symlink_to(docker.path)
        (folder / "file").touch()
        own = docker.path.stat().st_uid
        assert is_socket(str(docker.path))
        assert is_socket(str(docker.path), own)
        assert is_socket(str(docker.path), 4711) == (own == 0)
        assert not is_socket(str(folder / "link"))
        assert not is_socket(str(folder / "file"))
        assert not is_socket(str(folder / "none"))
