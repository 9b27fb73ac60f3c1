"""The families of containers and groups, and of the pods, namespaces and kinds that sum them."""

from functools import partial
from typing import Protocol

from exporter.metrics.families.family import (
    CONTENTION,
    WINDOW,
    FamilyOf,
    HasUsed,
    Sample,
    averages,
    counted,
    engines,
    flag,
    unmeasured,
)
from exporter.model import (
    AllocatedTime,
    ContainerHolding,
    GroupHolding,
    GroupKindFacts,
    HeldMemory,
    Holding,
    NamespaceFacts,
    PodFacts,
)

_CORE = (
    "GPU-seconds used: core (SM) busy time, from NVML process utilization as parts of the device's "
    "busy time; for AMD an estimate from the compute units occupied at each sample; for DRM, and "
    "AMD boards without that figure, counted by the kernel (fdinfo)."
)
_ENERGY = "Energy used, estimated: active energy split by core use, idle energy by --energy.idle."
_KEPT = (
    "Part of a GPU that is kept from others: the larger of core and memory share; 1 for a whole "
    "card; of a MIG instance the larger of its compute and memory slices; where nothing is "
    "promised, one of the device's replicas."
)
_WAITING = (
    "Time in which the container may have waited for others on the core: it had run within 10 s, "
    "held a context, and others ran (computed from the use of each window)."
)

_container = partial(FamilyOf[ContainerHolding], "container")
_pod = partial(FamilyOf[PodFacts], "pod")
_namespace = partial(FamilyOf[NamespaceFacts], "namespace")
_group = partial(FamilyOf[GroupHolding], "group")


class HasAllocated(Protocol):
    """Facts with counters of allocations."""

    @property
    def allocated(self) -> AllocatedTime:
        """The counters."""
        ...


def _gauges(level: str) -> tuple[FamilyOf[Holding], ...]:
    """The gauges that containers and groups share."""
    of = partial(FamilyOf[Holding], level)
    return (
        of(
            "core_utilization_ratio",
            f"Share of the GPU's core time in use, {WINDOW}.",
            lambda h: h.average.core,
        ),
        *_of_memory(level),
        *averages(level),
        of(
            "job_info",
            "A batch system's job inside of it, by its cgroups; at most 16.",
            labels=("system", "job_id"),
            each=lambda h: [((job.kind, job.name), 1) for job in h.jobs],
        ),
        of(
            "processes",
            "Processes with a context on the device (AMD: that hold memory there; DRM: that have "
            "it open).",
            lambda h: h.memory.processes,
        ),
        of(
            "last_active_timestamp_seconds",
            "When it last used the GPU's core.",
            lambda h: h.last_active_unix_ns,
        ),
        of("observed_since_timestamp_seconds", "When counting began.", lambda h: h.since_unix_ns),
        unmeasured(level),
    )


def _of_memory(level: str) -> tuple[FamilyOf[Holding], ...]:
    """The gauges of what it holds of the device's memory, and of what is kept for it."""
    of = partial(FamilyOf[Holding], level)
    return (
        of(
            "memory_used_bytes",
            "Device memory held (NVML running processes; AMD: KFD's vram_<gpu>; DRM: fdinfo).",
            lambda h: h.memory.used_bytes,
        ),
        of(
            "memory_used_peak_bytes",
            "Highest device memory held so far.",
            lambda h: h.memory.peak_bytes,
        ),
        of(
            "memory_guaranteed_bytes",
            "Device memory that is kept for its cgroup (NVML's soft limit, or dmem.min).",
            lambda h: h.memory.guaranteed_bytes,
        ),
        of(
            "memory_protected_bytes",
            "Device memory that is taken from its cgroup last: best effort (dmem.low).",
            lambda h: h.memory.protected_bytes,
        ),
        of(
            "memory_borrowed_bytes",
            "Device memory held beyond memory_guaranteed_bytes: while it is above 0, its clients "
            "may be evicted when another one needs what is kept for it.",
            lambda h: h.memory.borrowed_bytes,
        ),
        of(
            "memory_charged_bytes",
            "Device memory that its cgroup is charged, by the driver (NVML's memory limits) or the "
            "kernel (dmem.current). Role figure: memory_used_bytes is this, because the driver has "
            "no figure of its processes.",
            labels=("evidence", "role"),
            each=lambda h: _charged(h.memory),
        ),
    )


