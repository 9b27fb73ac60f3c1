"""Which nodes the fleet has, and what befalls them. Pure: a node follows from its number alone."""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from tests.agent.simulation.pods import gpu_uuid, shared

Mapped = dict[str, Any]  # what a scenario file holds

GPUS, PODS = 8, 30  # of a standard node, which the extrapolation stands on
TURN = 20  # the mix repeats after so many nodes
STEP = 7  # and neighbours in the mix are not neighbours by number; no divisor of TURN
SCHEMES = ("mgpu", "qgpu", "hami")
TEAMS = tuple(f"team-{letter}" for letter in "abcdefgh")
CARD = {"model": "NVIDIA H100 80GB HBM3", "memory": "80GiB", "idle_power": 70, "max_power": 700}
JOB_EVERY_S, JOB_LIVES_S = 300, [60, 120]
LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # that Kubernetes makes names of


class Trouble(NamedTuple):
    """What is wrong with a node for a while, in seconds since the fleet's start.

    ``down``: nobody answers, and what comes back has empty accounts. ``blind``: processes cannot
    be told apart, for want of hostPID say. ``slow``: the answer takes ``delay_s``.
    """

    kind: str
    from_s: float
    to_s: float
    delay_s: float = 0.0

    def at(self, second: float) -> bool:
        """Whether it is so now."""
        return self.from_s <= second < self.to_s


FOR_EVER = float("inf")
TROUBLES = {  # by the place in the mix
    3: Trouble("down", 60, 120),
    7: Trouble("blind", 45, 150),
    11: Trouble("slow", 0, FOR_EVER, 2.0),
    15: Trouble("slow", 75, 135, 30.0),  # longer than Prometheus waits
    16: Trouble("down", 0, 30),  # it joins late
}
LOST_GPU = 19  # a card falls off the bus there


def trouble(number: int) -> Trouble | None:
    """What befalls this node."""
    return TROUBLES.get(_place(number))


def kind(number: int) -> str:
    """Which kind of node this is."""
    place = _place(number)
    return next(name for name, one in KINDS.items() if place in one.places)


def kinds(count: int) -> Counter[str]:
    """How many of each kind there are among so many nodes."""
    return Counter(map(kind, range(count)))


def scenario(number: int) -> Mapped:
    """The content of this node's scenario file."""
    chance = Random(number)  # noqa: S311 - the same fleet each time
    made = KINDS[kind(number)].make(chance, number)
    faults = [{"device": 0, "state": "lost", "from": "50s", "to": "110s"}]
    return {
        **made,
        "node": {"name": name(number)},
        "seed": number,
        "sample_rule": "random",
        "faults": faults if _place(number) == LOST_GPU else [],
    }


def standard() -> Mapped:
    """A standard node on which no pod comes or goes: what the table of series counts."""
    made = _shared(Random(0), 0, lasting=PODS, jobs=0)  # noqa: S311 - the same node each time
    return {**made, "node": {"name": "gpu-node"}, "sample_rule": "random"}


def name(number: int) -> str:
    """The node's name."""
    return f"gpu-node-{number:04}"


def _place(number: int) -> int:
    return number * STEP % TURN


def _cards(node: int, count: int = GPUS) -> list[Mapped]:
    return [{**CARD, "uuid": gpu_uuid(card, node)} for card in range(count)]


def _shared(chance: Random, node: int, lasting: int = PODS - 2, jobs: int = 2) -> Mapped:
    """Eight cards, each shared by a few pods, under one of the sharing systems."""
    scheme = chance.choice(SCHEMES)
    pods = [_pod(chance, scheme, n % GPUS, number=n, node=node) for n in range(lasting)]
    pods += [_job(chance, scheme, n, node) for n in range(jobs)]
    return {"devices": _cards(node), "pods": pods}


def _whole(chance: Random, node: int) -> Mapped:
    """Eight cards, given whole: one training pod on all of them."""
    process = {"duty": 0.9, "period": "400ms", "memory": "70GiB", "memory_active": 0.6}
    workers = [{"device": gpu, **process} for gpu in range(GPUS)]
    container = {"name": "trainer", "processes": workers}
    pod = {**_named(chance, "pretrain", "Job"), "containers": [container]}
    return {
        "devices": _cards(node),
        "pods": [shared(pod, "nvidia", range(GPUS), node=node)],
    }


