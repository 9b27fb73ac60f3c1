"""An ApiPods under test whose changes can be awaited."""

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from exporter.model import Clock, PodTable
from exporter.sources.pods.api import ApiPods
from exporter.sources.pods.client import KubeClient, connect, from_kubeconfig
from exporter.sources.pods.decode import KEEP_NOTHING, KeyPrefixes
from exporter.sources.pods.listener import ListenerTimings
from tests.pods.apiserver import ApiServer, write_kubeconfig

PATIENCE_S = 60.0
QUICK = ListenerTimings(watch_s=60, slack_s=5, list_s=5, backoff_s=0.005, backoff_limit_s=0.02)


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ns = 10**12

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment."""
        return self.now_ns

    def time_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return self.now_ns


class Watching:
    """``with Watching(connect) as pods: pods.wait_for(…)``; starts and closes the source."""

    def __init__(
        self,
        connect: Callable[[], KubeClient],
        *,
        timings: ListenerTimings = QUICK,
        keep: KeyPrefixes = KEEP_NOTHING,
        clock: Clock = time,
        node: str = "node-1",
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._condition = threading.Condition()
        self.source = ApiPods(
            connect,
            node,
            keep=keep,
            clock=clock,
            timings=timings,
            jitter=jitter,
            changed=self._changed,
        )

    def __enter__(self) -> Self:
        self.source.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.source.close()

    @property
    def table(self) -> PodTable:
        """The source's table."""
        return self.source.table()

    def names(self, *, deleted: bool = False) -> set[str]:
        """Names of the pods that are, or are not, deleted."""
        return {pod.name for pod in self.table.pods.values() if pod.deleted == deleted}

    def wait_for(self, condition: Callable[[], bool], what: str = "condition") -> None:
        """Wait until ``condition`` holds; it is looked at after each of the source's steps."""
        with self._condition:
            assert self._condition.wait_for(condition, PATIENCE_S), f"never came: {what}"

    def wait_for_names(self, *names: str) -> None:
        """Wait until the living pods are exactly these."""
        self.wait_for(lambda: self.names() == set(names), f"pods {names}, are {self.names()}")

    def wait_until_up(self) -> None:
        """Wait for an open watch."""
        self.wait_for(lambda: self.source.status().up, "status up")

    def wait_until_down(self, detail: str) -> None:
        """Wait until the source is down for a reason that contains ``detail``."""
        self.wait_for(
            lambda: not self.source.status().up and detail in self.source.status().detail,
            f"down because of {detail!r}",
        )

    def _changed(self) -> None:
        with self._condition:
            self._condition.notify_all()


def connector(
    server: ApiServer, folder: Path, token: str | None = None
) -> Callable[[], KubeClient]:
    """A ``connect`` that reads a kubeconfig for ``server`` each time."""
    path = write_kubeconfig(folder / "kubeconfig", server.url, token=token)
    return lambda: connect(from_kubeconfig(str(path)))
