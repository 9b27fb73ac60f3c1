"""A pod's case by the series of a Prometheus."""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple, TypeVar

from exporter.answers.reading.queryapi import (
    Labels,
    Prometheus,
    Series,
    label,
    place_of,
    quoted,
    renamings,
)
from exporter.answers.why.case import Case, OnCard, SeenCard
from exporter.answers.why.nodecase import is_called
from exporter.answers.why.podexporter import STALE_S, PodExporter
from exporter.metrics.families import PREFIX
from exporter.model import AllocationFacts, Granted, XidCount
from exporter.model.alerts import OVER_SHARE, lost
from exporter.shown.kinds import noun
from exporter.shown.marks import last_fault

_LIMITS = ("core_limit_ratio", "memory_limit_bytes")
_HELD = ("memory_used_bytes", "core_utilization_ratio", "allocation_info")
_MISPLACED = "placement_mismatch"
_STATE = ("last_active_timestamp_seconds", "unmeasured", _MISPLACED, *_LIMITS, *_HELD)
_GAUGES = {
    level: tuple(f"{PREFIX}_{level}_{name}" for name in _STATE) for level in ("container", "group")
}
_HOLDERS = tuple(f"{PREFIX}_{level}_{name}" for level in ("container", "group") for name in _HELD)
_CONTAINER, _DEVICE = f"{PREFIX}_container_", f"{PREFIX}_device_"
_POD_INFO, _GROUP_INFO = f"{PREFIX}_pod_info", f"{PREFIX}_group_info"
_CORE, _WAITING = f"{_CONTAINER}core_seconds_total", f"{_CONTAINER}core_waiting_seconds_total"
_GROUP_CORE = f"{PREFIX}_group_core_seconds_total"
_CONTENTION = f"{_CONTAINER}core_waiting_on_seconds_total"
_SELDOM_S = 3600  # scrapes are never farther apart
_SNAPSHOT = f"{PREFIX}_exporter_snapshot_timestamp_seconds"
_SCRAPE_S = 15  # scrapes are hardly ever closer: each sample is the newest for that long
_DAY_S, _STEP_S, _PART = 86_400, 60, 0.1
_OTHERS = "others"

K = TypeVar("K")


class _Key(NamedTuple):
    """A container on a device. The device's number is left out: it may change."""

    container: str
    uuid: str


class _Growth(NamedTuple):
    """How much a counter grew, and in how many seconds; when it was scraped first and last.

    The time between two scrapes is left out if the counter began again in it, or if it is longer
    than ``STALE_S``: nobody observed that time, and it is not zero.
    """

    amount: float
    observed_s: float
    first_s: float
    last_s: float
    whole_s: float  # when the last such time had passed

    @property
    def share(self) -> float | None:
        """Of the time in which it was observed; None if there was no such time."""
        return self.amount / self.observed_s if self.observed_s else None

    def is_shorter(self, other: "_Growth") -> bool:
        """Whether it was counted for a part only of the time in which the other was."""
        return self.observed_s < other.observed_s * (1 - _PART)

    def and_(self, other: "_Growth") -> "_Growth":
        """Both: one counter as two series. Of one time, as of two jobs, the longer one stands."""
        if self.first_s < other.last_s and other.first_s < self.last_s:
            return max(self, other, key=lambda one: one.observed_s)
        return _Growth(
            self.amount + other.amount,
            self.observed_s + other.observed_s,
            min(self.first_s, other.first_s),
            max(self.last_s, other.last_s),
            max(self.whole_s, other.whole_s),
        )


