"""Pods by their names, for readers of rows: most tables of pods are never asked so."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from exporter.model import Pod, PodTable


class Named(Mapping[tuple[str, str], Pod]):
    """The pods of a table by namespace and name; of two with one name, the one that lives.

    Made for the first who asks, in any thread.
    """

    def __init__(self, table: PodTable) -> None:
        self._table = table

    def __getitem__(self, name: tuple[str, str]) -> Pod:
        """The pod of this namespace and name; KeyError if there is none."""
        return self._pods[name]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """The names."""
        return iter(self._pods)

    def __len__(self) -> int:
        """How many names there are."""
        return len(self._pods)

    @cached_property
    def _pods(self) -> dict[tuple[str, str], Pod]:
        every = self._table.pods.values()
        pods = {(pod.namespace, pod.name): pod for pod in every}
        if len(pods) == len(every):
            return pods
        pods.clear()
        for pod in every:
            before = pods.get((pod.namespace, pod.name))
            if before is None or before.deleted or before.terminal:
                pods[pod.namespace, pod.name] = pod
        return pods
