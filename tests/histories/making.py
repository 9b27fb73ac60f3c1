"""Histories of every kind: an ordinary past, and twists of it. A seed repeats each.

A twist is one kind of thing that happens to clusters. It takes a history and gives another one, in
which that has happened once, at a time and to things that chance chooses.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

from hypothesis import strategies as st

from tests.histories.page import HOST, is_at
from tests.histories.values import (
    Group,
    History,
    Hold,
    Instance,
    Lasting,
    Machine,
    Pod,
    PriceList,
    Run,
    Target,
    Timeline,
    at,
)

FIRST_S = 1_780_002_000
HOUR, DAY = 3600, 86_400
MINUTE = 60
BEFORE_S = 900  # the store knows of so much before the range
PRICES = PriceList(0.5, "machine_type", {"small": 1.0, "large": 10.0}, {"H100": 3.0})
TEAMS = ("red", "blue", "green")

Twist = Callable[[Random, History], History]
# A seed, and not each number drawn from it: Hypothesis would hold all of them, and refuse so many.
RANDOM = st.integers(0, 2**32 - 1).map(Random)
TWISTS: dict[str, Twist] = {}


def twist(made: Twist) -> Twist:
    """Add a twist under its function's name."""
    TWISTS[made.__name__] = made
    return made


def made(seed: int, *twists: str) -> History:
    """The history of a seed, with these twists."""
    rng = Random(f"{seed} {twists}")  # noqa: S311 - no secret
    return twisted(rng, plain(rng), twists)


def twisted(rng: Random, history: History, twists: Iterable[str]) -> History:
    """A history to which these things happen, one after another."""
    for name in twists:
        history = TWISTS[name](rng, history)
    return replace(_possible(history), twists=tuple(twists))


def _possible(history: History) -> History:
    """The same history, in which no card is used for more than all of its time."""
    most: dict[str, float] = {}
    for at_s in {since_s for pod in history.bearers for h in pod.holds for since_s, _ in h.used}:
        used: dict[str, float] = {}
        for pod in history.bearers:
            for hold in pod.holds if is_at(pod.there, at_s) else ():
                used[hold.uuid] = used.get(hold.uuid, 0.0) + at(hold.used, at_s)
        for uuid, part in used.items():
            most[uuid] = max(part, most.get(uuid, 0.0))
    possible = []
    for pod in history.bearers:
        holds = []
        for hold in pod.holds:
            scale = min(1.0, 0.95 / max(0.95, most.get(hold.uuid, 0.0)))
            used_less = tuple((since_s, part * scale) for since_s, part in hold.used)
            holds.append(replace(hold, used=used_less))
        possible.append(replace(pod, holds=tuple(holds)))
    count = len(history.pods)
    return replace(history, pods=tuple(possible[:count]), groups=tuple(possible[count:]))


def plain(rng: Random, length_s: int = 0, often_s: int = 0) -> History:
    """Some nodes with a card or two, and pods one after another or side by side.

    ``length_s``, ``often_s``: how long the range is and how often is scraped, if not by chance.
    """
    since_s = FIRST_S + rng.randrange(0, DAY, 7)
    lengths_s = [90 * MINUTE, 3 * HOUR, 6 * HOUR, 6 * HOUR, 20 * HOUR, 50 * HOUR]
    length_s = length_s or rng.choice(lengths_s)
    until_s = since_s + length_s + rng.randrange(0, 90)
    machines, runs, targets, pods, models = [], [], [], [], {}
    for number in range(rng.randint(1, 3)):
        there = Lasting(since_s - rng.choice([2 * HOUR, 30 * HOUR]), until_s + HOUR)
        uuids = [f"GPU-{number}{letter}" for letter in "ab"[: rng.randint(1, 2)]]
        for uuid in uuids:
            models[uuid] = rng.choice(["L4", "H100", f"L4-{HOST}"])
        machine = Machine(
            id=f"m{number}",
            node=f"gpu-{number}",
            there=there,
            cards=tuple((uuid, there) for uuid in uuids),
            labels=((there.begin_s, {"machine_type": rng.choice(["small", "large"])}),),
        )
        machines.append(machine)
        runs.append(Run(machine.id, there))
        every_s = often_s or rng.choice([15, 30, 60] if length_s <= 6 * HOUR else [60, 120])
        target = Target(
            {"job": "mgpu", "instance": f"gpu-{number}:10045", "node": f"gpu-{number}"},
            machine.id,
            there,
            times(rng, since_s - BEFORE_S, until_s + every_s, every_s),
        )
        targets.append(target)
        for uuid in uuids:
            pods += list(_pods(rng, machine.id, uuid, Lasting(since_s - HOUR, until_s)))
    return History(
        since_s=since_s,
        until_s=until_s,
        models=models,
        machines=tuple(machines),
        pods=tuple(pods),
        runs=tuple(runs),
        targets=tuple(targets),
        prices=PRICES,
    )


