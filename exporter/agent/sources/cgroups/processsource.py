"""The interface of process sources, and the source of a described node."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Protocol

from exporter.agent.sources.cgroups.batchpatterns import NO_SITE, GroupPatterns
from exporter.agent.sources.cgroups.layout import kinds_of, parse_path
from exporter.agent.sources.source import AlwaysUp, Source
from exporter.model import CgroupIdentity, ProcessInfo, Unattributed, job_of


class ProcessSource(Source, Protocol):
    """Returns the container that a process belongs to."""

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        """Identity of each pid, or the reason why there is none (EXITED, UNKNOWN_CGROUP).

        Cheap for pids seen before. A process that ended keeps its identity for a while, because
        the driver's sample ring still reports it. Never raises.
        """
        ...

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Name and start of those among the resolved processes of which they are known."""
        ...

    def group_kinds(self) -> frozenset[str]:
        """The kinds of groups (labels ``kind``) that this node can have. Never fewer than before.

        Cheap: asked in each cycle. A kind of which there is no sign yet may be missing.
        """
        ...


class SimulatedProcesses(AlwaysUp):
    """Answers from a mapping of pid → cgroup path as ``/proc/PID/cgroup`` would print it.

    The real parser reads the paths. ``paths`` and ``infos`` are called each time. The first lists
    the live processes and, as long as a real source would remember them, those that ended; a pid
    that it lacks has exited. ``places`` are the paths by which the node's kinds of groups are known
    from the start on.
    """

    def __init__(
        self,
        paths: Callable[[], Mapping[int, str]],
        infos: Callable[[], Mapping[int, ProcessInfo]] = dict,
        places: Iterable[str] = (),
        patterns: GroupPatterns = NO_SITE,
    ) -> None:
        super().__init__("cgroups")
        self._paths, self._infos, self._patterns = paths, infos, patterns
        above = ((PurePosixPath(path), *PurePosixPath(path).parents) for path in places)
        seen = {parse_path(str(at), patterns) for each in above for at in each}
        self._group_kinds = kinds_of(seen, patterns)

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        paths = self._paths()
        return {
            pid: parse_path(paths[pid], self._patterns) if pid in paths else Unattributed.EXITED
            for pid in pids
        }

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        paths = self._paths()
        return {
            pid: info._replace(job=job_of(parse_path(paths.get(pid, ""), self._patterns)))
            for pid, info in self._infos().items()
            if pid in pids
        }

    def group_kinds(self) -> frozenset[str]:
        return self._group_kinds
