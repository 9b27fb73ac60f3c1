"""The command ``bill`` with closed days, and ``bill close``, which makes them.

It stands beside ``bill`` so that ``kubectl mgpu`` is without it.
"""

import gc
import time
from argparse import ArgumentParser, Namespace
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from urllib.parse import urlsplit

from exporter.answers.bill import billcommand as stored
from exporter.answers.bill.bill import Bill, Period, bill_of, period_of, summed
from exporter.answers.bill.books import Wanted, span_of, why_none
from exporter.answers.bill.closed.closedrows import PayerSum
from exporter.answers.bill.closed.day import (
    NO_CLUSTER,
    Record,
    Shard,
    billed_twice,
    cards_of,
    checked,
    files_of,
    missing,
    put,
    records_of,
    shard_of,
    strays,
)
from exporter.answers.bill.closed.place import Place, PlaceError, place_of
from exporter.answers.bill.money import Prices
from exporter.answers.bill.parts import METHODS
from exporter.answers.bill.pieces import read_books
from exporter.answers.bill.remarks import Remarks
from exporter.answers.reading.accessflags import far_prometheus
from exporter.answers.reading.queryapi import Prometheus
from exporter.answers.reading.ranges import DAY_S, days_of, moment, range_of
from exporter.answers.reading.storedcounters import INFO
from exporter.console.output import say
from exporter.console.progress import Progress, progress
from exporter.httpclient import NoAnswerError
from exporter.shown.printable import clean

_OK = 0
_HOUR_MS = 3_600_000
_MOST = 10  # lines of one kind
_OF_A_BILL = (
    *(("by", "namespace"), ("step", None), ("format", "table")),
    *(("output", None), ("estimate", False)),
)
_OF_CLOSE = ("to", "day", "shard", "cluster", "reopen")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's own flags."""
    stored.add_arguments(parser)
    group = parser.add_argument_group("closed days")
    group.add_argument(
        "close",
        nargs="?",
        choices=("close",),
        help="write the books of the whole days (UTC) of the range, once",
    )
    where = "folder, or URL of fsspec such as s3://bucket/bills"
    group.add_argument("--to", metavar="DIR", help=f"where close writes: a {where}")
    group.add_argument("--day", metavar="DATE", help="the day to close [default those of --since]")
    group.add_argument(
        "--shard", metavar="I/N", help="close the I-th of N parts of all nodes [default 1/1]"
    )
    group.add_argument(
        "--cluster", metavar="NAME", help="the cluster [default the label cluster of the targets]"
    )
    group.add_argument(
        "--reopen", action="store_true", help="close a closed day again, and say what differs"
    )
    group.add_argument(
        "--closed",
        metavar="DIR",
        help=f"closed days: a Prometheus is asked only for others; a {where}",
    )


def bill(arguments: Namespace) -> int:
    """Print a bill, or close days. The exit status is 0; 2 if there is none."""
    where = arguments.to if arguments.close else arguments.closed
    for name in () if arguments.close else _OF_CLOSE:
        # A bill of all, where a part was asked for, would be taken for that of the part.
        if getattr(arguments, name):
            return stored.refused(arguments, f"--{name} is of bill close")
    if not (arguments.close or where):
        return stored.bill(arguments)
    gc.set_threshold(stored.NEW_OBJECTS)
    try:
        if why := _at_odds(arguments, where):
            return stored.refused(arguments, why)
        if arguments.close:
            return _close(arguments, place_of(where))
        return _bill(arguments, place_of(where))
    except (NoAnswerError, PlaceError, ValueError, OSError) as error:
        return stored.refused(arguments, stored.said(error))


def _at_odds(arguments: Namespace, where: str | None) -> str:
    """Why these flags go with no closed day; empty if they do."""
    if not where:
        return "close: say where to with --to"
    if find_spec("pyarrow") is None:
        return f"closed days need {stored.PYARROW}"
    if why := stored.at_odds(arguments):
        return why
    if not arguments.close:
        why = "--step=1h: a closed day has no hours" if arguments.step == "1h" else ""
        return "--estimate: closed days are whole bills" if arguments.estimate else why
    for name, usual in _OF_A_BILL:
        if getattr(arguments, name) != usual:
            return f"--{name}: a closed day has the books of all bills"
    return "" if arguments.until == "now" else "--until: give --day, or --since alone"