def times(
    rng: Random, begin_s: float, end_s: float, every_s: float, jitter: float = 0.0
) -> tuple[float, ...]:
    """When a target is scraped, to the millisecond."""
    found, at_s = [], begin_s + rng.uniform(0, every_s)
    while at_s < end_s:
        found.append(round(at_s + rng.uniform(-jitter, jitter) * every_s, 3))
        at_s += every_s
    return tuple(found)


def _pods(rng: Random, machine: str, uuid: str, span: Lasting) -> Iterator[Pod]:
    """Pods on one card, one after another; some have only a part of it, beside a second one."""
    for lane in range(rng.randint(1, 2)):
        at_s = span.begin_s + rng.randrange(0, 2 * HOUR)
        while at_s < span.end_s:
            end_s = at_s + rng.randrange(10 * MINUTE, max(2 * HOUR, int(_length(span) / 3)))
            allocated = rng.choice([0.5, 0.25])
            yield _pod(rng, machine, uuid, Lasting(at_s, end_s), allocated, f"{lane}{int(at_s)}")
            at_s = end_s + rng.choice([0, 30, HOUR])


def _length(there: Lasting) -> float:
    return there.end_s - there.begin_s


def _pod(rng: Random, machine: str, uuid: str, there: Lasting, allocated: float, mark: str) -> Pod:
    team = rng.choice(TEAMS)
    name = f"{team}-{uuid[-2:].lower()}-{mark}"
    used: list[tuple[float, float]] = [(there.begin_s, allocated * rng.choice([0, 0.5, 0.8, 1]))]
    if rng.random() < 0.5:
        changes_s = there.begin_s + int(_length(there) * rng.uniform(0.2, 0.8))
        used.append((changes_s, allocated * rng.choice([0, 0.3, 1])))
    return Pod(
        uid=f"uid-{name}",
        namespace=rng.choice(["ml", "web"]),
        name=name,
        machine=machine,
        there=there,
        holds=(Hold(uuid, allocated, tuple(used)),),
        owner=((there.begin_s, ("Job", f"{team}-job")),),
        labels=((there.begin_s, {"team": team}),),
    )


def _moment(rng: Random, history: History, first: float = 0.2, last: float = 0.8) -> int:
    """A time well within the range."""
    length_s = history.until_s - history.since_s
    return history.since_s + int(length_s * rng.uniform(first, last))


def _machine(rng: Random, history: History) -> Machine:
    """A machine that is there at the end of the range."""
    return rng.choice([one for one in history.machines if one.there.end_s > history.until_s])


def _other(many: Sequence[Machine], old: Machine, new: Machine) -> tuple[Machine, ...]:
    return tuple(new if one is old else one for one in many)


def _other_kind(machine: Machine) -> str:
    """A type that a machine does not have; it may have none, where its labels collide."""
    return "small" if machine.labels[-1][1].get("machine_type") == "large" else "large"


def _cut(
    history: History,
    machine: Machine,
    at_s: float,
    back_s: float,
    into: str = "",
    uuids: Sequence[tuple[str, str]] = (),
) -> tuple[tuple[Pod, ...], tuple[Run, ...]]:
    """Its pods and runs, which end at a time; new ones begin later, on cards of other UUIDs."""
    renamed, into = dict(uuids), into or machine.id
    pods: list[Pod] = []
    for pod in history.pods:
        if pod.machine != machine.id or pod.there.end_s <= at_s:
            pods.append(pod)
            continue
        if pod.there.begin_s < at_s:
            pods.append(replace(pod, there=pod.there._replace(end_s=at_s)))
        if pod.there.end_s > back_s:
            holds = tuple(replace(h, uuid=renamed.get(h.uuid, h.uuid)) for h in pod.holds)
            there = Lasting(max(pod.there.begin_s, back_s), pod.there.end_s)
            is_split = pod.there.begin_s < at_s
            uid, name = (f"{each}-later" if is_split else each for each in (pod.uid, pod.name))
            pods.append(replace(pod, uid=uid, name=name, holds=holds, there=there, machine=into))
    return tuple(pods), _cut_runs(history, machine.id, at_s, back_s, into)


def _cut_runs(
    history: History, machine: str, at_s: float, back_s: float, into: str
) -> tuple[Run, ...]:
    """Its run ends, and another one begins. Its later runs are those of what comes back."""
    runs: list[Run] = []
    for run in history.runs:
        if run.machine != machine or run.there.end_s <= at_s:
            runs.append(run)
            continue
        if run.there.begin_s < at_s:
            runs.append(replace(run, there=run.there._replace(end_s=at_s)))
        if back_s < run.there.end_s:
            there = Lasting(max(run.there.begin_s, back_s), run.there.end_s)
            runs.append(replace(run, machine=into, there=there))
    return tuple(runs)


