"""What nobody used of devices, by reason: columns of their rows."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from exporter.ledger.accounts import ENERGY, Totals
from exporter.ledger.book_view import COUNTERS, BookView, names
from exporter.ledger.kept import Columns, Kept, by_name
from exporter.model import Labelled, MemoryHeld, Number, Owner, Unattributed, Value

# of time and energy that is nobody's, in the order of the page
BUSY_REASONS = (
    str(Unattributed.HOST_PROCESS),
    str(Unattributed.UNKNOWN_CGROUP),
    str(Unattributed.EXITED),
    str(Unattributed.NO_PID),
)
MEMORY_REASONS = (*BUSY_REASONS, str(Unattributed.OVERLAP))
ENERGY_REASONS = (*BUSY_REASONS, str(Unattributed.IDLE), str(Unattributed.UNOBSERVED))
SHARING_REASONS = tuple(map(str, (Unattributed.MIG, Unattributed.PARTITIONED, Unattributed.MPS)))
UNATTRIBUTED = {quantity: f"unattributed_{name}" for quantity, name in COUNTERS.items()}


def unattributed(kept: Kept, books: Sequence[BookView | None]) -> Columns:
    """The time and energy of each device that are nobody's; nothing of one that is None."""
    return kept.of("unattributed", _made_of(books), lambda *_: by_name(*map(_unattributed, books)))


def _made_of(books: Iterable[BookView | None]) -> list[object]:
    """All that these columns go by."""
    made_of: list[object] = []
    for seen in books:
        if seen is None:
            made_of.append(None)
            continue
        made_of += (seen.book.device, names(seen.told)[0], *seen.book.unattributed)
        for account in seen.book.unattributed.values():
            made_of += account.totals
    return made_of


def _unattributed(seen: BookView | None) -> dict[str, Value]:
    """By each reason that can apply, from 0 on: a series that begins at its first use loses it."""
    if seen is None:
        return {}
    device, nobody = seen.book.device, seen.book.unattributed
    used: dict[tuple[str, ...], Totals] = {
        (str(reason),): account.totals for reason, account in nobody.items()
    }
    instance = device.parent_uuid and device.vendor == "nvidia"
    sharing = "mig" if instance else device.sharing
    shared = tuple(r for r in SHARING_REASONS if r == sharing or (r,) in used)
    busy, energy = _nothing(BUSY_REASONS + shared), _nothing(ENERGY_REASONS + shared)
    values: dict[str, Value] = {}
    for quantity, _ in names(seen.told)[0]:
        nothing = energy if quantity == ENERGY else busy
        some = {r: getattr(totals, quantity) for r, totals in used.items() if r in nothing}
        values[UNATTRIBUTED[quantity]] = {**nothing, **some}
    return values


@cache
def _nothing(reasons: tuple[str, ...]) -> Labelled:
    return dict.fromkeys(zip(reasons, strict=True), 0)


def unattributed_memory(
    used_bytes: int | None, held: Mapping[Owner, MemoryHeld] | None
) -> Mapping[tuple[str, ...], Number]:
    """By reason, from 0 on; all of it where the device's processes are not listed."""
    if used_bytes is None:
        return {}
    if held is None:
        return {(str(Unattributed.NO_PID),): used_bytes}
    used: dict[str, int | None] = dict.fromkeys(MEMORY_REASONS, 0)
    for owner, holds in held.items():
        if isinstance(owner, Unattributed):
            used[str(owner)] = holds.used_bytes
    return {(reason,): bytes_ for reason, bytes_ in used.items() if bytes_ is not None}
