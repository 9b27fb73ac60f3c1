import io
import json
import logging

import pytest

from exporter.console.logs import MAX_REMEMBERED, Collapsing, LineFormatter
from tests.agent.simulation.clock import ManualClock


def record(message: str, *args: object, error: Exception | None = None) -> logging.LogRecord:
    exc_info = (type(error), error, None) if error else None
    made = logging.LogRecord("exporter.x", logging.WARNING, "f", 1, message, args, exc_info)
    made.created = 1.5
    return made


@pytest.mark.parametrize(
    ("message", "written"),
    [
        ("ready", "ready"),
        ("it is up", '"it is up"'),
        ("a=b", '"a=b"'),
        ('say "x"', r'"say \"x\""'),
        ("two\nlines", r'"two\nlines"'),
        ("\x1b[31mred", r'"\u001b[31mred"'),
        ("Grüße", '"Grüße"'),
        ("", '""'),
    ],
)
def test_logfmt_quotes_where_it_must(message: str, written: str) -> None:
    line = LineFormatter("logfmt").format(record("%s", message))

    assert line == f"ts=1970-01-01T00:00:01.500Z level=warning logger=exporter.x msg={written}"


def test_json_is_one_object_a_line() -> None:
    line = LineFormatter("json").format(record('two\nlines "%s"', 1))

    assert "\n" not in line
    assert json.loads(line) == {
        "ts": "1970-01-01T00:00:01.500Z",
        "level": "warning",
        "logger": "exporter.x",
        "msg": 'two\nlines "1"',
    }


@pytest.mark.parametrize("form", ["logfmt", "json"])
def test_a_traceback_stays_on_the_line(form: str) -> None:
    stream = io.StringIO(LineFormatter(form).format(record("failed", error=ValueError("bad"))))

    [line] = stream.readlines()
    assert "ValueError: bad" in line


@pytest.mark.parametrize(
    ("level", "message", "written"),
    [
        (logging.INFO, "recorded 3 cycles", "recorded 3 cycles"),
        (logging.WARNING, "Grüße, %d", "mgpu-exporter: Grüße, %d"),
        (logging.ERROR, "\x1b[31mred", r"mgpu-exporter: \x1b[31mred"),
    ],
)
def test_people_get_the_message_without_what_moves_a_terminal(
    level: int, message: str, written: str
) -> None:
    made = logging.LogRecord("exporter.x", level, "f", 1, message, (), None)

    assert LineFormatter("plain").format(made) == written


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="'xml' is not one of logfmt, json, plain"):
        LineFormatter("xml")


class Log:
    """A logger's lines through ``Collapsing``."""

    def __init__(self) -> None:
        self.clock, self._stream = ManualClock(0, 0), io.StringIO()
        inner = logging.StreamHandler(self._stream)
        inner.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.handler = Collapsing(inner, self.clock)

    def say(self, message: str, at_s: float, level: int = logging.WARNING) -> None:
        """Log a message at a moment."""
        self.clock.now_ns = int(at_s * 1e9)
        self.handler.handle(logging.LogRecord("x", level, "f", 1, message, (), None))

    @property
    def lines(self) -> list[str]:
        """What was written."""
        return self._stream.getvalue().splitlines()


def test_a_message_is_written_at_once_and_its_repetitions_as_one_line() -> None:
    log = Log()

    for second in range(50):
        log.say("no answer", second)
    log.say("other", 49)
    log.say("no answer", 60)

    assert log.lines == [
        "WARNING no answer",
        "WARNING other",
        "WARNING no answer (repeated 49 times within the last 60 s)",
        "WARNING no answer",
    ]


def test_the_same_words_at_another_level_are_another_message() -> None:
    log = Log()

    log.say("gone", 0, logging.INFO)
    log.say("gone", 1, logging.ERROR)

    assert log.lines == ["INFO gone", "ERROR gone"]


def test_what_was_only_counted_is_written_at_the_end() -> None:
    log = Log()
    log.say("no answer", 0)
    log.say("no answer", 3)

    log.clock.now_ns = 5 * 10**9
    log.handler.close()

    assert log.lines[1:] == ["WARNING no answer (repeated once more within the last 5 s)"]


def test_messages_that_all_differ_are_remembered_up_to_a_bound() -> None:
    log = Log()

    for number in range(2 * MAX_REMEMBERED):
        log.say(str(number), 0)
    log.say("0", 0)

    assert len(log.lines) == 2 * MAX_REMEMBERED + 1


def test_a_repeated_failure_keeps_its_traceback_out_of_the_count() -> None:
    stream = io.StringIO()
    inner = logging.StreamHandler(stream)
    inner.setFormatter(LineFormatter("logfmt"))
    handler = Collapsing(inner, ManualClock(0, 0))
    for _ in range(3):
        handler.handle(record("failed", error=ValueError("bad")))
    handler.close()

    assert stream.getvalue().count("ValueError") == 1
    assert "repeated 2 times" in stream.getvalue()
