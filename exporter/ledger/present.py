"""The two gauges that the history keeps, read from the accounts: what their rows would say."""

from collections.abc import Iterable, Iterator

from exporter.ledger.accounts import Account
from exporter.ledger.allotment_rows import loose_rows
from exporter.ledger.averages import OwnerKey
from exporter.ledger.book_view import BookView, CycleFacts
from exporter.ledger.history import UNKNOWN, Gauges
from exporter.ledger.ledger import Ledger
from exporter.ledger.view import View
from exporter.model import ContainerKey, DeviceState, GroupKey


def present_of(ledger: Ledger, facts: CycleFacts) -> Iterator[Gauges]:
    """Those of devices, containers and groups, looked up while they are iterated over.

    To be read before the next cycle. Whole rows each five seconds would be much of its work.
    """
    view = View(ledger, facts)
    for seen in view.books.values():
        yield (seen.index, seen.uuid), _core(seen, None, seen.book.whole), _memory(view, seen)
    yield from _owners(view, ContainerKey)
    for row in loose_rows(view):
        yield row.labels, UNKNOWN, UNKNOWN
    yield from _owners(view, GroupKey)


def _owners(view: View, kind: type[ContainerKey | GroupKey]) -> Iterable[Gauges]:
    for seen in view.books.values():
        device = seen.index, seen.uuid
        for key, account in seen.book.owners.items():
            if not isinstance(key, kind):
                continue
            if seen.hidden or not seen.live(account) or seen.pending(key):
                yield (*key, *device), UNKNOWN, UNKNOWN
                continue
            used_bytes = account.held.used_bytes if account.held else None
            memory = UNKNOWN if used_bytes is None else used_bytes
            yield (*key, *device), _core(seen, key, account), memory


def _core(seen: BookView, owner: OwnerKey | None, account: Account) -> float:
    core = None if seen.blind else seen.core(owner, account)
    return UNKNOWN if core is None else core


def _memory(view: View, seen: BookView) -> float:
    reading = view.facts.readings.get(seen.uuid)
    memory = reading.memory if reading and seen.book.state is DeviceState.UP else None
    return UNKNOWN if memory is None or memory.used_bytes is None else memory.used_bytes