def _replaced(
    rng: Random,
    history: History,
    *,
    cards: bool,
    kind: str = "",
    gap_s: Sequence[int] = (60, 600, 4000),
) -> History:
    """A machine is made anew under its node's name, with the same cards or with others."""
    old, number = _machine(rng, history), len(history.machines)
    at_s = _moment(rng, history)
    if at_s - old.there.begin_s < HOUR / 4:  # it has only just come
        return history
    back_s = at_s + rng.choice(gap_s)
    names = [f"GPU-{number}{letter}" for letter in "abcd"]
    left = [uuid for uuid, one in old.cards if one.end_s > at_s]  # the others went before
    uuids = [(uuid, names[place] if cards else uuid) for place, uuid in enumerate(left)]
    there = Lasting(back_s, old.there.end_s)
    labels = dict(old.labels[-1][1])
    labels = {"machine_type": kind} if kind else labels
    new = Machine(
        id=f"m{number}",
        node=old.node,
        there=there,
        cards=tuple((uuid, there) for _, uuid in uuids),
        labels=((back_s, labels),),
        cluster=old.cluster,
    )
    gone = Lasting(old.there.begin_s, at_s)
    ended = replace(
        old,
        there=gone,
        cards=tuple((uuid, one._replace(end_s=min(one.end_s, at_s))) for uuid, one in old.cards),
    )
    pods, runs = _cut(history, old, at_s, back_s, new.id, uuids)
    targets: list[Target] = []
    for one in history.targets:
        if one.machine != old.id:
            targets.append(one)
            continue
        for machine, of in ((old.id, gone), (new.id, there)):
            some = tuple(t for t in one.times if of.begin_s <= t < of.end_s)
            targets.append(replace(one, machine=machine, there=of, times=some))
    models = dict(history.models)
    for before, after in uuids:
        models[after] = models[before]
    return replace(
        history,
        machines=(*_other(history.machines, old, ended), new),
        pods=pods,
        runs=runs,
        targets=tuple(targets),
        models=models,
    )


# Things that bear names: nodes


@twist
def node_made_anew_with_other_cards(rng: Random, history: History) -> History:
    """A cloud's machine is deleted, and another one takes its node's name."""
    return _replaced(rng, history, cards=True)


@twist
def node_made_anew_often(rng: Random, history: History) -> History:
    """Spot machines under one name, each with a card of its own."""
    for _ in range(3):
        history = _replaced(rng, history, cards=True, gap_s=(60, 600))
    return history


@twist
def node_made_anew_as_another_type(rng: Random, history: History) -> History:
    """A small machine, then a large one under its name: prices are each one's own."""
    return _replaced(rng, history, cards=True, kind=rng.choice(["small", "large"]))


@twist
def node_made_anew_with_its_cards(rng: Random, history: History) -> History:
    """Bare metal that is installed anew, and gets another type."""
    return _replaced(rng, history, cards=False, kind=rng.choice(["small", "large"]))


@twist
def node_label_changes(rng: Random, history: History) -> History:
    """Somebody corrects the label that prices go by."""
    old, at_s = _machine(rng, history), _moment(rng, history)
    kind = _other_kind(old)
    new = replace(old, labels=(*old.labels, (at_s, {**old.labels[-1][1], "machine_type": kind})))
    return replace(history, machines=_other(history.machines, old, new))


@twist
def node_label_of_some(rng: Random, history: History) -> History:
    """Kube-state-metrics knows one node less: its default price has to be said."""
    old = _machine(rng, history)
    return replace(history, machines=_other(history.machines, old, replace(old, told_s=None)))


@twist
def node_label_late(rng: Random, history: History) -> History:
    """A machine comes, and kube-state-metrics shows it minutes later."""
    history = _replaced(rng, history, cards=True, kind="large")
    new = history.machines[-1]
    late = replace(new, told_s=rng.choice([90, 400, 900]))
    return replace(history, machines=_other(history.machines, new, late))


@twist
def node_label_told_twice(rng: Random, history: History) -> History:
    """Of two kube-state-metrics one is stuck, and tells another type of a node all the time."""
    old = _machine(rng, history)
    kind = _other_kind(old)
    new = replace(old, also={"machine_type": kind})
    return replace(history, machines=_other(history.machines, old, new))


@twist
def node_label_collides(rng: Random, history: History) -> History:
    """Two labels of a node are one in Prometheus's writing: neither has the name of the prices'."""
    old = _machine(rng, history)
    both = {"machine_type_conflict1": "large", "machine_type_conflict2": "small"}
    new = replace(old, labels=((old.there.begin_s, both),))
    return replace(history, machines=_other(history.machines, old, new))


@twist
def clusters_of_the_same_names(rng: Random, history: History) -> History:
    """Two clusters in one store: nodes and pods of one name, on other cards, at another price."""
    label = rng.choice(["cluster", "k8s_cluster"])
    west, east = {label: "west"}, {label: "east"}
    first = history.machines[0]
    uuids = {uuid: f"{uuid}-west" for uuid, _ in first.cards}
    kind = _other_kind(first)
    new = replace(
        first,
        id="m-west",
        cards=tuple((uuids[uuid], there) for uuid, there in first.cards),
        labels=((first.there.begin_s, {"machine_type": kind}),),
        cluster=west,
    )
    pods = [
        _successor(rng, replace(pod, machine=new.id), pod.there)
        for pod in history.pods
        if pod.machine == first.id
    ]
    pods = [
        replace(pod, holds=tuple(replace(h, uuid=uuids.get(h.uuid, h.uuid)) for h in pod.holds))
        for pod in pods
    ]
    labelled = [replace(one, labels={**one.labels, **east}) for one in history.targets]
    copied = [
        replace(one, machine=new.id, labels={**one.labels, **west}, times=_shifted(one.times))
        for one in history.targets
        if one.machine == first.id
    ]
    return replace(
        history,
        models={**history.models, **{uuids[uuid]: history.models[uuid] for uuid in uuids}},
        machines=(*(replace(one, cluster=east) for one in history.machines), new),
        pods=(*history.pods, *pods),
        runs=(*history.runs, Run(new.id, new.there)),
        targets=(*labelled, *copied),
    )


