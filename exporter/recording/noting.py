"""Asks a source, and keeps what it said or raised."""

from collections.abc import Callable
from typing import TypeVar

from exporter.gpus.source import RestartRequiredError
from exporter.recording.cycle import Failure

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
