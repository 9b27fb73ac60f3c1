"""The agent with sources that a test chose, for tests that need it in a process of its own.

``python -m tests.agents hanging|restart LISTEN``
"""

import sys
import threading

from exporter.agent.collector import Sources
from exporter.agent.commands import serve
from exporter.agent.settings import Settings, load
from exporter.agent.sources.cgroups.processsource import SimulatedProcesses
from exporter.agent.sources.gpus.gpusource import Demand, RestartRequiredError
from exporter.agent.sources.pods.podsource import NoPods
from exporter.console import logs
from exporter.inputs.values import Address
from exporter.model import Reading


class Hanging:
    """A driver whose call never returns, in a thread that Python waits for at its end."""

    name = "hanging"

    def read(self) -> Reading:
        """Hang."""
        call = threading.Thread(target=threading.Event().wait)
        call.start()
        print("hanging", file=sys.stderr, flush=True)
        call.join()
        raise AssertionError

    def release(self, released: bool) -> None:  # noqa: ARG002, FBT001 - the protocol's
        """Hang too."""
        threading.Event().wait()

    def follow(self, demand: Demand) -> None:
        """Nothing is read."""

    def look_soon(self) -> None:
        """Nothing is found."""

    def close(self) -> None:
        """Hang too."""
        threading.Event().wait()


class OutOfStep(Hanging):
    """A library that is not of the driver's version."""

    name = "out_of_step"

    def read(self) -> Reading:
        """Only a restart helps."""
        raise RestartRequiredError("driver and library differ; restart")

    def close(self) -> None:
        """Nothing to close."""


GPUS = {"hanging": Hanging, "restart": OutOfStep}


def sources(_: Settings) -> Sources:
    """One GPU source, and nothing else that matters."""
    return Sources((GPUS[sys.argv[1]](),), SimulatedProcesses(dict), NoPods())


if __name__ == "__main__":
    logs.configure("info", "logfmt")
    settings = load({"web.listen-address": ["127.0.0.1:0"]}, {})
    assert settings.web_listen_address == (Address("127.0.0.1", 0),)
    sys.exit(serve.serve(settings, sources))