def _close(arguments: Namespace, place: Place) -> int:
    """Closes days; the exit status is 2 if one stays open."""
    now_s, prices = int(time.time()), stored.given_prices(arguments)
    today_s = now_s // DAY_S * DAY_S
    first_s = moment(arguments.day or arguments.since, now_s) // DAY_S * DAY_S
    if first_s >= today_s:
        raise ValueError("a day is closed when it is over (UTC)")
    shard = shard_of(arguments.shard or "1/1")
    with progress() as shown:
        prometheus = far_prometheus(arguments, all_stores=True, timeout_s=stored.LONGEST_S)
        closing = _Closing(arguments, place, prometheus, prices, shard, shown, now_s)
        tried: list[tuple[int, str]] = []  # days, and why they stay open; "" if they are closed
        for day_s in [first_s] if arguments.day else range(first_s, today_s, DAY_S):
            try:
                closing.close(day_s)
                tried.append((day_s, ""))
            # A day that cannot be closed keeps no other one open.
            except (NoAnswerError, PlaceError, ValueError) as error:
                tried.append((day_s, stored.said(error)))
    status = _OK
    for why, days in groupby(tried, key=itemgetter(1)):
        first, *_, last = 2 * [_date(day_s) for day_s, _ in days]
        stay = f"{first} stays" if first == last else f"{first} to {last} stay"
        status = stored.refused(arguments, f"{stay} open: {why}") if why else status
    return status


