"""The choice of a reader of the page: a filter, an order, and whether long lists are cut."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from exporter.agent.web.page.entries import OTHERS, TreeEntry
from exporter.model import DeviceFacts
from exporter.shown.tree import Figures

USUAL = ""
SORTS = {
    USUAL: "GPU number",
    "core": "Core use",
    "memory": "Memory held",
    "limit": "Core use against limit",
    "name": "Name",
}
SORTED_BY: Mapping[str, Callable[[Figures], float | None]] = {
    USUAL: lambda figures: figures.core,
    "core": lambda figures: figures.core,
    "memory": lambda figures: figures.memory_bytes,
    "limit": lambda figures: figures.core_of_limit,
}
KINDS = ("pod", "group", "unattributed")
LONGEST_FILTER = 200
LONGEST_KEY = 1000


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter, an order, and a bound: only entries with all words of ``text`` are shown.

    Long lists are cut unless ``all``. ``hour`` is the key of the card or entry with its last hour.
    """

    text: str = ""
    sort: str = USUAL
    all: bool = False
    hour: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the filter, in lower case."""
        return tuple(self.text.lower().split())

    @property
    def query(self) -> str:
        """The URL query of the same choice with uncut lists."""
        hour = {"hour": self.hour} if self.hour else {}
        return urlencode({"q": self.text, "sort": self.sort, "all": "1", **hour})


def choice_of(query: Mapping[str, str]) -> Choice:
    """The choice in a request's query. Parameters that are not valid are ignored."""
    sort = query.get("sort", USUAL)
    return Choice(
        query.get("q", "")[:LONGEST_FILTER].strip(),
        sort if sort in SORTS else USUAL,
        query.get("all") == "1",
        query.get("hour", "")[:LONGEST_KEY],
    )


def matches(entry: TreeEntry, words: Sequence[str], devices: Mapping[str, str]) -> bool:
    """Whether the entry has all of these words, anywhere.

    ``devices`` is what ``device_text`` says of each device, by its UUID.
    """
    # One text for all, so that the words of a filter may be found in different fields.
    if not words:
        return True
    texts = [entry.kind, entry.space, entry.name, entry.note, "ended" if entry.ended else ""]
    texts += [mark.kind for mark in entry.marks]
    for part in entry.parts:
        texts += [part.name, devices.get(part.uuid, part.uuid)]
        texts += [*part.schemes, *(mark.kind for mark in part.marks)]
        for process in part.processes:
            texts += [process.name, str(process.pid), process.job]
    return has_all("\n".join(texts), words)


def device_text(facts: DeviceFacts) -> str:
    """What the filter finds a device by: number, UUID, vendor, model, profile and sharing."""
    device = facts.device
    named = (device.vendor, device.model, device.profile, device.sharing)
    return "\n".join((f"gpu{device.index}", device.uuid, *named))


def has_all(text: str, words: Sequence[str]) -> bool:
    """Whether a text has all of these words, which are in lower case."""
    lower = text.lower()
    return all(word in lower for word in words)


def in_order(entries: Iterable[TreeEntry], choice: Choice) -> list[TreeEntry]:
    """The entries in the chosen order. Those that lack the figure come later, ended ones last.

    What the reader may not see comes after all that he may.
    """
    figure = SORTED_BY.get(choice.sort)

    def place(entry: TreeEntry) -> tuple[bool, bool, float, int, str, str]:
        number = None if figure is None else figure(entry.figures)
        weight = 1.0 if number is None else -number
        kind, hidden = KINDS.index(entry.kind), entry.key == OTHERS
        return (entry.ended, hidden, weight, kind, entry.space, entry.name)

    return sorted(entries, key=place)
