"""The command ``check``: examines this node as the exporter would use it, and reports problems."""

import logging
import os
import shutil
import time
from argparse import ArgumentParser, Namespace

from exporter.agent.collector.wiring import open_sources
from exporter.agent.doctor import CheckVerdict, ReportEntry, as_json, as_text, examine, gather
from exporter.agent.settings import Settings
from exporter.agent.simulation import ScenarioError
from exporter.console.output import is_terminal, say
from exporter.console.progress import progress

logger = logging.getLogger(__name__)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    group = parser.add_argument_group("check")
    group.add_argument(
        "--format", choices=("text", "json"), default="text", help="of the report [default text]"
    )


def check(settings: Settings, arguments: Namespace) -> int:
    """Print the report. The exit status is 0 if there is no problem, else 1."""
    try:
        sources = open_sources(settings)
    except ScenarioError as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says it all
        return 1
    if settings.log_level != "debug":  # the report has what the sources log
        logging.getLogger().setLevel(logging.CRITICAL)
    examined: list[ReportEntry] = []
    with progress() as shown:
        shown.say("asking the sources for some seconds ...")
        for one in examine(gather(settings, sources, time)):
            examined.append(one)
            shown.say(f"examining {one.room} ...")
    if arguments.format == "json":
        say(as_json(examined))
    else:
        width = shutil.get_terminal_size().columns
        # no-color.org: any value counts, but an empty one.
        coloured = is_terminal() and not os.environ.get("NO_COLOR")
        say(as_text(examined, width, coloured=coloured), coloured=coloured)
    # Notes do not count: what they are about was not asked for, or may be intended.
    return 1 if any(one.finding.verdict is CheckVerdict.PROBLEM for one in examined) else 0
