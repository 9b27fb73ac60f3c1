"""A node with the stand-in library, and an NvmlSource that reads it in another process."""

import dataclasses
from collections.abc import Iterable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

from exporter.agent.sources.gpus.gpusource import Demand
from exporter.model import DeviceReading, Reading
from tests.agent.sources.gpus.cursor import merged
from tests.agent.sources.gpus.nvml.agent import serve
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Fault, Scenario

START = 1_700_000_000  # unix seconds at which every test begins
SECOND = 10**9
PATIENT = Demand(deadline_s=60)  # for tests in which nothing hangs
HASTY = Demand(deadline_s=0.5)
FORKS = get_context("forkserver")  # its process has imported all that a source needs
FORKS.set_forkserver_preload(["__main__", "tests.agent.sources.gpus.nvml.agent"])
AGENTS: dict[str, Connection] = {}  # by the library that their process has loaded


class Node:
    """The scenario, the time, and the source. ``write`` makes changes of the scenario true."""

    def __init__(self, folder: Path) -> None:
        self.scenario = Scenario(now=START, loaded=START - 1000)
        self.file = folder / "scenario.txt"
        self._agent: Connection | None = None

    @property
    def now(self) -> float:
        return cast("float", self.scenario.now)

    def start(
        self,
        demand: Demand = PATIENT,
        path: Path | None = None,
        *,
        disabled: Iterable[str] = (),
        **settings: Any,
    ) -> None:
        """Start the source, on the plain library unless told otherwise."""
        self.write()
        settings = {"library_path": str(path or library())} | settings
        key = repr(settings)
        if key not in AGENTS:
            AGENTS[key], theirs = FORKS.Pipe()
            FORKS.Process(target=serve, args=(theirs,), daemon=True).start()
            theirs.close()
        self._agent = AGENTS[key]
        demand = dataclasses.replace(demand, disabled=frozenset(disabled))
        self.ask("begin", str(self.file), {"demand": demand} | settings)

    def write(self) -> None:
        """Let the library see the scenario as it is now."""
        self.scenario.write(self.file)

    def fail(self, *faults: Fault) -> None:
        self.scenario.faults = list(faults)
        self.write()

    def change_gpu(self, index: int, **changes: Any) -> None:
        gpus = self.scenario.gpus
        gpus[index] = dataclasses.replace(gpus[index], **changes)
        self.write()

    def advance(self, seconds: float) -> None:
        """Let time pass, for the library and for the source."""
        self.scenario.now = self.now + seconds
        self.write()

    def read(self, *, after: float = 0) -> Reading:
        if after:
            self.advance(after)
        return cast("Reading", self.ask("read"))

    def device(self, uuid: str, *, after: float = 0) -> DeviceReading:
        """The device, with the windows of one read as one."""
        reading = by_uuid(self.read(after=after))[uuid]
        return reading._replace(window=merged(reading.windows), earlier=())

    def ask(self, name: str, *arguments: object) -> Any:
        """Call a method of the agent; what it raises is raised here."""
        assert self._agent is not None
        self._agent.send((round(self.now * SECOND), name, arguments))
        answer = self._agent.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def stop(self) -> None:
        """Leave the process to the next test."""
        if self._agent is not None:
            self.ask("end")


def by_uuid(reading: Reading) -> dict[str, DeviceReading]:
    """The devices of a reading."""
    return {device.device.uuid: device for device in reading.devices}


def calls(reading: Reading, name: str) -> int:
    """How often a driver function was called so far."""
    return reading.calls[name].calls if name in reading.calls else 0
