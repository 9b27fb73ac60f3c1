"""The two gauges that the history keeps, read from the accounts: what their rows would say."""

from collections.abc import Iterable
from functools import cache

from exporter.ledger.allotment_rows import loose_rows
from exporter.ledger.book import Book
from exporter.ledger.history import CORE, MEMORY
from exporter.ledger.late import LateRows
from exporter.ledger.ledger import Ledger
from exporter.ledger.limits import known
from exporter.ledger.view import CycleFacts, View
from exporter.model import ContainerKey, DeviceState, GroupKey, Row, Value


def present_of(ledger: Ledger, facts: CycleFacts) -> LateRows:
    """Of each row of devices, containers and groups nothing but these, where it has them.

    To be read before the next cycle. Whole rows each five seconds would be much of its work.
    """

    @cache
    def view() -> View:
        return View(ledger, facts)

    return LateRows(
        {
            "device": lambda: _devices(view()),
            "container": lambda: _containers(view()),
            "group": lambda: _owners(view(), GroupKey),
        }
    )


def _devices(view: View) -> Iterable[Row]:
    for uuid, book in view.ledger.books.items():
        yield Row((str(book.device.index), uuid), _device(view, book))


def _containers(view: View) -> Iterable[Row]:
    yield from _owners(view, ContainerKey)
    for row in loose_rows(view):
        yield Row(row.labels, {})


def _owners(view: View, kind: type[ContainerKey | GroupKey]) -> Iterable[Row]:
    for uuid, book in view.ledger.books.items():
        index = str(book.device.index)
        for key in book.owners:
            if isinstance(key, kind):
                yield Row((*key, index, uuid), _owner(view, book, key))


def _device(view: View, book: Book) -> dict[str, Value]:
    core = None
    if not book.blind and "core" in book.told:
        core = view.core(book, book.whole)
    reading = view.facts.readings.get(book.device.uuid)
    memory = reading.memory if reading and book.state is DeviceState.UP else None
    return known(**{CORE["device"]: core, MEMORY: memory.used_bytes if memory else None})


def _owner(view: View, book: Book, key: ContainerKey | GroupKey) -> dict[str, Value]:
    account = book.owners[key]
    if view.ledger.hidden(book) or not view.live(account):
        return {}
    if isinstance(key, ContainerKey) and view.pending(book, key):
        return {}
    core = view.core(book, account) if "core" in view.shared(book, key) else None
    held = account.held.used_bytes if account.held else None
    return known(**{CORE["container"]: core, MEMORY: held})
