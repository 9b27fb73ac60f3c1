"""Checks of groups outside Kubernetes: names of containers and users, and hidden processes."""

import os
from collections.abc import Iterator
from pathlib import Path

from exporter.agent.doctor.evidence import CheckResult, ProbeResults, note, ok, problem
from exporter.agent.doctor.privileges import PTRACE, SEE_PROCESSES
from exporter.agent.sources.door import Absent, Refused
from exporter.agent.sources.groups.containers import AUTO, NONE, OF_USERS, sockets_of
from exporter.agent.sources.groups.engine import is_socket
from exporter.agent.sources.proc import user_id
from exporter.model import CgroupIdentity

_BY_ID = "containers are shown by their ids without it"
_MAX_USERS = 100


def groups(evidence: ProbeResults, root: str = "") -> Iterator[CheckResult]:
    """Sockets, the passwd file, other users' processes. ``root`` is a prefix of the usual paths."""
    settings = evidence.settings
    if settings.simulate:
        return
    yield from _sockets(settings.groups_sockets, root)
    yield _users(settings.path_passwd)
    yield _hidden(settings.path_procfs)
    if settings.groups_slurm_account:
        yield _environments(evidence)


def _sockets(sockets: tuple[str, ...], root: str) -> Iterator[CheckResult]:
    if NONE in sockets:
        return
    asked_for = sockets != (AUTO,)
    usual = [*sockets_of(None, None, root), *_of_users(root)]
    found = list(sockets) if asked_for else [path for path in usual if is_socket(path)]
    if not found:
        yield note("containers' names", "no socket of Docker or Podman is found", _BY_ID)
    for path in found:
        subject = f"socket {path}"
        if not is_socket(path):
            yield problem(subject, "there is no socket", "start the engine, or correct the path")
        elif os.access(path, os.W_OK):
            yield ok(subject, "can be asked for containers' names")
        else:
            say = problem if asked_for else note
            remedy = f"{_BY_ID}; access to it gives full control of its engine"
            yield say(subject, "this user has no access", remedy, f"write access to {path}")


def _of_users(root: str) -> Iterator[str]:
    """Sockets of users who run containers without root, as far as they are visible."""
    try:
        users = sorted(path.name for path in Path(f"{root}{OF_USERS}").iterdir())
    except OSError:
        return
    for user in [name for name in users if name.isdecimal()][:_MAX_USERS]:
        for runtime in ("docker", "podman"):
            yield from sockets_of(runtime, int(user), root)


def _users(path: str) -> CheckResult:
    if os.access(path, os.R_OK):
        return ok("users' names", f"read from {path}")
    remedy = "users are shown by their numbers; set --path.passwd to the host's file"
    return note("users' names", f"{path} cannot be read", remedy)


def _hidden(procfs: str) -> CheckResult:
    """Whether other users' processes are hidden (hidepid): without root, process 1 shows it."""
    if isinstance(user_id(procfs, 1), Absent | Refused):
        remedy = (
            "mounted with hidepid: jobs, units and containers are found in the cgroup tree, other "
            "processes and users are not"
        )
        return note("others' processes", f"hidden in {procfs}", remedy, SEE_PROCESSES)
    return ok("others' processes", f"visible in {procfs}")


def _environments(evidence: ProbeResults) -> CheckResult:
    """Whether jobs' accounts can be read: tries the jobs on GPUs, else process 1."""
    jobs = [
        pid
        for pid, one in evidence.identities.items()
        if isinstance(one, CgroupIdentity) and one.unit and one.unit.kind == "slurm"
    ]
    refused = [pid for pid in jobs or [1] if not _may_trace(evidence.settings.path_procfs, pid)]
    if refused:
        remedy = "Slurm's accounts stay empty; sacct shows them by job id"
        return problem("jobs' accounts", "others' environments cannot be read", remedy, PTRACE)
    return ok("jobs' accounts", "read from the environments of their processes")


def _may_trace(procfs: str, pid: int) -> bool:
    """Whether the environment of a process may be read."""
    # The kernel decides when it is opened (fs/proc/base.c, environ_open). Nothing is read: that
    # would wait for the memory of a process, which a tenant can make wait for ever.
    try:
        with Path(f"{procfs}/{pid}/environ").open("rb"):
            return True
    except OSError:
        return False
