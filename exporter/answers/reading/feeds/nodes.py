"""Which node each series of a Prometheus is of, whatever its target is called.

Two jobs, or two replicas of a Prometheus, that scrape one exporter are two targets of one life
(``exporter.answers.reading.lives``); two clusters may have nodes of one name.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from exporter.answers.reading.feeds.series import FamilySeries
from exporter.answers.reading.lives import Index, Target, name_of, target_of
from exporter.answers.reading.queryapi import Labels, label, place_of

SIMULATED = "mgpu_exporter_simulated"
"""A family that each exporter has once, with no label of its own."""

_THERE = "mgpu_pod_info"
_USED = "mgpu_container_core_seconds_total"  # a second in a second at most, on each card
_APART_S = 360  # two scrapes of which a store still shows both lie no further apart
_PORT = re.compile(r":\d+$")  # of an address
_PLACE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")  # a UUID that many nodes have

Own = tuple[str, ...]
"""A container's own labels, and the card's."""


class Nodes:
    """The nodes of some series. ``started``: when the exporter of each target did, if known."""

    def __init__(self, found: Sequence[FamilySeries], started: Mapping[Target, float]) -> None:
        targets = {target_of(one.labels) for one in found if one.family == SIMULATED}
        self._index = Index(targets)
        cards: dict[Target, set[str]] = defaultdict(set)
        for one in found:
            for target in self._index.of(one.labels):
                cards[target] |= {label(one.labels, "uuid")} - {""}
        self._names: dict[Target, str | None] = {}
        used = _used(found, self._index)
        differing: list[str] = []
        shown: dict[str, list[Target]] = defaultdict(list)  # by UUID
        places: dict[str, list[Target]] = defaultdict(list)
        for target in sorted(targets, key=_by_name):
            # A job may know the node's name where another has its address: the name is taken.
            same = (
                other
                for uuid in cards[target]
                for other in shown[uuid]
                if target in started and started[target] == started.get(other)
            )
            other = next(same, None)
            if other is not None:
                self._names[target] = None
                # When it started is what its page says: whoever writes a page can say the same.
                if _differ(used[target], used[other]):
                    differing.append(
                        f"{name_of(other)} and {name_of(target)} say that they are one exporter, "
                        "but count differently; say which is yours (--job, --target)"
                    )
                continue
            places[place_of(dict(target))].append(target)
            for uuid in cards[target]:
                shown[uuid].append(target)
        for place, many in places.items():
            for target in many:
                # Of several that have one place, the first label in which they differ is added.
                differ = sorted(target - frozenset.intersection(*many))
                is_one = len(many) == 1 or not differ
                self._names[target] = place if is_one else f"{place} ({'='.join(differ[0])})"
        of_two = (
            f"two exporters have the card {uuid}: {' and '.join(map(name_of, many[:2]))}; say "
            "which is yours (--job, --target)"
            for uuid, many in sorted(shown.items())
            if len(many) > 1 and not _PLACE.search(uuid) and all(one in started for one in many)
        )
        self.troubles = (*differing, *of_two)

    def of(self, labels: Labels) -> str | None:
        """The name of the node; None if another target of its exporter stands for it.

        A viewer of one namespace may not see what the exporter says of itself: then it is the place
        that the labels name.
        """
        targets = self._index.of(labels)
        if not targets:
            return place_of(labels)
        return next((name for one in targets if (name := self._names[one]) is not None), None)


def _by_name(target: Target) -> tuple[bool, str, list[tuple[str, str]]]:
    """Targets that are named before those that have an address alone."""
    place = place_of(dict(target))
    return _PORT.search(place) is not None, place, sorted(target)


def _used(found: Sequence[FamilySeries], index: Index) -> Mapping[Target, Mapping[Own, float]]:
    """The core time of each container, on each card, of the pods that are there now."""
    there = {_own(one)[:2] for one in found if one.family == _THERE}
    used: dict[Target, dict[Own, float]] = defaultdict(dict)
    for one in found:
        if one.family == _USED and _own(one)[:2] in there:
            for target in index.of(one.labels):
                used[target][_own(one)] = one.value
    return used


def _own(one: FamilySeries) -> Own:
    labels = {**one.labels, "__name__": one.family}
    return tuple(label(labels, name) for name in ("namespace", "pod", "container", "uuid"))


def _differ(one: Mapping[Own, float], other: Mapping[Own, float]) -> bool:
    """Whether two pages count what two scrapes of one exporter cannot."""
    if not one or not other:  # a target may be scraped without them
        return False
    keys = one.keys() | other.keys()
    return any(abs(one.get(key, 0.0) - other.get(key, 0.0)) > _APART_S for key in keys)
