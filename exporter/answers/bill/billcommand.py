"""The command ``bill``: what the GPUs of a Prometheus cost, and who pays for what."""

import errno
import gc
import os
import sys
import time
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from exporter.answers.bill import billreport, focus
from exporter.answers.bill.bill import STEPS, Bill, Period, Total, Unpriced, bill_of, summed
from exporter.answers.bill.books import Unread, Wanted, span_of, why_none
from exporter.answers.bill.estimate import EVERY_S, estimated
from exporter.answers.bill.money import Prices, price
from exporter.answers.bill.parts import BY, METHODS, NOBODY
from exporter.answers.bill.pieces import read_books
from exporter.answers.bill.pricefile import PriceError, currency, prices_of
from exporter.answers.bill.remarks import Remarks
from exporter.answers.reading.accessflags import add_arguments as add_access
from exporter.answers.reading.accessflags import far_prometheus
from exporter.answers.reading.nodelabels import sanitized
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.reading.ranges import add_range, days_of, moment, range_of, written
from exporter.answers.reading.storedcounters import POD_INFO
from exporter.console.output import columns, say, warn
from exporter.console.progress import Progress, progress
from exporter.httpclient import NoAnswerError
from exporter.inputs import yamldocument
from exporter.shown.printable import clean
from exporter.shown.words import length

_OK, _NOTHING = 0, 2
_FORMATS = ("table", "json", "csv", "focus")
SHORTEST_S = 60  # of a range
_LEAST_HOURS = 0.005  # less would be said as 0.00
_HOUR_S = 3600
_MOST_DAYS = 5  # in a line
# Before the garbage collector seeks cycles of references; Python's own are 700. What a bill reads
# has none. Each search goes through all answers that are read at that time: that was a seventh of
# the CPU time.
NEW_OBJECTS = 100_000
_LESS = "a shorter range (--since, --until) or fewer targets (--target)"
_INSTALL = f"{sys.executable} -m pip install pyarrow"
PYARROW = f"pyarrow: {_INSTALL}, or in an image docker build --build-arg WITHOUT= ."
LONGEST_S = 120.0  # of an answer, as Prometheus has it


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    group = parser.add_argument_group("bill")
    add_range(group, "1d")
    group.add_argument(
        "--by",
        default="namespace",
        metavar="WHAT",
        type=_by,
        help="namespace, pod, owner, or label:KEY of pods; user, account or kind of jobs and other "
        "groups [default namespace]",
    )
    group.add_argument(
        "--step",
        choices=tuple(STEPS),
        help="rows for each hour, day (UTC) or week (from Monday) [default the whole range]",
    )
    group.add_argument(
        "--method",
        choices=METHODS,
        default="allocation",
        help="whether owners pay for what was kept for them, or for use [default allocation]",
    )
    group.add_argument(
        "--price",
        metavar="DECIMAL",
        type=_of(price),
        help="of a GPU's hour that --prices has none for",
    )
    group.add_argument("--prices", metavar="FILE", help="prices by model and node label, YAML")
    group.add_argument(
        "--currency", metavar="CODE", type=_of(currency), help="of --price [default USD]"
    )
    group.add_argument(
        "--estimate",
        action="store_true",
        help="at once, within 1 %% and by namespace alone, from what recording rules counted",
    )
    group.add_argument("--format", choices=_FORMATS, default="table", help="[default table]")
    group.add_argument(
        "--output",
        metavar="FILE",
        help="where to write [default standard output]; of FOCUS, x.parquet is Parquet",
    )
    add_access(parser, prometheus=True, without=("url", "namespace"))
    # Unknown, it would leave its value to be taken for an argument.
    group.add_argument("--namespace", "-n", type=_of(_all_namespaces), help=SUPPRESS)


def bill(arguments: Namespace) -> int:
    """Print a bill. The exit status is 0; 2 if there is none."""
    gc.set_threshold(NEW_OBJECTS)
    now_s = int(time.time())
    try:
        since_s, until_s = range_of(arguments, now_s, SHORTEST_S)
        if moment(arguments.until, now_s) > now_s:
            warned(arguments, "--until is in the future: the bill ends now")
        prices = given_prices(arguments)
        if why := at_odds(arguments):
            return refused(arguments, why)
        # A bill without one of several stores would look whole, so all of them have to answer.
        prometheus = far_prometheus(arguments, all_stores=True, timeout_s=LONGEST_S, less=_LESS)
        with progress() as shown:
            found: Bill | None
            if arguments.estimate:
                shown.say("reading what was recorded ...")
                found = _estimate(arguments, prometheus, prices, since_s, until_s)
            else:
                reading = BillReading(arguments, prices, HowFar(shown, since_s, until_s))
                for begin_s, end_s in days_of(since_s, until_s):
                    reading.read(prometheus, begin_s, end_s)
                found = reading.bill()
            if found is None:
                return refused(arguments, why_none(prometheus, until_s))
            if not found.rows:
                why = f"{prometheus.address} has no card of which anything was counted"
                return refused(arguments, why)
    except (NoAnswerError, PriceError, ValueError, OSError) as error:
        return refused(arguments, said(error))
    return write_bill(found, arguments, urlsplit(prometheus.address).hostname or "")


