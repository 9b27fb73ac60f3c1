from pathlib import Path

import pytest
from prometheus_client.exposition import generate_latest as write_text
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import CollectorRegistry

from exporter.metrics.text import Format
from exporter.web.pages import OwnProcess

STAT = (
    "1 (a name) of ) two) S 0 1 1 0 -1 4194560 1031 0 20 0 5123 877 0 0 20 0 12 0 5217 29184000 "
    "5990 18446744073709551615\n"
)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A ``/proc`` that says the same each time."""
    (tmp_path / "stat").write_text("cpu 1 2 3\nbtime 1795329424\nprocesses 5\n")
    (tmp_path / "self" / "fd").mkdir(parents=True)
    (tmp_path / "self" / "stat").write_text(STAT)
    return tmp_path


def by_the_client(proc: Path, form: Format) -> list[str]:
    registry = CollectorRegistry()
    ProcessCollector(proc=str(proc), registry=registry)
    PlatformCollector(registry=registry)
    if form is Format.TEXT:
        return write_text(registry).decode().splitlines()
    text: bytes = write_openmetrics(registry)  # type: ignore[no-untyped-call]
    return text.decode().splitlines()


@pytest.mark.parametrize("form", Format)
def test_the_lines_are_those_of_the_client_library(proc: Path, form: Format) -> None:
    lines = OwnProcess(proc).page(form).decode().splitlines()

    theirs = by_the_client(proc, form)  # there is no file of limits, so neither of the two
    assert [line for line in lines if "_fds" not in line] == theirs


@pytest.mark.parametrize("form", Format)
def test_of_this_process_it_says_what_the_client_library_says(form: Format) -> None:
    lines = OwnProcess().page(form).decode().splitlines()

    theirs = by_the_client(Path("/proc"), form)
    assert [line.split()[:-1] for line in lines] == [line.split()[:-1] for line in theirs]
    limit = "process_max_fds "
    assert [v for v in lines if v.startswith(limit)] == [v for v in theirs if v.startswith(limit)]


def test_open_files_are_counted_without_those_that_counting_opens(tmp_path: Path) -> None:
    own = OwnProcess()
    before = open_files(own)

    with (tmp_path / "one").open("w"), (tmp_path / "two").open("w"):
        assert open_files(own) == before + 2


def open_files(own: OwnProcess) -> float:
    lines = own.page(Format.TEXT).decode().splitlines()
    [line] = [line for line in lines if line.startswith("process_open_fds ")]
    return float(line.split()[1])


@pytest.mark.parametrize("form", Format)
def test_without_proc_it_says_what_python_this_is(tmp_path: Path, form: Format) -> None:
    lines = OwnProcess(tmp_path).page(form).decode().splitlines()

    assert lines == by_the_client(tmp_path, form)
    assert lines
