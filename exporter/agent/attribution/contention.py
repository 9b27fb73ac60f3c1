"""Waiting: how long an owner may have waited for others in one window of a device. Pure.

The driver has no run queue. What is known is who holds a context and who ran. An owner that ran
lately, and did not run all of a window in which others ran, may have waited for as long as they
did. That is an upper bound: a program that pauses by itself looks the same.
"""

from collections.abc import Collection, Mapping
from typing import Final

from exporter.agent.attribution.shares import apportion
from exporter.model import ContainerKey, GroupKey, Owner, Unattributed

ACTIVE_NS = 10_000_000_000
"""An owner that ran within this time is active while it holds a context."""

OTHERS: Final = frozenset(
    {
        Unattributed.HOST_PROCESS,
        Unattributed.UNKNOWN_CGROUP,
        Unattributed.EXITED,
        Unattributed.MPS,
    }
)
"""Processes without a name: others may wait for them. Use without a process may be anybody's."""

WaitedFor = Mapping[ContainerKey | GroupKey, Mapping[Owner, int]]
"""For each owner that may have waited, by who ran instead, how long in ns."""


def waiting(
    observed_ns: int, core: Mapping[Owner, int], active: Collection[ContainerKey | GroupKey]
) -> WaitedFor:
    """The waiting of each active owner in a window, by who ran instead.

    ``core`` is what each owner ran in it, in ns of the device.
    """
    running = {
        owner: ran_ns
        for owner, ran_ns in core.items()
        if ran_ns and (not isinstance(owner, Unattributed) or owner in OTHERS)
    }
    all_ns = sum(running.values())
    found: dict[ContainerKey | GroupKey, Mapping[Owner, int]] = {}
    for owner in active:
        # Of the many that are active, few run in one window: a copy is cheap. An owner waits no
        # longer than it did not run, and no longer than others ran.
        others = running.copy()
        others_ns = all_ns - others.pop(owner, 0)
        waited_ns = min(observed_ns - core.get(owner, 0), others_ns)
        if waited_ns > 0:
            found[owner] = others if waited_ns == others_ns else apportion(waited_ns, others)
    return found
