"""The command ``advise``: what each workload should ask for, by what a Prometheus saw of it."""

import time
from argparse import ArgumentParser, Namespace
from functools import partial

from exporter.answers.advise import advicereport
from exporter.answers.advise.advice import advised
from exporter.answers.reading.accessflags import add_arguments as add_access
from exporter.answers.reading.accessflags import far_namespace, far_prometheus
from exporter.answers.reading.ranges import add_range, range_of
from exporter.console.output import columns, say, warn
from exporter.console.progress import progress
from exporter.httpclient import NoAnswerError
from exporter.shown.printable import clean, printable

_OK, _NOTHING = 0, 2
_SHORTEST_S = 3600
_LESS = "one namespace (-n), a shorter range (--since) or fewer targets (--target)"
_LONGEST_S = 120.0  # of an answer, as Prometheus has it


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    group = parser.add_argument_group("advise")
    add_range(group, "7d")
    group.add_argument(
        "--format", choices=advicereport.FORMATS, default="table", help="[default table]"
    )
    add_access(parser, prometheus=True, without=("url", "job"))


def advise(arguments: Namespace) -> int:
    """Print what to ask for. The exit status is 0; 2 if there is no advice."""
    try:
        since_s, until_s = range_of(arguments, int(time.time()), _SHORTEST_S)
        namespace = far_namespace(arguments)
        prometheus = far_prometheus(
            arguments, namespace=namespace, all_stores=True, timeout_s=_LONGEST_S, less=_LESS
        )
        with progress() as shown:
            shown.say("reading what was used ...")
            found = advised(prometheus, since_s, until_s, namespace, partial(_warn, arguments))
    except (NoAnswerError, ValueError) as error:
        _warn(arguments, str(error))
        return _NOTHING
    said = advicereport.written_as(arguments.format, found, since_s, until_s, columns())
    say(printable(said))
    return _OK


def _warn(arguments: Namespace, why: str) -> None:
    warn(f"{arguments.program} advise: {clean(why, longest=None)}")
