"""Who had which card from when to when at which price, and what of it scrapes can know.

Nothing here is taken from the product. Between two changes all rates are constant, so all amounts
are exact. What no two scrapes of one run enclose cannot be known, and has to be unobserved. A
change is known as closely as scrapes and the bill's steps are: that is the tolerance, all of it.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from types import MappingProxyType
from typing import NamedTuple

from tests.histories.page import HOST, is_at
from tests.histories.scrapes import TOLD_EVERY_S
from tests.histories.seen import DAY_S, Seen
from tests.histories.values import Group, History, Lasting, Machine, Pod, Run, at

HOUR_S = 3600.0
_EXACT_S = 2.0
NOBODY = ("", "")
Who = tuple[str, str]
"""Who pays: a namespace, and what a bill by something else than it adds; empty for nobody."""


class Row(NamedTuple):
    """A part of a card's time in one node."""

    uuid: str
    node: str
    who: Who
    part: str


@dataclass(slots=True)
class Amount:
    """GPU-seconds and money: the least and the most that a right bill may say."""

    least_s: float = 0.0
    most_s: float = 0.0
    least: float = 0.0
    most: float = 0.0

    def add(self, least_s: float, most_s: float, prices: tuple[float, float]) -> None:
        """Adds seconds at a price between two."""
        self.least_s += least_s
        self.most_s += most_s
        self.least += min(least_s * price for price in prices) / HOUR_S
        self.most += max(most_s * price for price in prices) / HOUR_S


@dataclass(slots=True)
class Truth:
    """What a right bill says by row, and which nodes it has to name as not known."""

    rows: dict[Row, Amount] = field(default_factory=lambda: defaultdict(Amount))
    untold: set[str] = field(default_factory=set)


Share = tuple[float, float]
"""The least and the most of a card that somebody had."""


class _Piece(NamedTuple):
    """A time in which nothing of a card changes: what each has of each second of it.

    ``is_enclosed``: whether scrapes know it. ``split``: what use and allocations are divided by,
    and ``most``: what of each part somebody could have by another division.
    """

    begin_s: float
    end_s: float
    parts: Mapping[tuple[Who, str], Share]
    prices: tuple[float, float]
    is_enclosed: bool = False
    split: tuple[float, float, bool] = (1.0, 0.0, True)
    most: Mapping[tuple[Who, str, bool], float] = MappingProxyType({})


class Asked(NamedTuple):
    """Which bill: ``--by``, ``--method``, and the steps that it is read in."""

    by: str
    method: str
    step_s: float


def truth_of(history: History, asked: Asked) -> Truth:
    """What a right bill says."""
    found = Truth()
    for machine in history.machines:
        seen = Seen(history, machine)
        for uuid, there in machine.cards:
            if shown := seen.shown(uuid, there):
                _Card(history, machine, seen, uuid, there, asked).add_to(found, shown)
        label = history.prices.label
        has_it = machine.told_s is not None and all(label in one for _, one in machine.labels)
        if label and (not has_it or machine.also) and any(seen.answered):
            found.untold.add(machine.node)
    return found


