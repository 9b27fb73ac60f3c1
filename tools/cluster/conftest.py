"""The cluster of a test session; a table of the cases at its end, and logs where one failed."""

import signal
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from tools.cluster.programs import tail
from tools.cluster.sandbox import state_inside
from tools.cluster.stage import Stage

_STAGE = pytest.StashKey[Stage]()


def pytest_configure(config: pytest.Config) -> None:
    signal.signal(signal.SIGTERM, _end)
    config.addinivalue_line("markers", "quick: in the quick half")


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(state_inside())
    request.config.stash[_STAGE] = made
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: pytest.Config) -> None:
    say = terminalreporter.write_line
    stats = terminalreporter.stats
    if exitstatus and _STAGE in config.stash:
        for log in config.stash[_STAGE].log_files():
            terminalreporter.write_sep("-", f"end of {'/'.join(log.parts[-3:])}")
            say(tail(log))
    terminalreporter.write_sep("=", "cases")
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in stats.get(outcome, []):
            say(f"{outcome:8} {_case(report.nodeid):80} {_reason(report)}")
    for note in config.stash[_STAGE].notes if _STAGE in config.stash else ():
        say(note)


def _end(number: int, _: object) -> NoReturn:
    """Tell to end as Ctrl-C does: with logs and table. Once, for everything has to be stopped."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _case(nodeid: str) -> str:
    return nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")


def _reason(report: Any) -> str:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return f"{report.duration:.0f} s" if report.outcome == "passed" else ""
