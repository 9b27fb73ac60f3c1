"""Decodes ``gpu_metrics``, the table of a board's firmware that amdgpu shows in sysfs.

Sources: ``drivers/gpu/drm/amd/include/kgd_pp_interface.h``, and ``pm/swsmu/smu_cmn.h`` there. A
field with all bits set is missing. Up to 1.8 a table is a struct, in the machine's own layout, and
each revision has another one. From 1.9 on it is a list of attributes: an encoding of 64 bits, which
is unit << 24, type << 20, id << 10 and the number of values, then the values, packed. Fields
without a documented unit are left out: accumulated activity (``gfx_activity_acc``), PCIe bandwidth,
and the energy of consumer boards.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_HEADER = struct.Struct("<HBB")  # structure_size, format_revision, content_revision
PARTITIONS = 8  # NUM_XCP
UNITS = 8  # MAX_XCC: compute dies of one partition
RESIDENCIES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
MOST_PERCENT = 100
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
OF_APUS = (2, 3)  # formats: what is wanted of them other files have as well
ATTRIBUTES, PARTS_ATTRIBUTES = (1, 9), (1, 1)  # tables of attributes: of a board, of a partition
_PARTS_LAYOUT = (488, 1, 0)  # the partition's before, whose dies stand at
_PARTS_DIES = 48
_COUNT = struct.Struct("<i")
_ENCODING = struct.Struct("<Q")
_TYPES = "BbHhIiQq"  # by amdgpu_metrics_attr_type
_PLAIN, _PERCENT = 0, 10  # of amdgpu_metrics_attr_unit
_GFX, _UMC, _ENERGY, _CYCLES, _FIRST_RESIDENCY, _DIES = 4, 5, 7, 9, 10, 40  # ..._attr_id
_Attributes = Mapping[tuple[int, int], list[int | None]]  # values by id and unit


@dataclass(frozen=True, slots=True)
class GpuMetrics:
    """The decoded figures; None if missing. Percentages are current, averaged by the firmware.

    ``partitions``: the busy percentage of each partition, averaged over its compute dies; or
    ``dies``: that of each die of the board. ``residencies``: throttled accumulation cycles by
    cause, of ``cycles``; each may go round at 32 bits. ``unknown``: number and size of a table
    that is none of those known here.
    """

    gfx_percent: float | None = None
    umc_percent: float | None = None
    energy_uj: int | None = None
    cycles: int | None = None
    residencies: Mapping[str, int] = field(default_factory=dict)
    partitions: Mapping[int, float] = field(default_factory=dict)
    dies: tuple[float | None, ...] = ()
    unknown: str = ""

    def of_partitions(self, parts: int) -> Mapping[int, float]:
        """The busy percentage of each of so many partitions. Dies are divided in their order."""
        known = [percent for percent in self.dies if percent is not None]
        is_whole = known == list(self.dies[: len(known)])  # those that are missing are the last
        if self.partitions or not known or not is_whole or len(known) % parts:
            return self.partitions
        size = len(known) // parts
        return {n: sum(known[n * size :][:size]) / size for n in range(parts)}


def decode(table: bytes, gfx: int = 0) -> GpuMetrics:
    """The figures of a table; none of one that is cut short or has no known layout.

    ``gfx`` is the target version of the board (90402 is gfx942), 0 if unknown.
    """
    if len(table) < _HEADER.size:
        return GpuMetrics()
    size, form, content = _HEADER.unpack_from(table)
    layout = LAYOUTS.get((form, content, size))
    # Zeros are no table: the firmware has no answer now.
    if not _HEADER.size <= size <= len(table) or form in OF_APUS:
        return GpuMetrics()
    if (form, content) == ATTRIBUTES:
        return _of_attributes(_attributes(table[:size]))
    if layout is None:
        return GpuMetrics(unknown=f"{form}.{content} of {size} bytes")
    energy = _field("Q", table, layout.energy)
    counter = layout.counter
    counts = {
        name: None if counter is None else _field("I", table, counter + 4 + 4 * place)
        for place, name in enumerate(RESIDENCIES)
    }
    # Older tables count energy in a unit that only the family of gfx9 has documented. A figure in
    # an unknown unit is no figure.
    has_unit = content >= _UNIT_KNOWN_FROM or gfx // 10_000 == CENTRAL_GFX
    return GpuMetrics(
        gfx_percent=_percent("H", table, layout.activity),
        umc_percent=_percent("H", table, layout.activity + 2),
        energy_uj=_microjoules(energy) if has_unit else None,
        cycles=None if counter is None else _field("I", table, counter),
        residencies={name: count for name, count in counts.items() if count is not None},
        partitions=_partitions(table, layout.inside),
    )


def decode_partition(table: bytes) -> float | None:
    """The busy percentage in the table of one partition (``xcp_metrics``); None if it has none."""
    if len(table) < _HEADER.size:
        return None
    size, form, content = _HEADER.unpack_from(table)
    dies: Sequence[float | None] = ()
    if len(table) < size:
        return None
    if (form, content) == PARTS_ATTRIBUTES:
        dies = _of_attributes(_attributes(table[:size])).dies
    elif (size, form, content) == _PARTS_LAYOUT:
        dies = [_percent("I", table, _PARTS_DIES + 4 * unit) for unit in range(UNITS)]
    known = [percent for percent in dies if percent is not None]
    return sum(known) / len(known) if known else None


def _attributes(table: bytes) -> _Attributes:
    """All values of a table of attributes; none if they are not as many as it says, or too long."""
    at = _HEADER.size + _COUNT.size
    if len(table) < at:
        return {}
    (count,) = _COUNT.unpack_from(table, _HEADER.size)
    found: dict[tuple[int, int], list[int | None]] = {}
    for _ in range(count):  # each takes some bytes of the table, which are few
        if len(table) < at + _ENCODING.size:
            return {}
        (encoding,) = _ENCODING.unpack_from(table, at)
        kind, number, values = encoding >> 20 & 0xF, encoding >> 10 & 0x3FF, encoding & 0x3FF
        if kind >= len(_TYPES):
            return {}
        layout = struct.Struct(f"<{values}{_TYPES[kind]}")
        at += _ENCODING.size + layout.size
        if len(table) < at:
            return {}
        none = (1 << 8 * layout.size // max(values, 1)) - 1  # all bits set
        found[number, encoding >> 24 & 0xFF] = [
            None if value < 0 or value == none else value
            for value in layout.unpack_from(table, at - layout.size)
        ]
    return found


def _of_attributes(found: _Attributes) -> GpuMetrics:
    def one(number: int, unit: int = _PLAIN) -> int | None:
        values = found.get((number, unit), [])
        return values[0] if len(values) == 1 else None

    residencies = {name: one(_FIRST_RESIDENCY + place) for place, name in enumerate(RESIDENCIES)}
    return GpuMetrics(
        gfx_percent=_percent_of(one(_GFX, _PERCENT)),
        umc_percent=_percent_of(one(_UMC, _PERCENT)),
        energy_uj=_microjoules(one(_ENERGY)),
        cycles=one(_CYCLES),
        residencies={name: value for name, value in residencies.items() if value is not None},
        dies=tuple(map(_percent_of, found.get((_DIES, _PERCENT), ()))),
    )


def _microjoules(ticks: int | None) -> int | None:
    return None if ticks is None else ticks * 1_000_000 >> 16


def _percent_of(value: int | None) -> float | None:
    return float(value) if value is not None and value <= MOST_PERCENT else None


def _field(kind: str, table: bytes, offset: int) -> int | None:
    """A field; None if all its bits are set."""
    layout = struct.Struct(f"<{kind}")
    (value,) = layout.unpack_from(table, offset)
    return None if value == (1 << 8 * layout.size) - 1 else int(value)


def _percent(kind: str, table: bytes, offset: int) -> float | None:
    return _percent_of(_field(kind, table, offset))


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
