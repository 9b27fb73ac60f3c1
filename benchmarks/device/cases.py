"""Who shares the GPU in each case."""

from dataclasses import dataclass

# How a burst of work is launched: one kernel, many small ones, a graph of them, or one kernel by
# each of two processes of one tree.
WAYS = ("kernel", "small", "graph", "tree")


@dataclass(frozen=True, slots=True)
class Tenant:
    """One pod with one process. ``lives_s`` None: as long as the case. ``way``: see ``WAYS``.

    ``ns_per_step`` 0: the tenant measures it, which needs the GPU alone for half a second.
    """

    name: str
    duty: float
    period_s: float = 0.23
    memory_mib: int = 256
    lives_s: float | None = None
    way: str = "kernel"
    ns_per_step: float = 0.0


@dataclass(frozen=True, slots=True)
class Case:
    """Tenants side by side for some time; ``mps`` asks for the MPS daemon."""

    name: str
    tenants: tuple[Tenant, ...]
    mps: bool = False


CASES = (
    Case("alone, half busy", (Tenant("half", 0.5),)),
    Case("a pair, both full", (Tenant("full-a", 1.0), Tenant("full-b", 1.0))),
    Case("a pair, short bursts", (Tenant("short-a", 0.2, 0.031), Tenant("short-b", 0.2, 0.043))),
    Case("three, 60/30/10", (Tenant("60", 0.6), Tenant("30", 0.3, 0.19), Tenant("10", 0.1, 0.27))),
    Case(
        "memory holders",
        (Tenant("2-gib", 0.0, memory_mib=2048), Tenant("4-gib", 0.1, memory_mib=4096)),
    ),
    Case("a short job beside", (Tenant("steady", 0.4), Tenant("job", 0.9, lives_s=3.0))),
    Case(
        "three, rarely", (Tenant("a", 0.12, 0.11), Tenant("b", 0.1, 0.17), Tenant("c", 0.08, 0.29))
    ),
    Case("MPS, 50/25", (Tenant("mps-50", 0.5), Tenant("mps-25", 0.25, 0.17)), mps=True),
    Case("MPS, one tenant", (Tenant("mps-only", 0.5),), mps=True),
)
