"""Limits the number of series of a family. Pure, but for ``DroppedSeries``, which counts and logs.

Where there are too many, each namespace has an equal part of the room, and what one does not need
is the others'. Groups share it by kind and user. Within a part, what was shown before stays, so
that nothing comes and goes. A device, container, pod or group is taken whole or not at all. The
accounts behind those left out go on.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from exporter.agent.fairness import in_turn
from exporter.metrics.families import families_without
from exporter.metrics.levelfacts import FIELDS, Labels, labelled
from exporter.model import Facts, GroupHolding

logger = logging.getLogger(__name__)

MAX_NAMED = 5  # families in one log line

_Labelled = Sequence[tuple[Labels, Any]]


class LimitedFacts(NamedTuple):
    """Facts within the limit, and how many series of each family (by full name) were dropped."""

    measured: Callable[[], Facts]
    dropped: Mapping[str, int] = {}


def limit_facts(
    measured: Callable[[], Facts],
    before: Callable[[], Facts],
    most: int,
    highest: int | None = None,
    left_out: Collection[str] = (),
) -> LimitedFacts:
    """The facts of each level by which no family has more than ``most`` series, and one at least.

    ``before`` are those that were taken the last time. ``highest`` is an upper bound of any
    family's series. If it is within the limit, the facts are not read: they may not be built yet.
    ``left_out`` are the families that nobody is served: they take no room.
    """
    if highest is not None and highest <= most:
        return LimitedFacts(measured)
    facts, dropped = measured(), Counter[str]()
    taken: dict[str, Any] = {}
    served = families_without(left_out)
    for level, field in FIELDS.items():
        families = [family for family in served if family.level == level]
        # One of each namespace in turn. Of a namespace, those that were shown come first, so that a
        # series does not come and go, then the first by labels.
        shown = {labels for labels, _ in labelled(before(), level)}
        ordered = in_turn(
            sorted(labelled(facts, level), key=lambda each: each[0] not in shown), _owner
        )
        counts: list[Counter[str]] = [
            Counter({f.full_name: own for f in families if (own := len(f.samples(fact)))})
            for _, fact in ordered
        ]
        room = _room(counts, most)
        for count in counts[room:]:
            dropped.update(count)
        if room < len(ordered):
            taken[field] = tuple(fact for _, fact in ordered[:room])
    limited = replace(facts, **taken)
    return LimitedFacts(lambda: limited, dropped)


def _owner(one: tuple[Labels, Any]) -> Hashable:
    """Who may have made it: a namespace; of groups a kind, and its user if that is known."""
    labels, fact = one
    has_user = isinstance(fact, GroupHolding) and fact.info is not None
    return labels[0], fact.info.uid if has_user else None


def _room(counts: Sequence[Counter[str]], most: int) -> int:
    """How many of the facts can be taken, in their order."""
    total = Counter[str]()
    for room, count in enumerate(counts):
        total.update(count)
        if room and max(total.values(), default=0) > most:
            return room
    return len(counts)


class DroppedSeries:
    """The series dropped since the start, by family. Logs each such family once."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self._said: set[str] = set()

    def count(self, dropped: Mapping[str, int], most: int) -> None:
        """Adds those of one cycle."""
        if not (dropped or self._said):  # as nearly always
            return
        self.total.update(dropped)
        news = dropped.keys() - self._said
        self._said = set(dropped)
        if news:
            logger.warning(
                "%d series are left out: more than %d of %s; raise "
                "--metrics.max-series-per-family if they are wanted",
                *(sum(dropped[name] for name in news), most, ", ".join(sorted(news)[:MAX_NAMED])),
            )
