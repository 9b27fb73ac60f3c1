"""The command ``advise``: what each workload should ask for, by what a Prometheus saw of it."""

import time
from argparse import ArgumentParser, Namespace

from exporter.answers.prometheus import advice_report
from exporter.answers.prometheus.advice import advised
from exporter.answers.prometheus.ranges import moment
from exporter.answers.terminal.access import add_arguments as add_access
from exporter.answers.terminal.access import far_namespace, far_prometheus
from exporter.console.output import say, warn
from exporter.console.progress import progress
from exporter.httpclient import NoAnswerError
from exporter.shown.printable import clean, printable

_OK, _NOTHING = 0, 2
_SHORTEST_S = 3600


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    group = parser.add_argument_group("advise")
    group.add_argument("--since", default="7d", metavar="TIME", help="begin [default 7d, ago]")
    group.add_argument("--until", default="now", metavar="TIME", help="end [default now]")
    group.add_argument(
        "--format", choices=advice_report.FORMATS, default="table", help="[default table]"
    )
    add_access(parser, prometheus=True)


def advise(arguments: Namespace) -> int:
    """Print what to ask for. The exit status is 0; 2 if there is no advice."""
    now_s = int(time.time())
    try:
        since_s, until_s = (moment(text, now_s) for text in (arguments.since, arguments.until))
        until_s = min(until_s, now_s)  # nothing is known of the future
        if until_s - since_s < _SHORTEST_S:
            return _refused("--since has to be at least an hour before --until")
        if arguments.url:
            return _refused("--url: advice is of days, which a Prometheus has (--prometheus)")
        if arguments.job:
            return _refused("--job: advice is by recorded series, which are of no job")
        seen = far_namespace(arguments)
        prometheus = far_prometheus(arguments, namespace=seen, whole=True)
        with progress() as shown:
            shown.say("reading what was used ...")
            found = advised(prometheus, since_s, until_s, seen)
    except (NoAnswerError, ValueError) as error:
        return _refused(str(error))
    say(printable(advice_report.written_as(arguments.format, found, since_s, until_s)))
    return _OK


def _refused(why: str) -> int:
    warn(f"mgpu-exporter advise: {clean(why, longest=None)}")
    return _NOTHING
