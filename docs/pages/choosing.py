"""The table for choosing a share: one row for each of the usual sharing systems.

A test reads each example through the decoders, and finds the share that its row says.

Names and steps are those by which ``advise`` says what to ask for.

Sources: for HAMi, KAI, mGPU, NVIDIA's device plugin those of the modules of
``exporter/agent/allocations/schemes``; HAMi's environment variable stands in its
``docs/config.md``, the 16 containers of an mGPU's card in the Volcano project's design proposal of
it, the profiles of instances in NVIDIA's MIG User Guide. ``amounts.py`` has those of the steps.
"""

from typing import NamedTuple

from exporter.answers.advise.amounts import UNITS, Resource
from exporter.model import GIB, MIB

EXAMPLES = "examples/shares"


class Way(NamedTuple):
    """A sharing system as one sees it who asks for a share.

    ``more`` stands after its units and steps, which are those of ``advise``; of a system without
    any ``asked`` and ``more`` are all.

    ``core`` (of a card) and ``memory_gib`` are the share of its example, on a card of 32 GiB or one
    of its four replicas. None is not stated; nobody states an instance's part of its board's core.
    """

    name: str
    scheme: str
    asked: str
    more: str
    enforced: str
    policies: str
    example: str
    core: float | None
    memory_gib: float | None

    @property
    def asks(self) -> str:
        """What a pod asks for."""
        units = [UNITS.get((self.scheme, resource)) for resource in Resource]
        names, before = [], "?"
        for unit in filter(None, units):  # the second without the part that both have
            names.append(f"`{unit.name.replace(before, '…/')}`: {_unit(unit.size)}")
            before = unit.name.partition("/")[0] + "/"
        return "; ".join(filter(None, (*names, self.asked)))

    @property
    def steps(self) -> str:
        """In which steps, and within which limits."""
        units = [UNITS.get((self.scheme, resource)) for resource in Resource]
        known = [unit for unit in units if unit is not None and unit.step is not None]
        found = ", ".join(_amount((unit.step or 1) * unit.size) for unit in known)
        least = [_amount(unit.least * unit.size) for unit in known if unit.least > 1]
        found = found + "".join(f" from {one} on" for one in least)
        return "; ".join(filter(None, (found, self.more)))

    @property
    def share(self) -> str:
        """The example's share, in words."""
        core = "" if self.core is None else f"{self.core * 100:.3g} % of the core"
        memory = "" if self.memory_gib is None else f"{self.memory_gib:g} GiB"
        return ", ".join(filter(None, (core, memory))) or "nothing"


def _unit(size: float) -> str:
    """What one of a resource is."""
    return {0.01: "%", 1.0: "a part of 1", MIB: "MiB", GIB: "GiB"}[size]


def _amount(size: float) -> str:
    """A part of a card's core, or bytes."""
    if size <= 1:
        return f"{size:.0%}".replace("%", " %")
    return f"{size / GIB:g} GiB" if size >= GIB else f"{size / MIB:g} MiB"


WAYS = (
    Way(
        "HAMi",
        "hami",
        "of each of `nvidia.com/gpu` cards",
        "10 containers a card (`deviceSplitCount`)",
        "both, by a library in the container",
        "`GPU_CORE_UTILIZATION_POLICY`: `default`, `force`, `disable` (memory alone)",
        "hami",
        0.25,
        8,
    ),
    Way(
        "mGPU (VKE)",
        "vke-mgpu",
        "",
        "16 containers a card",
        "both, by its driver",
        "`fixed-share`; `guaranteed-burst-share`, `native-burst-share` (borrow what is idle)",
        "mgpu",
        0.25,
        8,
    ),
    Way(
        "qGPU (TKE)",
        "tke-qgpu",
        "",
        "16 containers a card",
        "both, by its driver",
        "of the node: `fixed-share`; `burst-share`, `best-effort` (borrow what is idle)",
        "qgpu",
        0.25,
        8,
    ),
    Way(
        "KAI",
        "kai",
        "one of these annotations",
        "",
        "nothing; memory, with HAMi-core",
        "",
        "kai",
        0.25,
        8,
    ),
    Way(
        "time-slicing",
        "nvidia-device-plugin",
        "`nvidia.com/gpu`: 1 of N replicas",
        "any N, of all cards of a node",
        "nothing",
        "",
        "time-slicing",
        None,
        None,
    ),
    Way(
        "MPS",
        "nvidia-device-plugin",
        "`nvidia.com/gpu`: 1 of N replicas",
        "1/N of threads and memory",
        "both, by MPS",
        "",
        "mps",
        0.25,
        8,
    ),
    Way(
        "MIG",
        "nvidia-device-plugin",
        "`nvidia.com/mig-<profile>`",
        "the card's profiles: sevenths of its core (A30: quarters), eighths of its memory",
        "both, by the card",
        "",
        "mig",
        None,
        10,
    ),
)
