"""Checks of groups outside Kubernetes: names of containers and users, and hidden processes."""

import os
from collections.abc import Iterator

from exporter.agent.doctor.evidence import CheckResult, ProbeResults, note, ok, problem
from exporter.agent.doctor.privileges import PTRACE, SEE_PROCESSES
from exporter.agent.sources import door
from exporter.agent.sources.door import Absent, Cut, Failed, Refused, Whole
from exporter.agent.sources.groups.containers import AUTO, NONE, OF_USERS, sockets_of
from exporter.agent.sources.groups.engine import is_socket
from exporter.agent.sources.proc import user_id
from exporter.model import CgroupIdentity

_BY_ID = "containers are shown by their ids without it"
_MAX_USERS, _MAX_NAMES = 100, 4096


def groups(evidence: ProbeResults, root: str = "") -> Iterator[CheckResult]:
    """Sockets, the passwd file, other users' processes. ``root`` is a prefix of the usual paths."""
    settings = evidence.settings
    if settings.simulate:
        return
    yield from _sockets(settings.groups_sockets, root)
    if os.access(settings.path_passwd, os.R_OK):
        yield ok("users' names", f"read from {settings.path_passwd}")
    else:
        remedy = "users are shown by their numbers; set --path.passwd to the host's file"
        yield note("users' names", f"{settings.path_passwd} cannot be read", remedy)
    # /proc mounted with hidepid hides others' processes. Process 1 is always there and is root's,
    # so that a user without root sees by it whether /proc is.
    if isinstance(user_id(settings.path_procfs, 1), Absent | Refused):
        remedy = (
            "mounted with hidepid: jobs, units and containers are found in the cgroup tree, other "
            "processes and users are not"
        )
        found = f"hidden in {settings.path_procfs}"
        yield note("others' processes", found, remedy, SEE_PROCESSES)
    else:
        yield ok("others' processes", f"visible in {settings.path_procfs}")
    if settings.groups_slurm_account:
        yield _environments(evidence)


def _sockets(sockets: tuple[str, ...], root: str) -> Iterator[CheckResult]:
    if NONE in sockets:
        return
    asked_for = sockets != (AUTO,)
    users = door.names(f"{root}{OF_USERS}", _MAX_NAMES)
    of_users: list[str] = []
    match users:
        case Whole(names) | Cut(names):
            # Users who run containers without root have a socket each, in a folder by number.
            uids = [int(name) for name in sorted(names) if name.isdecimal()][:_MAX_USERS]
            asked = [(runtime, uid) for uid in uids for runtime in ("docker", "podman")]
            of_users = [path for runtime, uid in asked for path in sockets_of(runtime, uid, root)]
        case Absent():
            pass
        case Refused() | Failed():
            found_not = f"{root}{OF_USERS} cannot be listed: {door.why(users)}"
            yield note("users' sockets", found_not, "sockets of users without root are not seen")
    usual = [*sockets_of(None, None, root), *of_users]
    found = list(sockets) if asked_for else [path for path in usual if is_socket(path)]
    if not found:
        yield note("containers' names", "no socket of Docker or Podman is found", _BY_ID)
    for path in found:
        subject = f"socket {path}"
        if not is_socket(path):
            yield problem(subject, "there is no socket", "start the engine, or correct the path")
        # To connect takes the right to write: unix(7).
        elif os.access(path, os.W_OK):
            yield ok(subject, "can be asked for containers' names")
        else:
            say = problem if asked_for else note
            remedy = f"{_BY_ID}; access to it gives full control of its engine"
            yield say(subject, "this user has no access", remedy, f"write access to {path}")


def _environments(evidence: ProbeResults) -> CheckResult:
    """Whether jobs' accounts can be read: tries the jobs on GPUs, else process 1."""
    jobs = [
        pid
        for pid, one in evidence.identities.items()
        if isinstance(one, CgroupIdentity) and one.unit and one.unit.kind == "slurm"
    ]
    # The kernel decides when it is opened (fs/proc/base.c, environ_open). Nothing is read: that
    # would wait for the memory of a process, which a tenant can make wait for ever.
    replies = [door.opens(f"{evidence.settings.path_procfs}/{p}/environ") for p in jobs or [1]]
    unread = [each for each in replies if not isinstance(each, Whole)]
    # A job's process may have ended meanwhile. If all have, nothing was tried.
    if len(unread) == len(replies) or any(isinstance(e, Refused | Failed) for e in unread):
        remedy = "Slurm's accounts stay empty; sacct shows them by job id"
        found = f"others' environments cannot be read: {door.why(unread[0])}"
        return problem("jobs' accounts", found, remedy, PTRACE)
    return ok("jobs' accounts", "read from the environments of their processes")
