"""The table for choosing a share: one row for each of the usual sharing systems.

A test reads each example through the decoders, and finds the share that its row says.

Sources: for HAMi, KAI, mGPU, NVIDIA's device plugin those of the modules of
``exporter/agent/allocations/schemes``; HAMi's environment variable stands in its
``docs/config.md``, qGPU's steps in Tencent Cloud's documents 457/59103 and 457/65734, mGPU's least
memory and the 16 containers of a card in the Volcano project's design proposal of it.
"""

from typing import NamedTuple

EXAMPLES = "examples/shares"


class Way(NamedTuple):
    """A sharing system as one sees it who asks for a share.

    ``core`` (of a card) and ``memory_gib`` are the share of its example, on a card of 32 GiB or one
    of its four replicas. None is not stated; nobody states an instance's part of its board's core.
    """

    name: str
    scheme: str
    asked: str
    step: str
    enforced: str
    policies: str
    example: str
    core: float | None
    memory_gib: float | None

    @property
    def share(self) -> str:
        """The example's share, in words."""
        core = "" if self.core is None else f"{self.core * 100:.3g} % of the core"
        memory = "" if self.memory_gib is None else f"{self.memory_gib:g} GiB"
        return ", ".join(filter(None, (core, memory))) or "nothing"


WAYS = (
    Way(
        "HAMi",
        "hami",
        "`nvidia.com/gpucores`: %; `…/gpumem`: MiB; of each of `nvidia.com/gpu` cards",
        "1 %, 1 MiB; 10 containers a card (`deviceSplitCount`)",
        "both, by a library in the container",
        "`GPU_CORE_UTILIZATION_POLICY`: `default`, `force`, `disable` (memory alone)",
        "hami",
        0.25,
        8,
    ),
    Way(
        "mGPU (VKE)",
        "vke-mgpu",
        "`vke.volcengine.com/mgpu-core`: %; `…/mgpu-memory`: MiB",
        "1 %, 1 MiB from 256 on; 16 containers a card",
        "both, by its driver",
        "`fixed-share`; `guaranteed-burst-share`, `native-burst-share` (borrow what is idle)",
        "mgpu",
        0.25,
        8,
    ),
    Way(
        "qGPU (TKE)",
        "tke-qgpu",
        "`tke.cloud.tencent.com/qgpu-core`: %; `…/qgpu-memory`: GiB",
        "5 %, 1 GiB; 16 containers a card",
        "both, by its driver",
        "of the node: `fixed-share`; `burst-share`, `best-effort` (borrow what is idle)",
        "qgpu",
        0.25,
        8,
    ),
    Way(
        "KAI",
        "kai",
        "annotation `gpu-fraction`, or `gpu-memory`: MiB",
        "0.01 of a card",
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
        "1/N of core and memory",
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
        "the card's profiles, at most 7 instances",
        "both, by the card",
        "",
        "mig",
        None,
        10,
    ),
)
