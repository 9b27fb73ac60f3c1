"""The page: family by family, in the table's order."""

from collections.abc import Collection, Sequence
from operator import attrgetter

from exporter.exposition.columns import Column, Level
from exporter.exposition.numbers import Numbers
from exporter.exposition.text import Format, head
from exporter.families import FAMILIES, LEVELS, Family
from exporter.ledger import table_of
from exporter.model import Snapshot

_SAMPLES = attrgetter("samples")


class Renderer:
    """Writes pages; keeps what it wrote of labels, numbers and families, because most stay.

    Not for several threads at once.
    """

    def __init__(self, families: Sequence[Family] = FAMILIES) -> None:
        self.families = families
        self._heads = {
            form: [head(f.full_name, f.type, f.help, form).encode() for f in families]
            for form in Format
        }
        self._levels = {level: Level(names) for level, names in LEVELS.items()}
        self._columns = [Column(family) for family in families]
        self._numbers = Numbers(family.divisor for family in families)

    def render(
        self, snapshot: Snapshot, form: Format, levels: Collection[str] = tuple(LEVELS)
    ) -> bytes:
        """Write the families of these levels in the table's order; one without samples is left out.

        OpenMetrics' closing ``# EOF`` is not written: the caller may have more to add.
        """
        rows = {
            level: self._levels[level].ordered(table_of(snapshot.rows, level)) for level in levels
        }
        page: list[bytes] = []
        for column, about in zip(self._columns, self._heads[form], strict=True):
            if column.level in rows:
                lines = column.lines(rows[column.level], self._numbers)
                page += (about, lines) if lines else ()
        self._numbers.forget(sum(map(_SAMPLES, self._columns)))
        return b"".join(page)
