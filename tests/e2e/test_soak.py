"""Containers start and end by the thousand: the books balance after every cycle, nothing grows.

With ``--long`` some hours of the node's life, else some minutes, as fast as the cycle can.
"""

import gc
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from exporter.collector import Collector, Sources
from exporter.collector.wiring import make_collector
from exporter.metrics.text import Format, Renderer
from exporter.model import (
    History,
    Snapshot,
)
from exporter.settings import load
from exporter.simulation.load import describe
from exporter.simulation.node import Node
from exporter.sources.cgroups.simulated import SimulatedProcesses
from exporter.sources.gpus.simulated import SimulatedGpus
from exporter.sources.pods.source import NoPods, SimulatedPods
from tests.rows import Row, rows_of
from tests.scenario.clock import START, ManualClock
from tests.scenario.pods import gpu_uuid, shared

pytestmark = pytest.mark.slow

QUANTITIES = ("core_seconds", "memory_active_seconds", "encoder_seconds", "decoder_seconds")
COUNTERS = {f"{name}_total" for name in (*QUANTITIES, "energy_joules")}
WARM_S = 1200  # longer than anything that the node itself keeps
DEVICES = 4


def jobs(number: int, scheme: str, **keys: Any) -> dict[str, Any]:
    """A pod that comes again every two to three seconds, with two containers."""
    device = number % DEVICES
    work = {"device": device, "duty": 0.3, "memory": "1GiB", "memory_active": 0.4, "encoder": 0.2}
    pod = {
        "name": f"job-{number}",
        "namespace": f"team-{number % 3}",
        "for": ["400ms", "9s"],
        "every": f"{2000 + 130 * number}ms",
        "start": f"{17 * number}ms",
        "containers": [
            {"name": "main", "processes": [{**work, "jitter": 0.5}]},
            {"name": "side", "processes": [{**work, "duty": 0.1, "decoder": 0.7}]},
        ],
        **keys,
    }
    return shared(pod, scheme, [device], 10, 2)


SCENARIO: dict[str, Any] = {
    "devices": [
        {"model": "NVIDIA A10", "memory": "24GiB", "idle_power": 20, "uuid": gpu_uuid(card)}
        for card in range(DEVICES)
    ],
    "status_delay": "700ms",  # so that every container is a group first
    "pods": [
        *(jobs(n, ("mgpu", "qgpu", "hami", "nvidia")[n % 4]) for n in range(8)),
        {
            "name": "server",
            "namespace": "team-0",
            "containers": [
                {
                    "name": "main",
                    "processes": [{"device": [0, 1], "duty": 0.5, "memory": "3GiB", "jitter": 1}],
                }
            ],
        },
    ],
    "processes": [
        {"device": 2, "duty": 0.4, "for": "2s", "every": "5s", "memory": "1GiB"},
        {
            "device": 3,
            "duty": 0.2,
            "for": "1s",
            "every": "3s",
            "cgroup": f"/system.slice/docker-{'4f' * 32}.scope",
        },
    ],
    "faults": [
        {"device": 1, "state": state, "from": f"{WARM_S + begin}s", "to": f"{WARM_S + begin + 9}s"}
        for begin, state in enumerate(["lost", "stuck", "failing"] * 20)
        for begin in [30 + 47 * begin]
    ],
}


class Soaked:
    """The node, its collector, and what was published last."""

    def __init__(self, *, named: bool) -> None:
        self.clock = ManualClock()
        node = Node(describe(SCENARIO, "soak"), self.clock, START)
        sources = Sources(
            gpus=(SimulatedGpus(node, self.clock),),
            processes=SimulatedProcesses(node.cgroup_paths),
            pods=SimulatedPods(node.pod_table, clock=self.clock) if named else NoPods(),
        )
        settings = load({"ledger.retention": ["15s"], "collection.window": ["5s"]}, {})
        self.collector: Collector = make_collector(settings, sources, self.clock)
        self.renderer = Renderer()
        self.started = 0
        self._here: set[tuple[str, ...]] = set()

    def forget_history(self) -> None:
        """Empties the history, which keeps all series of an hour, up to a bound of its own."""
        self.collector.snapshot = replace(self.collector.snapshot, history=History())

    def cycle(self) -> Snapshot:
        """A second later, one cycle, and a scrape."""
        self.clock.move(1)
        snapshot = self.collector.cycle()
        self.renderer.render(snapshot, Format.TEXT)
        rows = (*rows_of(snapshot)["container"], *rows_of(snapshot)["group"])
        before, self._here = self._here, {row.labels for row in rows}
        self.started += len(self._here - before)
        return snapshot


