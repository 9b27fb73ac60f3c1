"""A process with one NvmlSource after another in it, driven over a pipe; see ``node``.

pynvml keeps one library for the whole process, so each library has a process of its own. The clock
is what the last message said it is; a call that hangs does so in real time.
"""

import copyreg
import logging
import os
import time
from ctypes import CDLL
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any

from exporter.agent.sources.gpus.gpusource import Demand, NoCgroups
from exporter.agent.sources.gpus.nvml.errors import DeviceLostError
from exporter.agent.sources.gpus.nvml.nvmlsource import NvmlSource


class SetClock:
    """Shows the time it was set to; every look at it takes ``step_ns``, and so does every call."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.step_ns = 0
        self.ahead_ns = 0  # the wall clock

    def monotonic_ns(self) -> int:
        """The same as the wall clock, until a test sets that."""
        self.now_ns += self.step_ns
        return self.now_ns

    def time_ns(self) -> int:
        return self.now_ns + self.ahead_ns


class Cgroups(NoCgroups):
    """The cgroups of processes, by pid."""

    def __init__(self, folders: dict[int, str]) -> None:
        self._folders = folders

    def home_of(self, pid: int) -> str | None:
        """The directory."""
        return self._folders.get(pid)


class Agent:
    """What the test may ask for."""

    def __init__(self, **settings: Any) -> None:
        self.clock = SetClock()
        self.log: list[str] = []
        self.library_path: str = settings["library_path"]
        cgroups = settings.pop("cgroups", {})
        self.source = NvmlSource(clock=self.clock, **settings)
        self.source.cgroups = Cgroups(cgroups)
        handler = logging.Handler()
        handler.emit = lambda record: self.log.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("exporter").handlers = [handler]
        logging.getLogger("exporter").setLevel(logging.INFO)

    def read(self) -> Any:
        return self.source.read()

    def take(self, each_ns: int) -> None:
        """Let every call of the driver take so long."""
        self.clock.step_ns = each_ns

    def set_wall(self, ahead_ns: int) -> None:
        """Set the wall clock ahead of the monotonic one."""
        self.clock.ahead_ns = ahead_ns

    def release(self, released: bool) -> None:  # noqa: FBT001 - the source's own signature
        """Let go of the driver, or take it up."""
        self.source.release(released)

    def follow(self, demand: Demand) -> None:
        self.source.follow(demand)

    def look_soon(self) -> None:
        self.source.look_soon()

    def close(self) -> None:
        self.source.close()

    def end(self) -> None:
        """Leave the process as it was: without a scenario no call hangs any more."""
        Path(os.environ["FAKENVML_SCENARIO"]).unlink(missing_ok=True)
        self.settle()
        self.source.close()

    def unwatched(self) -> bool:
        """Wait until nobody waits for XIDs any more."""
        thread = self.source._xids._thread
        if thread is not None:
            thread.join(30)
        return thread is None or not thread.is_alive()

    def xids(self, uuid: str, xid: int, events: int = 0) -> Any:
        """Wait until so many events of a number were counted, and give the XIDs of the device."""
        watch = self.source._xids

        def counted() -> bool:
            counts = watch.of(uuid).counts
            return str(xid) in counts and counts[str(xid)].events >= events

        with watch._changed:
            assert watch._changed.wait_for(counted, 30)
            return watch.of(uuid).counts

    def xid_refusal(self, uuid: str) -> Any:
        """Wait until a device has refused to tell of its XIDs, and give the reason."""
        watch = self.source._xids
        with watch._changed:
            assert watch._changed.wait_for(lambda: watch.of(uuid).refusal, 30)
            return watch.of(uuid).refusal

    def hung(self) -> None:
        """Wait until a call hangs in the driver."""
        driver = CDLL(self.library_path)  # the one that is loaded already
        deadline = time.monotonic() + 30
        while not driver.fakenvml_waiting():
            assert time.monotonic() < deadline
            time.sleep(0.002)

    def settle(self) -> None:
        """Wait until every call has come back."""
        workers = self.source._workers
        assert workers._wait(list(workers._tasks.values()), 30)

    def logged(self) -> list[str]:
        return self.log


def as_dict(mapping: MappingProxyType[Any, Any]) -> tuple[type, tuple[object]]:
    """How a mapping that cannot be changed goes to another process."""
    return dict, (dict(mapping),)


def serve(messages: Connection) -> None:
    """Answer one message after the other, until there are no more."""
    copyreg.pickle(MappingProxyType, as_dict)
    copyreg.pickle(DeviceLostError, lambda error: (DeviceLostError, (error.code, error.call)))
    agent: Agent | None = None
    while True:
        try:
            now_ns, name, arguments = messages.recv()
        except EOFError:
            return
        try:
            if name == "begin":
                os.environ["FAKENVML_SCENARIO"], settings = arguments
                agent, answer = Agent(**settings), None
            elif agent is not None:
                agent.clock.now_ns = now_ns
                answer = getattr(agent, name)(*arguments)
        except Exception as error:  # noqa: BLE001 - the test's to judge
            answer = error
        messages.send(answer)