def _shifted(many: Sequence[float]) -> tuple[float, ...]:
    return tuple(one + 3.5 for one in many)


# Cards


def _card_until(machine: Machine, uuid: str, at_s: float, *more: tuple[str, Lasting]) -> Machine:
    cards = tuple(
        (each, Lasting(one.begin_s, at_s) if each == uuid else one) for each, one in machine.cards
    )
    return replace(machine, cards=(*cards, *more))


@twist
def card_exchanged(rng: Random, history: History) -> History:
    """A broken card is taken out, another one put in; the node is down meanwhile."""
    old, at_s = _machine(rng, history), _moment(rng, history)
    back_s = at_s + rng.choice([120, 1800])
    uuid, there = old.cards[0]
    new_uuid = f"{uuid}-new"
    new = _card_until(old, uuid, at_s, (new_uuid, Lasting(back_s, there.end_s)))
    pods, runs = _cut(history, old, at_s, back_s, "", [(uuid, new_uuid)])
    models = {**history.models, new_uuid: history.models[uuid]}
    machines = _other(history.machines, old, new)
    return replace(history, machines=machines, pods=pods, runs=runs, models=models)


@twist
def card_taken_out(rng: Random, history: History) -> History:
    """A card is taken out for good, and the exporter goes on with the others, or without any."""
    old, at_s = _machine(rng, history), _moment(rng, history)
    uuid, _ = rng.choice(old.cards)
    pods = tuple(
        replace(pod, there=pod.there._replace(end_s=min(pod.there.end_s, at_s)))
        if uuid in {hold.uuid for hold in pod.holds}
        else pod
        for pod in history.pods
        if pod.there.begin_s < at_s or uuid not in {hold.uuid for hold in pod.holds}
    )
    machines = _other(history.machines, old, _card_until(old, uuid, at_s))
    return replace(history, machines=machines, pods=pods)


@twist
def card_moved(rng: Random, history: History) -> History:
    """A card is put into another machine, of another price; both are down meanwhile."""
    old, at_s = _machine(rng, history), _moment(rng, history)
    back_s, number = at_s + rng.choice([120, 1800]), len(history.machines)
    uuid, there = old.cards[0]
    kind = _other_kind(old)
    beyond = Lasting(back_s, there.end_s)
    other = Machine(
        f"m{number}",
        f"gpu-{number}",
        beyond,
        ((uuid, beyond),),
        ((back_s, {"machine_type": kind}),),
    )
    pods, runs = _cut(history, old, at_s, back_s)
    pods = tuple(
        replace(pod, machine=other.id)
        if pod.machine == old.id and pod.there.begin_s >= back_s and pod.holds[0].uuid == uuid
        else pod
        for pod in pods
    )
    labels = {"job": "mgpu", "instance": f"{other.node}:10045", "node": other.node}
    every = times(rng, back_s, history.until_s + 60, 30)
    return replace(
        history,
        machines=(*_other(history.machines, old, _card_until(old, uuid, at_s)), other),
        pods=pods,
        runs=(*runs, Run(other.id, beyond)),
        targets=(*history.targets, Target(labels, other.id, beyond, every)),
    )


@twist
def card_lost_and_back(rng: Random, history: History) -> History:
    """A card gives no reading for a while."""
    old, at_s = _machine(rng, history), _moment(rng, history)
    lost = rng.choice(old.cards)[0], Lasting(at_s, at_s + rng.choice([40, 400, 2000]))
    new = replace(old, lost=(lost,))
    return replace(history, machines=_other(history.machines, old, new))


@twist
def card_lost_until_a_restart(rng: Random, history: History) -> History:
    """A card gives no reading until its exporter is started anew."""
    history = card_lost_and_back(rng, history)
    old = next(one for one in history.machines if one.lost)
    back_s = old.lost[0][1].end_s
    runs = _cut_runs(history, old.id, back_s - 10, back_s, old.id)
    return replace(history, runs=runs)


