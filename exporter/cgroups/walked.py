"""What a walk has found, and what a list of processes says. Pure."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from exporter.cgroups.tree import TreeBuilder
from exporter.model import CgroupIdentity, Tree

_DIGITS = 10  # of a process id, at most
# Possessive: what matched is kept, so that no way back is remembered, 100 bytes for each line.
_SOUND = re.compile(rb"(?:[1-9][0-9]{0,%d}+\n)*+" % (_DIGITS - 1))


class Listed(NamedTuple):
    """A directory and its ``cgroup.procs``, of which ``is_sound`` is true."""

    identity: CgroupIdentity
    lines: bytes


class Walk:
    """A finished walk.

    The lists stay as they were read until somebody asks for processes, which is seldom: ``/proc``
    tells sooner whose each one is. ``by_container`` has the whole identity of each container.
    """

    def __init__(
        self,
        lists: Sequence[Listed] = (),
        by_container: Mapping[str, CgroupIdentity] | None = None,
        skipped: Mapping[str, int] | None = None,
    ) -> None:
        self.lists = lists
        self.by_container = by_container or {}
        self.skipped = skipped or {}

    @cached_property
    def by_pid(self) -> Mapping[int, CgroupIdentity]:
        """Where each process is; of two places the one that was read later."""
        return {pid: identity for identity, lines in self.lists for pid in map(int, lines.split())}

    @cached_property
    def tree(self) -> Tree:
        """Pods and containers with their processes."""
        builder = TreeBuilder()
        for identity, lines in self.lists:
            builder.add(identity, tuple(map(int, lines.split())))
        return builder.build(self.skipped)

    @property
    def has_containers(self) -> bool:
        """Whether there is any pod or container."""
        return any(one.identity.pod_uid or one.identity.container_id for one in self.lists)

    def of(self, pid: int) -> CgroupIdentity | None:
        """Where one process is, as ``by_pid`` has it; None if it is in none of the lists."""
        line = b"\n%d\n" % pid
        listed = (one.identity for one in reversed(self.lists) if line in b"\n" + one.lines)
        return next(listed, None)


def is_sound(content: bytes) -> bool:
    """Whether each line is a process of ours."""
    return _SOUND.fullmatch(content) is not None


class Cleared(NamedTuple):
    """The lines of a list that are processes of ours, and how many are others."""

    lines: bytes
    malformed: int
    foreign: int  # cgroup v2 lists a process of another PID namespace as 0


def cleared(content: bytes) -> Cleared:
    """Leave out what is no process of ours."""
    lines = content.split()
    good = [int(line) for line in lines if line.isdigit() and len(line) <= _DIGITS]
    ours = [pid for pid in good if pid]
    text = b"".join(map(b"%d\n".__mod__, ours))
    return Cleared(text, len(lines) - len(good), len(good) - len(ours))
