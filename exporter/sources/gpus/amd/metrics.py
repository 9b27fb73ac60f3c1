"""Decodes ``gpu_metrics``, the table of a board's firmware that amdgpu shows in sysfs.

Source: ``drivers/gpu/drm/amd/include/kgd_pp_interface.h``. Structs are in the machine's own layout;
a field with all bits set is missing. Each revision has its own layout. A revision or size that is
not known here is ignored. Fields without a documented unit are left out: accumulated activity
(``gfx_activity_acc``), PCIe bandwidth, and the energy of consumer boards.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_HEADER = struct.Struct("<HBB")  # structure_size, format_revision, content_revision
PARTITIONS = 8  # NUM_XCP
UNITS = 8  # MAX_XCC: compute dies of one partition
RESIDENCIES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
WHOLE = 100  # percent
CENTRAL_GFX = 9  # the family of gfx9, whose data-centre boards count energy in 2^-16 J


class _Layout(NamedTuple):
    """Offsets of fields. ``counter``: the accumulation counter, before the residencies.

    ``inside``: offset and size of the first partition's figures.
    """

    activity: int
    energy: int
    counter: int | None = None
    inside: tuple[int, int] | None = None


LAYOUTS: Mapping[tuple[int, int, int], _Layout] = {  # by format, content and size
    (1, 1, 96): _Layout(16, 24),
    (1, 2, 104): _Layout(16, 24),
    (1, 3, 120): _Layout(16, 24),
    (1, 4, 288): _Layout(12, 24),
    (1, 5, 360): _Layout(12, 88),
    (1, 6, 1664): _Layout(12, 16, 32, (312, 168)),
    (1, 7, 2208): _Layout(12, 24, 40, (344, 232)),
    (1, 8, 3360): _Layout(12, 24, 40, (344, 376)),
    (1, 8, 3872): _Layout(12, 24, 40, (344, 440)),
}
_UNIT_KNOWN_FROM = 4  # content revisions from this on have a unit of energy


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """The decoded figures; None if missing. Percentages are current, averaged by the firmware.

    ``partitions``: the busy percentage of each partition, averaged over its compute dies.
    ``residencies``: throttled accumulation cycles by cause, of ``cycles``; all have 32 bits.
    """

    gfx_percent: float | None = None
    umc_percent: float | None = None
    energy_uj: int | None = None
    cycles: int | None = None
    residencies: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[int, float] = field(default_factory=dict)


def decode(table: bytes, gfx: int = 0) -> GpuMetrics:
    """The figures of a table; none of one that is cut short or has no known layout.

    ``gfx`` is the target version of the board (90402 is gfx942), 0 if unknown.
    """
    if len(table) < _HEADER.size:
        return GpuMetrics()
    size, form, content = _HEADER.unpack_from(table)
    layout = LAYOUTS.get((form, content, size))
    if layout is None or len(table) < size:
        return GpuMetrics()
    energy = _field("Q", table, layout.energy)
    has_unit = content >= _UNIT_KNOWN_FROM or gfx // 10_000 == CENTRAL_GFX
    return GpuMetrics(
        gfx_percent=_percent("H", table, layout.activity),
        umc_percent=_percent("H", table, layout.activity + 2),
        energy_uj=energy * 1_000_000 >> 16 if energy is not None and has_unit else None,
        cycles=None if layout.counter is None else _field("I", table, layout.counter),
        residencies=_residencies(table, layout.counter),
        partitions=_partitions(table, layout.inside),
    )


def _field(kind: str, table: bytes, offset: int) -> int | None:
    """A field; None if all its bits are set."""
    layout = struct.Struct(f"<{kind}")
    (value,) = layout.unpack_from(table, offset)
    return None if value == (1 << 8 * layout.size) - 1 else int(value)


def _percent(kind: str, table: bytes, offset: int) -> float | None:
    value = _field(kind, table, offset)
    return float(value) if value is not None and value <= WHOLE else None


def _residencies(table: bytes, counter: int | None) -> dict[str, int]:
    if counter is None:
        return {}
    found = {
        name: _field("I", table, counter + 4 + 4 * place) for place, name in enumerate(RESIDENCIES)
    }
    return {name: value for name, value in found.items() if value is not None}


def _partitions(table: bytes, inside: tuple[int, int] | None) -> dict[int, float]:
    if inside is None:
        return {}
    begin, size = inside
    found: dict[int, float] = {}
    for partition in range(PARTITIONS):
        start = begin + partition * size
        each = [_percent("I", table, start + 4 * unit) for unit in range(UNITS)]
        known = [percent for percent in each if percent is not None]
        if known:
            found[partition] = sum(known) / len(known)
    return found
