"""What reaches people: no control characters on a terminal, and no traceback where nothing does."""

import contextlib
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from exporter.answers.kubectl.plugin import main as plugin
from exporter.cli import main
from exporter.console.output import OutputError, is_terminal, say, warn
from exporter.shown.printable import cell, clean, printable
from tests.answers.reading.hostile import ESCAPES, MODES, question_of
from tests.answers.reading.test_remote import Server
from tests.console.test_progress import Terminal

SIMULATED = ("--simulate=single", "--collection.interval=200ms")
OURS = re.compile(r"\r?\x1b\[K|\x1b\[[0-9;]*m|\r")  # of the line of progress, and colours


def run(*arguments: str, out: str, program: str = "exporter") -> subprocess.CompletedProcess[str]:
    """A command whose output goes where the shell is told."""
    line = f'exec "$@" {out}'
    whole = ["sh", "-c", line, "sh", sys.executable, "-m", program, *arguments]
    return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)


COMMANDS = [
    ("check", *SIMULATED),
    ("check", "--format=json", *SIMULATED),
    ("check-config",),
    ("check-config", "--format=json"),
    ("top", "--once", *SIMULATED),
    ("top", "--duration=1s", *SIMULATED),
    ("top", "--format=json", "--duration=1s", *SIMULATED),
    ("top", "--format=metrics", "--duration=1s", *SIMULATED),
    ("why", "inference/chat-0", "--since=1s", *SIMULATED),
    ("record", "--output=-", "--duration=1s", *SIMULATED),
    ("replay", "tests/replay/h100.rec.gz"),
    ("replay", "tests/replay/h100.rec.gz", "--cycle=each"),
    ("--help",),
    ("help", "bill"),
    ("--version",),
]
HELP = {"--help", "bill", "--version"}  # which standard error shows as well


@pytest.mark.slow
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_an_output_that_cannot_be_written_is_a_message(arguments: tuple[str, ...]) -> None:
    full = run(*arguments, out=">/dev/full")
    assert (full.returncode, full.stdout) == (2, "")
    last = full.stderr.splitlines()[-1]
    said = "mgpu-exporter: standard output cannot be written"
    assert last == f"{said}: No space left on device"
    assert "Traceback" not in full.stderr
    assert "Exception" not in full.stderr

    closed = run(*arguments, out=">&-")
    assert "Traceback" not in closed.stderr
    assert closed.returncode == (0 if arguments[-1] in HELP else 2)

    unread = run(*arguments, out="| true")
    assert "Traceback" not in unread.stderr
    assert "cannot be written" not in unread.stderr


@pytest.mark.slow
@pytest.mark.parametrize("out", ["2>/dev/full", "2>&-"])
def test_standard_error_may_be_closed_or_full(out: str) -> None:
    done = run("why", "/", out=out)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")
    assert run("top", "--duration=1s", *SIMULATED, out=out).returncode == 0


@pytest.mark.slow
def test_a_reader_that_goes_is_no_trouble() -> None:
    for arguments in COMMANDS:
        done = run(*arguments, out="| head -c 1 >/dev/null")
        assert done.stderr.count("\n") <= 2, (arguments, done.stderr)
        assert "cannot be written" not in done.stderr


@contextlib.contextmanager
def one_terminal() -> Iterator[Terminal]:
    """Standard output and error."""
    with Terminal() as terminal, redirect_stdout(terminal), redirect_stderr(terminal):
        yield terminal
        for handler in logging.getLogger().handlers:
            handler.flush()


@pytest.fixture
def prometheus() -> Iterator[str]:
    """One whose names are full of control characters."""
    server = Server()
    server.answer = lambda path, _: MODES["control characters"](question_of(path))
    yield f"--prometheus={server.url}"
    server.stop()


NASTY = f"x{ESCAPES}"
BILL = ("bill", "--price=1", "--since=1h")