class SeriesCase:
    """Reads what a Prometheus knows of a pod in the ``window_s`` seconds before ``unix_s``.

    Shares are of the time in which the pod was observed; a card's are of the time since it was
    first seen there, or seen again after a gap, until it was last seen.
    With ``view``, the viewer's only namespace, the pods of all other namespaces are "others".
    """

    def __init__(
        self,
        prometheus: Prometheus,
        unix_s: float,
        window_s: int,
        view: str = "",
    ) -> None:
        self._prometheus = prometheus
        self._select = prometheus.selector
        self._unix_s = unix_s
        self._window_s = window_s
        self._view = view
        self._since_s = unix_s - window_s
        self._until_s, self._span_s = unix_s, window_s  # in which its cards are looked at
        self._level = "container"
        self._names: Sequence[Mapping[str, str]] = ()  # its labels, in each way of renaming them
        self._pod: Mapping[str, str] = {}  # its labels, of which some may be renamed
        self._called: dict[str, str] = {}  # what people call the groups on its cards
        self._exporter = PodExporter(prometheus)

    def pods(self) -> list[str]:
        """The pods that are known to the viewer, as ``namespace/pod``."""
        names = [_POD_INFO, f"{_CONTAINER}allocation_info"]
        found = self._prometheus.at(self._select(names), self._until_s)
        return sorted(
            {
                _pod(one.labels)
                for one in found
                if self._view in {"", label(one.labels, "namespace")}
            }
        )

    def members(self, namespace: str, owner: str) -> list[tuple[str, str]]:
        """The pods of a workload, in a namespace or ("") in all, that the viewer may see."""
        found = self._prometheus.at(self._select([_POD_INFO], owner_name=owner), self._until_s)
        names = {(label(one.labels, "namespace"), label(one.labels, "pod")) for one in found}
        return sorted(n for n in names if namespace in {"", n[0]} and self._view in {"", n[0]})

    def groups(self, kind: str, name: str) -> list[Mapping[str, str]]:
        """The labels of the groups of a kind ("": of any) and of this name, on each node."""
        if self._view:
            return []
        found: list[Mapping[str, str]] = []
        for one in self._prometheus.at(self._select([_GROUP_INFO]), self._until_s):
            of = label(one.labels, "kind")
            called = is_called(name, label(one.labels, "group"), label(one.labels, "name"))
            if called and kind in {"", of, noun(of)}:
                kept = {n: one.labels.get(n, "") for n in ("kind", "group", "instance")}
                found += [] if kept in found else [kept]
        return found

    def group_names(self) -> dict[str, str]:
        """What people call each group that the viewer may see, by its kind and id."""
        chosen = self._select([_GROUP_INFO])
        return {} if self._view else _called(self._prometheus.at(chosen, self._until_s))

    def read_group(self, labels: Mapping[str, str]) -> Case:
        """The case of one of the ``groups``."""
        self._level, self._names = "group", [labels]
        return self._read(labels["kind"], labels["group"])

    def read(self, namespace: str, pod: str) -> Case:
        """The case of a pod, as ``_read`` has it."""
        self._names = list(renamings(namespace=namespace, pod=pod))
        return self._read(namespace, pod)

    def _read(self, namespace: str, pod: str) -> Case:
        """The case. It has no parts if the pod is not known.

        Raises:
            NoAnswerError: two exporters have such a pod, as those of two clusters may, or
                Prometheus does not answer.

        """
        # A pod that has ended within the window is looked at as it was when it was last seen.
        ended_s = None
        state = self._state(self._unix_s)
        if not state:
            ended_s = self.last_seen(namespace, pod)
            if ended_s is None or ended_s <= self._since_s:
                return Case(
                    namespace=namespace, pod=pod, unix_s=self._unix_s, window_s=self._window_s
                )
            state = self._state(ended_s)
        gauges = (self._select(_GAUGES[self._level], **chosen) for chosen in self._names)
        what = "pod" if self._level == "container" else noun(namespace)
        called = f"{what}s {namespace}/{pod}"
        self._exporter.find(called, gauges, self._unix_s, self._window_s)
        self._until_s = self._unix_s if ended_s is None else ended_s
        self._since_s = max(self._since_s, self._began_s())
        of_pod = self._level == "container"
        core = self._growth_of(_CORE if of_pod else _GROUP_CORE)
        waiting = self._growth_of(_WAITING) if of_pod else {}
        # Its cards are looked at while it was on them: what they did before is not its own affair.
        since_s = min((one.first_s for one in core.values()), default=0)
        whole_s = min((one.whole_s for one in core.values()), default=0)
        known_s = ceil(self._until_s - max(since_s, self._since_s))
        self._span_s = max(1, ceil(self._until_s - max(whole_s, self._since_s)))
        observed_s = max((one.observed_s for one in core.values()), default=self._window_s)
        is_partly = self._window_s - observed_s > max(_STEP_S, self._window_s * _PART)
        cards = self._cards({key: many[0].labels for key, many in state.items()})
        waiting_on = self._waited_for(waiting) if of_pod else {}
        behind_s = self._behind_s()
        parts = [
            _part(
                state[key],
                cards[key],
                core.get(key),
                waiting.get(key),
                container=key.container,
                waiting_on=waiting_on.get(key),
                behind_s=behind_s,
            )
            for key in sorted(state)
        ]
        return Case(
            namespace=namespace,
            pod=pod,
            unix_s=self._unix_s,
            window_s=self._window_s,
            parts=tuple(parts),
            observed_s=observed_s if is_partly else None,
            is_new=ended_s is None and known_s - observed_s <= _STEP_S,
            ended_unix_s=ended_s,
        )

    def last_seen(self, namespace: str, pod: str) -> float | None:
        """When it was last there within a day, in Unix seconds; None if never.

        Its counters last for a while after it: they are no sign of it.
        """
        for chosen in self._names or renamings(namespace=namespace, pod=pod):
            gauges = (self._select([name], **chosen) for name in _GAUGES[self._level])
            known = " or ".join(f"timestamp({gauge})" for gauge in gauges)
            times = f"({known})[{_DAY_S}s:{_SCRAPE_S}s]"
            for one in self._prometheus.at(f"max(max_over_time({times}))", self._unix_s):
                seen_s = one.samples[-1][1]
                if self._unix_s - _DAY_S <= seen_s <= self._unix_s:
                    return seen_s
        return None

    def _behind_s(self) -> float:
        """How far what the exporter said last is behind, by its node's clock.

        When a pod was active last is by that clock: it may differ from the store's by hours,
        and what was true at the last scrape is taken to be so still, as it is of all gauges.
        """
        found = self._exporter.series(self._select([_SNAPSHOT]), _SNAPSHOT, self._until_s)
        said = [one.samples[-1][1] for one in found]
        return self._until_s - max(said) if said and self._exporter.is_known else 0.0

    def _began_s(self) -> float:
        """When the pod of this UID was seen first, if another one bore its name before; else 0.

        Their counters are one series: what the earlier one used is none of the later one's.
        """
        long = self._window_s + STALE_S
        infos = f"{self._select([_POD_INFO], **self._pod)}[{long}s]"
        seen: dict[str, list[float]] = defaultdict(list)
        for one in self._exporter.series(infos, _POD_INFO, self._unix_s):
            times = one.times[: bisect_right(one.times, self._until_s)]
            seen[label(one.labels, "uid")] += times
        seen = {uid: times for uid, times in seen.items() if times}
        if len(seen) < 2:  # noqa: PLR2004 - one bearer, or none that is known
            return 0.0
        # Of the bearer that was seen last, its first sample.
        return min(max(seen.values(), key=max))

    def _state(self, at_s: float) -> dict[_Key, list[Series]]:
        found: dict[_Key, list[Series]] = defaultdict(list)
        for chosen in self._names:
            self._pod = chosen  # its counters are asked for by the same labels
            for one in self._prometheus.at(self._select(_GAUGES[self._level], **chosen), at_s):
                found[_key(one.labels)].append(one)
            if found:
                break
        # What was said of a container before its device was known, no longer counts where it is.
        placed = {key.container for key in found if key.uuid}
        return {key: one for key, one in found.items() if key.uuid or key.container not in placed}

    def _growth_of(self, name: str) -> dict[_Key, _Growth]:
        long = self._window_s + STALE_S  # with the last scrape before
        found = self._exporter.series(
            f"{self._select([name], **self._pod)}[{long}s]", name, self._unix_s
        )
        known: dict[_Key, _Growth] = {}
        for several in found:  # an exporter's restart may give it another instance label
            end = bisect_right(several.times, self._until_s)
            one = several._replace(times=several.times[:end], values=several.values[:end])
            if one.times and one.times[-1] > self._since_s:
                now, before = _growth(one, self._since_s), known.get(_key(one.labels))
                known[_key(one.labels)] = before.and_(now) if before else now
        return known

    def _waited_for(self, waiting: Mapping[_Key, _Growth]) -> dict[_Key, dict[str, float]]:
        """Its waiting by who ran, as a share of the time in which ``waiting`` was observed."""

        def named(labels: Labels) -> tuple[_Key, str]:
            namespace, pod = labels.get("by_namespace", ""), labels.get("by_pod", "")
            if self._view and namespace != self._view:
                return _key(labels), _OTHERS
            group = pod.replace("/", " ", 1)
            called = self._called.get(group, group)
            return _key(labels), f"{namespace}/{pod}" if namespace else called

        found: dict[_Key, dict[str, float]] = defaultdict(dict)
        # not increase(), for which one scrape in the window is none
        long = self._window_s + STALE_S
        chosen = f"{self._select([_CONTENTION], **self._pod)}[{long}s]"
        grown = [
            one._replace(times=(self._unix_s,), values=(_growth(one, self._since_s).amount,))
            for one in self._exporter.series(chosen, _CONTENTION, self._unix_s)
        ]
        for (key, name), seconds in self._exporter.once(grown, _CONTENTION, named).items():
            if key in waiting and waiting[key].observed_s:
                found[key][name] = seconds / waiting[key].observed_s
        return found

    def _cards(self, state: Mapping[_Key, Labels]) -> dict[_Key, SeenCard]:
        """The cards of the pod's containers, by what their series say of them."""
        uuids = sorted({key.uuid for key in state if key.uuid})
        if not uuids:
            return {key: SeenCard() for key in state}
        matcher = f"uuid=~{quoted('|'.join(map(re.escape, uuids)))}"
        name = f"{_DEVICE}info"
        infos = {
            label(one.labels, "uuid"): one.labels
            for one in self._exporter.series(self._select([name], matcher), name, self._until_s)
        }
        groups = self._select([_GROUP_INFO], matcher)
        self._called = _called(self._exporter.series(groups, _GROUP_INFO, self._until_s))
        busy = self._rates(f"{_DEVICE}busy_seconds_total", matcher, _uuid)
        throttled: dict[str, dict[str, float]] = defaultdict(dict)
        rates = self._rates(
            f"{_DEVICE}throttle_seconds_total", matcher, lambda of: (_uuid(of), label(of, "reason"))
        )
        for (uuid, reason), rate in rates.items():
            throttled[uuid][reason] = rate
        faults = self._faults(matcher, infos)
        own = {_pod(of) if self._level == "container" else _group(of) for of in state.values()}
        on = self._holders(self._select(_HOLDERS, matcher), own)
        over = self._over(matcher)
        found: dict[_Key, SeenCard] = {}
        for key, labels in state.items():
            info, gpu = infos.get(key.uuid, {}), label(labels, "gpu")
            part = label(info, "gpu_instance")  # its number stands behind its GPU's
            found[key] = SeenCard(
                uuid=key.uuid,
                gpu=f"{gpu}-{part}" if gpu and part else gpu,
                node=place_of(labels),
                model=label(info, "model"),
                busy=busy.get(key.uuid),
                throttled=throttled[key.uuid],
                others=tuple(sorted(on[key.uuid])),
                is_part=bool(label(info, "parent_uuid")),
                over={n: times for n, times in over[key.uuid].items() if n in on[key.uuid]},
                lost=lost(label(info, "vendor"), faults[key.uuid]) if key.uuid in faults else "",
            )
        return found

    def _faults(self, matcher: str, infos: Mapping[str, Labels]) -> dict[str, int | None]:
        """The last hardware XID of each of these cards that is lost; None: none came."""
        gone = f'{matcher},quantity="device",reason="gpu_lost"'
        name = f"{_DEVICE}unmeasured"
        lost_now = self._exporter.series(self._select([name], gone), name, self._until_s)
        # XIDs are of a board. An instance is lost with it, and has its remedy.
        boards = {
            uuid: label(infos.get(uuid, {}), "parent_uuid") or uuid
            for uuid in map(_uuid, (one.labels for one in lost_now))
        }
        if not boards:
            return {}
        matcher = f"uuid=~{quoted('|'.join(map(re.escape, sorted(set(boards.values())))))}"
        name = f"{_DEVICE}xid_last_timestamp_seconds"
        xids: dict[str, dict[str, XidCount]] = defaultdict(dict)
        for one in self._exporter.series(self._select([name], matcher), name, self._until_s):
            at_ns = round(one.samples[-1][1] * 1e9)
            xids[_uuid(one.labels)][label(one.labels, "xid")] = XidCount(1, at_ns)
        return {uuid: last_fault(xids[board]) for uuid, board in boards.items()}

    def _holders(self, holders: str, own: Collection[str]) -> dict[str, set[str]]:
        """Who else is on each card."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in self._exporter.series(holders, "", self._until_s):
            is_pod = _name(one).startswith(_CONTAINER)  # a target has a namespace too
            name = _pod(one.labels) if is_pod else _group(one.labels)
            if name in own:
                continue
            name = self._called.get(name, name)
            if self._view and not (is_pod and label(one.labels, "namespace") == self._view):
                name = _OTHERS
            found[label(one.labels, "uuid")].add(name)
        return found

    def _over(self, matcher: str) -> dict[str, dict[str, float]]:
        """The pods on each card that use more than their share of its core, by how many times."""

        def of(labels: Labels) -> tuple[str, str, str]:
            return _uuid(labels), _pod(labels), label(labels, "container")

        name = f"{_CONTAINER}core_limit_ratio"
        limits = self._exporter.series(self._select([name], matcher), name, self._until_s)
        shares, rates = self._exporter.once(limits, name, of), self._rates(_CORE, matcher, of)
        sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        for key, share in shares.items():
            if key in rates:
                sums[key[:2]][0] += rates[key]
                sums[key[:2]][1] += share
        found: dict[str, dict[str, float]] = defaultdict(dict)
        for (uuid, pod), (used, share) in sums.items():
            if used > OVER_SHARE * share > 0:
                found[uuid][pod] = used / share
        return found

    def _rates(self, name: str, matcher: str, key: Callable[[Labels], K]) -> dict[K, float]:
        rate = f"rate({self._select([name], matcher)}[{self._span_s}s])"
        return self._exporter.once(self._exporter.series(rate, name, self._until_s), name, key)


def _growth(one: Series, since_s: float) -> _Growth:
    # A bill asks otherwise (``growth``): by lives and steps, and it counts on behind a reset and in
    # a gap, which are time that nobody observed here. One function for both would be longer.
    amount, observed_s, whole_s = 0.0, 0.0, one.samples[0][0]
    # Where it is scraped more seldom than usual, twice the usual time is no gap.
    usual_s = min((at - before for (before, _), (at, _) in pairwise(one.samples)), default=0.0)
    gap_s = max(STALE_S, min(2 * usual_s, _SELDOM_S))
    for (before_s, before), (at_s, value) in pairwise(one.samples):
        if at_s > since_s and at_s - before_s <= gap_s and value >= before:
            amount += value - before
            observed_s += at_s - before_s
        elif at_s - before_s > 2 * usual_s:
            whole_s = at_s
    return _Growth(amount, observed_s, one.samples[0][0], one.samples[-1][0], whole_s)


def _part(
    state: Sequence[Series],
    card: SeenCard,
    core: _Growth | None,
    waiting: _Growth | None,
    *,
    container: str,
    waiting_on: Mapping[str, float] | None,
    behind_s: float,
) -> OnCard:
    value = {_bare(one): one.samples[-1][1] for one in state}
    unmeasured = {
        one.labels.get("quantity", ""): one.labels.get("reason", "")
        for one in state
        if _bare(one) == "unmeasured"
    }
    granted = [
        Granted(one.labels["scheme"], one.labels.get("policy", ""))
        for one in state
        if "scheme" in one.labels
    ]
    active_s = value.get("last_active_timestamp_seconds")
    return OnCard(
        container=container,
        card=card,
        core=core.share if core and "core" not in unmeasured else None,
        share=value.get("core_limit_ratio"),
        waiting=waiting.share if waiting else None,
        waiting_s=waiting.observed_s if waiting and core and waiting.is_shorter(core) else None,
        waiting_on=waiting_on,
        memory_bytes=value.get("memory_used_bytes"),
        memory_limit_bytes=value.get("memory_limit_bytes"),
        last_active_unix_s=None if active_s is None else active_s + behind_s,
        scheme=", ".join(sorted({one.scheme for one in granted})),
        unmeasured=unmeasured,
        misplaced=value[_MISPLACED] == 1 if _MISPLACED in value else None,
        may_borrow=AllocationFacts(tuple(granted)).may_borrow,
    )


def _key(labels: Labels) -> _Key:
    return _Key(label(labels, "container"), label(labels, "uuid"))


def _name(one: Series) -> str:
    return one.labels.get("__name__", "")


def _bare(one: Series) -> str:
    """The name of a container's or a group's family without the level."""
    return _name(one).removeprefix(_CONTAINER).removeprefix(f"{PREFIX}_group_")


def _group(labels: Labels) -> str:
    return f"{label(labels, 'kind')} {label(labels, 'group')}"


def _called(groups: Iterable[Series]) -> dict[str, str]:
    """What people call each group, by its kind and id."""
    of = [one.labels for one in groups]
    return {
        _group(one): f"{label(one, 'kind')} {one.get('name') or label(one, 'group')}" for one in of
    }


def _uuid(labels: Labels) -> str:
    return label(labels, "uuid")


def _pod(labels: Labels) -> str:
    return f"{label(labels, 'namespace')}/{label(labels, 'pod')}"
