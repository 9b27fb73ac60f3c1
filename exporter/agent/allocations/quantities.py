"""Parsers of numbers as Kubernetes and the sharing systems write them.

The API server rewrites quantities to their canonical form: a limit written ``"3000"`` is returned
as ``"3k"`` (apimachinery ``pkg/api/resource/quantity.go``).
"""

import re

# Above any card, and any oversubscription of one that makes sense.
MAX_MEMORY_BYTES = 1 << 42
MAX_QUANTITY = (1 << 63) - 1

_MAX_DIGITS = 18
_QUANTITY = re.compile(
    r"\+?(\d{1,18})(?:\.(\d{0,9}))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,2}))?", re.ASCII
)
_SHARE = re.compile(r"\+?(?:\d{1,20}(?:\.\d{0,20})?|\.\d{1,20})(?:[eE][+-]?\d{1,2})?", re.ASCII)
_TENS = {"n": -9, "u": -6, "m": -3}
_TENS |= {suffix: 3 * power for power, suffix in enumerate("kMGTPE", 1)}
_BINARY = {f"{suffix}i": 1024**power for power, suffix in enumerate("KMGTPE", 1)}


def parse_quantity(text: str) -> int | None:
    """Return a Kubernetes quantity; None unless it is a whole number from 0 to 2^63-1."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    whole, fraction, suffix, exponent = match.groups(default="")
    value = int(whole + fraction) * _BINARY.get(suffix, 1)
    tens = (int(exponent) if exponent else _TENS.get(suffix, 0)) - len(fraction)
    value, rest = divmod(value * 10 ** max(tens, 0), 10 ** max(-tens, 0))
    return None if rest or value > MAX_QUANTITY else value


def parse_natural(text: str) -> int | None:
    """Return a number written in decimal digits, with or without spaces around it; else None."""
    digits = text.strip() if len(text) <= 2 * _MAX_DIGITS else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MAX_DIGITS):
        return None
    return int(digits)


def parse_naturals(text: str) -> tuple[int, ...] | None:
    """Return the numbers of a comma-separated list such as ``"1,0"``; else None."""
    numbers = tuple(
        number for part in text.split(",") if (number := parse_natural(part)) is not None
    )
    return numbers if len(numbers) == text.count(",") + 1 else None


def natural_of(value: object) -> int | None:
    """Return a whole number from 0 to 2^63-1 from a JSON number or string; else None."""
    if isinstance(value, str):
        return parse_quantity(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_QUANTITY else None


def parse_share(text: str) -> float | None:
    """Return a share such as ``"0.25"`` or ``"25e-2"``; None unless it is above 0 and at most 1."""
    share = float(text) if _SHARE.fullmatch(text) else 0.0
    return share if 0 < share <= 1 else None