@pytest.mark.parametrize(
    "arguments",
    [
        ("why", "team/chat"),
        ("why", f"team/{NASTY}"),
        ("top", "--once"),
        ("advise",),
        ("advise", f"--since={NASTY}"),
        ("advise", f"-n={NASTY}"),
        (*BILL, "--by=owner"),
        (*BILL, "--by=owner", "--format=csv"),
        (*BILL, "--by=pod", "--format=focus"),
        (*BILL, f"--prices={NASTY}"),
        (*BILL, f"--output={NASTY}/x"),
        (*BILL, f"--by={NASTY}"),
        ("bill", f"--price={NASTY}"),
        ("bill", f"--currency={NASTY}"),
        (NASTY,),
        (f"--{NASTY}",),
        (f"--config.file={NASTY}", "check-config"),
        (f"--log.level={NASTY}", "check-config"),
        ("replay", NASTY),
        ("snapshot", f"--simulate={NASTY}"),
        ("snapshot", f"--url={NASTY}"),
        ("top", f"--url=http://localhost/{NASTY}"),
        ("top", "--once", f"--token-file={NASTY}"),
    ],
    ids=ascii,
)
def test_a_terminal_gets_no_control_characters(arguments: tuple[str, ...], prometheus: str) -> None:
    named = () if "--url" in arguments[-1] else (prometheus,)
    asks = arguments[0] in {"why", "top", "advise", "bill"}
    with one_terminal() as terminal:
        with contextlib.suppress(SystemExit):
            main([*arguments, *(named if asks else ())])
        shown = terminal.getvalue()
    assert shown
    assert OURS.sub("", shown).replace("\n", "").isprintable(), ascii(shown)


@pytest.mark.parametrize(
    "arguments",
    [
        ("top", "--once", "-A"),
        ("why", "team/chat", "-A"),
        ("advise", "-A"),
        (*BILL, "-A", "--by=owner"),
        ("why", NASTY, "-A"),
        (NASTY,),
        ("top", f"--{NASTY}"),
        ("top", "--once", f"--kubeconfig={NASTY}"),
        ("top", "--once", f"--context={NASTY}"),
    ],
    ids=ascii,
)
def test_nor_of_kubectl(
    arguments: tuple[str, ...],
    prometheus: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    with one_terminal() as terminal:
        with contextlib.suppress(SystemExit):
            plugin([*arguments, *((prometheus,) if "-A" in arguments else ())])
        shown = terminal.getvalue()
    assert shown
    assert OURS.sub("", shown).replace("\n", "").isprintable(), ascii(shown)


def test_a_coloured_text_keeps_its_colours_and_no_more() -> None:
    with one_terminal() as terminal:
        assert is_terminal()
        say(f"\x1b[1;31mred\x1b[0m {ESCAPES}\n", coloured=True)
        warn(f"\x1b[31m{ESCAPES}")
        shown = terminal.getvalue()
    cleaned = clean(ESCAPES, longest=None)
    assert shown == f"\x1b[1;31mred\x1b[0m {cleaned}\n\\x1b[31m{cleaned}\n"


def test_a_file_gets_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "out").open("w", newline="") as out:
        monkeypatch.setattr(sys, "stdout", out)
        say(ESCAPES)
    assert (tmp_path / "out").read_bytes().decode() == ESCAPES


def test_there_may_be_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_terminal()
    warn("lost")
    with pytest.raises(OutputError, match="it is closed"):
        say("x")


@pytest.mark.parametrize("character", "=+-@\uff1d\uff0b\uff0d\uff20")
def test_no_cell_is_a_formula(character: str) -> None:
    assert cell(f"{character}1+1") == f"'{character}1+1"
    assert cell("chat-0/=x") == "chat-0/=x"


@pytest.mark.parametrize("text", ["\t=1", "\r=1", "\n=1", "\x00=1", "\ufeff=1"])
def test_no_cell_begins_with_a_character_that_is_not_shown(text: str) -> None:
    assert cell(text)[0] == "\\"


def test_only_one_module_writes_to_people() -> None:
    """Others would print what names of others say."""
    writers = {"output.py", "progress.py", "logs.py", "commandline.py", "top.py"}
    for path in Path("exporter").rglob("*.py"):
        said = path.read_text(encoding="utf-8")
        assert path.name in writers or not re.search(r"sys\.std(out|err)|\bprint\(", said), path


def test_printable_keeps_lines() -> None:
    assert printable("a\nb\u202e") == "a\nb\\u202e"