@twist
def instances_made_anew(rng: Random, history: History) -> History:
    """A card's instances of MIG are deleted, and smaller ones made; its pods come after them."""
    old, at_s = _machine(rng, history), _moment(rng, history)
    card, there = rng.choice(old.cards)
    back_s = at_s + rng.choice([5, 120])
    before, after = Lasting(there.begin_s, at_s), Lasting(back_s, there.end_s)
    first = [Instance(f"MIG-{card}-{lane}", card, 3, before) for lane in (0, 1)]
    then = [Instance(f"MIG-{card}-{lane}-new", card, 2, after) for lane in (0, 1)]
    pods: list[Pod] = []
    for pod in history.pods:
        lane = int(f"{card[-2:].lower()}-1" in pod.name)
        if pod.machine != old.id or card not in {hold.uuid for hold in pod.holds}:
            pods.append(pod)
            continue
        if pod.there.begin_s < at_s:
            end_s = min(pod.there.end_s, at_s)
            pods.append(_on(first[lane], replace(pod, there=pod.there._replace(end_s=end_s))))
        if pod.there.end_s > back_s:
            begin_s, mark = max(pod.there.begin_s, back_s), "-later" * (pod.there.begin_s < at_s)
            one = replace(pod, there=pod.there._replace(begin_s=begin_s), uid=f"{pod.uid}{mark}")
            pods.append(_on(then[lane], replace(one, name=f"{pod.name}{mark}")))
    new = replace(old, instances=(*old.instances, *first, *then))
    return replace(history, pods=tuple(pods), machines=_other(history.machines, old, new))


def _on(instance: Instance, pod: Pod) -> Pod:
    """A pod that has an instance in place of a part of its card."""
    holds = []
    for hold in pod.holds:
        if hold.uuid == instance.card:
            part = instance.slices / 7
            used = tuple((since_s, uses / hold.allocated * part) for since_s, uses in hold.used)
            holds.append(Hold(instance.uuid, part, used))
        else:
            holds.append(hold)
    return replace(pod, holds=tuple(holds))


# Pods


def _again(rng: Random, history: History, gap_s: Sequence[int]) -> History:
    """After a pod another one has its name, on the same card: of another owner and team."""
    inside = [
        pod
        for pod in history.pods
        if history.since_s < pod.there.end_s < history.until_s - 20 * MINUTE
    ]
    if not inside:
        return history
    pod = rng.choice(inside)
    begin_s = pod.there.end_s + rng.choice(gap_s)
    length_s = rng.randrange(10 * MINUTE, 2 * HOUR)
    return replace(
        history, pods=(*history.pods, _successor(rng, pod, Lasting(begin_s, begin_s + length_s)))
    )


def _successor(rng: Random, pod: Pod, there: Lasting) -> Pod:
    hold = pod.holds[0]
    team = next(one for one in TEAMS if one != pod.labels[-1][1].get("team"))
    used = hold.allocated * rng.choice([0.3, 1])
    return replace(
        pod,
        uid=f"{pod.uid}-again",
        there=there,
        holds=(replace(hold, used=((there.begin_s, used),)),),
        owner=((there.begin_s, ("StatefulSet", f"{team}-set")),),
        labels=((there.begin_s, {"team": team}),),
    )


@twist
def pod_name_again_at_once(rng: Random, history: History) -> History:
    """A StatefulSet's pod is made anew by another team within the time that its account is kept."""
    return _again(rng, history, (0, 5, 120))


@twist
def pod_name_again_later(rng: Random, history: History) -> History:
    """The same after its account was dropped."""
    return _again(rng, history, (301, 1200))


@twist
def pod_name_again_on_another_node(rng: Random, history: History) -> History:
    """The same on a card of another node; by force-deletion before the first one has ended.

    A node's API server has one pod of a name, so on one node they do not overlap.
    """
    inside = [p for p in history.pods if p.there.end_s > history.since_s + 20 * MINUTE]
    if not inside:
        return history
    pod = rng.choice(inside)
    machine = rng.choice(history.machines)
    earliest_s = pod.there.end_s if machine.id == pod.machine else pod.there.begin_s
    begin_s = max(earliest_s, pod.there.end_s + rng.choice([-600, -60, 0, 100]))
    there = Lasting(begin_s, begin_s + rng.randrange(10 * MINUTE, 2 * HOUR))
    successor = _successor(rng, pod, there)
    hold = replace(successor.holds[0], uuid=machine.cards[0][0])
    moved = replace(successor, machine=machine.id, holds=(hold,))
    return replace(history, pods=(*history.pods, moved))


@twist
def pods_shorter_than_a_scrape(rng: Random, history: History) -> History:
    """A job of many short pods."""
    machine, begin_s = _machine(rng, history), _moment(rng, history, 0.1, 0.6)
    uuid = machine.cards[0][0]
    pods = [
        _pod(rng, machine.id, uuid, Lasting(at_s, at_s + rng.choice([3, 8, 20])), 0.25, f"s{at_s}")
        for at_s in range(begin_s, begin_s + 1800, rng.choice([25, 60]))
    ]
    return replace(history, pods=(*history.pods, *pods))


