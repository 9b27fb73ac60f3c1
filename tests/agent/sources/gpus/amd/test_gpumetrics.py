import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.gpus.amd.gpumetrics import LAYOUTS, GpuMetrics, decode, decode_partition
from tests.agent.sources.gpus.amd.trees import (
    PERCENT,
    TICKS,
    V1_3,
    V1_4,
    attribute,
    attributes,
    table,
    v1_9,
)

JOULE = 1_000_000


@pytest.mark.parametrize(
    ("version", "energy_at", "counter", "inside", "stride"),
    [
        (V1_4, 24, None, 0, 0),
        ((360, 1, 5), 24 + 32 * 2, None, 0, 0),  # after the 16 bits of each of 32 JPEG engines
        ((1664, 1, 6), 16, 32, 312, 168),
        ((2208, 1, 7), 24, 40, 344, 232),
        ((3360, 1, 8), 24, 40, 344, 376),
        ((3872, 1, 8), 24, 40, 344, 440),
    ],
)
def test_figures_stand_where_their_revision_has_them(
    version: tuple[int, int, int], energy_at: int, counter: int | None, inside: int, stride: int
) -> None:
    fields = {12: ("H", 37), 14: ("H", 9), energy_at: ("Q", 5 * TICKS)}
    if counter is not None:
        fields |= {inside: ("I", 100), inside + 4: ("I", 50), inside + 7 * stride: ("I", 12)}
        fields |= {counter: ("I", 1000), counter + 8: ("I", 250), counter + 20: ("I", 7)}

    metrics = decode(table(version, fields))

    assert (metrics.gfx_percent, metrics.umc_percent) == (37, 9)
    assert metrics.energy_uj == 5 * JOULE
    if counter is not None:
        assert metrics.partitions == {0: 75, 7: 12}
        assert metrics.cycles == 1000
        assert metrics.residencies == {"ppt": 250, "hbm_thermal": 7}


@pytest.mark.parametrize(("gfx", "energy"), [(90010, 3 * JOULE), (110000, None), (0, None)])
def test_an_energy_without_a_told_unit_is_believed_of_data_centre_boards_only(
    gfx: int, energy: int | None
) -> None:
    metrics = decode(table(V1_3, {16: ("H", 50), 24: ("Q", 3 * TICKS)}), gfx)

    assert metrics.gfx_percent == 50
    assert metrics.energy_uj == energy


@pytest.mark.parametrize(
    ("version", "unknown"),
    [
        ((288, 1, 3), "1.3 of 288 bytes"),
        ((1672, 1, 6), "1.6 of 1672 bytes"),  # Linux 6.12 had it, and took it back
        ((24, 1, 10), "1.10 of 24 bytes"),
        ((200, 4, 0), "4.0 of 200 bytes"),
        ((120, 2, 1), ""),  # an APU's: what is wanted of it other files have
        ((264, 3, 0), ""),
    ],
)
def test_of_a_table_of_no_known_layout_nothing_is_taken_but_its_number(
    version: tuple[int, int, int], unknown: str
) -> None:
    assert decode(table(version, {12: ("H", 37)})) == GpuMetrics(unknown=unknown)


ACTIVITY, ENERGY, CYCLES, PPT, DIES = 4, 7, 9, 11, 40  # of enum amdgpu_metrics_attr_id


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([], GpuMetrics()),
        ([attribute(ACTIVITY, "H", [37], PERCENT)], GpuMetrics(gfx_percent=37)),
        ([attribute(ACTIVITY, "I", [37], PERCENT)], GpuMetrics(gfx_percent=37)),  # wider later
        ([attribute(5, "H", [9], PERCENT)], GpuMetrics(umc_percent=9)),
        ([attribute(ENERGY, "Q", [5 * TICKS])], GpuMetrics(energy_uj=5 * JOULE)),
        ([attribute(CYCLES, "I", [70])], GpuMetrics(cycles=70)),
        ([attribute(PPT, "I", [7])], GpuMetrics(residencies={"ppt": 7})),
        ([attribute(DIES, "I", [9, 0, -1], PERCENT)], GpuMetrics(dies=(9, 0, None))),
        # what is none: all bits set, another unit, more than all, less than nothing
        ([attribute(ACTIVITY, "H", [-1], PERCENT), attribute(ENERGY, "Q", [-1])], GpuMetrics()),
        ([attribute(ACTIVITY, "H", [37], unit=3)], GpuMetrics()),
        ([attribute(ENERGY, "Q", [5 * TICKS], unit=3)], GpuMetrics()),
        ([attribute(DIES, "I", [101], PERCENT)], GpuMetrics(dies=(None,))),
        ([attribute(ACTIVITY, "h", [-1], PERCENT)], GpuMetrics()),
        # fields that nothing is known of are passed over
        ([attribute(999, "b", [1] * 9, 77), attribute(CYCLES, "I", [70])], GpuMetrics(cycles=70)),
        ([attribute(CYCLES, "Q", [2**40])], GpuMetrics(cycles=2**40)),
    ],
)
def test_a_table_of_attributes_has_what_they_say(fields: list[bytes], expected: GpuMetrics) -> None:
    assert decode(attributes((1, 9), *fields)) == expected


