"""``gpu_metrics``: the table that a board's firmware keeps, as amdgpu hands it out in sysfs.

Stands on ``drivers/gpu/drm/amd/include/kgd_pp_interface.h``: structs in the machine's own layout,
all bits set where a field is not told. Each revision has a layout of its own; of one that is not
known here, or of another size, nothing is taken. Left out are fields whose unit the kernel does not
tell: the accumulated activity (``gfx_activity_acc``), PCIe bandwidth, and the energy of consumer
boards.
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
    """Offsets. ``counter``: of the accumulation counter, before the residencies.

    ``inside``: offset of the first partition's figures and their size.
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
    (1, 5, 328): _Layout(12, 56),
    (1, 6, 1664): _Layout(12, 16, 32, (312, 168)),
    (1, 7, 2208): _Layout(12, 24, 40, (344, 232)),
    (1, 8, 3360): _Layout(12, 24, 40, (344, 376)),
    (1, 8, 3872): _Layout(12, 24, 40, (344, 440)),
}
_UNIT_TOLD = 4  # content revisions from this on say the energy's unit


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """What is known. Percentages are of the moment, averaged by the firmware.

    ``partitions``: of each partition, how busy it is, averaged over its compute dies.
    ``residencies``: accumulation cycles spent held down, of ``cycles``; both are 32 bits wide.
    """

    gfx_percent: float | None = None
    umc_percent: float | None = None
    energy_uj: int | None = None
    cycles: int | None = None
    residencies: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[int, float] = field(default_factory=dict)


def decode(table: bytes, gfx: int = 0) -> GpuMetrics:
    """Take what is known out of a table; nothing of one that is cut short or of no known layout.

    ``gfx`` is the target version of the board (90402 is gfx942), 0 where it is not known.
    """
    if len(table) < _HEADER.size:
        return GpuMetrics()
    size, form, content = _HEADER.unpack_from(table)
    layout = LAYOUTS.get((form, content, size))
    if layout is None or len(table) < size:
        return GpuMetrics()
    energy = _told("Q", table, layout.energy)
    unit_told = content >= _UNIT_TOLD or gfx // 10_000 == CENTRAL_GFX
    return GpuMetrics(
        gfx_percent=_percent("H", table, layout.activity),
        umc_percent=_percent("H", table, layout.activity + 2),
        energy_uj=energy * 1_000_000 >> 16 if energy is not None and unit_told else None,
        cycles=None if layout.counter is None else _told("I", table, layout.counter),
        residencies=_residencies(table, layout.counter),
        partitions=_partitions(table, layout.inside),
    )


def _told(kind: str, table: bytes, offset: int) -> int | None:
    """A field; None where all its bits are set."""
    layout = struct.Struct(f"<{kind}")
    (value,) = layout.unpack_from(table, offset)
    return None if value == (1 << 8 * layout.size) - 1 else int(value)


def _percent(kind: str, table: bytes, offset: int) -> float | None:
    value = _told(kind, table, offset)
    return float(value) if value is not None and value <= WHOLE else None


def _residencies(table: bytes, counter: int | None) -> dict[str, int]:
    if counter is None:
        return {}
    told = {
        name: _told("I", table, counter + 4 + 4 * place) for place, name in enumerate(RESIDENCIES)
    }
    return {name: value for name, value in told.items() if value is not None}


def _partitions(table: bytes, inside: tuple[int, int] | None) -> dict[int, float]:
    if inside is None:
        return {}
    begin, size = inside
    found: dict[int, float] = {}
    for partition in range(PARTITIONS):
        start = begin + partition * size
        each = [_percent("I", table, start + 4 * unit) for unit in range(UNITS)]
        told = [percent for percent in each if percent is not None]
        if told:
            found[partition] = sum(told) / len(told)
    return found
