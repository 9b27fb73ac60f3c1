"""The cluster of a test session; a table of the cases at its end, and logs where one failed."""

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.programs import tail
from cluster.sandbox import settle
from cluster.stage import Stage

_STAGE = pytest.StashKey[Stage]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "quick: in the quick half")


@pytest.fixture(scope="session")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(settle())
    request.config.stash[_STAGE] = made
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    say = terminalreporter.write_line
    stats = terminalreporter.stats
    if (stats.get("failed") or stats.get("error")) and _STAGE in config.stash:
        for log in config.stash[_STAGE].log_files():
            terminalreporter.write_sep("-", f"end of {'/'.join(log.parts[-3:])}")
            say(tail(log))
    terminalreporter.write_sep("=", "cases")
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in stats.get(outcome, []):
            say(f"{outcome:8} {_case(report.nodeid):80} {_reason(report)}")
    for note in config.stash[_STAGE].notes if _STAGE in config.stash else ():
        say(note)


def _case(nodeid: str) -> str:
    return nodeid.rpartition("::")[2].removeprefix("test_").replace("_", " ")


def _reason(report: Any) -> str:
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return f"{report.duration:.0f} s" if report.outcome == "passed" else ""
