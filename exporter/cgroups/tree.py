"""Collects who is in which cgroup into the room's ``Tree``. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from exporter.model import CgroupIdentity, Tree

POD_ITSELF = ""


class TreeBuilder:
    """Takes the processes directory by directory; those of deeper ones join their container."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, dict[int, None]]] = {}
        self._containers: dict[str, dict[int, None]] = {}

    def add(self, identity: CgroupIdentity, pids: Iterable[int]) -> None:
        """Note a directory that exists and its processes; host directories leave no trace."""
        place = self._place(identity, pids)
        if place is not None:
            place.update(dict.fromkeys(pids))

    def _place(self, identity: CgroupIdentity, pids: Iterable[int]) -> dict[int, None] | None:
        if identity.pod_uid is not None:
            containers = self._pods.setdefault(identity.pod_uid, {})
            if identity.container_id is None and not pids:
                return None
            return containers.setdefault(identity.container_id or POD_ITSELF, {})
        if identity.container_id is not None:
            return self._containers.setdefault(identity.container_id, {})
        return None

    def build(self, skipped: Mapping[str, int]) -> Tree:
        """The tree of all that was added."""
        pods = {
            uid: MappingProxyType(
                {container: tuple(pids) for container, pids in containers.items()}
            )
            for uid, containers in self._pods.items()
        }
        containers = {container: tuple(pids) for container, pids in self._containers.items()}
        return Tree(
            MappingProxyType(pods), MappingProxyType(containers), MappingProxyType(dict(skipped))
        )
