import io
import json
import logging

import pytest

from exporter.logs import LineFormatter


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


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(ValueError, match="'xml' is not one of logfmt, json"):
        LineFormatter("xml")
