import io

from exporter.console.progress import progress


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        """It is one."""
        return True


class Watch:
    """Moves by so much with each look at it."""

    def __init__(self, step_ns: int) -> None:
        self._now_ns, self._step_ns = 0, step_ns

    def monotonic_ns(self) -> int:
        """A later time than before."""
        self._now_ns += self._step_ns
        return self._now_ns

    def time_ns(self) -> int:
        """The newest time."""
        return self._now_ns


def test_a_terminal_shows_the_newest_words_and_an_empty_line_at_the_end() -> None:
    stream = Terminal()

    with progress(stream, Watch(10**9)) as shown:
        shown.say("1 of 2")
        shown.say("2 of 2")

    assert stream.getvalue() == "\r\x1b[K1 of 2\r\r\x1b[K2 of 2\r\r\x1b[K"


def test_what_is_no_terminal_is_left_alone() -> None:
    stream = io.StringIO()

    with progress(stream) as shown:
        shown.say("1 of 2")

    assert stream.getvalue() == ""


def test_quick_work_is_shown_now_and_then() -> None:
    stream = Terminal()

    with progress(stream, Watch(10**6)) as shown:
        for number in range(1000):
            shown.say(str(number))

    assert 5 <= stream.getvalue().count("\x1b[K") <= 12
