"""Names and numbers as people read them. Pure."""

import re

# Control characters, characters that have no width or change the direction of text, and lone halves
# of surrogate pairs, which UTF-8 cannot encode. Each is shown as a mark.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
LONG_ID = re.compile("[0-9a-f]{64}")
NBSP = "\u00a0"
_GIB, _MIB = 2**30, 2**20


def seen(value: object) -> object:
    """A value as a template writes it: nothing for None, a mark for each unseen character."""
    if value is None:
        return ""
    if type(value) is str and not value.isprintable():
        return UNSEEN.sub("\ufffd", value)
    return value


def shortened(name: str) -> str:
    """A name with its long ids cut to the length that container runtimes show."""
    return LONG_ID.sub(lambda found: found[0][:12], name)


def percent(ratio: float | None) -> str:
    """A ratio in percent, with one decimal below ten; "?" if it is None."""
    if ratio is None:
        return "?"
    value = ratio * 100
    if 0 < value < 0.05:  # noqa: PLR2004 - would be written as 0.0
        return f"<0.1{NBSP}%"
    return f"{value:.{0 if value >= 9.95 or value == 0 else 1}f}{NBSP}%"  # noqa: PLR2004 - 9.95 would be 10.0


def gibibytes(count: float | None) -> str:
    """Bytes in GiB, or in MiB below one GiB; "?" if they are None."""
    if count is None:
        return "?"
    if abs(count) >= _GIB - _MIB / 2:  # less would be written as 1024 MiB
        return f"{count / _GIB:.1f}{NBSP}GiB"
    if 0 < count < _MIB / 2:  # would be written as 0
        return f"<1{NBSP}MiB"
    return f"{count / _MIB:.0f}{NBSP}MiB" if count else "0"


def held_of(used: float | None, limit: float | None) -> str:
    """Bytes against a limit, with the unit once if both have the same."""
    if limit is None or used is None:
        return gibibytes(used)
    figure, of = gibibytes(used), gibibytes(limit)
    if figure.endswith("GiB") and of.endswith("GiB"):
        figure = figure.removesuffix(f"{NBSP}GiB")
    return f"{figure} of{NBSP}{of}"


def seconds(count: float) -> str:
    """A duration in seconds, in its largest unit or two."""
    whole = int(count)
    for unit, size, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60)):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size}{NBSP}{unit}" + (f" {rest}{NBSP}{below}" if rest else "")
    return f"{whole // 60}{NBSP}min" if whole >= 60 else f"{whole}{NBSP}s"  # noqa: PLR2004 - a minute


def age(count: float) -> str:
    """The age of the figures, with tenths of a second below ten seconds."""
    return f"{count:.1f}{NBSP}s" if count < 10 else seconds(count)  # noqa: PLR2004 - seconds


def many(count: int, one: str, more: str = "") -> str:
    """A number with its noun in singular or plural."""
    return f"{count}{NBSP}{one if count == 1 else more or one + 's'}"
