"""What a row of a table is: another exporter's name, and where its figure comes from."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from exporter.compat.subjects import Subject

MIB = 1 << 20
PERCENT = 100

Figure = Callable[[Subject], float | None]


@dataclass(frozen=True, slots=True)
class Alias:
    """One family of another exporter.

    ``subject`` says of what there is a series: ``device``, ``holder`` (a part of a device: one
    container's, or what no container has), ``container`` (on one device), ``task`` (a container
    over all its devices) or ``pod``. ``labels`` leads from the label's name to the subject's label
    that fills it, or to a text that starts with "=". ``figure`` is None where nothing is known.
    """

    name: str
    help: str
    subject: str
    labels: Mapping[str, str]
    figure: Figure
    type: str = "gauge"


@dataclass(frozen=True, slots=True)
class of:  # noqa: N801 - reads as a word in the tables
    """A figure of the subject in base units, times a factor.

    ``key``: the values of the labels that the family itself has.
    """

    name: str
    key: str = ""
    times: float = 1
    per: float = 1

    def __call__(self, subject: Subject) -> float | None:
        """Return the figure; None where it is not known."""
        value = subject.number(self.name, *filter(None, [self.key]))
        return None if value is None else value * self.times / self.per


@dataclass(frozen=True, slots=True)
class quotient:  # noqa: N801 - reads as a word in the tables
    """One figure of the subject over another."""

    part: str
    whole: str
    times: float = 1

    def __call__(self, subject: Subject) -> float | None:
        """Return the quotient; None where one of the two is not known, or nothing is the whole."""
        above, below = subject.number(self.part), subject.number(self.whole)
        return None if above is None or not below else above / below * self.times