@pytest.mark.parametrize(
    "broken",
    [
        v1_9(TICKS)[:-1],
        attributes((1, 9), attribute(CYCLES, "I", [70]))[:-4],
        attributes((1, 9), (8 << 20 | 1).to_bytes(8, "little"), attribute(CYCLES, "I", [70])),
        struct.pack("<HBBi", 8, 1, 9, 2**31 - 1),
        struct.pack("<HBBi", 8, 1, 9, -1),
        struct.pack("<HBB", 4, 1, 9),
    ],
    ids=["cut", "no value", "no such type", "endless", "negative", "no count"],
)
def test_of_attributes_that_do_not_fit_their_table_nothing_is_taken(broken: bytes) -> None:
    found = decode(broken)

    assert found == GpuMetrics(unknown=found.unknown)


@pytest.mark.parametrize(
    ("dies", "parts", "percents"),
    [
        ([90, 10, 0, 0, 70, 30, 0, 20], 1, {0: 27.5}),
        ([90, 10, 0, 0, 70, 30, 0, 20], 2, {0: 25, 1: 30}),
        ([90, 10, 0, 0, 70, 30, 0, 20], 8, dict(enumerate([90, 10, 0, 0, 70, 30, 0, 20]))),
        ([90, 10, 0, 0, 70, 30], 3, {0: 50, 1: 0, 2: 50}),  # an MI300A has six
        ([90, 10, 0, 0], 3, {}),  # no partition has a part of a die
        ([90, -1, 0, 0], 2, {}),  # whose the third is cannot be said
        ([], 2, {}),
    ],
)
def test_the_dies_of_a_board_are_those_of_its_partitions_in_order(
    dies: list[int], parts: int, percents: dict[int, float]
) -> None:
    """``XCP_INST_MASK`` of aqua_vanjaram.c."""
    assert decode(v1_9(busy=dies)).of_partitions(parts) == percents


@pytest.mark.parametrize(
    ("content", "percent"),
    [
        (table((488, 1, 0), {48: ("I", 90), 52: ("I", 50)}), 70),
        (attributes((1, 1), attribute(DIES, "I", [90, 50, -1, -1], PERCENT)), 70),
        (attributes((1, 1), attribute(DIES, "I", [-1] * 8, PERCENT)), None),
        (table((488, 1, 2), {48: ("I", 90)}), None),
        (table((489, 1, 0), {48: ("I", 90)}), None),
        (b"", None),
    ],
)
def test_a_partitions_own_table_has_the_activity_of_its_dies(
    content: bytes, percent: float | None
) -> None:
    assert decode_partition(content) == percent


@pytest.mark.parametrize("layout", LAYOUTS)
@given(cut=st.integers(0, 4000))
def test_of_a_table_that_is_cut_short_nothing_is_taken(
    layout: tuple[int, int, int], cut: int
) -> None:
    form, content, size = layout
    whole = struct.pack("<HBB", size, form, content) + bytes(size - 4)

    assert (decode(whole[:cut]) == GpuMetrics()) is (cut < size)


@given(body=st.binary(max_size=4000), cut=st.integers(0, 4000))
def test_any_bytes_of_attributes_are_survived(body: bytes, cut: int) -> None:
    whole = struct.pack("<HBB", 4 + len(body), 1, 9) + body

    for metrics in (decode(whole), decode(whole[:cut])):
        percents = (metrics.gfx_percent, *metrics.dies)
        assert all(0 <= percent <= 100 for percent in percents if percent is not None)
    decode_partition(struct.pack("<HBB", 4 + len(body), 1, 1) + body)


@given(layout=st.sampled_from(sorted(LAYOUTS)), body=st.binary(max_size=4000))
def test_any_bytes_are_survived_and_tell_nothing_impossible(
    layout: tuple[int, int, int], body: bytes
) -> None:
    form, content, size = layout

    metrics = decode(struct.pack("<HBB", size, form, content) + body)

    percents = (metrics.gfx_percent, metrics.umc_percent, *metrics.partitions.values())
    assert all(0 <= percent <= 100 for percent in percents if percent is not None)
    assert metrics.energy_uj is None or metrics.energy_uj >= 0
