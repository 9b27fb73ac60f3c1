"""The command ``top``: shows the usage of the GPUs live in a terminal."""

import logging
import sys
from argparse import ArgumentParser, Namespace
from importlib.util import find_spec

from exporter.answers.terminal.access import add_arguments as add_access
from exporter.answers.terminal.access import far_feed, far_namespace, here
from exporter.answers.terminal.feeds import Feed, NamespaceFeed, OwnNode
from exporter.answers.terminal.feeds.prometheus import PrometheusFeed
from exporter.answers.terminal.once import USUAL_NS, print_once
from exporter.console.commandline import argument
from exporter.console.output import is_terminal
from exporter.httpclient import NoAnswerError
from exporter.inputs.kinds import duration
from exporter.model import SECOND_NS

logger = logging.getLogger(__name__)

PROMETHEUS_EVERY_NS = 5 * SECOND_NS
_CANNOT = 2


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    group = parser.add_argument_group("top")
    group.add_argument(
        "--every",
        metavar="TIME",
        type=argument(duration("500ms", "10m")),
        help="time from one update to the next [default 1s; 5s with --prometheus]",
    )
    group.add_argument(
        "--once", action="store_true", help="print a table once, as without a terminal"
    )
    add_access(parser, prometheus=True)


def top(arguments: Namespace, node: OwnNode | None = None) -> int:
    """Run until the user quits; print a table once without a terminal, or if it is asked for.

    ``node`` is shown if the arguments name no other machine. The exit status is 0, or of a table
    that of ``snapshot``; 2 if nothing can be shown.
    """
    if _is_live(arguments) and find_spec("textual") is None:
        logger.error(
            "top needs the package textual: pip install textual (if pipx installed the exporter: "
            "pipx inject mgpu-exporter textual); mgpu-exporter snapshot works without it"
        )
        return _CANNOT
    try:
        far = far_feed(arguments)
        feed = far or here(node).open(commands=True)
    except NoAnswerError as error:
        logger.error("%s", error)  # noqa: TRY400 - the message says it all
        return _CANNOT
    return show(feed, arguments, far_namespace(arguments), wait_ns=0 if far else USUAL_NS)


def show(feed: Feed, arguments: Namespace, namespace: str, wait_ns: int = 0) -> int:
    """Show a feed until the user quits; print a table once without a terminal, or with ``once``.

    ``namespace``: only its pods; "" stands for all. A Prometheus is asked for those alone.
    """
    every_ns = arguments.every
    if not every_ns:
        every_ns = PROMETHEUS_EVERY_NS if isinstance(feed, PrometheusFeed) else SECOND_NS
    if namespace and not isinstance(feed, PrometheusFeed):
        feed = NamespaceFeed(feed, namespace)
    if not _is_live(arguments):  # as ``snapshot`` does
        logging.getLogger().setLevel(max(logging.getLogger().level, logging.ERROR))
        try:
            return print_once(feed, wait_ns)
        except NoAnswerError as error:
            logger.error("%s", error)  # noqa: TRY400 - the message says it all
            return _CANNOT
        finally:
            feed.close()
    from exporter.answers.terminal.app import Top  # noqa: PLC0415 - textual is an extra, and slow to import

    # The log would overwrite the screen, which shows problems itself.
    logging.basicConfig(handlers=[logging.NullHandler()], force=True)
    try:
        Top(feed, every_ns / SECOND_NS).run()
    finally:
        feed.close()
    return 0


def _is_live(arguments: Namespace) -> bool:
    return not arguments.once and sys.stdin is not None and sys.stdin.isatty() and is_terminal()
