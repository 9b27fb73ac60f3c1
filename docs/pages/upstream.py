"""Which version of each sharing system was read, on what day, and what it promises and enforces."""

import re
from typing import NamedTuple

from exporter.agent.allocations.registry import SCHEMES
from pages.tables import table


class Reading(NamedTuple):
    """What the source of one system says. ``enforced`` names the policies that mean it."""

    version: str
    day: str
    promises: str
    enforced: str


_NOW, _BEFORE = "2026-11-23", "2026-08"
_DOCUMENTS = "its documents (closed source)"

READINGS = {
    "vke-mgpu": Reading(
        _DOCUMENTS,
        "before 2026-08",
        "core, memory",
        "by its driver, as the policy says",
    ),
    "tke-qgpu": Reading(
        _DOCUMENTS,
        _BEFORE,
        "core, memory",
        "by its driver, as the policy says",
    ),
    "volcano-vgpu": Reading(
        "volcano ed72c7c8 (2026-08-20); volcano-vgpu-device-plugin 4fb76ba (2026-08-17); both"
        " were run on Kubernetes 1.36.3",
        "2026-11-24",
        "core, memory",
        "by HAMi-core (`hami-core`), or by the instance (`mig`); with `CUDA_DISABLE_CONTROL` "
        "not: `unenforced`",
    ),
    "volcano-gpushare": Reading(
        "volcano ed72c7c8 (2026-08-20); devices 95b591b6 (2025-03-20)",
        "2026-08; the plugin 2026-11-23",
        "memory",
        "not: `unenforced`; whole cards are",
    ),
    "aliyun-ack": Reading(
        _DOCUMENTS,
        _BEFORE,
        "memory, and core",
        "by cGPU's driver; not with the policy `share`",
    ),
    "aliyun-gpushare-v1": Reading(
        "gpushare-device-plugin 45fb8b8; gpushare-scheduler-extender c0b6141",
        _BEFORE,
        "memory",
        "not: `unenforced`",
    ),
    "aliyun-acs": Reading(
        _DOCUMENTS,
        _BEFORE,
        "core, memory",
        "not known: the policy is empty",
    ),
    "tkestack-gpu-manager": Reading(
        "gpu-manager 8cd842ed (2023); gpu-admission 47d56ae (2020)",
        _BEFORE,
        "core, memory",
        "by its library",
    ),
    "elastic-gpu": Reading(
        "elastic-gpu-agent 2609107 (2022)",
        _BEFORE,
        "core, memory",
        "not by itself: `unenforced`",
    ),
    "huawei-cce": Reading(
        _DOCUMENTS,
        _BEFORE,
        "core and memory, or memory",
        "by its driver",
    ),
    "baidu-cce": Reading(
        _DOCUMENTS,
        "before 2026-08",
        "core, memory",
        "by its driver",
    ),
    "koordinator": Reading(
        "koordinator a7a1b76b (2026-07-24, v1.8)",
        _BEFORE,
        "core, memory",
        "not by itself: `unenforced`; by HAMi-core where the pod's label says so (`hami-core`)",
    ),
    "hami": Reading(
        "HAMi 4707fb02 (2026-08-21); its scheduler and device plugin were run on Kubernetes "
        "1.36.3, its monitor beside the exporter",
        _NOW,
        "core, memory, or a MIG instance",
        "by HAMi-core (`hami-core`, `enforced`), the instance (`mig`), or `mps`; with "
        "`CUDA_DISABLE_CONTROL` not: `unenforced`",
    ),
    "vgpu-manager": Reading(
        "vgpu-manager 3d7f66d (2026-08-21, v0.4.1)",
        _NOW,
        "core, memory",
        "memory by its library; core too with `fixed` and `balance`, not with `none`",
    ),
    "kai": Reading(
        "KAI-Scheduler d5bc503a (2026-08-07, v0.17), which was run on Kubernetes 1.36.3; "
        "Run:ai's documents 2.17 to 3.0",
        "2026-11-24",
        "memory",
        "not: `unenforced`; by HAMi-core if it is loaded from the host: `enforced`",
    ),
    "nvfractions": Reading(
        "kai-gpu-fractioning 0ee10b42, 6b664769 (2026); KAI-Scheduler 39165828, 45103d4c "
        "(2026); not run",
        "2026-11-26",
        "memory, and the core that KAI#2368 writes",
        "by the driver (R615), whose own word `allocation_info` has as scheme `driver`",
    ),
    "gke": Reading(
        "container-engine-accelerators 992db812 (2026-06-11)",
        _BEFORE,
        "whole cards, instances; with MPS equal parts; time-sharing promises nothing",
        "by the devices, or by MPS (`mps`); time-sharing is not",
    ),
    "nvidia-device-plugin": Reading(
        "k8s-device-plugin 1b826acc (2026-08-19); nvidia-container-toolkit 064024a7 (2026-09)",
        f"{_BEFORE}; the toolkit 2026-11-25",
        "whole cards, instances; with MPS equal parts; time-slicing promises nothing",
        "by the devices, MPS (`mps`), the driver (environment); time-slicing is not",
    ),
    "dra": Reading(
        "dra-driver-nvidia-gpu 95932046 (2026-08-07); HAMi's k8s-dra-driver ebeaad9 "
        "(2026-05-12); vgpu-manager 3d7f66d; ROCm's 2622427 (2025-10-06); Intel's 1da939f "
        "(2026-08-11)",
        "2026-08; NVIDIA's and HAMi's 2026-11-23",
        "what a claim consumes: cores, memory or shares; MPS's limits; else the whole device",
        "whole devices and instances; MPS (`mps`); of a part (`shared`) only by HAMi's and "
        "vgpu-manager's drivers: `enforced`",
    ),
    "amd-device-plugin": Reading(
        "k8s-device-plugin ed764684 (2026-08-11)",
        _BEFORE,
        "whole cards or partitions",
        "by the devices",
    ),
    "intel-device-plugin": Reading(
        "intel-device-plugins-for-kubernetes 94a91bc9 (2026-06-15)",
        _BEFORE,
        "whole cards; a shared card promises nothing",
        "whole cards by the devices; shared ones are not",
    ),
}

HEADS = ("scheme", "read", "promises", "enforced")
DATED = re.compile(r"\(20\d\d-\d\d")


def readings() -> str:
    """Return the table, in the order of the schemes.

    Raises:
        SystemExit: a scheme has no row; it says what to add, to who has just written the scheme.

    """
    if missing := [scheme.name for scheme in SCHEMES if scheme.name not in READINGS]:
        raise SystemExit(
            f"docs/pages/upstream.py: add to READINGS a row for {', '.join(missing)}: which "
            "version was read, on what day, what it promises and what it enforces"
        )
    return table(HEADS, (_row(scheme.name, READINGS[scheme.name]) for scheme in SCHEMES))


def _row(name: str, read: Reading) -> tuple[str, ...]:
    """A row; a version with its own date needs no day of reading."""
    version = read.version if DATED.search(read.version) else f"{read.version}, {read.day}"
    return f"`{name}`", version, read.promises, read.enforced
