"""Every command that reads a Prometheus, against one that is wrong in every way."""

import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.answers.kubectl.plugin import main as plugin
from exporter.answers.reading import queryapi
from exporter.answers.reading.feeds import prometheus, view_of
from exporter.answers.reading.feeds.prometheus import PrometheusFeed
from exporter.answers.reading.jsonclient import HttpClient
from exporter.answers.reading.queryapi import Prometheus
from exporter.cli import main
from exporter.httpclient import NoAnswerError, TooLongError
from tests.answers.reading.hostile import MODES, honest, question_of
from tests.answers.reading.test_remote import Server

MEMORY = 800 << 20  # more than what the process has
LONGEST_S = 120  # on a machine that does much else
# which take a command many seconds
LONG = {"15 MB of series", "a label of a megabyte", "a thousand labels", "twenty pods"}
Commands = dict[str, tuple[Callable[[list[str]], int], list[str]]]
EACH: Commands = {  # of each question that there is one, in the form that shows most
    "why of a namespace": (main, ["why", "chat", "-n", "team"]),
    "top": (main, ["top", "--once"]),
    "advise as YAML": (main, ["advise", "--format=yaml", "-n", "team"]),
    "bill by owner": (main, ["bill", "--price=1", "--by=owner", "--format=csv", "--since=10m"]),
    "kubectl mgpu top": (plugin, ["top", "--once", "-A"]),
}
OTHERS: Commands = {  # the same questions in other forms
    "why as JSON": (main, ["why", "team/chat", "--format=json", "--since=24h"]),
    "advise": (main, ["advise"]),
    "bill": (main, ["bill", "--price=1", "--since=10m"]),
    "bill by pod": (main, ["bill", "--price=1", "--by=pod", "--since=10m", "--format=focus"]),
    "bill as JSON": (main, ["bill", "--price=1", "--method=use", "--format=json", "--since=10m"]),
}
ALIKE: Commands = {  # these read and write as others do
    "why": (main, ["why", "team/chat"]),
    "top of a namespace": (main, ["top", "--once", "-n", "team"]),
    "kubectl mgpu bill": (plugin, ["bill", "--price=1", "--since=10m"]),
    "kubectl mgpu why": (plugin, ["why", "team/chat", "-A"]),
    "kubectl mgpu advise": (plugin, ["advise", "-A"]),
}
ALL: Commands = EACH | OTHERS | ALIKE


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Ends a command that takes too much time or memory, by an error."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setattr(queryapi, "AGAIN_S", (0.0,))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    yield
    signal.alarm(0)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def in_turn(mode: str, commands: Commands = EACH) -> str:
    """The command that a mode is tried with: neighbours in the table have different ones."""
    return list(commands)[list(MODES).index(mode) % len(commands)]


def of_slow(mode: str) -> Commands:
    """What `make test-slow` tries in a mode; where each takes seconds, each question once."""
    if mode in LONG:
        return EACH
    rest = {name: each for name, each in EACH.items() if name != in_turn(mode)}
    alike = in_turn(mode, ALIKE)
    return rest | OTHERS | {alike: ALIKE[alike]}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in LONG])
@pytest.mark.usefixtures("bounded")
def test_no_answer_makes_a_command_fail_with_more_than_a_message(
    mode: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    one = in_turn(mode)
    check_messages(mode, {one: EACH[one]}, server, capsys)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("bounded")
def test_nor_does_any_of_the_other_commands(
    mode: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    check_messages(mode, of_slow(mode), server, capsys)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.usefixtures("bounded")
def test_nor_does_any_of_those_that_are_like_others(
    mode: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = {name: each for name, each in ALL.items() if name not in of_slow(mode)}
    check_messages(mode, rest, server, capsys)


def check_messages(
    mode: str, commands: Commands, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command ends with a status that it may have, and says something that can be read."""
    server.answer = lambda path, _: MODES[mode](question_of(path))
    for name, (run, arguments) in commands.items():
        signal.alarm(LONGEST_S)  # of each command: all of them together may take long
        status = run([*arguments, f"--prometheus={server.url}"])
        said = capsys.readouterr()
        assert status in {0, 1, 2}, name
        assert (said.out + said.err).replace("\n", "").isprintable(), name
        assert "Traceback" not in said.err, name
        assert said.out or said.err, name


def test_the_honest_one_has_an_answer_for_every_command(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the modes reach what they are to hit."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    server.answer = lambda path, _: MODES["honest"](question_of(path))
    for name, (run, arguments) in ALL.items():
        status = run([*arguments, f"--prometheus={server.url}"])
        said = capsys.readouterr()
        assert status == 0, (name, said)
        assert said.out, name
    assert len(MODES) > 60
    assert honest(question_of("/api/v1/query?query=up&time=7"))


def test_a_fleet_that_is_too_large_for_one_answer_is_asked_by_fewer_families(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda path, _: MODES["honest"](question_of(path))
    whole = view_of(PrometheusFeed(Prometheus(HttpClient(server.url))).read(), "x")
    server.asked.clear()
    monkeypatch.setattr(queryapi, "MAX_SERIES", 30)

    feed = PrometheusFeed(Prometheus(HttpClient(server.url)))
    assert len(view_of(feed.read(), "x").lines) == len(whole.lines)
    first = len(server.asked)
    feed.read()
    assert len(server.asked) < 2 * first  # what was too much at once is not asked again

    monkeypatch.setattr(prometheus, "MAX_SHOWN", 50)
    with pytest.raises(NoAnswerError, match="more than 50 series: look at one namespace"):
        feed.read()
    monkeypatch.setattr(queryapi, "MAX_SERIES", 0)
    with pytest.raises(TooLongError):
        feed.read()
