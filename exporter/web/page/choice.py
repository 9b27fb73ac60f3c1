"""What a reader of the page chose: a filter, an order, and whether long lists are cut."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from exporter.web.page.entries import TreeEntry

SORTS = {
    "core": "Core use",
    "memory": "Memory held",
    "limit": "Core use against limit",
    "name": "Name",
}
SORTED_BY = {
    "core": "core_usage_gpus",
    "memory": "memory_used_bytes",
    "limit": "core_limit_utilization_ratio",
}
KINDS = ("pod", "group", "nobody")
LONGEST_FILTER = 200


@dataclass(frozen=True, slots=True)
class Choice:
    """Show entries that hold all words of ``text``, in this order; without a bound if ``all``."""

    text: str = ""
    sort: str = "core"
    all: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The words to look for, in lower case."""
        return tuple(self.text.lower().split())

    @property
    def query(self) -> str:
        """The query of the same choice without a bound."""
        return urlencode({"q": self.text, "sort": self.sort, "all": "1"})


def choice_of(query: Mapping[str, str]) -> Choice:
    """The choice in a request's query. Parameters that are not valid are ignored."""
    sort = query.get("sort", "core")
    return Choice(
        query.get("q", "")[:LONGEST_FILTER].strip(),
        sort if sort in SORTS else "core",
        query.get("all") == "1",
    )


def found(entry: TreeEntry, words: Sequence[str]) -> bool:
    """Whether the entry holds all of these words, anywhere."""
    if not words:
        return True
    texts = [entry.space, entry.name, entry.note]
    for part in entry.parts:
        texts += [part.name, part.uuid, "" if part.device is None else f"gpu{part.device}"]
        for process in part.processes:
            texts += [process.get("name", ""), str(process["pid"])]
    text = "\n".join(texts).lower()
    return all(word in text for word in words)


def in_order(entries: Iterable[TreeEntry], choice: Choice) -> list[TreeEntry]:
    """The entries in the chosen order. Those without the figure come last."""
    figure = SORTED_BY.get(choice.sort)

    def place(entry: TreeEntry) -> tuple[float, int, str, str]:
        number = -1.0 if figure is None else entry.figures.get(figure, -1.0)
        return (-number, KINDS.index(entry.kind), entry.space, entry.name)

    return sorted(entries, key=place)