class _Closing:
    """Closes days of a shard."""

    def __init__(
        self,
        arguments: Namespace,
        place: Place,
        prometheus: Prometheus,
        prices: Prices,
        shard: Shard,
        shown: Progress,
        now_s: int,
    ) -> None:
        self._arguments, self._place, self._prometheus = arguments, place, prometheus
        self._now_s = now_s
        self._prices, self._shard, self._shown = prices, shard, shown
        self._of = arguments.cluster or ""

    def close(self, day_s: int) -> None:
        """Closes a day that is open, or with ``--reopen`` one that is closed."""
        records = records_of(self._place, day_s)
        mine = [one for one in records if one.of == self._of]
        for one in mine:
            # Of two divisions a node may be in two parts, or in none: it would be billed twice, or
            # never.
            if one.shard.of != self._shard.of:
                raise ValueError(f"it is closed by shards of {one.shard.of}, as {one.path} says")
        for path in strays(self._place, day_s, records):
            if not path.endswith(f"-of-{self._shard.of}.parquet"):  # those will be written again
                raise ValueError(
                    f"{path} is of a close by other shards that was cut off: remove it"
                )
        before = next((one for one in mine if one.shard == self._shard), None)
        if before is not None and not self._arguments.reopen:
            say(f"{_date(day_s)} is closed already\n")
            return
        record, files, made = self._made(day_s)
        self._check_scrapes(day_s + DAY_S)
        if before is not None:
            if before.text() == record.text():
                say(f"{_date(day_s)} is as it was closed\n")
                return
            self._differs(before, files)
        others = [one for one in records if one.of != self._of]
        # What was closed so before is closed again one by one.
        if before is None and (why := billed_twice([*others, record])):
            raise ValueError(why)
        put(self._place, record, files, before)
        hours, money = made.milliseconds / _HOUR_MS, f"{made.cost:,.2f} {made.currency}"
        say(
            f"{_date(day_s)} is closed: {len(record.cards)} cards, {hours:.2f} GPU hours, {money}\n"
        )

    def _check_scrapes(self, until_s: int) -> None:
        """Refuses a day that is just over, of which the last scrapes may be still to come.

        Raises:
            ValueError: nothing later is there either. After a day nobody waits for it any more.

        """
        since_s = self._now_s - until_s
        later = f"count(last_over_time({self._prometheus.selector([INFO])}[{since_s + 1}s]))"
        if since_s < DAY_S and not self._prometheus.at(later, self._now_s):
            raise ValueError(
                f"{self._prometheus.address} has no scrape of an exporter since it was over: what "
                "comes late would be missing; the day can be closed a day later in any case"
            )

    def _made(self, day_s: int) -> tuple[Record, dict[str, bytes], Bill]:
        """Asks for a day: its record, files and bill."""
        period, method = Period(day_s, day_s + DAY_S), self._arguments.method
        span = span_of(*period)
        wanted = Wanted(node_labels=tuple(self._prices.by_node_label))
        far = stored.HowFar(self._shown, *period)
        pieces = read_books(self._prometheus, span, wanted, far.say, self._shard.has)
        # By their own order, and not by which of them were read together: the same bytes each time.
        found = sorted(
            (card for piece in pieces for card in piece.cards),
            key=lambda card: (card.facts.node, card.facts.uuid, card.begin_s),
        )
        exporters = self._prometheus.selector([INFO])
        there = f"count(last_over_time({exporters}[{DAY_S}s]))"
        # A part of the nodes may be none of them; a day without any was not scraped.
        if not found and not self._prometheus.at(there, period.until_s):
            raise NoAnswerError(why_none(self._prometheus, period.until_s))
        books = [one for one in found if self._shard.has(one.facts.node)]
        remarks = Remarks(self._prices)
        remarks.take(books)
        said = tuple(remarks.lines()) if books else ()
        for line in said:
            stored.warned(self._arguments, f"{_date(day_s)}: {line}")
        bills = {}
        for one in METHODS:
            made = bill_of(books, self._prices, one, "", span, 0, period)
            bills[one] = summed([made], day_s)
        record = Record(
            day_s=day_s,
            of=self._of,
            shard=self._shard,
            method=method,
            currency=self._prices.currency,
            account=urlsplit(self._prometheus.address).hostname or "",
            files={},
            cards=cards_of(books, self._prices),
            remarks=said,
        )
        clusters = {
            (one.facts.node, one.facts.uuid): self._of or one.facts.cluster or NO_CLUSTER
            for one in books
        }
        return *files_of(record, bills, clusters), bills[method]

    def _differs(self, before: Record, files: dict[str, bytes]) -> None:
        """Says what a day has that it had not, by namespace and part."""
        was, now = (PayerSum("namespace", before.method) for _ in range(2))
        period = Period(before.day_s, before.day_s + DAY_S)
        try:
            for path in before.files:
                was.add(checked(self._place, before, path), period)
        except PlaceError as error:
            say(f"{_date(before.day_s)}: what was closed cannot be compared: {error}\n")
            return
        for data in files.values():
            now.add(BytesIO(data), period)
        found: dict[tuple[str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 4)
        for at, many in ((0, was), (2, now)):
            for row in many.rows():
                sums = found[row.payer.name, row.part]
                sums[at] += Decimal(row.milliseconds) / _HOUR_MS
                sums[at + 1] += row.cost
        lines = [
            f"  {clean(payer, longest=None)}, {part}: {hours:.2f} GPU hours for {cost:.2f}, "
            f"before {old_hours:.2f} for {old_cost:.2f}\n"
            for (payer, part), (old_hours, old_cost, hours, cost) in sorted(found.items())
            if (old_hours, old_cost) != (hours, cost)
        ]
        more = f"  and {len(lines) - _MOST} more\n" if len(lines) > _MOST else ""
        what = "".join(lines[:_MOST]) + more or "  nothing of namespaces: pods, prices or remarks\n"
        say(f"{_date(before.day_s)} differs from what was closed:\n{what}")


def _bill(arguments: Namespace, place: Place) -> int:
    """Prints the bill of closed days, and of open ones as a Prometheus has them."""
    now_s = int(time.time())
    since_s, until_s = range_of(arguments, now_s, stored.SHORTEST_S)
    with progress() as shown:
        reading = _Reading(arguments, place, stored.HowFar(shown, since_s, until_s))
        for begin_s, end_s in days_of(since_s, until_s):
            records = records_of(place, begin_s) if end_s - begin_s == DAY_S else []
            lacks = missing(records)
            if records and not lacks:
                shown.say(f"reading {_date(begin_s)} ...")
                reading.take_closed(begin_s, records)
            else:
                reading.take_open(begin_s, end_s, lacks)
        found, account = reading.finished(), reading.account()
    if found is None or not found.rows:
        return stored.refused(arguments, f"{arguments.closed} has no card in this range")
    return stored.write_bill(found, arguments, account)


class _Reading(stored.BillReading):
    """A bill of which some days are closed."""

    def __init__(self, arguments: Namespace, place: Place, far: stored.HowFar) -> None:
        super().__init__(arguments, stored.given_prices(arguments), far)
        self._place = place
        self._sum = PayerSum(self.whose, self.method)
        self._closed: list[Record] = []
        self._days: set[int] = set()
        self._prometheus: Prometheus | None = None

    def take_open(self, begin_s: int, end_s: int, lacks: Sequence[str]) -> None:
        """Asks a Prometheus for a day that is not closed, or for a part of a day."""
        if self._prometheus is None:
            try:
                self._prometheus = far_prometheus(
                    self.arguments, all_stores=True, timeout_s=stored.LONGEST_S
                )
            except NoAnswerError as error:
                without = f" without the shards {', '.join(lacks[:_MOST])}" if lacks else ""
                is_part = end_s - begin_s != DAY_S
                what = "a part of a day is in no closed day" if is_part else "the day is not closed"
                why = f"{_date(begin_s)}: {what} in {self.arguments.closed}{without}; {error}"
                raise NoAnswerError(why) from None
        self.read(self._prometheus, begin_s, end_s)

    def take_closed(self, day_s: int, records: Sequence[Record]) -> None:
        """Takes a closed day.

        Raises:
            ValueError: something is in it twice.

        """
        if why := billed_twice(records):
            raise ValueError(f"{_date(day_s)}: {why}")
        self._closed += [replace(record, cards=()) for record in records]  # of a month too many
        self._days.add(day_s)
        order = [card for record in records for card in record.cards]
        order.sort(key=lambda card: (card.node, card.uuid, card.begin_s))
        currency, until_s = records[0].currency, day_s + DAY_S
        for card in order:
            book = card.book
            first_s = book.begin_s if self.remarks.first_s is None else self.remarks.first_s
            self.remarks.first_s = min(book.begin_s, first_s)
            # Nobody read these before, and their exporter ran: they cost what the card does.
            for before in self.unread.before([book], day_s):
                self.remarks.first_s = min(before.begin_s, self.remarks.first_s)
                price = Prices(currency, Decimal(card.hourly))
                span = span_of(day_s, until_s)
                by = self.method, self.whose, span, self.step_s, self.whole
                self.total.add(bill_of([before], price, *by))
        period = period_of(day_s, self.step_s, self.whole)
        for record in records:
            for path in record.files:
                self._sum.add(checked(self._place, record, path), period)

    def finished(self) -> Bill | None:
        """The bill of all that was taken, and warnings of it."""
        if self._closed:
            currencies = {one.currency for one in self._closed}
            currencies |= self.total.currencies
            if len(currencies) > 1:
                named = ", ".join(sorted(currencies))
                raise ValueError(f"days are in {named}: give --currency as they were closed in")
            rows = tuple(self._sum.rows())
            self.has_pods |= any(row.payer.namespace for row in rows)
            self.has_label |= any(row.payer.owner_kind == "label" for row in rows)
            self.total.add(Bill(*self.whole, self.method, currencies.pop(), rows))
            self._warn()
            # What is said of the price file is of the days that were priced by it.
            self.of = "days that are not closed: "
            if self._prometheus is None:
                first_s, self.remarks = self.remarks.first_s, Remarks(Prices())
                self.remarks.first_s = first_s
        else:  # as of a folder that is written wrong: the prices are those of now
            where = self.arguments.closed
            stored.warned(self.arguments, f"no day of this range is closed in {where}")
        return self.bill()

    def _warn(self) -> None:
        if self.arguments.job or self.arguments.target:
            why = "closed days have all that was closed: --job and --target choose nothing of them"
            stored.warned(self.arguments, why)
        # What one day or shard has no card of, another may have.
        parts = [one for one in self._closed if one.files]
        said = Counter(line for one in parts for line in one.remarks)
        for line, many in [*said.items()][:_MOST]:
            where = "" if many == len(parts) else f" {many} of {len(parts)} parts:"
            stored.warned(self.arguments, f"closed days:{where} {line}")
        if len(said) > _MOST:
            stored.warned(self.arguments, f"closed days: and {len(said) - _MOST} more such lines")
        of: dict[str, set[int]] = defaultdict(set)
        for one in self._closed:
            of[one.of].add(one.day_s)
        for name, days in sorted(of.items()):
            if lacks := sorted(self._days - days):
                what = f"{len(lacks)} closed days have no books of {name or 'targets without one'}"
                stored.warned(self.arguments, f"{what}, the first is {_date(lacks[0])}")

    def account(self) -> str:
        """The account that FOCUS' columns bill: the store that days were closed from."""
        accounts = {one.account for one in self._closed}
        if self._prometheus is not None:
            accounts.add(urlsplit(self._prometheus.address).hostname or "")
        if len(accounts) > 1 and self.arguments.format == "focus":
            named = ", ".join(sorted(accounts))
            raise ValueError(f"--format=focus: these days are of several accounts: {named}")
        return min(accounts, default="")


def _date(day_s: int) -> str:
    return f"{datetime.fromtimestamp(day_s, UTC):%Y-%m-%d}"