@twist
def namespace_made_anew(rng: Random, history: History) -> History:
    """A namespace is deleted, and another team makes one of its name, with pods of the same."""
    at_s = _moment(rng, history, 0.3, 0.7)
    pods = [
        replace(pod, there=pod.there._replace(end_s=min(pod.there.end_s, at_s)))
        if pod.namespace == "ml"
        else pod
        for pod in history.pods
        if pod.namespace != "ml" or pod.there.begin_s < at_s
    ]
    ended = [pod for pod in pods if pod.namespace == "ml" and pod.there.end_s == at_s]
    again_s = at_s + rng.choice([60, 900])
    again = [_successor(rng, pod, Lasting(again_s, again_s + HOUR)) for pod in ended]
    return replace(history, pods=(*pods, *again))


def _of_pod(rng: Random, history: History, change: Callable[[Pod, float], Pod]) -> History:
    """Something changes about some pods while they run, in the range."""
    pods = []
    for pod in history.pods:
        begin_s = max(pod.there.begin_s, history.since_s)
        end_s = min(pod.there.end_s, history.until_s)
        is_chosen = end_s > begin_s and rng.random() < 0.5
        at_s = begin_s + (end_s - begin_s) * rng.uniform(0.2, 0.8)
        pods.append(change(pod, int(at_s)) if is_chosen else pod)
    return replace(history, pods=tuple(pods))


@twist
def owner_renamed(rng: Random, history: History) -> History:
    """Orphaned pods are adopted by an owner of another name."""
    return _of_pod(
        rng,
        history,
        lambda pod, at_s: replace(pod, owner=(*pod.owner, (at_s, ("Job", "adopted")))),
    )


@twist
def pod_label_changes(rng: Random, history: History) -> History:
    """A pod's label is given another value in mid-day."""
    return _of_pod(
        rng,
        history,
        lambda pod, at_s: replace(pod, labels=(*pod.labels, (at_s, {"team": "purple"}))),
    )


@twist
def pod_label_of_some(rng: Random, history: History) -> History:
    """Some pods have no such label."""
    return _of_pod(rng, history, lambda pod, _: replace(pod, labels=((pod.there.begin_s, {}),)))


@twist
def pod_label_late(rng: Random, history: History) -> History:
    """A controller gives pods their label minutes after they began."""
    late_s = rng.choice([60, 300, 900])
    return _of_pod(
        rng,
        history,
        lambda pod, _: replace(
            pod,
            labels=((pod.there.begin_s, {}), (pod.there.begin_s + late_s, pod.labels[0][1])),
        ),
    )


@twist
def pods_on_two_cards(rng: Random, history: History) -> History:
    """Pods that have a part of each of two cards of their machine."""
    cards = {machine.id: [uuid for uuid, _ in machine.cards] for machine in history.machines}
    pods = []
    for pod in history.pods:
        hold, more = pod.holds[0], [one for one in cards[pod.machine] if one != pod.holds[0].uuid]
        both = (hold, replace(hold, uuid=rng.choice(more))) if more else (hold,)
        smaller = tuple(
            replace(h, allocated=h.allocated / 2, used=tuple((t, u / 2) for t, u in h.used))
            for h in both
        )
        pods.append(replace(pod, holds=smaller))
    return replace(history, pods=tuple(pods))


@twist
def groups_beside_pods(rng: Random, history: History) -> History:
    """Jobs of Slurm and containers of Docker use what pods leave of cards."""
    groups: list[Pod] = []
    for machine in history.machines:
        for uuid, _ in machine.cards:
            at_s = float(history.since_s - rng.randrange(0, HOUR))
            while at_s < history.until_s:
                there = Lasting(at_s, at_s + rng.randrange(10 * MINUTE, 4 * HOUR))
                groups.append(_group(rng, machine.id, uuid, there, str(4000 + len(groups))))
                at_s = there.end_s + rng.choice([0, 30, HOUR])
    return replace(history, groups=tuple(groups))


def _group(rng: Random, machine: str, uuid: str, there: Lasting, number: str) -> Pod:
    user = rng.choice(["alice", "bob"])
    of_slurm = Group("slurm", f"climate-{number}", user, rng.choice(["physics", ""]))
    group = rng.choice([of_slurm, Group("docker", f"jupyter-{number}")])
    uses = ((there.begin_s, rng.choice([0.05, 0.2])),)
    return Pod("", "", number, machine, there, (Hold(uuid, 0.0, uses),), (), group=group)


# Exporters and targets


@twist
def exporter_restarts(rng: Random, history: History) -> History:
    """Its process is started anew, some times."""
    for _ in range(rng.randint(1, 4)):
        machine, at_s = _machine(rng, history), _moment(rng, history, 0.05, 0.95)
        back_s = at_s + rng.choice([2, 20, 400])
        runs = _cut_runs(history, machine.id, at_s, back_s, machine.id)
        history = replace(history, runs=runs)
    return history


def _retargeted(
    history: History, machine: str, at_s: float, labels: dict[str, str], *, honors: bool = True
) -> History:
    """From a time on a machine's target has other labels."""
    targets: list[Target] = []
    for one in history.targets:
        if one.machine != machine or not one.there.begin_s < at_s < one.there.end_s:
            targets.append(one)
            continue
        before = tuple(t for t in one.times if t < at_s)
        after = tuple(t for t in one.times if t >= at_s)
        targets.append(replace(one, there=one.there._replace(end_s=at_s), times=before))
        there = one.there._replace(begin_s=at_s)
        targets.append(
            replace(one, labels={**one.labels, **labels}, honors=honors, there=there, times=after)
        )
    return replace(history, targets=tuple(targets))