def _mig(chance: Random, node: int) -> Mapped:
    """Four cards in four instances each, a pod on every instance."""
    devices: list[Mapped] = []
    pods = []
    for _ in range(4):
        card = len(devices)
        devices.append({**CARD})
        for _ in range(4):
            instance = len(devices)
            own = {"uuid": gpu_uuid(instance, node), "memory": "19GiB"}
            devices.append({"parent": card, "profile": "1g.20gb", **own})
            pod = _pod(chance, "", instance, number=instance, node=node)
            pods.append(shared(pod, "nvidia", [instance], node=node))
    return {"devices": devices, "pods": pods}


def _crowded(chance: Random, node: int) -> Mapped:
    """Eight cards and as many small pods as fit."""
    return _shared(chance, node, lasting=64, jobs=4)


def _small(chance: Random, node: int) -> Mapped:
    """One card at the edge."""
    pods = [_pod(chance, "qgpu", 0, number=n, node=node) for n in range(4)]
    return {"devices": [{**CARD, "model": "NVIDIA L4", "memory": "24GiB"}], "pods": pods}


class Kind(NamedTuple):
    """A kind of node: in which places of the mix it stands, and what is on it."""

    places: range
    about: str
    make: Callable[[Random, int], Mapped]


KINDS = {
    "standard": Kind(range(14), f"{GPUS} GPUs, {PODS} pods", _shared),
    "whole": Kind(range(14, 17), "8 GPUs, 1 pod with all of them", _whole),
    "mig": Kind(range(17, 18), "4 GPUs in 16 MIG instances, 16 pods", _mig),
    "crowded": Kind(range(18, 19), "8 GPUs, 68 pods", _crowded),
    "small": Kind(range(19, 20), "1 GPU, 4 pods", _small),
}


def _pod(chance: Random, scheme: str, gpu: int, *, number: int, node: int) -> Mapped:
    """A server of a Deployment; every third has a container beside it that needs no GPU.

    ``scheme`` "": it is not written yet what it asks for.
    """
    count = 1 + number % 2
    processes = [
        {
            "device": gpu,
            "duty": round(chance.uniform(0.02, 0.2), 2),
            "period": f"{chance.randrange(80, 400)}ms",
            "jitter": 0.5,
            "memory": f"{1024 + chance.randrange(512)}MiB",
            "memory_active": 0.3,
        }
        for _ in range(count)
    ]
    core = chance.choice((5, 8, 10)) if scheme else None
    server = {"name": "server", "processes": processes}
    beside = [{"name": "proxy"}] if number % 3 == 0 else []
    named = _named(chance, chance.choice(("chat", "rerank", "embed", "speech")), "ReplicaSet")
    pod = {**named, "containers": [server, *beside]}
    return shared(pod, scheme, [gpu], core, 4, node) if scheme else pod


def _job(chance: Random, scheme: str, number: int, node: int) -> Mapped:
    """A pod that comes again and again under a new name: what makes series come and go."""
    pod = _pod(chance, scheme, number % GPUS, number=number, node=node)
    begin = chance.randrange(JOB_EVERY_S)
    owner = f"Job/batch-{number}"
    life = {"start": begin, "for": JOB_LIVES_S, "every": JOB_EVERY_S}
    return {**pod, "name": f"batch-{number}", "owner": owner, **life}


def _named(chance: Random, app: str, owner: str) -> Mapped:
    """Namespace, name and owner, as long as Kubernetes makes them."""
    template = _letters(chance, 10)
    parent = f"{app}-{template}" if owner == "ReplicaSet" else app
    return {
        "namespace": chance.choice(TEAMS),
        "name": f"{parent}-{_letters(chance, 5)}",
        "owner": f"{owner}/{parent}",
    }


def _letters(chance: Random, count: int) -> str:
    return "".join(chance.choices(LETTERS, k=count))


def troubled(count: int) -> Iterator[tuple[int, Trouble]]:
    """The nodes that something befalls."""
    for number in range(count):
        if one := trouble(number):
            yield number, one
