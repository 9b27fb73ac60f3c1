"""A closed day: its files, and what says that they are whole.

``day=2026-11-01/cluster=east/books-1-of-2.parquet`` has the rows of a shard's nodes. Its record,
``day=2026-11-01/_closed-1-of-2.json``, is written last: without all records of its shards a day is
open. Engines that read Parquet pass over names that begin with an underscore.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from io import BytesIO
from typing import Any, NamedTuple
from urllib.parse import quote

from exporter.answers.bill.bill import Bill, Unpriced
from exporter.answers.bill.books import CardBook
from exporter.answers.bill.closed.closedrows import divided, written
from exporter.answers.bill.closed.place import Place, PlaceError
from exporter.answers.bill.money import Prices
from exporter.answers.reading.lives import OVERLAP_S
from exporter.answers.reading.who import CardFacts

_FORM = 1  # of the files; a later one may not be read by this program
_RECORD = re.compile(r"_closed(-.+)?-\d+-of-\d+\.json")
NO_CLUSTER = "none"


class Shard(NamedTuple):
    """A part of all nodes: the first of two is ``1/2``."""

    number: int = 1
    of: int = 1

    def has(self, node: str) -> bool:
        """Whether a node is of this part."""
        # Python's own hash is another one in each process: two shards could both have a node, or
        # none.
        found = int.from_bytes(sha256(node.encode()).digest()[:8])
        return found % self.of == self.number - 1


def shard_of(text: str) -> Shard:
    """The shard that a text names; raises ValueError if it names none."""
    found = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    shard = Shard(int(found[1]), int(found[2])) if found else Shard(0, 0)
    if not 1 <= shard.number <= shard.of:
        raise ValueError(f"{text[:40]!r} is no shard: give 1/4, which is the first of four")
    return shard


class CardTime(NamedTuple):
    """A time in which a card was there, in Unix seconds, as its book has it."""

    uuid: str
    node: str
    model: str
    hourly: str
    begin_s: float
    end_s: float
    began_s: float | None

    @property
    def book(self) -> CardBook:
        """Its book, in which nothing is counted."""
        facts = CardFacts(self.uuid, self.node, self.model, {})
        return CardBook(facts, begin_s=self.begin_s, end_s=self.end_s, began_s=self.began_s)


def cards_of(books: Iterable[CardBook], prices: Prices) -> tuple[CardTime, ...]:
    """The cards of some books; raises Unpriced where one has no price."""
    found = []
    for book in books:
        facts = book.facts
        priced = prices.of(facts.model, facts.node_labels)
        if priced is None:
            raise Unpriced([facts.model or facts.uuid])
        times = book.begin_s, book.end_s, book.began_s
        found.append(CardTime(facts.uuid, facts.node, facts.model, str(priced.hourly), *times))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Record:
    """What is said of a shard's day: ``files`` are its digests by path.

    ``method`` is that of FOCUS' columns, ``account`` the one that they bill,
    ``remarks`` what was said as it was closed.
    """

    day_s: int
    of: str
    shard: Shard
    method: str
    currency: str
    account: str
    files: Mapping[str, str]
    cards: tuple[CardTime, ...]
    remarks: tuple[str, ...]

    @property
    def path(self) -> str:
        """Where it stands."""
        of = f"-{quote(self.of, safe='')}" if self.of else ""
        return f"{folder_of(self.day_s)}/_closed{of}-{self.shard.number}-of-{self.shard.of}.json"

    def text(self) -> bytes:
        """It as JSON, the same for the same."""
        fields = {name: getattr(self, name) for name in Record.__slots__}
        document = {"form": _FORM, **fields, "cards": [[*card] for card in self.cards]}
        return (json.dumps(document, indent=None, sort_keys=True) + "\n").encode()


def folder_of(day_s: int) -> str:
    """The folder of a day."""
    return f"day={datetime.fromtimestamp(day_s, UTC):%Y-%m-%d}"


def _record(place: Place, path: str) -> Record:
    with place.open(path) as file:
        data = file.read()
    try:
        known: dict[str, Any] = json.loads(data)
        if known.pop("form") != _FORM:
            raise PlaceError(f"{path} was written by another version, in a form that is not known")
        cards = tuple(CardTime(*card) for card in known.pop("cards"))
        shard = shard_of("/".join(map(str, known.pop("shard"))))
        remarks, files = tuple(known.pop("remarks")), dict(known.pop("files"))
        found = Record(**known, shard=shard, cards=cards, remarks=remarks, files=files)
        own = found.path
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        raise PlaceError(f"{path} is no record of a closed day") from None
    # A folder that was copied or renamed would be billed as a day that it is not of.
    if own != path:
        raise PlaceError(f"{path} is the record of {own}, and says nothing of this day")
    return found


def records_of(place: Place, day_s: int) -> list[Record]:
    """The records of a day, of all shards that are closed."""
    names = place.names(folder_of(day_s))
    return [_record(place, f"{folder_of(day_s)}/{one}") for one in names if _RECORD.fullmatch(one)]


def missing(records: Sequence[Record]) -> list[str]:
    """The shards that a day lacks; none if it is closed."""
    by_source: dict[str, list[Record]] = defaultdict(list)
    for one in records:
        by_source[one.of].append(one)
    lacks = []
    for of, mine in sorted(by_source.items()):
        there, count = {one.shard.number for one in mine}, mine[0].shard.of
        named = f" of {of}" if of else ""
        lacks += [f"{i}/{count}{named}" for i in range(1, count + 1) if i not in there]
    return lacks


def billed_twice(records: Sequence[Record]) -> str:
    """What stands in the books of two clusters, or of two divisions; "" if nothing does."""
    path_of: dict[str, Record] = {}
    for one in records:
        for path in one.files:
            other = path_of.setdefault(path, one)
            if other.of != one.of:
                return f"{path} is of {other.path} and of {one.path}: give another --cluster"
    cards = [(card, one) for one in records for card in one.cards]
    cards.sort(key=lambda each: (each[0].node, each[0].uuid, each[0].begin_s))
    last: dict[tuple[str, str], tuple[CardTime, Record]] = {}
    for card, one in cards:
        before, other = last.get((card.node, card.uuid), (card, one))
        # One exporter that takes over from another, as of a card's new cluster, is there with it.
        together_s = before.end_s - card.begin_s
        if (other.of, other.shard.of) != (one.of, one.shard.of) and together_s > OVERLAP_S:
            return (
                f"{card.uuid} of {card.node} would be billed twice, by {other.path} and by "
                f"{one.path}: with --cluster say whose targets, as --target=cluster=NAME"
            )
        last[card.node, card.uuid] = max(
            (before, other), (card, one), key=lambda each: each[0].end_s
        )
    return ""


def checked(place: Place, record: Record, path: str) -> BytesIO:
    """A file of a record; raises PlaceError if it is not the one that was written then."""
    with place.open(path) as file:
        data = file.read()
    if sha256(data).hexdigest() != record.files[path]:
        raise PlaceError(
            f"{path} is another file than {record.path} says: --reopen closes it again"
        )
    return BytesIO(data)


def strays(place: Place, day_s: int, records: Sequence[Record]) -> list[str]:
    """The files of a day that no record has: of a close that was cut off."""
    folder = folder_of(day_s)
    clusters = [name for name in place.names(folder) if name.startswith("cluster=")]
    files = [
        f"{folder}/{one}/{name}" for one in clusters for name in place.names(f"{folder}/{one}")
    ]
    known = {path for record in records for path in record.files}
    return [path for path in files if path.endswith(".parquet") and path not in known]


def files_of(
    record: Record, by_method: Mapping[str, Bill], clusters: Mapping[tuple[str, str], str]
) -> tuple[Record, dict[str, bytes]]:
    """The files of a shard's day, and its record with their digests.

    ``clusters``: of each card by node and UUID.
    """
    by_cluster: dict[str, dict[str, Bill]] = defaultdict(dict)
    for cluster in sorted({*clusters.values()}):
        for method, bill in by_method.items():
            mine = [one for one in bill.rows if clusters[one.card.node, one.card.uuid] == cluster]
            by_cluster[cluster][method] = replace(bill, rows=tuple(mine))
    files = {}
    name = f"books-{record.shard.number}-of-{record.shard.of}.parquet"
    for cluster, bills in by_cluster.items():
        path = f"{folder_of(record.day_s)}/cluster={quote(cluster, safe='')}/{name}"
        rows = divided(bills, record.method)
        if data := written(bills[record.method], rows, record.account):
            files[path] = data
    digests = {path: sha256(data).hexdigest() for path, data in files.items()}
    return replace(record, files=digests), files


def put(place: Place, record: Record, files: Mapping[str, bytes], before: Record | None) -> None:
    """Writes a shard's day. Until its record is there again, the day is open."""
    if before is not None:
        # The record goes first and comes last: who reads meanwhile finds an open day, not half of a
        # closed one.
        place.remove(before.path)
    try:
        for path, data in files.items():
            place.write(path, data)
    except PlaceError:
        # As of a full disk. The day may be past what any store keeps: it stays as it was closed.
        if before is not None:
            place.write(before.path, before.text())
        raise
    for path in before.files.keys() - files.keys() if before is not None else ():
        place.remove(path)
    place.write(record.path, record.text())
