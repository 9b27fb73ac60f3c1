"""Shapes that anything in a JSON document from outside may have, bounded. Pure."""

from collections.abc import Iterator, Mapping

MAX_ENTRIES = 1024  # of one map: annotations, labels, limits
MAX_NAME = 253  # DNS subdomain, the longest name that the API server accepts

Json = Mapping[str, object]
NONE: Json = {}


def mapping(parent: Json, key: str) -> Json:
    """The object under a key, or an empty one."""
    value = parent.get(key)
    return value if isinstance(value, dict) else NONE


def mappings(parent: Json, key: str) -> Iterator[Json]:
    """The objects of the list under a key; what is none is left out."""
    value = parent.get(key)
    return (
        (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
    )


def text(value: object, limit: int = MAX_NAME) -> str:
    """The text, or "" where it is none, is too long, or is no Unicode (half a surrogate pair)."""
    if not isinstance(value, str) or len(value) > limit:
        return ""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return ""
    return value


def texts(source: Json, limit: int = MAX_NAME) -> Mapping[str, str]:
    """The entries whose key and value are usable texts; quantities may be JSON integers."""
    found: dict[str, str] = {}
    for key, value in source.items():
        number = isinstance(value, int) and not isinstance(value, bool)
        own = str(value) if number else text(value, limit)
        if text(key) and (own or value == "") and len(found) < MAX_ENTRIES:
            found[key] = own
    return found
