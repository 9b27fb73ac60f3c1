"""Made fleets: what their exporters counted, and how a Prometheus gets it.

All series that count alike have the same samples: these are encoded once.
"""

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from tests.store import Store, sent

DAY = 86_400
BEGIN = 1_780_012_800  # a day's begin
CORE = ("allocated_gpu_seconds_total", "core_seconds_total", "borrowed_core_seconds_total")
PAYERS = ("team", "batch", "web")
REASONS = ("no_pid", "host", "foreign", "other")
KINDS = ("docker", "slurm", "systemd")


class World(NamedTuple):
    """A fleet. ``lives_s``: how long a pod lives; each card always has one of each payer.

    ``renamed``: halfway a relabelling gives every target a label more.
    """

    nodes: int
    cards: int
    seconds: int
    every_s: int
    lives_s: int
    renamed: bool = False

    def with_(self, nodes: int | None, days: int | None) -> "World":
        """The same with other numbers."""
        seconds = days * DAY if days else self.seconds
        return self._replace(nodes=nodes or self.nodes, seconds=seconds)


WORLDS = {
    "hour": World(100, 8, 3600, 15, DAY),
    "month": World(10, 8, 30 * DAY, 300, DAY, renamed=True),
    "fleet": World(100, 8, 30 * DAY, 300, DAY, renamed=True),
    "pods": World(1, 8, 30 * DAY, 60, 890),
    "short": World(1, 1, 10 * DAY, 15, 60),
}

Counter = tuple[str, dict[str, str], float, int]
"""A counter's name and own labels, how fast it grows, and since when."""


def of_cards(world: World, node: int) -> Iterator[Counter]:
    """The counters that an exporter shows all the time."""
    since_s = BEGIN - DAY
    yield "process_start_time_seconds", {}, 0.0, since_s + node
    yield "mgpu_exporter_cycles_total", {}, 1.0, since_s
    yield "up", {}, 0.0, 1
    for card in range(world.cards):
        uuid = {"uuid": f"GPU-{node:04}-{card}", "gpu": str(card)}
        yield "mgpu_device_info", {**uuid, "model": "L4", "parent_uuid": ""}, 0.0, 1
        yield "mgpu_device_up", uuid, 0.0, 1
        yield "mgpu_device_unallocated_gpu_seconds_total", uuid, 0.1, since_s
        for name in ("overcommitted_gpu", "unobserved"):
            yield f"mgpu_device_{name}_seconds_total", uuid, 0.0, 0
        for reason in REASONS:
            rate, begun_s = (0.01, since_s) if reason == "no_pid" else (0.0, 0)
            labels = {**uuid, "reason": reason}
            yield "mgpu_device_unattributed_core_seconds_total", labels, rate, begun_s
        for kind in KINDS:
            labels = {"kind": kind, "uuid": uuid["uuid"]}
            yield "mgpu_group_kind_core_seconds_total", labels, 0.0, 0
        for payer in PAYERS:
            for name, rate in zip(CORE, (0.3, 0.2, 0.0), strict=True):
                labels = {"namespace": payer, "uuid": uuid["uuid"]}
                yield f"mgpu_namespace_{name}", labels, rate, since_s if rate else 0


def of_pods(world: World, node: int, begun_s: int) -> Iterator[Counter]:
    """The counters of the pods that began at a time."""
    for card in range(world.cards):
        for number, payer in enumerate(PAYERS):
            job = f"job-{node}-{card}-{number}-{begun_s}"
            pod = {"namespace": payer, "pod": job, "container": "main"}
            owner = {"owner_kind": "Job", "owner_name": f"{payer}-{number}"}
            yield "mgpu_pod_info", {"namespace": payer, "pod": job, **owner}, 0.0, 1
            for name, rate in zip(CORE, (0.3, 0.2, 0.0), strict=True):
                labels = {**pod, "uuid": f"GPU-{node:04}-{card}"}
                yield f"mgpu_container_{name}", labels, rate, begun_s if rate else 0


@lru_cache(maxsize=64)
def _samples(since_s: int, until_s: int, every_s: int, rate: float, begun_s: int) -> bytes:
    """The samples of a series, as remote write has them after its labels."""
    return sent(
        (),
        [
            (at * 1000, struct.pack("<d", (at - begun_s) * rate if rate else begun_s))
            for at in range(since_s, until_s, every_s)
        ],
    )


def fill(store: Store, world: World) -> None:
    """Writes a world, from an hour before the range on."""
    part_s = min(DAY, world.seconds)
    for begin_s in range(BEGIN - min(part_s, DAY), BEGIN + world.seconds, part_s):
        is_late = world.renamed and begin_s >= BEGIN + world.seconds // 2
        for node in range(world.nodes):
            address = f"10.0.{node // 250}.{node % 250}:10045"
            target = {"job": "mgpu", "instance": address, "node": f"n{node}"}
            target |= {"cluster": "west"} if is_late else {}
            lives = [(begin_s, begin_s + part_s, list(of_cards(world, node)))]
            length_s = min(world.lives_s, part_s)
            lives += (
                (since_s, since_s + length_s, list(of_pods(world, node, since_s)))
                for since_s in range(begin_s, begin_s + part_s, length_s)
            )
            series = [
                sent(tuple(sorted({"__name__": name, **own, **target}.items())), ())
                + _samples(since_s, until_s, world.every_s, rate, int(begun_s))
                for since_s, until_s, counters in lives
                for name, own, rate, begun_s in counters
            ]
            for at in range(0, len(series), 2000):
                store.write(series[at : at + 2000])
