"""The families of each ``--metrics.profile``, and what ``--metrics.enable`` and ``disable`` change.

``minimal`` answers who uses how much, what was allocated, and what it costs. ``full`` has all.
"""

from collections.abc import Collection, Mapping

from exporter.metrics.families import FAMILIES, OFF_BY_DEFAULT, OWN_LEVEL, Family

PROFILES = ("minimal", "full")

_MINIMAL: Mapping[str, frozenset[str]] = {
    "device": frozenset(
        {
            *("info", "up", "unmeasured", "busy_seconds_total", "energy_joules_total"),
            *("memory_total_bytes", "memory_used_bytes", "unattributed_memory_bytes"),
            *("unattributed_core_seconds_total", "unattributed_energy_joules_total"),
            *("allocated_core_ratio", "allocated_memory_bytes", "xid_errors_total"),
            *("unallocated_gpu_seconds_total", "overcommitted_gpu_seconds_total"),
            "unobserved_seconds_total",
        }
    ),
    "container": frozenset(
        {
            *("unmeasured", "core_utilization_ratio", "core_limit_ratio", "core_seconds_total"),
            *("memory_used_bytes", "memory_limit_bytes", "energy_joules_total"),
        }
    ),
    "pod": frozenset(
        {
            *("info", "core_seconds_total", "energy_joules_total", "allocated_core_seconds_total"),
            *(
                "limited_core_seconds_total",
                "core_limit_utilization_ratio",
                "last_active_timestamp_seconds",
            ),
        }
    ),
    "namespace": frozenset(
        {
            *("core_seconds_total", "energy_joules_total", "allocated_core_seconds_total"),
            *("allocated_gpu_seconds_total", "borrowed_core_seconds_total"),
            "allocated_idle_core_seconds_total",
        }
    ),
    "group": frozenset({"info", "core_utilization_ratio", "memory_used_bytes"}),
    "group_kind": frozenset({"core_seconds_total", "energy_joules_total"}),
}


def left_out(
    profile: str, enable: Collection[str] = (), disable: Collection[str] = ()
) -> frozenset[str]:
    """Full names of the families that are not served.

    The profile chooses first; then the groups and families of ``enable`` are added, and those of
    ``disable`` taken away. Families about the exporter itself stay.
    """
    return frozenset(
        family.full_name
        for family in FAMILIES
        if _is_in(family, disable) or not (has(profile, family) or _is_in(family, enable))
    )


def has(profile: str, family: Family) -> bool:
    """Whether a profile has the family."""
    if family.group in OFF_BY_DEFAULT:
        return False
    if profile == "full" or family.level == OWN_LEVEL:
        return True
    return family.name in _MINIMAL[family.level]


def _is_in(family: Family, names: Collection[str]) -> bool:
    return family.group in names or family.full_name in names
