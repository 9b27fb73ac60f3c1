"""The two gauges that the history keeps, read from the accounts: what their rows would say."""

from collections.abc import Iterable

from exporter.ledger.accounts import Account
from exporter.ledger.allotment_rows import loose_rows
from exporter.ledger.averages import OwnerKey
from exporter.ledger.history import CORE, MEMORY
from exporter.ledger.late import LateRows, late_rows
from exporter.ledger.ledger import Ledger
from exporter.ledger.view import BookView, CycleFacts, View
from exporter.model import ContainerKey, DeviceState, GroupKey, Row, Value


def present_of(ledger: Ledger, facts: CycleFacts) -> LateRows:
    """Of each row of devices, containers and groups nothing but these, where it has them.

    To be read before the next cycle. Whole rows each five seconds would be much of its work.
    """
    return late_rows(ledger, facts, _MAKERS)


def _devices(view: View) -> Iterable[Row]:
    for seen in view.books.values():
        yield Row((seen.index, seen.uuid), _device(view, seen))


def _containers(view: View) -> Iterable[Row]:
    yield from _owners(view, ContainerKey)
    for row in loose_rows(view):
        yield Row(row.labels, {})


def _groups(view: View) -> Iterable[Row]:
    yield from _owners(view, GroupKey)


def _owners(view: View, kind: type[ContainerKey | GroupKey]) -> Iterable[Row]:
    for seen in view.books.values():
        for key, account in seen.book.owners.items():
            if isinstance(key, kind):
                yield Row((*key, seen.index, seen.uuid), _owner(seen, key, account))


def _device(view: View, seen: BookView) -> dict[str, Value]:
    core = None if seen.blind else seen.core(None, seen.book.whole)
    reading = view.facts.readings.get(seen.uuid)
    memory = reading.memory if reading and seen.book.state is DeviceState.UP else None
    return _known(CORE["device"], core, memory.used_bytes if memory else None)


def _owner(seen: BookView, key: OwnerKey, account: Account) -> dict[str, Value]:
    if seen.hidden or not seen.live(account) or seen.pending(key):
        return {}
    held = account.held.used_bytes if account.held else None
    return _known(CORE["container"], seen.core(key, account), held)


def _known(name: str, core: float | None, memory_bytes: int | None) -> dict[str, Value]:
    return {n: v for n, v in ((name, core), (MEMORY, memory_bytes)) if v is not None}


_MAKERS = {"device": _devices, "container": _containers, "group": _groups}
