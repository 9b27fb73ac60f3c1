"""The texts of numbers, kept from page to page: most samples stay, and to write a float is dear."""

from collections.abc import Iterable, Sequence

from exporter.exposition.text import written
from exporter.model import Number

_PAGES = 2  # so many pages' numbers are kept, or fewer


class _Texts(dict[Number, str]):
    """The texts of numbers that are divided alike, written when they are asked for."""

    def __init__(self, divisor: int) -> None:
        self._divisor = divisor

    def __missing__(self, number: Number) -> str:
        text = self[number] = written(number, self._divisor)
        return text


class _Wholes(dict[Number, str]):
    """The texts of integers that stand as they are."""

    def __missing__(self, number: Number) -> str:
        text = self[number] = str(number)
        return text


class Numbers:
    """Writes numbers. Equal ones that are divided alike have one text (-0.0 that of 0.0)."""

    def __init__(self, divisors: Iterable[int]) -> None:
        self._divided = {divisor: _Texts(divisor) for divisor in {1, *divisors}}
        self._wholes = _Wholes()

    def written(self, numbers: Sequence[Number], divisor: int) -> list[str]:
        """Their texts: of integers that are not divided exactly, else those of floats."""
        texts = self._divided[divisor]
        if divisor != 1:
            return list(map(texts.__getitem__, numbers))
        wholes, kinds = self._wholes, set(map(type, numbers))
        if kinds == {int}:  # and no bool
            return list(map(wholes.__getitem__, numbers))
        if int not in kinds:
            return list(map(texts.__getitem__, numbers))
        return [wholes[n] if type(n) is int else texts[n] for n in numbers]

    def forget(self, samples: int) -> None:
        """Let go of all once there are more than some pages of so many samples need."""
        everything = (self._wholes, *self._divided.values())
        if sum(map(len, everything)) > _PAGES * samples:
            for texts in everything:
                texts.clear()