def given_prices(arguments: Namespace) -> Prices:
    """The prices that the flags give; raises PriceError for a file with a mistake."""
    prices = Prices()
    if arguments.prices:
        try:
            prices = prices_of(yamldocument.read_bytes(arguments.prices).decode())
        except (OSError, ValueError, yamldocument.YamlError) as error:
            raise PriceError([f"{arguments.prices}: {said(error)}"]) from None
    flat = prices.flat if arguments.price is None else arguments.price
    return replace(prices, flat=flat, currency=arguments.currency or prices.currency)


def at_odds(arguments: Namespace) -> str:
    """Why these flags make no bill; empty if they do."""
    # A month takes minutes to read. So it is checked before that the bill can be written. What is
    # there stays as it is.
    if arguments.output:
        path = Path(arguments.output)
        place, error = path if path.exists() else path.parent, 0
        if path.is_dir():
            error = errno.EISDIR
        elif not place.exists():
            error = errno.ENOENT
        elif not os.access(place, os.W_OK):
            error = errno.EACCES
        if error:
            return f"--output: {path}: {os.strerror(error)}"
    if _is_parquet(arguments) and arguments.format != "focus":
        return "--output: Parquet is written with --format=focus"
    if _is_parquet(arguments) and find_spec("pyarrow") is None:
        return f"Parquet needs {PYARROW}"
    return _estimates_no(arguments) if arguments.estimate else ""


def _estimates_no(arguments: Namespace) -> str:
    """What of these flags an estimate does not know; empty if it knows all."""
    if arguments.by != "namespace":
        return f"--estimate knows namespaces alone: --by={arguments.by} is of a bill"
    if arguments.step not in {None, "1d"}:
        return "--estimate is of the whole range, or of days (--step=1d)"
    if arguments.format == "focus":
        return "--estimate knows no cards: --format=focus is of a bill"
    return ""


class BillReading:
    """A bill that is read day by day, and of each day some nodes at a time: it is their sum.

    So no more is in memory.
    """

    def __init__(self, arguments: Namespace, prices: Prices, far: "HowFar") -> None:
        self.arguments, self.prices = arguments, prices
        self.by, _, self.key = arguments.by.partition(":")
        self.whose = f"label:{sanitized(self.key)}" if self.key else self.by
        self.step_s, self.whole = STEPS.get(arguments.step, 0), far.whole
        self.method = arguments.method
        self.remarks = Remarks(prices, self.by, self.key, self.method)
        self.unread, self.far = Unread(far.whole.since_s), far
        self.of, self.total = "", Total()
        self.has_pods, self.has_label = False, self.by != "label"

    def read(self, prometheus: Prometheus, begin_s: int, end_s: int) -> None:
        """Asks for the books of a day, or of a part of it."""
        span = span_of(begin_s, end_s)
        wanted = Wanted(sanitized(self.key), tuple(self.prices.by_node_label))
        self.far.begin(begin_s, end_s)
        try:
            for found in read_books(prometheus, span, wanted, self.far.say):
                self.has_pods |= found.has_pods
                self.has_label |= found.has_label
                cards = [*self.unread.before(found.cards, begin_s), *found.cards]
                self.remarks.take(cards)
                by = self.method, self.whose, span, self.step_s, self.whole
                self.total.add(bill_of(cards, self.prices, *by))
        except KeyboardInterrupt:
            warned(self.arguments, f"interrupted: {self.far.said}; no bill is made")
            raise

    def bill(self) -> Bill | None:
        """The bill of what was read, and warnings of it; None if nothing was there."""
        first_s, since_s = self.remarks.first_s, self.whole.since_s
        if first_s is None:
            return None
        # All rows would be of no label: that would look like a bill, and be none.
        if self.has_pods and not self.has_label:
            raise NoAnswerError(
                f"no pod has label_{sanitized(self.key)} in {POD_INFO}: exporters give it the "
                "labels that --pods.labels names"
            )
        if first_s - since_s > SHORTEST_S:
            warned(
                self.arguments,
                f"the first data is of {written(int(first_s))}, and the bill begins there: "
                "before, nothing was scraped, or it is past the retention of this Prometheus",
            )
        for line in self.remarks.lines():
            warned(self.arguments, f"{self.of}{line}")
        made = self.total.bill(int(first_s))
        if (unnamed := _unnamed_hours(made, self.by)) >= _LEAST_HOURS:
            warned(
                self.arguments,
                f"{unnamed:.2f} GPU hours have no {self.by} and stand under their namespace or "
                "kind: of jobs shorter than a scrape, or no series names it (docs/bill.md)",
            )
        return made


