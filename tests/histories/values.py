"""A fleet's past as plain frozen values. Times are Unix seconds.

A name is its bearer's for a time only, so each bearer is a value of its own: two machines may have
one node name, two pods one name, and one card stands in several machines one after another.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

T = TypeVar("T")
Timeline = tuple[tuple[float, T], ...]
"""What holds from each time on until the next one; the first is the earliest."""

Labels = Mapping[str, str]


def at(timeline: Timeline[T], unix_s: float) -> T:
    """What holds at a time; before the first time, the first."""
    found = timeline[0][1]
    for since_s, value in timeline:
        if since_s > unix_s:
            break
        found = value
    return found


class Lasting(NamedTuple):
    """From when to when something was there."""

    begin_s: float
    end_s: float


class Instance(NamedTuple):
    """A part of a card by MIG: so many of its seven slices, for a time."""

    uuid: str
    card: str
    slices: int
    there: Lasting


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine. ``node``: the name that it bears; ``cards``: when each card stood in it.

    ``labels``: its node's, as Kubernetes knows them. ``told_s``: how late kube-state-metrics tells
    of the node at first; None: it never does. ``lost``: when which card gave no reading.
    ``cluster``: the labels that a store has of all targets of its cluster. ``also``: what a second
    kube-state-metrics, which is stuck, tells of its node. ``instances``: of MIG.
    """

    id: str
    node: str
    there: Lasting
    cards: tuple[tuple[str, Lasting], ...]
    labels: Timeline[Labels]
    told_s: float | None = 0.0
    lost: tuple[tuple[str, Lasting], ...] = ()
    cluster: Labels = field(default_factory=dict)
    also: Labels = field(default_factory=dict)
    instances: tuple[Instance, ...] = ()

    def instances_at(self, unix_s: float) -> list[Instance]:
        """The instances that are there at a time, as their cards are."""
        cards = {uuid for uuid, (begin_s, end_s) in self.cards if begin_s <= unix_s < end_s}
        return [
            one
            for one in self.instances
            if one.card in cards and one.there.begin_s <= unix_s < one.there.end_s
        ]

    def card_of(self, uuid: str) -> str:
        """The card of an instance; a card is its own."""
        return next((one.card for one in self.instances if one.uuid == uuid), uuid)


@dataclass(frozen=True, slots=True)
class Hold:
    """What a pod has of a card: the part that is kept for it, and the part that it uses.

    ``uuid``: of the card, or of an instance of it. Parts are the card's.
    """

    uuid: str
    allocated: float
    used: Timeline[float]


class Group(NamedTuple):
    """What a group off Kubernetes is called: a job of Slurm, or a container of Docker."""

    kind: str
    name: str
    user: str = ""
    account: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    """One pod, by its UID: it is on one machine for one time, under a name that others may bear.

    It is one bearer and equal to no other. With ``group`` it is no pod: its name is the group's id.
    """

    uid: str
    namespace: str
    name: str
    machine: str
    there: Lasting
    holds: tuple[Hold, ...]
    owner: Timeline[tuple[str, str]]
    labels: Timeline[Labels] = ((0.0, {}),)
    group: Group | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of an exporter's process. ``says_s``: how far its node's clock is ahead."""

    machine: str
    there: Lasting
    says_s: Timeline[float] = ((0.0, 0.0),)


@dataclass(frozen=True, slots=True)
class Target:
    """What a Prometheus calls an exporter, and when it scraped it.

    ``forged``: it is a tenant's copy of the machine's page, which gives the series of the first
    namespace to the second, half as much again. ``adopts``: it is a copy on which all pods have an
    owner of this name. ``behind_s``: it is a copy of the page of so long ago. ``foreign``: it is no
    exporter of ours.
    """

    labels: Labels
    machine: str
    there: Lasting
    times: tuple[float, ...]
    honors: bool = True
    forged: tuple[str, str] | None = None
    adopts: str = ""
    behind_s: float = 0.0
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of a card's hour: by a label of the node, else by model, else the default."""

    default: float
    label: str = ""
    by_label: Mapping[str, float] = field(default_factory=dict)
    by_model: Mapping[str, float] = field(default_factory=dict)

    def of(self, model: str, labels: Labels) -> float:
        """The price of an hour of a card in a node of these labels."""
        known = self.by_label.get(labels.get(self.label, ""))
        return self.by_model.get(model, self.default) if known is None else known


@dataclass(frozen=True, slots=True)
class History:
    """A past, the range of the question, and the store that has it.

    ``models``: of each card. ``averages``: whether the store has five-minute averages of it, and
    raw samples only for who asks for them. ``kept_from_s``: what is older is past the retention.
    ``tells``: the labels that kube-state-metrics' target has. ``twists``: their names. ``groups``:
    what has cards without an allocation, off Kubernetes.
    """

    since_s: int
    until_s: int
    models: Mapping[str, str]
    machines: tuple[Machine, ...]
    pods: tuple[Pod, ...]
    runs: tuple[Run, ...]
    targets: tuple[Target, ...]
    prices: PriceList
    tells: Labels = field(default_factory=lambda: {"job": "ksm", "instance": "ksm:8080"})
    averages: bool = False
    kept_from_s: float = 0.0
    twists: tuple[str, ...] = ()
    groups: tuple[Pod, ...] = ()

    @property
    def bearers(self) -> tuple[Pod, ...]:
        """All who use cards."""
        return (*self.pods, *self.groups)

    def machine(self, one: str) -> Machine:
        """The machine of an id."""
        return next(each for each in self.machines if each.id == one)