def _counters(level: str, about: str) -> tuple[FamilyOf[HasUsed], ...]:
    """The counters of all that used a device; ``about`` is that of the core."""
    of = partial(FamilyOf[HasUsed], level)
    return (
        of("core_seconds_total", about, lambda f: f.used.busy.core),
        *engines(level),
        of("energy_joules_total", _ENERGY, lambda f: f.used.energy_uj),
        *counted(level),
    )


def _held_against(level: str, about: str, whose: str) -> tuple[FamilyOf[HasAllocated], ...]:
    """The counters of allocations; ``about`` is that of the allocated core time."""
    of = partial(FamilyOf[HasAllocated], level)
    return (
        of("allocated_core_seconds_total", about, lambda f: f.allocated.core_ns),
        of(
            "allocated_idle_core_seconds_total",
            f"Allocated core time that {whose} did not use, counted at each window: use + idle - "
            "borrowed = allocated, while use is measured.",
            lambda f: f.allocated.idle_ns,
        ),
        of(
            "borrowed_core_seconds_total",
            f"Core time that {whose} used beyond the allocated share, counted at each window.",
            lambda f: f.allocated.borrowed_ns,
        ),
        of(
            "allocated_gpu_seconds_total",
            "Part of a GPU that is kept from others (allocated_gpus) times its time.",
            lambda f: f.allocated.gpu_ns,
        ),
    )


def _charged(memory: HeldMemory) -> list[Sample]:
    cgroup = memory.cgroup
    if cgroup is None or cgroup.charged_bytes is None:
        return []
    role = "figure" if memory.is_charge else "second_opinion"
    return [((cgroup.evidence, role), cgroup.charged_bytes)]


CONTAINER: tuple[FamilyOf[ContainerHolding], ...] = (
    *_gauges("container"),
    _container(
        "core_limit_ratio", "Allocated share of the GPU's core.", lambda c: c.allocation.core
    ),
    _container(
        "memory_limit_bytes",
        "Allocated device memory; where the driver or the kernel has a limit, that.",
        lambda c: c.allocation.memory_bytes,
    ),
    _container(
        "core_limit_utilization_ratio",
        "Core usage divided by the allocated share.",
        lambda c: c.core_of_limit,
    ),
    _container(
        "memory_limit_utilization_ratio",
        "Memory held divided by the allocated memory.",
        lambda c: c.memory_of_limit,
    ),
    _container(
        "allocated_replicas",
        "Allocated replicas of the device (time slices, MPS replicas, or uses of a claim).",
        lambda c: c.allocation.replicas,
    ),
    _container(
        "allocation_info",
        "The sharing system that allocated the device, its policy and the container's "
        "priority; the device labels are empty if the device is not known, the container label "
        "if the allocation is the pod's.",
        labels=("scheme", "policy", "priority"),
        each=lambda c: [(of, 1) for of in c.allocation.granted],
    ),
    _container(
        "placement_mismatch",
        "1 on a device that a process of the container uses and its allocation does not name, "
        "0 if they agree. Usage is shown where it was measured, limits where they were "
        "allocated.",
        lambda c: flag(c.misplaced),
    ),
    *_counters("container", _CORE),
    *_held_against(
        "container",
        "Allocated share of the GPU times the time of the allocation.",
        "the container",
    ),
    _container("allocated_gpus", _KEPT, lambda c: c.allocation.gpus),
    _container(
        "core_waiting_seconds_total",
        f"{_WAITING} Upper bound: a program that pauses by itself looks the same.",
        lambda c: c.waiting.waited_ns,
    ),
    _container(
        "core_pressure_ratio",
        f"Share of time in core_waiting_seconds_total, {WINDOW}; an upper bound.",
        lambda c: c.average.waiting,
    ),
    _container(
        "core_waiting_on_seconds_total",
        "Waiting (core_waiting_seconds_total) by the pod that ran; for a group by_pod is its "
        "kind and name, and by_namespace is empty.",
        labels=("by_namespace", "by_pod"),
        each=lambda c: c.waiting.by_pod.items(),
        group=CONTENTION,
    ),
)

