"""When a process that is known is to be looked at again. Pure."""

from exporter.model import CgroupIdentity, Unattributed

SECOND_NS = 10**9
READ_AGAIN_NS = 60 * SECOND_NS
YOUNG_NS = 30 * SECOND_NS  # so long an entrypoint may still be moved into its container's cgroup
_SPREAD, _GOLDEN = 512, 317  # parts of a time, and how many of them are between neighbours' turns

Answer = CgroupIdentity | Unattributed


def patience(pid: int, answer: Answer, age_ns: int) -> int:
    """How long a settled answer is not looked into, ``age_ns`` after its process was met.

    Until the process's turn, which comes once a minute. Turns are spread by pid, from half a
    minute after the meeting on: those of processes that were met at once stay apart.
    """
    is_container = isinstance(answer, CgroupIdentity) and answer.container_id
    if not is_container and age_ns < YOUNG_NS:
        return 0
    turn_ns = READ_AGAIN_NS * (_SPREAD + pid * _GOLDEN % _SPREAD) // (2 * _SPREAD)
    return READ_AGAIN_NS - (age_ns - turn_ns) % READ_AGAIN_NS
