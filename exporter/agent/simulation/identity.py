"""Names and chances out of a seed: the same inputs give the same answer, whenever asked."""

import hashlib
from uuid import UUID

WORD = (1 << 64) - 1
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # what Kubernetes draws generated names from


def mix(*parts: int) -> int:
    """64 well-mixed bits of some integers (SplitMix64's finaliser over each)."""
    state = 0
    for part in parts:
        state = (state + part + 0x9E3779B97F4A7C15) & WORD
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & WORD
        state ^= state >> 31
    return state


def digest(*parts: object) -> str:
    """64 hexadecimal digits, such as a container id."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


def number(*parts: object) -> int:
    """A 64-bit key for ``mix``."""
    return int(digest(*parts)[:16], 16)


def uuid(*parts: object) -> str:
    """A UUID of version 4's shape, such as a pod uid or the tail of a GPU's."""
    return str(UUID(hex=digest(*parts)[:32], version=4))


def suffix(*parts: object) -> str:
    """The five letters at the end of a generated pod name."""
    chance = number(*parts)
    letters = []
    for _ in range(5):
        chance, letter = divmod(chance, len(NAME_LETTERS))
        letters.append(NAME_LETTERS[letter])
    return "".join(letters)
