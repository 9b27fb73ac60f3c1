import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.sources.gpus.amd.metrics import LAYOUTS, GpuMetrics, decode
from tests.gpus.amd.trees import TICKS, V1_3, V1_4, table

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


@pytest.mark.parametrize("version", [(288, 1, 3), (120, 2, 1), (1672, 1, 6), (24, 1, 9)])
def test_of_a_table_of_no_known_layout_nothing_is_taken(version: tuple[int, int, int]) -> None:
    """Linux 6.12 has a v1_6 of another size, which was taken back."""
    assert decode(table(version, {12: ("H", 37)})) == GpuMetrics()


@pytest.mark.parametrize("layout", LAYOUTS)
@given(cut=st.integers(0, 4000))
def test_of_a_table_that_is_cut_short_nothing_is_taken(
    layout: tuple[int, int, int], cut: int
) -> None:
    form, content, size = layout
    whole = struct.pack("<HBB", size, form, content) + bytes(size - 4)

    assert (decode(whole[:cut]) == GpuMetrics()) is (cut < size)


@given(layout=st.sampled_from(sorted(LAYOUTS)), body=st.binary(max_size=4000))
def test_any_bytes_are_survived_and_tell_nothing_impossible(
    layout: tuple[int, int, int], body: bytes
) -> None:
    form, content, size = layout

    metrics = decode(struct.pack("<HBB", size, form, content) + body)

    percents = (metrics.gfx_percent, metrics.umc_percent, *metrics.partitions.values())
    assert all(0 <= percent <= 100 for percent in percents if percent is not None)
    assert metrics.energy_uj is None or metrics.energy_uj >= 0
