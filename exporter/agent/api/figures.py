"""Facts as JSON objects, with the names of the metric table and base units, and their schemas."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from exporter.agent.api.fields import FLAG, NUMBER, TEXT, Json, described, list_of, object_of
from exporter.metrics.families import FAMILIES, Family, Sample
from exporter.model import Number

# JSON has more forms than numbers with labels, and the metric table does not say which. Tests hold
# each document against the schema, which is made from these, too.
FLAGS = frozenset({"up", "simulated", "placement_mismatch"})  # 0 and 1 mean false and true
ONE = frozenset({"info", "build_info", "config_info", "method_info"})  # one set of labels at most
LISTED = frozenset({"unmeasured", "allocation_info"})  # several sets of labels, without values


RATIOS = {  # of processes, by quantity
    "core": "core_utilization_ratio",
    "memory_active": "memory_active_ratio",
    "encoder": "encoder_utilization_ratio",
    "decoder": "decoder_utilization_ratio",
}


class FigureWriter:
    """Turns the facts of each level into objects."""

    def __init__(self, families: Sequence[Family] = FAMILIES) -> None:
        self._levels: dict[str, list[Family]] = {}
        for family in families:
            self._levels.setdefault(family.level, []).append(family)

    def of(self, level: str, fact: object) -> Json:
        """The known values of a fact, in the order of the table."""
        made: Json = {}
        for family in self._levels.get(level, ()):
            samples = family.samples(fact)
            if samples and family.labels:
                made |= _labelled(family, samples)
            elif samples and (number := in_base_units(samples[0][1], family.divisor)) is not None:
                made[family.name] = bool(number) if family.name in FLAGS else number
        return made


@dataclass(frozen=True, slots=True)
class LevelFields:
    """The figures of a level as members of an object: all, or all but one, or one.

    A document's context has them as ``figures``, and says what is ``seen`` of them.
    """

    level: str
    fact: Callable[[Any], object] = lambda thing: thing
    without: str = ""
    only: str = ""

    def made(self, thing: Any, context: Any) -> Json:  # noqa: ANN401 - as a part's
        """The known figures of the fact; none without a fact."""
        fact = self.fact(thing)
        figures = context.figures.of(self.level, fact) if fact is not None else {}
        return {name: context.seen(name, own) for name, own in figures.items() if self._has(name)}

    def schemas(self) -> Iterable[tuple[str, Json, bool]]:
        """The names and schemas of all figures; each may be unknown."""
        for family in FAMILIES:
            if family.level == self.level and self._has(family.name):
                yield family.name, _schema(family), False

    def _has(self, name: str) -> bool:
        return name == self.only if self.only else name != self.without


def _schema(family: Family) -> Json:
    if family.name in FLAGS:
        return described(FLAG, family.help)
    if not family.labels:
        return described(NUMBER, family.help)
    labels = dict.fromkeys(family.labels, TEXT)
    if family.name in ONE:
        return described(object_of(labels), family.help)
    if family.name in LISTED:
        return described(list_of(object_of(labels)), family.help)
    numbers = object_of({**labels, "value": NUMBER}, [*labels, "value"])
    return described(list_of(numbers), family.help)


def _labelled(family: Family, samples: Sequence[Sample]) -> Json:
    labels = [dict(zip(family.labels, own, strict=True)) for own, _ in samples]
    if family.name in ONE:
        # A series has all labels of its family, so that one that is not known is an empty text
        # there. Here it is absent.
        one = _without_empty(labels[0])
        return {family.name: one} if one else {}
    if family.name in LISTED:
        return {family.name: [_without_empty(each) for each in labels]}
    numbers = [in_base_units(number, family.divisor) for _, number in samples]
    pairs = zip(labels, numbers, strict=True)
    listed = [{**own, "value": number} for own, number in pairs if number is not None]
    return {family.name: listed} if listed else {}


def _without_empty(labels: Mapping[str, str]) -> Json:
    return {name: value for name, value in labels.items() if value}


def in_base_units(number: Number, divisor: int) -> Number | None:
    """The number in base units; None if JSON cannot express it."""
    # Bytes and counts stay whole: a float has 53 bits for them.
    if divisor == 1 and isinstance(number, int):
        return number
    real = number / divisor
    return real if isfinite(real) else None
