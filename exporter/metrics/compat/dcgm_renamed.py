"""dcgm-exporter's names since 4.9.0, which renamed most default counters and took base units.

Names and units are those of DCGM 4.7's fields: NVIDIA/go-dcgm, tests of base unit fields and of
aliases; the list of 4.9.0's release notes. Its ``default-counters.csv`` was not read.
"""

import re
from dataclasses import replace

from exporter.metrics.compat import dcgm
from exporter.metrics.compat.subjects import Alias, CompatSubject, Figure, of, per

RENAMED = {
    "DEV_SM_CLOCK": ("DEV_SM_CLOCK_HERTZ", "in Hz"),
    "DEV_MEM_CLOCK": ("DEV_MEMORY_CLOCK_HERTZ", "in Hz"),
    "DEV_TOTAL_ENERGY_CONSUMPTION": ("DEV_GPU_ENERGY_JOULES_TOTAL", "in J"),
    "DEV_GPU_UTIL": ("DEV_GPU_UTIL_RATIO", "0 to 1"),
    "DEV_MEM_COPY_UTIL": ("DEV_MEMORY_UTIL_RATIO", "0 to 1"),
    "DEV_ENC_UTIL": ("DEV_ENC_UTIL_RATIO", "0 to 1"),
    "DEV_DEC_UTIL": ("DEV_DEC_UTIL_RATIO", "0 to 1"),
    "DEV_FB_TOTAL": ("DEV_FB_CAPACITY_BYTES", "in bytes"),
    "DEV_FB_FREE": ("DEV_FB_FREE_BYTES", "in bytes"),
    "DEV_FB_USED": ("DEV_FB_USED_BYTES", "in bytes"),
    "DEV_FB_RESERVED": ("DEV_FB_RESERVED_BYTES", "in bytes"),
    "DEV_NVLINK_BANDWIDTH_TOTAL": ("DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", "in bytes per second"),
    "DEV_FAN_SPEED": ("DEV_FAN_SPEED_RATIO", "0 to 1"),
    "DEV_POWER_VIOLATION": ("DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL", "in s"),
    "DEV_SYNC_BOOST_VIOLATION": ("DEV_GPU_SYNC_BOOST_THROTTLE_SECONDS_TOTAL", "in s"),
    "DEV_GPU_TEMP": ("DEV_GPU_TEMP_CELSIUS", ""),
    "DEV_MEMORY_TEMP": ("DEV_MEMORY_TEMP_CELSIUS", ""),
    "DEV_POWER_USAGE": ("DEV_BOARD_POWER_WATTS", ""),
    "DEV_PCIE_REPLAY_COUNTER": ("DEV_PCIE_REPLAY_TOTAL", ""),
    "DEV_XID_ERRORS": ("DEV_XID_ERROR", ""),
    "DEV_UNCORRECTABLE_REMAPPED_ROWS": ("DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", ""),
    "DEV_CORRECTABLE_REMAPPED_ROWS": ("DEV_ROW_REMAP_CORRECTABLE_TOTAL", ""),
    "DEV_ROW_REMAP_FAILURE": ("DEV_ROW_REMAP_FAILED", ""),
    "PROF_GR_ENGINE_ACTIVE": ("PROF_GR_ENGINE_UTIL_RATIO", ""),
    "PROF_SM_ACTIVE": ("PROF_SM_UTIL_RATIO", ""),
    "PROF_SM_OCCUPANCY": ("PROF_SM_OCCUPANCY_RATIO", ""),
    "PROF_PIPE_TENSOR_ACTIVE": ("PROF_TENSOR_UTIL_RATIO", ""),
    "PROF_DRAM_ACTIVE": ("PROF_DRAM_UTIL_RATIO", ""),
}
"""Old name without ``DCGM_FI_`` → the new one, and its unit where that changed: a base unit."""


def _energy(device: CompatSubject) -> float | None:
    """`energy_joules_total`, whole joules."""
    joules = device.value("energy_joules_total")
    return None if joules is None else joules // 1


def _in_base_units(figure: Figure) -> Figure:
    match figure:
        case of("energy_joules_total"):
            return _energy
        case of(name, key):
            return of(name, key)
        case per(whole):
            return whole
        case other:
            return other


def _renamed(alias: Alias) -> Alias:
    new = RENAMED.get(alias.name.removeprefix("DCGM_FI_"))
    if new is None:
        return alias
    name, unit = new
    about = re.sub(r"\(in .*?\)", f"({unit})", alias.help) if unit else alias.help
    return replace(alias, name=f"DCGM_FI_{name}", help=about, figure=_in_base_units(alias.figure))


ALIASES = tuple(map(_renamed, dcgm.ALIASES))