class Shown(NamedTuple):
    """The counters of one device and of its parts, by quantity."""

    whole: Mapping[str, float]
    parts: Mapping[tuple[Any, ...], float]


def shown(snapshot: Snapshot) -> Iterator[tuple[str, Shown]]:
    """What is published of each device that can be read."""
    owners: dict[str, list[Row]] = {}
    for level in ("container", "group"):
        for row in rows_of(snapshot)[level]:
            owners.setdefault(row.labels[-1], []).append(row)
    for device in rows_of(snapshot)["device"]:
        if "busy_seconds_total" in device.values:
            uuid = device.labels[-1]
            yield uuid, Shown(dict(_whole(device)), dict(_parts(device, owners.get(uuid, []))))


def _whole(device: Row) -> Iterator[tuple[str, Any]]:
    for name, value in device.values.items():
        quantity = "core_seconds_total" if name == "busy_seconds_total" else name
        if quantity in COUNTERS:
            yield quantity, value


def _parts(device: Row, owners: list[Row]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    for row in owners:
        for name in COUNTERS & row.values.keys():
            yield (name, row.labels), row.values[name]
    for name, value in device.values.items():
        quantity = name.removeprefix("unattributed_")
        if quantity in COUNTERS and quantity != name and isinstance(value, Mapping):
            for reason, number in value.items():
                yield (quantity, reason), number


class Books:
    """Holds each device's increase against that of its parts, from one page to the next."""

    def __init__(self) -> None:
        self._before: dict[str, Shown] = {}
        self.increase: dict[str, float] = dict.fromkeys(COUNTERS, 0)

    def check(self, snapshot: Snapshot) -> None:
        """Fail unless every quantity of every device went where it was used."""
        for uuid, now in shown(snapshot):
            before = self._before.get(uuid, Shown({}, {}))
            found = dict.fromkeys(now.whole, 0.0)
            for key, value in now.parts.items():
                past = before.parts.get(key, 0)
                found[key[0]] += value - past if value >= past else value
            expected = {name: v - before.whole.get(name, 0) for name, v in now.whole.items()}
            assert found == expected, (uuid, snapshot.version)
            for name, more in expected.items():
                self.increase[name] += more
            self._before[uuid] = now
        _check_memory(snapshot)


def _check_memory(snapshot: Snapshot) -> None:
    for device in rows_of(snapshot)["device"]:
        used, rest = (
            device.values.get(f"{name}memory{end}_bytes")
            for name, end in (("", "_used"), ("unattributed_", ""))
        )
        if isinstance(used, int) and isinstance(rest, Mapping):
            held = sum(
                row.values.get("memory_used_bytes", 0)  # type: ignore[misc] # a number
                for level in ("container", "group")
                for row in rows_of(snapshot)[level]
                if row.labels[-1] == device.labels[-1]
            )
            assert held + sum(rest.values()) == used, device.labels


def blocks() -> int:
    """What Python has allocated, once what nobody needs is given back."""
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("named", [True, False], ids=["named pods", "pods without a name"])
def test_books_balance_and_nothing_grows(pytestconfig: pytest.Config, *, named: bool) -> None:
    rounds = 180 if pytestconfig.getoption("--long") else 6
    soaked, books = Soaked(named=named), Books()
    soaked.cycle()
    soaked.clock.move(WARM_S)  # as if the machine had been suspended
    sizes: list[tuple[int, int]] = []
    for _ in range(rounds):
        for _ in range(60):
            books.check(soaked.cycle())
        soaked.forget_history()
        sizes.append((soaked.started, blocks()))

    (started, before), *_, (ended, after) = sizes[1:]
    assert all(increase > 0 for increase in books.increase.values())
    assert soaked.started > 300 * rounds
    assert after - before < (ended - started) / 2  # an account alone is a dozen
    assert max(size for _, size in sizes[1:]) < before * 1.03


def test_a_book_that_does_not_balance_is_noticed() -> None:
    soaked = Soaked(named=True)
    for _ in range(10):
        soaked.cycle()
    snapshot = soaked.cycle()
    held, *others = snapshot.facts.containers
    less = replace(held, used=held.used._replace(core_ns=1))
    facts = replace(snapshot.facts, containers=(less, *others))

    Books().check(snapshot)
    with pytest.raises(AssertionError):
        Books().check(replace(snapshot, measured=lambda: facts))
