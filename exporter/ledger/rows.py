"""The books as rows: what the readers of a Snapshot are served.

A gauge of an owner that has gone leaves at once, its counters stay for a while; nothing but the
reason is shown on a device that could not be read for some cycles.
"""

from collections.abc import Callable, Iterable, Mapping

from exporter.ledger.book_view import CycleFacts
from exporter.ledger.device_rows import device_rows
from exporter.ledger.late import LateRows, late_rows
from exporter.ledger.ledger import Ledger
from exporter.ledger.owner_rows import container_rows, group_rows
from exporter.ledger.pod_rows import group_kind_rows, namespace_rows, pod_rows
from exporter.ledger.view import View
from exporter.model import Row, Table

MOST_OF_DEVICE = 128  # series of one family: labels of devices are closed lists
MOST_REASONS = 16  # series of one owner's ``unmeasured``
_MAKERS: Mapping[str, Callable[[View], Table | Iterable[Row]]] = {
    "device": device_rows,
    "container": container_rows,
    "pod": pod_rows,
    "namespace": namespace_rows,
    "group": group_rows,
    "group_kind": group_kind_rows,
}


def rows_of(ledger: Ledger, facts: CycleFacts) -> LateRows:
    """All rows but the exporter's own, by level; later cycles do not change them."""
    return late_rows(ledger.frozen(facts.allotted), facts, _MAKERS)


def at_most(ledger: Ledger, facts: CycleFacts) -> int:
    """No family has more series in ``rows_of`` than so many; mostly it has far fewer."""
    owners, sums = len(ledger.loose), [0, 0]
    for book in ledger.books.values():
        owners += len(book.owners)
        sums = [so_far + len(of) for so_far, of in zip(sums, book.closed.values(), strict=True)]
    return max(
        MOST_OF_DEVICE * len(ledger.books),
        MOST_REASONS * owners + len(facts.allotted),
        len(ledger.pods),
        *sums,
    )
