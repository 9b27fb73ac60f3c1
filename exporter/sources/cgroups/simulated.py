"""The ``ProcessSource`` of a described node: invented paths through the real parser."""

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import PurePosixPath

from exporter.model import CgroupIdentity, ProcessInfo, SourceStatus, Unattributed
from exporter.sources.cgroups.layout import kinds_of, parse_path


def _directories(paths: Iterable[str]) -> set[str]:
    """The paths and all directories above them, as a walk would find them."""
    return {str(at) for path in paths for at in (PurePosixPath(path), *PurePosixPath(path).parents)}


class SimulatedProcesses:
    """Answers from a mapping of pid → cgroup path as ``/proc/PID/cgroup`` would print it.

    ``paths`` and ``infos`` are called each time. The first lists the live processes and, as
    long as a real source would remember them, those that ended; a pid that it lacks has exited.
    ``places`` are the paths by which the node's kinds of groups are known from the start on.
    """

    def __init__(
        self,
        paths: Callable[[], Mapping[int, str]],
        infos: Callable[[], Mapping[int, ProcessInfo]] = dict,
        places: Iterable[str] = (),
    ) -> None:
        self._paths = paths
        self._group_kinds = kinds_of(map(parse_path, _directories(places)))
        self._infos = infos

    @property
    def name(self) -> str:
        """The label value of ``mgpu_exporter_source_up``."""
        return "cgroups"

    def resolve(self, pids: Collection[int]) -> Mapping[int, CgroupIdentity | Unattributed]:
        """Identity of each pid, EXITED for one that is not listed."""
        paths = self._paths()
        return {
            pid: parse_path(paths[pid]) if pid in paths else Unattributed.EXITED for pid in pids
        }

    def describe(self, pids: Collection[int]) -> Mapping[int, ProcessInfo]:
        """Name and start of these processes."""
        return {pid: info for pid, info in self._infos().items() if pid in pids}

    def group_kinds(self) -> frozenset[str]:
        """Those of the places."""
        return self._group_kinds

    def status(self) -> SourceStatus:
        """Always up."""
        return SourceStatus(self.name, up=True)

    def rejected(self) -> Mapping[str, int]:
        """Nothing: what is described is readable."""
        return {}

    def close(self) -> None:
        """Nothing is held."""