POD: tuple[FamilyOf[PodFacts], ...] = (
    _pod(
        "info",
        "Identity and controller of the pod, from the pod source in use, with the labels and "
        "annotations of --pods.labels and --pods.annotations.",
        labels=("uid", "qos", "owner_kind", "owner_name"),
        each=lambda p: [((i.uid, i.qos, i.owner_kind, i.owner_name), 1)] if (i := p.info) else [],
        further=lambda p: p.info.labels if p.info else {},
    ),
    _pod("core_usage_gpus", f"Core in use, in GPUs, {WINDOW}.", lambda p: p.core),
    _pod("core_limit_gpus", "Core allocated, in GPUs.", lambda p: p.core_limit),
    _pod(
        "memory_used_bytes", "Device memory held by all its containers.", lambda p: p.memory_bytes
    ),
    _pod(
        "memory_limit_bytes",
        "Device memory allocated to all its containers.",
        lambda p: p.memory_limit_bytes,
    ),
    _pod(
        "core_limit_utilization_ratio",
        "Core usage of the containers that have an allocated share, divided by these shares.",
        lambda p: p.core_of_limit,
    ),
    _pod(
        "memory_limit_utilization_ratio",
        "Memory held divided by the allocated memory, on the device with the highest ratio.",
        lambda p: p.memory_of_limit,
    ),
    _pod(
        "last_active_timestamp_seconds",
        "When it last used a GPU's core.",
        lambda p: p.last_active_unix_ns,
    ),
    _pod("core_seconds_total", _CORE, lambda p: p.used.busy.core),
    _pod("energy_joules_total", _ENERGY, lambda p: p.used.energy_uj),
    *_held_against(
        "pod",
        "Allocated shares of all its containers times the time of the allocations.",
        "its containers",
    ),
    _pod("allocated_gpus", _KEPT, lambda p: p.allocated_gpus),
    _pod(
        "unhealthy_devices",
        "Devices of the pod, GPUs or not, that the kubelet says are unhealthy (status of its "
        "containers, Kubernetes 1.36 and later).",
        lambda p: p.unhealthy_devices,
    ),
    _pod(
        "limited_core_seconds_total",
        "The part of core_seconds_total that is compared with the allocation: of the "
        "containers that have an allocated share.",
        lambda p: p.limited_core_ns,
    ),
)

NAMESPACE: tuple[FamilyOf[NamespaceFacts], ...] = (
    *_counters("namespace", "GPU-seconds used by its pods."),
    *_held_against(
        "namespace",
        "Allocated shares of all its pods times the time of the allocations, ended pods "
        "included; uuid is empty while the device is not known.",
        "its pods' containers",
    ),
    _namespace("allocated_gpus", _KEPT, lambda n: n.allocated_gpus),
)

GROUP: tuple[FamilyOf[GroupHolding], ...] = (
    _group(
        "info",
        "Names of the group: of its container, machine or unit, its user if all its processes are "
        "his, and for a Slurm job the account, job and step; empty if not known.",
        labels=("name", "user", "account", "slurm_job", "slurm_step"),
        each=lambda g: [(g.info.labels, 1)] if g.info else [],
    ),
    _group(
        "memory_limit_bytes",
        "Device memory that the driver or the kernel holds it to.",
        lambda g: g.memory.limit_bytes,
    ),
    *_gauges("group"),
    *_counters("group", _CORE),
)

GROUP_KIND: tuple[FamilyOf[GroupKindFacts], ...] = _counters(
    "group_kind", "GPU-seconds used by all groups of the kind."
)
