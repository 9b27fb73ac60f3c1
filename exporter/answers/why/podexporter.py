"""Which targets are the exporter that has a pod, and what its series say."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TypeVar

from exporter.answers.reading.lives import CYCLES, START, Index, Life, Scrapes, Target, check
from exporter.answers.reading.queryapi import Labels, Prometheus, Series, label, quoted

STALE_S = 300  # Prometheus forgets a series after that
_MOVED_S = 60  # in which a pod may be on two nodes: one of its name follows another

K = TypeVar("K")


class PodExporter:
    """The exporter that has a pod. Until ``find`` any exporter counts as it."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self._index = Index(())
        self._turns: dict[Target, int] = {}  # of its targets: one after another

    @property
    def is_known(self) -> bool:
        """Whether any target of it was found."""
        return bool(self._turns)

    def find(self, what: str, gauges: Iterable[str], unix_s: float, window_s: int) -> None:
        """Find the targets of the exporter that has a pod or group, whatever their labels are.

        Two exporters that have a pod of one name at one time have two pods: figures of both are
        figures of neither. ``what``: their noun in the plural, and the name.

        Raises:
            NoAnswerError: two exporters have it, or Prometheus does not answer.

        """
        long = f"[{max(window_s, STALE_S)}s]"
        shown: list[Series] = []
        for chosen in gauges:
            shown += self._prometheus.at(f"{chosen}{long}", unix_s)
        instances = "|".join(sorted({re.escape(one.labels.get("instance", "")) for one in shown}))
        scrapes = Scrapes()
        both = self._prometheus.selector([START, CYCLES], f"instance=~{quoted(instances)}")
        for one in self._prometheus.at(f"{both}{long}", unix_s):
            scrapes.take(one.labels, one.samples)
        self._index = Index(scrapes.targets)
        lives: dict[Life, dict[Target, list[float]]] = defaultdict(lambda: defaultdict(list))
        for one in shown:
            targets, visible = self._index.of(one.labels), self._index.visible(one.labels)
            for at_s, _ in one.samples:
                # Where nobody stored when it started, a target is one life.
                of = scrapes.which(targets, at_s) or (Life(None, visible, 1), visible)
                lives[of[0]][of[1]].append(at_s)
        for times in (times for targets in lives.values() for times in targets.values()):
            times.sort()
        two = f"{self._prometheus.address} has two {what}, of two exporters"
        check(two, self._by_cards(lives, shown), _MOVED_S)
        turn, last_s = 0, -inf
        times_of = {
            target: times for targets in lives.values() for target, times in targets.items()
        }
        for target in sorted(times_of, key=lambda target: times_of[target]):
            # A target that begins after all others have ended takes over from them, and their
            # figures add up. What is there at one time is one thing, shown twice.
            turn += times_of[target][0] > last_s
            last_s = max(last_s, times_of[target][-1])
            self._turns[target] = turn

    def series(self, expression: str, name: str, unix_s: float) -> list[Series]:
        """The series of this exporter. ``name``: their family, where a function drops it."""
        return [
            one
            for one in self._prometheus.at(expression, unix_s)
            if not self._turns or self._turns_of(one, name)
        ]

    def once(
        self, found: Iterable[Series], name: str, key: Callable[[Labels], K]
    ) -> dict[K, float]:
        """The sums of what targets of this exporter show one after another, by key.

        Of several that show it at one time the one that has most stands for all.
        """
        each: dict[K, dict[int, float]] = defaultdict(dict)
        for one in found:
            turn = max(self._turns_of(one, name), default=0)
            value, of_key = one.samples[-1][1], each[key(one.labels)]
            of_key[turn] = max(value, of_key.get(turn, value))
        return {of: sum(turns.values()) for of, turns in each.items()}

    def _by_cards(
        self, lives: Mapping[Life, Mapping[Target, list[float]]], shown: Iterable[Series]
    ) -> dict[Life, dict[Target, list[float]]]:
        """The lives; exporters that started at one time and have no card in common are two."""
        cards: dict[Target, set[str]] = defaultdict(set)
        for one in shown:
            for target in self._index.of(one.labels) or [self._index.visible(one.labels)]:
                cards[target].add(label(one.labels, "uuid"))
        found: dict[Life, dict[Target, list[float]]] = {}
        for life, targets in lives.items():
            groups: list[tuple[set[str], list[Target]]] = []
            for target in sorted(targets, key=sorted):
                uuids, many = set(cards[target]), [target]
                for group in [each for each in groups if each[0] & uuids]:
                    groups.remove(group)
                    uuids, many = uuids | group[0], [*group[1], *many]
                groups.append((uuids, many))
            for _, many in groups:
                of = life if len(groups) == 1 else life._replace(target=many[0])
                found[of] = {target: targets[target] for target in many}
        return found

    def _turns_of(self, one: Series, name: str) -> list[int]:
        """The turns of the targets that a series may be of; none if it is not of this exporter."""
        labels = {"__name__": name, **one.labels}
        if targets := self._index.of(labels):
            return [self._turns[target] for target in targets if target in self._turns]
        # No target has just these labels. One that either side lacks proves nothing.
        visible = self._index.visible(labels)
        return [turn for of, turn in self._turns.items() if of <= visible or visible <= of]