def _estimate(
    arguments: Namespace, prometheus: Prometheus, prices: Prices, since_s: int, until_s: int
) -> Bill:
    found, recorded_s = estimated(prometheus, prices, arguments.method, since_s, until_s)
    short = [
        f"{written(day.since_s)[:10]} has {length(s)} of the {length(day.until_s - day.since_s)}"
        for day, s in recorded_s.items()
        if (day.until_s - day.since_s) * 0.99 - 2 * EVERY_S > s
    ]
    more = ", …" if len(short) > _MOST_DAYS else ""
    what = f"of what is recorded alone: {', '.join(short[:_MOST_DAYS])}{more}"
    within = "within 1 % of the bill"
    warned(arguments, f"an estimate without pods and cards, {what if short else within}")
    if prices.by_node_label:
        why = "prices by labels of nodes are not in it: what is recorded has models alone"
        warned(arguments, why)
    if arguments.step is None:
        whole = Period(since_s, until_s)
        found = replace(found, rows=tuple(replace(row, period=whole) for row in found.rows))
    return summed([found], since_s)


def _unnamed_hours(found: Bill, by: str) -> float:
    """How long those had cards whose pod or owner nobody knows; of groups, user or account."""
    # A pod has no user and no account. By these it stands under its namespace as it should, and
    # only a group can lack them.
    unnamed = (
        row.milliseconds
        for row in found.rows
        if row.payer != NOBODY and not (row.payer.owner or row.payer.pod)
        if by in {"pod", "owner"} or (by in {"user", "account"} and not row.payer.namespace)
    )
    return sum(unnamed) / 1000 / _HOUR_S


def said(error: Exception) -> str:
    """What an error says to people."""
    if isinstance(error, Unpriced):
        return (
            f"no price for {error}; give --price, or in --prices a default, or under models "
            "its name"
        )
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def _by(text: str) -> str:
    by, _, key = text.partition(":")
    if by not in BY or (by == "label") != bool(key):
        raise ArgumentTypeError("give namespace, pod, owner, label:KEY, user, account, or kind")
    return text


def _all_namespaces(_: str) -> object:
    raise ValueError("a bill is of whole cards, so of all namespaces (--by=namespace)")


def _of(known: Callable[[str], object]) -> Callable[[str], object]:
    """The same for a flag, which says what is wrong with it."""

    def read(text: str) -> object:
        try:
            return known(text)
        except ValueError as error:
            raise ArgumentTypeError(str(error)) from None

    return read


class HowFar:
    """Says how far a bill is: which day is read, how many nodes of it, and how long it takes."""

    def __init__(self, shown: Progress, since_s: int, until_s: int) -> None:
        self.whole = Period(since_s, until_s)
        self.said = "nothing was read"
        self._shown, self._begun_s, self._day = shown, time.monotonic(), self.whole

    def begin(self, begin_s: int, end_s: int) -> None:
        """A part of the range begins."""
        self._day = Period(begin_s, end_s)

    def say(self, nodes: int, of: int) -> None:
        """So many nodes of it are read."""
        day, whole = self._day, self.whole
        read_s = day.since_s - whole.since_s + (day.until_s - day.since_s) * nodes / max(1, of)
        part, date = read_s / (whole.until_s - whole.since_s), written(day.since_s)[:10]
        self.said = f"{nodes} of {of} nodes of {date} were read, {part:.0%} of all"
        left_s = (time.monotonic() - self._begun_s) * (1 / part - 1) if part else 0.0
        left = f", {left_s:.0f} s more" if part else ""
        self._shown.say(f"{date}: {nodes} of {of} nodes{left} ...")


def _is_parquet(arguments: Namespace) -> bool:
    return str(arguments.output).endswith(".parquet")


def write_bill(found: Bill, arguments: Namespace, account: str) -> int:
    """Writes a bill in the format that was asked for; the exit status."""
    form, text, data = arguments.format, "", b""
    if _is_parquet(arguments):  # by the name of --output
        parquet = import_module("exporter.answers.bill.parquet")
        data = parquet.as_parquet(focus.rows(found, "mgpu-exporter", account))
    elif form == "focus":
        text = focus.as_csv(found, "mgpu-exporter", account)
    elif form == "json":
        text = billreport.as_json(found)
    elif form == "csv":
        text = billreport.as_csv(found)
    else:
        text = billreport.as_table(found, None if arguments.output else columns())
    if not arguments.output:
        say(text)
        return _OK
    try:
        Path(arguments.output).write_bytes(data or text.encode())
    except OSError as error:
        return refused(arguments, f"--output: {arguments.output}: {error.strerror}")
    return _OK


def refused(arguments: Namespace, why: str) -> int:
    """Says why there is no bill; the exit status."""
    warned(arguments, why)
    return _NOTHING


def warned(arguments: Namespace, why: str) -> None:
    """Says something of a bill beside it."""
    warn(f"{arguments.program} bill: {clean(why, longest=None)}")
