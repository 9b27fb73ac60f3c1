"""What a reader of the page has asked for, out of its query."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

SORTS = {
    "core": "Core use",
    "memory": "Memory held",
    "limit": "Core use against limit",
    "name": "Name",
}
LONGEST_FILTER = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """Show what holds all words of ``text``, in this order; without a bound if ``all``."""

    text: str = ""
    sort: str = "core"
    all: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The words looked for, in lower case."""
        return tuple(self.text.lower().split())

    @property
    def query(self) -> str:
        """The query that asks for the same without a bound."""
        return urlencode({"q": self.text, "sort": self.sort, "all": "1"})


def choice_of(query: Mapping[str, str]) -> Choice:
    """What is asked for; what makes no sense is left aside."""
    sort = query.get("sort", "core")
    return Choice(
        query.get("q", "")[:LONGEST_FILTER].strip(),
        sort if sort in SORTS else "core",
        query.get("all") == "1",
    )
