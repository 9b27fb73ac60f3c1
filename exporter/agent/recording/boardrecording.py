"""A recording of a board alone, to be shared: what the driver says, and of nobody whom it says it.

Process ids are counted from 1001 on, ids of devices are pseudonyms, and places on the bus are left
out. There are no pods, no cgroups and no facts about the node.
"""

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from exporter.agent.collector import Sources
from exporter.agent.recording.pseudonyms import Pseudonyms
from exporter.agent.sources.pods.podsource import NoPods
from exporter.agent.sources.source import AlwaysUp
from exporter.model import (
    CgroupIdentity,
    DeviceMemory,
    ProcessInfo,
    RawSamples,
    Reading,
    Unattributed,
    Unit,
    Window,
)

FIRST_PID = 1001


class BoardMask(Pseudonyms):
    """Masks a reading. It keeps what the driver answered (``DeviceReading.raw``)."""

    def __init__(self) -> None:
        super().__init__(secrets.token_bytes(32))
        self._pids: dict[int, int] = {}

    def pid(self, pid: int) -> int:
        """The number of a process. No process is still none."""
        # The driver's own "no process" (NV2080_GPUMON_PID_INVALID). Under a number it would be
        # somebody.
        if pid in {0, 0xFFFFFFFF}:
            return pid
        return self._pids.setdefault(pid, FIRST_PID + len(self._pids))

    def reading(self, reading: Reading) -> Reading:
        """See ``Names``."""
        real = {device.device.uuid: device for device in reading.devices}
        masked = super().reading(reading)
        devices = zip(masked.devices, real.values(), strict=True)
        return masked._replace(
            devices=tuple(
                ours._replace(
                    device=replace(ours.device, pci_bus_id=""),
                    window=own.window and self._window(own.window),
                    earlier=tuple(map(self._window, own.earlier)),
                    seen=self._all(own.seen),
                    memory=own.memory and self._memory(own.memory),
                    raw=own.raw and self._raw(own.raw),
                )
                for ours, own in devices
            )
        )

    def _raw(self, raw: RawSamples) -> RawSamples:
        """Plain tuples, whatever the source made of them."""
        samples = tuple((at, percent) for at, percent in raw.samples)
        return RawSamples(samples, tuple((self.pid(row[0]), *row[1:]) for row in raw.rows))

    def _window(self, window: Window) -> Window:
        counted = window.counted.items()
        return window._replace(
            processes=tuple(p._replace(pid=self.pid(p.pid)) for p in window.processes),
            counted={name: {self.pid(p): ns for p, ns in of.items()} for name, of in counted},
            unmeasured_pids=self._all(window.unmeasured_pids),
        )

    def _memory(self, memory: DeviceMemory) -> DeviceMemory:
        listed = memory.processes
        return replace(
            memory,
            processes=listed and tuple(p._replace(pid=self.pid(p.pid)) for p in listed),
            rejected=self._all(memory.rejected),
            unread=self._all(memory.unread),
            # A charge has a cgroup's identity, with the node's own names.
            charges=(),
        )

    def _all(self, pids: Iterable[int]) -> frozenset[int]:
        return frozenset(map(self.pid, pids))


class _UnitProcesses(AlwaysUp):
    """A ``ProcessSource`` in which each process is a unit of its own."""

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        """A host's unit each, named by the process's number."""
        return {pid: CgroupIdentity(unit=Unit("systemd", f"process-{pid}")) for pid in pids}

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:  # noqa: ARG002
        return {}

    def group_kinds(self) -> frozenset[str]:
        return frozenset({"systemd"})


def boards_only(sources: Sources) -> Sources:
    """The sources of GPUs, with nothing beside them."""
    return Sources(sources.gpus, _UnitProcesses("cgroups"), NoPods())