@twist
def exporter_comes_late(rng: Random, history: History) -> History:
    """The exporter is installed while pods run already."""
    machine = _machine(rng, history)
    at_s = max(_moment(rng, history), machine.there.begin_s)
    runs = tuple(
        replace(run, there=run.there._replace(begin_s=at_s)) if run.machine == machine.id else run
        for run in history.runs
    )
    targets = tuple(
        replace(
            one,
            there=one.there._replace(begin_s=at_s),
            times=tuple(t for t in one.times if t >= at_s),
        )
        if one.machine == machine.id
        else one
        for one in history.targets
    )
    return replace(history, runs=runs, targets=targets)


@twist
def exporter_down_for_hours(rng: Random, history: History) -> History:
    """Its target does not answer for long, and then another run does, or none."""
    machine, at_s = _machine(rng, history), _moment(rng, history, 0.1, 0.6)
    back_s = at_s + rng.choice([2 * HOUR, 100 * DAY])
    return replace(history, runs=_cut_runs(history, machine.id, at_s, back_s, machine.id))


@twist
def exporter_down_as_the_range_begins(rng: Random, history: History) -> History:
    """Its target does not answer since minutes before the range, and then another run does."""
    machine, at_s = _machine(rng, history), history.since_s - rng.randrange(310, 480)
    back_s = history.since_s + rng.choice([HOUR / 2, 2 * HOUR, 100 * DAY])
    return replace(history, runs=_cut_runs(history, machine.id, at_s, back_s, machine.id))


@twist
def exporter_upgraded(rng: Random, history: History) -> History:
    """Its pod is replaced: another process, and another name of its target."""
    machine, at_s = _machine(rng, history), _moment(rng, history)
    runs = _cut_runs(history, machine.id, at_s, at_s + rng.choice([5, 45]), machine.id)
    history = replace(history, runs=runs)
    return _retargeted(history, machine.id, at_s, {"instance": "10.0.0.9:10045", "version": "2"})


@twist
def target_renamed(rng: Random, history: History) -> History:
    """A reload of Prometheus gives a target another label; its exporter goes on."""
    label = rng.choice(["instance", "job", "zone", "prometheus_replica", "service", "k8s_cluster"])
    machine = _machine(rng, history)
    return _retargeted(history, machine.id, _moment(rng, history), {label: "other"})


def _second(rng: Random, history: History, labels: dict[str, str], missed: float = 0.0) -> History:
    """Each target is scraped a second time, under another label, from some time on."""
    more: list[Target] = []
    for one in history.targets:
        every_s = rng.choice([15, 30, 60, 120])
        begin_s = rng.choice([one.times[0], _moment(rng, history)]) if one.times else 0
        if not one.times or begin_s >= one.times[-1]:
            continue
        some = times(rng, max(begin_s, one.times[0]), one.times[-1], every_s)
        kept = tuple(t for t in some if rng.random() >= missed)
        there = one.there._replace(begin_s=max(begin_s, one.there.begin_s))
        more.append(replace(one, labels={**one.labels, **labels}, there=there, times=kept))
    first = [
        replace(one, times=tuple(t for t in one.times if rng.random() >= missed))
        for one in history.targets
    ]
    return replace(history, targets=(*first, *more))


@twist
def two_jobs(rng: Random, history: History) -> History:
    """Two jobs scrape the same exporters."""
    return _second(rng, history, {"job": "again"})


@twist
def two_replicas(rng: Random, history: History) -> History:
    """Two replicas of a Prometheus in one store, each without some scrapes."""
    return _second(rng, history, {"prometheus_replica": "b"}, missed=0.1)


@twist
def targets_that_differ_by_a_label(rng: Random, history: History) -> History:
    """A pod's two ports, or an operator's two monitors."""
    label = rng.choice(["container", "endpoint", "anything"])
    return _second(rng, history, {label: "second"})


@twist
def clock_stepped(rng: Random, history: History) -> History:
    """A node's clock is ahead or behind, or it is set while its exporter runs."""
    ahead_s = rng.choice([-HOUR, -40, 40, HOUR, 30 * DAY])
    at_s = rng.choice([0.0, float(_moment(rng, history))])
    machine = _machine(rng, history)
    timeline: Timeline[float] = (
        ((0.0, 0.0), (at_s, float(ahead_s))) if at_s else ((0.0, float(ahead_s)),)
    )
    runs = tuple(
        replace(run, says_s=timeline) if run.machine == machine.id else run for run in history.runs
    )
    return exporter_restarts(rng, replace(history, runs=runs))


def _rescraped(history: History, new: Callable[[Target], tuple[float, ...]]) -> History:
    targets = tuple(replace(one, times=new(one)) for one in history.targets)
    return replace(history, targets=targets)


