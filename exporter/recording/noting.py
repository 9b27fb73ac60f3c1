"""Asks a source, and keeps what it said or raised."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from exporter.collector.sources import Reporting
from exporter.gpus.source import RestartRequiredError
from exporter.model import SourceStatus
from exporter.recording.cycle import Failure
from exporter.recording.draft import Report
from exporter.recording.names import Names

T = TypeVar("T")

LONGEST_MESSAGE = 200


def noted(ask: Callable[[], T], note: Callable[[T | Failure], None]) -> T:
    """What ``ask`` returns or raises, noted."""
    try:
        answer = ask()
    except Exception as error:
        restart = isinstance(error, RestartRequiredError)
        note(Failure((str(error) if restart else repr(error))[:LONGEST_MESSAGE], restart))
        raise
    note(answer)
    return answer


def status(source: Reporting, report: Report, names: Names) -> SourceStatus:
    """How a source says it fares, noted."""
    return noted(
        lambda: names.status(source.status()), lambda answer: setattr(report, "status", answer)
    )


def rejected(source: Reporting, report: Report) -> Mapping[str, int]:
    """What a source says it could not use, noted."""
    return noted(source.rejected, lambda answer: setattr(report, "rejected", answer))
