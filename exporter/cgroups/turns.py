"""When a process that is known is to be looked at again. Pure."""

from exporter.model import CgroupIdentity, Unattributed

SECOND_NS = 10**9
READ_AGAIN_NS = 60 * SECOND_NS
YOUNG_NS = 30 * SECOND_NS  # so long an entrypoint may still be moved into its container's cgroup
_TURNS = 8  # in that time

Answer = CgroupIdentity | Unattributed


def patience(pid: int, answer: Answer, met_ns: int, now_ns: int) -> int:
    """How long from now on a settled answer about a process that was met then is not looked into.

    Until the process's turn, which comes once a minute, for an eighth of all processes at once:
    a look after many others finds more of what it needs in the CPU's caches.
    """
    is_container = isinstance(answer, CgroupIdentity) and answer.container_id
    if not is_container and now_ns - met_ns < YOUNG_NS:
        return 0
    turn_ns = pid % _TURNS * READ_AGAIN_NS // _TURNS
    return READ_AGAIN_NS - (now_ns - turn_ns) % READ_AGAIN_NS