@twist
def scraped_unevenly(rng: Random, history: History) -> History:
    """From each 5 s to each two minutes, and never quite in time."""
    length_s = history.until_s - history.since_s
    few = [5, 10, 15, 120] if length_s <= 3 * HOUR else [120]
    return _rescraped(
        history,
        lambda one: times(
            rng,
            one.times[0] if one.times else 0,
            one.times[-1] if one.times else 0,
            rng.choice(few),
            0.3,
        ),
    )


@twist
def scrapes_missing(rng: Random, history: History) -> History:
    """A Prometheus was down for a while, once or twice."""
    gaps = []
    for _ in range(rng.randint(1, 2)):
        begin_s = _moment(rng, history, 0.1, 0.9)
        gaps.append(Lasting(begin_s, begin_s + rng.choice([200, 400, 2000, 7000])))
    return _rescraped(
        history,
        lambda one: tuple(t for t in one.times if not any(g[0] <= t < g[1] for g in gaps)),
    )


@twist
def range_begins_in_a_gap(rng: Random, history: History) -> History:
    """Nothing was scraped while the range began."""
    gap = Lasting(
        history.since_s - rng.choice([200, 800]), history.since_s + rng.choice([200, 900])
    )
    return _rescraped(history, lambda one: tuple(t for t in one.times if not gap[0] <= t < gap[1]))


@twist
def scraped_late(rng: Random, history: History) -> History:
    """A target was found only when its exporter had run for long."""
    machine, at_s = _machine(rng, history), _moment(rng, history, 0.05, 0.5)
    return _rescraped(
        history,
        lambda one: tuple(t for t in one.times if t >= at_s or one.machine != machine.id),
    )


@twist
def labels_renamed(rng: Random, history: History) -> History:
    """Targets have labels of the names that a page has too."""
    every = {"namespace": "monitoring", "pod": "mgpu-exporter-x7k2p", "container": "exporter"}
    names = rng.choice([["namespace"], ["namespace", "pod"], ["pod"], [*every]])
    targets = tuple(
        replace(one, labels={**one.labels, **{n: every[n] for n in names}}, honors=False)
        for one in history.targets
    )
    tells = {**history.tells, "node": "node-of-ksm"} if rng.random() < 0.5 else history.tells
    return replace(history, targets=targets, tells=tells)


@twist
def labels_renamed_from_some_time_on(rng: Random, history: History) -> History:
    """A monitor is changed: from then on a page's labels are renamed."""
    machine = _machine(rng, history)
    more = {"namespace": "monitoring", "pod": "mgpu-exporter-x7k2p"}
    return _retargeted(history, machine.id, _moment(rng, history), more, honors=False)


@twist
def page_copied_by_a_tenant(rng: Random, history: History) -> History:
    """A tenant's pod is scraped, and shows a copy of a page on which others pay for it."""
    one = rng.choice([each for each in history.targets if each.times])
    labels = {**one.labels, "job": "apps", "instance": "10.9.9.9:8080"}
    every = times(rng, one.times[0], one.times[-1], 30)
    forged = replace(one, labels=labels, times=every, forged=("ml", "web"))
    return replace(history, targets=(*history.targets, forged))


@twist
def owners_forged_by_a_tenant(rng: Random, history: History) -> History:
    """The same with counters that are right, and pods that have another owner."""
    history = page_copied_by_a_tenant(rng, history)
    forged = replace(history.targets[-1], forged=None, adopts="somebody-else")
    return replace(history, targets=(*history.targets[:-1], forged))


@twist
def page_of_before_copied_by_a_tenant(rng: Random, history: History) -> History:
    """The same with counters that are right, of a quarter of an hour ago or more."""
    history = page_copied_by_a_tenant(rng, history)
    forged = replace(history.targets[-1], forged=None, behind_s=rng.choice([900, 5000]))
    return replace(history, targets=(*history.targets[:-1], forged))


# Stores


@twist
def store_averages(rng: Random, history: History) -> History:
    """A Thanos answers from blocks of five minutes, unless raw samples are asked for."""
    return exporter_restarts(rng, replace(history, averages=True))


@twist
def past_the_retention(rng: Random, history: History) -> History:
    """The first part of the range is not stored any more."""
    return replace(history, kept_from_s=float(_moment(rng, history, 0.1, 0.5)))


# Figures


@twist
def pods_that_borrow(rng: Random, history: History) -> History:
    """Some use more than their share, where a card is free."""
    _ = rng
    pods = []
    for pod in history.pods:
        hold = pod.holds[0]
        alone = 0.45 if hold.allocated < 0.5 else 0.5
        uses = tuple((at_s, alone if used else 0.0) for at_s, used in hold.used)
        pods.append(replace(pod, holds=(replace(hold, used=uses),)))
    return replace(history, pods=tuple(pods))


@twist
def cards_overcommitted(rng: Random, history: History) -> History:
    """More than a whole card is allocated; its use is not more than the card."""
    _ = rng
    pods = tuple(
        replace(pod, holds=tuple(replace(h, allocated=h.allocated * 2.5) for h in pod.holds))
        for pod in history.pods
    )
    return replace(history, pods=pods)