class _Card:
    """One card in one machine, from when an exporter has it."""

    def __init__(
        self,
        history: History,
        machine: Machine,
        seen: Seen,
        uuid: str,
        there: Lasting,
        asked: Asked,
    ) -> None:
        self._history, self._machine, self._seen = history, machine, seen
        self._uuid, self._there = uuid, there
        self._by, self._method, self._step_s = asked
        self._enclosed = seen.enclosed(uuid, there)
        self._pods = [
            (pod, hold)
            for pod in history.bearers
            if pod.machine == machine.id
            for hold in pod.holds
            if machine.card_of(hold.uuid) == uuid
        ]

    def add_to(self, found: Truth, shown: Sequence[tuple[Run, float]]) -> None:
        """Adds what a right bill says of the card, of which these are all scrapes."""
        first_s = min(run.there.begin_s for run, _ in shown)
        self._first_s = max(self._history.since_s, self._there.begin_s, first_s)
        self._last_s = last_s = shown[-1][1]
        # Of a day without any scrape nothing is known, not even that there is a card.
        self._read_s = shown[0][1] // DAY_S * DAY_S
        # From then on nobody can know whether it is there: its target may still be asked for.
        same = {self._machine.id}
        for later in self._later():  # one that never answers looks like this one
            if any(Seen(self._history, later).answered):
                break
            same.add(later.id)
        asked_s = max(one.there.end_s for one in self._history.targets if one.machine in same)
        self._gone_s = min(asked_s, self._seen.without(self._uuid, self._there, last_s))
        if any(uuid == self._uuid for one in self._later() for uuid, _ in one.cards):
            self._gone_s = inf  # it comes back, in a machine that bears the name of this one
        pieces = list(self._pieces())
        for piece in pieces:
            length_s = piece.end_s - piece.begin_s
            for (who, part), (least, most) in piece.parts.items():
                row = Row(self._uuid, self._machine.node, who, part)
                found.rows[row].add(least * length_s, most * length_s, piece.prices)
        edge = _Piece(0.0, 0.0, {}, self._prices_of_name(pieces[0].begin_s))
        for before, after in pairwise([edge, *pieces, edge._replace(begin_s=pieces[-1].end_s)]):
            self._widen(found, before, after)
            self._widen_split(found, before, after, pieces)
        for midnight_s in range(*self._midnights()):
            self._widen_begin(found, float(midnight_s))
        self._widen_begin(found, float(self._history.since_s))
        self._widen_names(found)
        for one in self._machine.instances:
            if one.card == self._uuid and is_at((self._first_s, self._last_s), one.there.end_s):
                self._widen_end(found, one.there.end_s)

    def _widen_end(self, found: Truth, end_s: float) -> None:
        """Nobody knows what an instance counted between its last scrape and its end."""
        held, _, _ = self._held(end_s - 1)
        most_s = self._seen.spacing_s(end_s) * sum(part for _, part, _ in held)
        unobserved = found.rows[Row(self._uuid, self._machine.node, NOBODY, "unobserved")]
        unobserved.add(0.0, most_s, self._prices(end_s))

    def _later(self) -> Iterator[Machine]:
        """The machines that bear the name of this one after it."""
        for one in self._history.machines:
            is_same = one.node == self._machine.node and one.cluster == self._machine.cluster
            if is_same and one.there.begin_s >= self._machine.there.end_s:
                yield one

    def _widen(self, found: Truth, before: _Piece, after: _Piece) -> None:
        """A change is known as closely as scrapes are, and the steps that the bill is read in."""
        close_s = self._seen.spacing_s(after.begin_s) + self._step_s
        if before.parts and after.parts and before.is_enclosed != after.is_enclosed:
            several = len(self._seen.targets) > 1
            close_s = _EXACT_S + self._seen.spacing_s(after.begin_s) * several
        prices = (min(*before.prices, *after.prices), max(*before.prices, *after.prices))
        for key in before.parts.keys() | after.parts.keys():
            one, other = (each.parts.get(key, (0.0, 0.0))[1] for each in (before, after))
            rate = abs(one - other) if before.prices == after.prices else max(one, other)
            row = found.rows[Row(self._uuid, self._machine.node, *key)]
            row.add(-rate * close_s, rate * close_s, prices)
            (namespace, name), part = key
            if before.prices != after.prices:  # who tells of a node is asked once a minute
                spread = rate * TOLD_EVERY_S * (prices[1] - prices[0]) / HOUR_S
                row.least, row.most = row.least - spread, row.most + spread
            if part == "used" and self._method == "use":  # nobody knows what is left in a step
                most = max(each.parts.get(key, (0.0, 0.0))[1] for each in (before, after))
                idle = Row(self._uuid, self._machine.node, key[0], "allocated_idle")
                found.rows[idle].add(-most * close_s, most * close_s, prices)
            if name:  # until its first scrape a pod's part may be its namespace's alone
                kinds = {("", each.group.kind) for each in self._history.groups if each.group}
                for nameless in {(namespace, "")} if namespace else kinds - {key[0]}:
                    row = found.rows[Row(self._uuid, self._machine.node, nameless, part)]
                    row.add(0.0, rate * close_s, prices)

    def _widen_split(
        self, found: Truth, before: _Piece, after: _Piece, pieces: Sequence[_Piece]
    ) -> None:
        """Within a step nobody knows when a card was lost, too much allocated, or had a rest.

        So all who are there in the step may have each part by the division before or after.
        """
        if before.split == after.split or not (before.parts and after.parts):
            return
        (scale, rest, is_read), (scale_then, rest_then, is_read_then) = before.split, after.split
        is_lost = is_read != is_read_then
        close_s = self._seen.spacing_s(after.begin_s) + self._step_s
        near = (after.begin_s - close_s, after.begin_s + close_s)
        most: dict[tuple[Who, str], float] = {}
        for piece in pieces:
            if piece.begin_s < near[1] and near[0] < piece.end_s:
                for (who, part, has_allocation), rate in piece.most.items():
                    is_split_anew = scale != scale_then if has_allocation else rest != rest_then
                    if is_lost or (is_split_anew and part != "unobserved"):
                        most[who, part] = max(rate, most.get((who, part), 0.0))
        for key, rate in most.items():
            row = found.rows[Row(self._uuid, self._machine.node, *key)]
            row.add(-rate * close_s, rate * close_s, before.prices)

    def _midnights(self) -> tuple[int, int, int]:
        """The midnights in the range, as the arguments of ``range``."""
        day_s = int(DAY_S)
        return (self._history.since_s // day_s + 1) * day_s, self._history.until_s, day_s

    def _widen_begin(self, found: Truth, since_s: float) -> None:
        """What was counted since the last scrape before a day may be taken for that day's.

        As much of the day before is unobserved, and all parts of the day are less in proportion.
        """
        close_s = self._seen.spacing_s(since_s)
        prices = self._prices(since_s)
        for at_s in {since_s - close_s, since_s - close_s / 2, since_s - 1}:
            for (pod, part), share in self._divided(at_s).items():
                # In the range nobody may know of its pod any more.
                for who in {_nameless(pod)}.union(*self._named(pod, at_s)):
                    row = found.rows[Row(self._uuid, self._machine.node, who, part)]
                    row.add(-share * close_s, share * close_s, prices)
        unobserved = found.rows[Row(self._uuid, self._machine.node, NOBODY, "unobserved")]
        unobserved.add(-close_s, close_s, prices)

    def _widen_names(self, found: Truth) -> None:
        """Two pods of one name on a machine have one account: when it changed hands is not known.

        Nobody knows whose it is while both are there, nor between two scrapes.
        """
        for pod, hold in self._pods:
            for since_s in {since_s for since_s, _ in (*pod.owner, *pod.labels)}:
                # Its use may change between the same scrapes: nobody knows under which name.
                close_s = self._seen.spacing_s(since_s)
                ends_s = since_s - close_s, since_s + close_s
                most_s = close_s * max(at(hold.used, each) for each in ends_s)
                for who in set[Who]().union(*(w for e in ends_s for w in self._named(pod, e))):
                    self._allow(found, who, most_s, since_s)
            for other in self._history.pods:
                names = (pod.namespace, pod.name), (other.namespace, other.name)
                if other is pod or other.machine != pod.machine or names[0] != names[1]:
                    continue
                begin_s = max(pod.there.begin_s, other.there.begin_s, self._history.since_s)
                both_s = max(0.0, min(pod.there.end_s, other.there.end_s) - begin_s)
                both_s += self._seen.spacing_s(begin_s) + self._step_s
                most_s = both_s * (hold.allocated + max(each.allocated for each in other.holds))
                for each in (pod, other):
                    for who in set[Who]().union(*self._named(each, begin_s)):
                        self._allow(found, who, most_s, begin_s)

    def _allow(self, found: Truth, who: Who, most_s: float, unix_s: float) -> None:
        for part in ("used", "allocated_idle"):
            row = found.rows[Row(self._uuid, self._machine.node, who, part)]
            row.add(-most_s, most_s, self._prices(unix_s))

    def _pieces(self) -> Iterator[_Piece]:
        """The card's time in the range, cut at all changes."""
        begin_s, end_s = self._first_s, float(self._history.until_s)
        cuts = {begin_s, end_s, self._last_s, self._gone_s, *self._there}
        cuts |= {cut for one in self._enclosed for cut in one[:2]}
        cuts |= {since_s for since_s, _ in self._machine.labels}
        cuts.add(self._machine.there.begin_s + (self._machine.told_s or 0.0))
        cuts |= {at for uuid, there in self._machine.lost if uuid == self._uuid for at in there}
        for pod, hold in self._pods:
            cuts |= {*pod.there, *self._seen.last_read(self._uuid, self._there, pod.there)}
            cuts |= {since_s for each in (hold.used, pod.owner, pod.labels) for since_s, _ in each}
        ordered = sorted(cut for cut in cuts if begin_s <= cut <= end_s)
        before: _Piece | None = None
        for one_s, other_s in pairwise(ordered):
            piece = self._piece(one_s, other_s)
            if before is not None and before[2:] == piece[2:]:
                piece = piece._replace(begin_s=before.begin_s)
            elif before is not None:
                yield before
            before = piece
        if before is not None:
            yield before

    def _piece(self, begin_s: float, end_s: float) -> _Piece:
        middle_s = (begin_s + end_s) / 2
        prices = self._prices(middle_s)
        stretch = next((one for one in self._enclosed if one[0] <= middle_s < one[1]), None)
        if stretch is None or not is_at(self._there, middle_s):
            is_there = is_at(self._there, middle_s) and middle_s < self._last_s
            least = 1.0 if is_there and middle_s >= self._read_s else 0.0
            most = 1.0 if is_there or middle_s < self._gone_s else 0.0
            return _Piece(
                begin_s, end_s, {(NOBODY, "unobserved"): (least, most)} if most else {}, prices
            )
        parts: dict[tuple[Who, str], Share] = {}
        for (pod, part), share in self._divided(middle_s).items():
            sure, unsure = self._named(pod, middle_s)
            if pod is not None and not stretch[2]:  # the namespace may be known for sooner
                unsure = {*sure, *unsure, _nameless(pod)}
            for who in {*sure, *unsure}:
                least, most = parts.get((who, part), (0.0, 0.0))
                parts[who, part] = least + share * (who in sure), most + share
        if not stretch[2]:
            parts = {key: (0.0, most) for key, (_, most) in parts.items()}
            for who in {who for who, _ in parts} | {NOBODY}:  # not even whether it was used
                parts[who, "unobserved"] = 0.0, 1.0
        split, could = self._split(middle_s)
        return _Piece(begin_s, end_s, parts, prices, is_enclosed=True, split=split, most=could)

    def _split(
        self, unix_s: float
    ) -> tuple[tuple[float, float, bool], Mapping[tuple[Who, str, bool], float]]:
        """What the card is divided by at a moment, and what each could have by another division.

        That is by how much is too much, by what rests for who has no allocation, and if it is read.
        """
        held, nobody, is_read = self._held(unix_s)
        allocated = sum(part for _, part, _ in held)
        most: dict[tuple[Who, str, bool], float] = defaultdict(float)
        most[NOBODY, "unattributed", False] = nobody
        for pod, part, uses in held:
            sure, unsure = self._named(pod, unix_s)
            for who in {*sure, *unsure}:
                most[who, "used", bool(part)] += uses
                for each in ("allocated_idle", "unobserved") if part else ():
                    most[who, each, True] += part
        return (max(1.0, allocated), max(0.0, 1 - allocated), is_read), most

    def _held(self, unix_s: float) -> tuple[Sequence[tuple[Pod, float, float]], float, bool]:
        """What each has and uses of the card at a moment, what nobody does, and if it is read."""
        is_read = not any(
            uuid == self._uuid and is_at(there, unix_s) for uuid, there in self._machine.lost
        )
        held = [
            (pod, hold.allocated, at(hold.used, unix_s) if is_read else 0.0)
            for pod, hold in self._pods
            if is_at(pod.there, unix_s)
        ]
        host = HOST in self._history.models[self._uuid] and is_read
        rest = max(0.0, 1 - sum(uses for *_, uses in held))
        return held, min(0.05, rest) if host else 0.0, is_read

    def _prices(self, unix_s: float) -> tuple[float, float]:
        """The least and the most that may be its price: until its node is shown, both are right."""
        machine, prices = self._machine, self._history.prices
        model = self._history.models[self._uuid]
        labels = at(machine.labels, unix_s)
        right, default = prices.of(model, labels), prices.of(model, {})
        # Of two words nobody knows which is right, unless they are one by now.
        is_contradicted = any(labels.get(name) != told for name, told in machine.also.items())
        if machine.told_s is None or is_contradicted:
            return default, default
        if unix_s < machine.there.begin_s + machine.told_s:
            return min(right, default), max(right, default)
        if unix_s > self._last_s:  # its node may be another machine's by now, before that is seen
            return self._prices_of_name(unix_s)
        return right, right

    def _prices_of_name(self, unix_s: float) -> tuple[float, float]:
        """The least and the most that it costs in a machine of this name."""
        machine, prices = self._machine, self._history.prices
        model = self._history.models[self._uuid]
        same = [one for one in self._history.machines if one.node == machine.node]
        told = [at(one.labels, unix_s) for one in same if one.told_s is not None and not one.also]
        many = [prices.of(model, labels) for labels in told or [{}]]
        return min(many), max(many)

    def _named(self, pod: Pod | None, unix_s: float) -> tuple[set[Who], set[Who]]:
        """Who is named for it, for sure or perhaps: a pod that no scrape saw is its namespace's."""
        if pod is None:
            return {NOBODY}, set()
        nameless = _nameless(pod)
        is_read = self._seen.is_read(self._uuid, self._there, pod.there, unix_s)
        if self._by == "kind" and not pod.group:
            return {("", "pods")}, set()
        is_nameless = self._by in {"user", "account"} and not pod.group
        if self._by in {"namespace", "kind"} or is_nameless or not is_read:
            return {nameless}, set()
        if pod.group:
            return self._named_group(pod, pod.group)
        if self._by == "pod":
            return {(pod.namespace, pod.name)}, set()
        key = self._by.partition(":")[2]
        timeline = pod.labels if key else pod.owner
        begins = [since_s for since_s, _ in timeline]
        begin_s = max((one for one in begins if one <= unix_s), default=pod.there.begin_s)
        end_s = min((one for one in begins if one > unix_s), default=pod.there.end_s)
        value = at(pod.labels, unix_s).get(key, "") if key else "/".join(at(pod.owner, unix_s))
        name = f"label/{value}" if key and value else value
        who = (pod.namespace, name)
        is_known = self._seen.is_scraped(
            max(begin_s, pod.there.begin_s), min(end_s, pod.there.end_s)
        )
        return ({who}, set()) if is_known else (set(), {who, nameless})

    def _named_group(self, pod: Pod, group: Group) -> tuple[set[Who], set[Who]]:
        """Who is named for a group; before its names are read it is its kind, or its id."""
        charged = {"user": group.user, "account": group.account}.get(self._by)
        if charged is None:
            name, unnamed = f"{group.kind}/{group.name}", f"{group.kind}/{pod.name}"
        else:
            name = f"{self._by}/{charged}" if charged else group.kind
            unnamed = group.kind
        who = ("", name)
        is_known = self._seen.is_scraped(*pod.there)
        return ({who}, set()) if is_known else (set(), {who, ("", unnamed), ("", group.kind)})

    def _divided(self, unix_s: float) -> dict[tuple[Pod | None, str], float]:
        """The parts of the card at a moment, which are all of it."""
        held, nobody, is_read = self._held(unix_s)
        used = sum(uses for *_, uses in held)
        allocated = sum(part for _, part, _ in held)
        scale = 1 / max(1.0, allocated)
        found: dict[tuple[Pod | None, str], float] = defaultdict(float)
        if self._method == "allocation":
            for pod, part, uses in held:
                within = min(part * scale, uses)
                found[pod, "used"] += within
                found[pod, "allocated_idle" if is_read else "unobserved"] += part * scale - within
            rest = max(0.0, 1 - allocated)
            others = nobody + sum(uses for pod, _, uses in held if pod.group)
            left = min(1.0, rest / others) if others else 0.0
            for pod, _, uses in held:
                found[pod, "used"] += uses * left if pod.group else 0.0
            found[None, "unattributed"] = nobody * left
            found[None, "unallocated"] = rest - others * left
        elif not is_read:
            found[None, "unobserved"] = 1.0
        else:
            idle = {pod: max(0.0, part * scale - min(uses, part)) for pod, part, uses in held}
            left = max(0.0, 1 - used - nobody)
            shrink = min(1.0, left / sum(idle.values())) if sum(idle.values()) else 1.0
            for pod, _, uses in held:
                found[pod, "used"] += uses
                found[pod, "allocated_idle"] += idle[pod] * shrink
            found[None, "unattributed"] = nobody
            found[None, "unallocated"] = left - sum(idle.values()) * shrink
        return {key: share for key, share in found.items() if share}


def _nameless(pod: Pod | None) -> Who:
    """Who pays for what has no series of its own: its namespace, or a group's kind."""
    if pod is None:
        return NOBODY
    return ("", pod.group.kind) if pod.group else (pod.namespace, "")
