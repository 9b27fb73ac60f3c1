"""Formulas over the figures of one thing: worked out here, or written as PromQL. Pure.

So a rule that commands and recording rules share is stated once. What is absent behaves as in
PromQL: arithmetic with it is absent; a comparison that does not hold is absent, and one that holds
has the value of its left side; ``and_``, ``or_`` and ``unless`` are PromQL's operators of sets, for
one series on each side.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, inf, nan

_DIGITS = 6  # figures are floats: what is closer to a whole number than this is one


def _over(left: float, right: float) -> float:
    if right:
        return left / right
    return nan if left == 0 else inf if left > 0 else -inf


def _steps(amount: float, by: float) -> float:
    return max(1, ceil(round(amount * by, _DIGITS)))


_FIGURE, _NUMBER, _STEPS, _MOST = "figure", "number", "steps", "at most"
_NUMBERS: Mapping[str, Callable[[float, float], float]] = {
    _STEPS: _steps,
    _MOST: min,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _over,
}
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
_SETS: Mapping[str, Callable[[float | None, float | None], float | None]] = {
    "and": lambda left, right: None if right is None else left,
    "or": lambda left, right: right if left is None else left,
    "unless": lambda left, right: left if right is None else None,
}


@dataclass(frozen=True, slots=True)
class Formula:
    """A value that follows from figures, or is absent.

    ``sign`` is an operator of PromQL between two ``sides``, or one of the four words above. A
    figure has a ``name``; a ``number`` is always there.
    """

    sign: str
    sides: tuple["Formula", ...] = ()
    name: str = ""
    number: float = 0.0

    def of(self, figures: Mapping[str, float]) -> float | None:
        """The value by these figures; None if it is absent."""
        if self.sign == _FIGURE:
            return figures.get(self.name)
        if self.sign == _NUMBER:
            return self.number
        left, right = (side.of(figures) for side in self.sides)
        if self.sign in _SETS:
            return _SETS[self.sign](left, right)
        if left is None or right is None:
            return None
        if self.sign in _COMPARISONS:
            return left if _COMPARISONS[self.sign](left, right) else None
        return _NUMBERS[self.sign](left, right)

    def promql(self, written: Callable[[str], str]) -> str:
        """The expression, with what ``written`` gives in place of a figure by its name."""
        if self.sign == _FIGURE:
            return written(self.name)
        if self.sign == _NUMBER:
            return f"{self.number!r}".removesuffix(".0")
        if self.sign == _STEPS:
            # As _steps has it: both are the same rule.
            steps = Formula("*", self.sides).promql(written)
            return f"clamp_min(ceil(round({steps}, 1e-{_DIGITS})), 1)"
        if self.sign == _MOST:
            left, right = (side.promql(written) for side in self.sides)
            return f"clamp_max({left}, {right})"
        # All else stands in brackets, whatever PromQL's operators bind more tightly.
        is_one = {_FIGURE, _NUMBER, _STEPS, _MOST}
        left, right = (
            side.promql(written) if side.sign in is_one else f"({side.promql(written)})"
            for side in self.sides
        )
        return f"{left} {self.sign} {right}"

    def __add__(self, other: "Formula | float") -> "Formula":
        """The sum."""
        return Formula("+", (self, _formula(other)))

    def __sub__(self, other: "Formula | float") -> "Formula":
        """The difference."""
        return Formula("-", (self, _formula(other)))

    def __mul__(self, other: "Formula | float") -> "Formula":
        """The product."""
        return Formula("*", (self, _formula(other)))

    def __truediv__(self, other: "Formula | float") -> "Formula":
        """The quotient; by 0 it is infinite, as in PromQL."""
        return Formula("/", (self, _formula(other)))

    def __lt__(self, other: "Formula | float") -> "Formula":
        """This, where it is less."""
        return Formula("<", (self, _formula(other)))

    def __gt__(self, other: "Formula | float") -> "Formula":
        """This, where it is more."""
        return Formula(">", (self, _formula(other)))

    def __ge__(self, other: "Formula | float") -> "Formula":
        """This, where it is not less."""
        return Formula(">=", (self, _formula(other)))

    def is_(self, other: float) -> "Formula":
        """This, where it is equal."""
        return Formula("==", (self, _formula(other)))

    def at_most(self, other: float) -> "Formula":
        """This, but no more than a number."""
        return Formula(_MOST, (self, _formula(other)))

    def and_(self, other: "Formula") -> "Formula":
        """This, where the other is there."""
        return Formula("and", (self, other))

    def or_(self, other: "Formula") -> "Formula":
        """This, or the other where this is absent."""
        return Formula("or", (self, other))

    def unless(self, other: "Formula") -> "Formula":
        """This, where the other is absent."""
        return Formula("unless", (self, other))


def figure(name: str) -> Formula:
    """A figure."""
    return Formula(_FIGURE, name=name)


def steps(amount: Formula, by: Formula) -> Formula:
    """How many steps an amount takes, at least one; ``by`` are the steps of one unit."""
    return Formula(_STEPS, (amount, by))


def _formula(one: Formula | float) -> Formula:
    return one if isinstance(one, Formula) else Formula(_NUMBER, number=one)
