"""A ledger under devices that a test sets, one cycle at a time."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from exporter.agent.attribution.join import account
from exporter.agent.facts import CycleFacts, at_most, facts_of
from exporter.agent.facts.factsview import FactsView
from exporter.agent.facts.history import gauges_of
from exporter.agent.ledger import Allocated, Ledger, Moment
from exporter.metrics.families import OWN_LEVEL
from exporter.model import (
    NO_FACTS,
    Allocation,
    ContainerKey,
    Device,
    DeviceMemory,
    DeviceReading,
    DeviceState,
    Engines,
    Facts,
    GroupKey,
    MemoryHeld,
    Owner,
    Pod,
    ProcessActivity,
    SeriesKey,
    Unattributed,
    Unmeasured,
    Window,
)
from tests.rows import FactRows, Row

SECOND = 1_000_000_000
RETENTION = 300 * SECOND
GPU = Device("GPU-0", 0, "nvidia", memory_bytes=1000)
A, B = ContainerKey("n", "a", "c"), ContainerKey("m", "b", "c")
GROUP = GroupKey("docker", "x")
LISTED = DeviceMemory(1000, 0, None, ())


def at(seconds: float) -> Moment:
    return Moment(int(seconds * SECOND), int((1_700_000_000 + seconds) * SECOND))


def window(core: dict[int, int], busy: int | None = None, energy: int | None = None) -> Window:
    return Window(
        start_unix_ns=0,
        end_unix_ns=SECOND,
        observed_ns=SECOND,
        unobserved_ns=0,
        busy=Engines(core=sum(core.values()) if busy is None else busy),
        processes=tuple(ProcessActivity(pid, Engines(core=ns)) for pid, ns in core.items()),
        energy_uj=energy,
    )


def series_in(rows: Mapping[str, Iterable[Row]]) -> Counter[tuple[str, str]]:
    """How many series there are of each level's families."""
    series: Counter[tuple[str, str]] = Counter()
    for level, many in rows.items():
        for row in many:
            for name, value in row.values.items():
                series[level, name] += len(value) if isinstance(value, Mapping) else 1
    return series


class Node:
    """A ledger under one or more devices, one cycle at a time."""

    def __init__(self, devices: tuple[Device, ...] = (GPU,)) -> None:
        self.ledger = Ledger(RETENTION, 15 * SECOND)
        self.devices = devices
        self.owners: dict[int, Owner] = {1: A, 2: B, 3: GROUP, 4: Unattributed.HOST_PROCESS}
        self.pod = Pod("uid-a", "n", "a", owner_kind="Job", owner_name="j")
        self.untold: Mapping[Owner, Unmeasured] | None = {}
        self.facts = NO_FACTS
        self.unread: Callable[[], Facts] = Facts  # those of the newest cycle, not built yet

    def cycle(
        self,
        seconds: float,
        windows: Mapping[str, Window] | None = None,
        *,
        states: Mapping[str, DeviceState] | None = None,
        allocated: tuple[Allocated, ...] = (),
        held: Mapping[Owner, MemoryHeld] | None = None,
        listed: bool = True,
        **told: Any,
    ) -> dict[str, dict[tuple[str, ...], Row]]:
        """Run one cycle and return its rows by level and labels; ``told`` is of DeviceReading."""
        now = at(seconds)
        readings = {}
        for device in self.devices:
            state = (states or {}).get(device.uuid, DeviceState.UP)
            seen = (windows or {}).get(device.uuid)
            readings[device.uuid] = DeviceReading(
                device, state, window=seen, memory=LISTED if listed else None, **told
            )
            self.ledger.observe(readings[device.uuid], now)
            if state is not DeviceState.UP:
                continue
            if held is not None:
                self.ledger.set_memory(device.uuid, held, now)
            if seen is not None:
                usage = account(device, seen, self.owners)
                self.ledger.record(usage._replace(unmeasured=self.untold), now)
        self.ledger.set_allocations(allocated, now)
        self.ledger.settle(now)
        pods = {("n", "a"): self.pod}
        facts = CycleFacts(now, readings, allocated, pods=pods)
        self.facts = facts_of(self.ledger.frozen(), facts)()
        rows = FactRows(lambda: self.facts, None)
        self.unread = facts_of(self.ledger.frozen(), facts)
        kept = {
            key: (core, held)
            for key, core, held in gauges_of(FactsView(self.ledger.frozen(), facts))
        }
        shown = {
            **{SeriesKey(None, each.uuid): each for each in self.facts.devices},
            **{SeriesKey(each.owner, each.uuid): each for each in self.facts.holdings},
        }
        for key, each in shown.items():
            known = each.average.core, each.memory.used_bytes
            assert kept.get(key, (None, None)) == known
        assert max(series_in(rows).values(), default=0) <= at_most(self.ledger, facts)
        assert all(len({row.labels for row in many}) == len(many) for many in rows.values())
        return {
            level: {row.labels: row for row in many}
            for level, many in rows.items()
            if level != OWN_LEVEL
        }


def allocated(
    key: ContainerKey, core: float | None = 0.5, device: str | None = "GPU-0"
) -> Allocated:
    return Allocated(key, Allocation("u", key.container, device, core, 500, "test"))


ROW_A = (*A, "0", "GPU-0")
