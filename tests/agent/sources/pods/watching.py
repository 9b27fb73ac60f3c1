"""Readers of pods under test, whose changes can be awaited."""

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from exporter.agent.sources.pods.apiserverpods import ApiPods
from exporter.agent.sources.pods.kubeletpods import KubeletPods
from exporter.agent.sources.pods.logfilepods import FilePods
from exporter.agent.sources.pods.podreader import PodThread, ReaderOptions, ReaderTimings
from exporter.apiserver.client import KubeClient, connect, from_kubeconfig
from exporter.model import PodTable
from tests.agent.simulation.clock import ManualClock
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig

R = TypeVar("R", bound=PodThread)

PATIENCE_S = 60.0
QUICK = ReaderTimings(watch_s=60, slack_s=5, list_s=5, backoff_s=0.005, backoff_limit_s=0.02)
OFTEN = replace(QUICK, poll_s=0.005)


class Reading(Generic[R]):
    """``with Reading(make) as pods: pods.wait_for(…)``; starts and closes the reader."""

    def __init__(self, make: Callable[[Callable[[], None]], R]) -> None:
        self._condition = threading.Condition()
        self.source = make(self._changed)

    def __enter__(self) -> Self:
        self.source.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.source.close()

    @property
    def table(self) -> PodTable:
        return self.source.table()

    def names(self, *, deleted: bool = False) -> set[str]:
        """Names of the pods that are, or are not, deleted."""
        return {pod.name for pod in self.table.pods.values() if pod.deleted == deleted}

    def wait_for(self, condition: Callable[[], object], what: str = "condition") -> None:
        """Wait until ``condition`` holds; it is looked at after each of the source's steps."""
        with self._condition:
            found = self._condition.wait_for(condition, PATIENCE_S)
        assert found, f"never came: {what}; {self.source.status()}"

    def wait_for_names(self, *names: str) -> None:
        """Wait until the living pods are exactly these."""
        self.wait_for(lambda: self.names() == set(names), f"pods {names}, are {self.names()}")

    def wait_until_up(self) -> None:
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


class Watching(Reading[ApiPods]):
    """Pods of the API server. ``options`` are fields of ``ReaderOptions``."""

    def __init__(
        self, connect: Callable[[], KubeClient], *, node: str = "node-1", **options: Any
    ) -> None:
        given = ReaderOptions(**{"timings": QUICK, **options})
        super().__init__(lambda changed: ApiPods(connect, node, replace(given, changed=changed)))


class Polling(Reading[KubeletPods]):
    """Pods of the kubelet."""

    def __init__(
        self,
        connect: Callable[[], KubeClient],
        *,
        timings: ReaderTimings = OFTEN,
        clock: ManualClock | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        super().__init__(
            lambda changed: KubeletPods(
                connect, ReaderOptions(clock=self.clock, timings=timings, changed=changed)
            )
        )


class Looking(Reading[FilePods]):
    """Pods of log files; each look of the source can be awaited."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        super().__init__(
            lambda changed: FilePods(
                root, ReaderOptions(clock=self.clock, changed=changed), look_s=0.002
            )
        )


def connector(
    server: ApiServer, folder: Path, token: str | None = None
) -> Callable[[], KubeClient]:
    """A ``connect`` that reads a kubeconfig for ``server`` each time."""
    path = write_kubeconfig(folder / "kubeconfig", server.url, token=token)
    return lambda: connect(from_kubeconfig(str(path)))
