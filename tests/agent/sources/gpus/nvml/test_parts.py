"""The parts that need no driver: buffers, errors, names."""

import struct
from types import SimpleNamespace

import pytest

from exporter.agent.sources.gpus.nvml import errors
from exporter.agent.sources.gpus.nvml.boardcounters import TABLE
from exporter.agent.sources.gpus.nvml.calls import MAX_ROWS, RowBuffer
from exporter.agent.sources.gpus.nvml.gpm import PERCENTS
from exporter.agent.sources.gpus.nvml.nvmlboard import NOT_AVAILABLE, PLAIN
from exporter.agent.sources.gpus.nvml.nvmldiscovery import profile_of
from exporter.agent.sources.gpus.nvml.nvmlprocesses import united
from exporter.agent.sources.gpus.nvml.refusals import Backoff
from exporter.metrics.families import BOARD
from exporter.model import ProcessMemory
from tests.agent.simulation.clock import ManualClock

ROW = struct.Struct("=I")


def driver(rows: RowBuffer, values: list[int], claimed: int | None = None) -> int:
    """Write as a driver does: the number needed when there is no room, rows when there is."""
    needed = len(values) if claimed is None else claimed
    room = rows.count.value
    rows.count.value = needed
    if needed > room and claimed is None:
        return errors.INSUFFICIENT_SIZE
    view = memoryview(rows._buffer)
    for number, value in enumerate(values):
        ROW.pack_into(view, number * ROW.size, value)
    return errors.SUCCESS


def decoded(rows: RowBuffer, values: list[int], claimed: int | None = None) -> list[int]:
    read = rows.read("call", driver, rows, values, claimed)
    return [value for (value,) in ROW.iter_unpack(read)]


def test_rows_grow_to_what_the_driver_asks_for() -> None:
    rows = RowBuffer(ROW.size, capacity=2)
    assert decoded(rows, [1, 2, 3, 4, 5, 6, 7]) == [1, 2, 3, 4, 5, 6, 7]
    assert rows.capacity == 8


def test_rows_that_the_driver_counts_but_does_not_write_are_not_those_of_before() -> None:
    rows = RowBuffer(ROW.size, capacity=8)
    assert decoded(rows, [1, 2, 3]) == [1, 2, 3]
    assert decoded(rows, [9], claimed=3) == [9, 0, 0]


def test_rows_are_no_more_than_there_is_room_for() -> None:
    rows = RowBuffer(ROW.size, capacity=MAX_ROWS)
    assert len(decoded(rows, [1, 2], claimed=2 * MAX_ROWS)) == MAX_ROWS


def test_an_answer_that_fills_the_buffer_is_read_again_into_a_larger_one() -> None:
    """As nvmlDeviceGetSamples answers: it fills what there is and calls that a success."""
    rows = RowBuffer(ROW.size, capacity=2)
    values = list(range(1, 721))

    def filling(rows: RowBuffer) -> int:
        return driver(rows, values[: rows.count.value])

    read = rows.read("call", filling, rows)
    assert [value for (value,) in ROW.iter_unpack(read)] == values
    assert rows.capacity == 1024


def test_rows_that_are_counted_up_to_the_buffers_end_but_not_written_do_not_let_it_grow() -> None:
    rows = RowBuffer(ROW.size, capacity=4)
    assert decoded(rows, [1, 2], claimed=4) == [1, 2, 0, 0]
    assert rows.capacity == 4


def test_rows_do_not_grow_for_ever() -> None:
    rows = RowBuffer(ROW.size, capacity=2)

    def never_enough(rows: RowBuffer) -> int:
        rows.count.value = 2**32 - 1
        return errors.INSUFFICIENT_SIZE

    with pytest.raises(errors.NvmlError, match="insufficient_size"):
        rows.read("call", never_enough, rows)
    assert rows.capacity == MAX_ROWS


def test_nothing_found_is_no_rows() -> None:
    rows = RowBuffer(ROW.size, capacity=2)
    assert bytes(rows.read("call", lambda: errors.NOT_FOUND)) == b""


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, errors.DriverGoneError),
        (9, errors.DriverGoneError),
        (12, errors.DriverGoneError),
        (15, errors.DeviceLostError),
        (16, errors.DeviceLostError),
        (3, errors.UnmeasurableError),
        (4, errors.UnmeasurableError),
        (13, errors.UnmeasurableError),
        (2, errors.CallError),
        (999, errors.CallError),
        (12345, errors.CallError),
    ],
)
def test_codes_become_errors_that_can_be_told_apart(
    code: int, kind: type[errors.NvmlError]
) -> None:
    error = errors.error_of(code, "nvmlCall")
    assert type(error) is kind
    assert (error.code, error.call) == (code, "nvmlCall")
    assert f"({code})" in str(error)
    assert hash(error)


@pytest.mark.parametrize(
    ("slices", "part", "memory_mib", "board_mib", "name"),
    [
        (1, 1, 4864, 40536, "1g.5gb"),  # A100-40GB
        (3, 3, 20096, 40536, "3g.20gb"),
        (7, 7, 40448, 40536, "7g.40gb"),
        (1, 1, 9984, 81559, "1g.10gb"),  # H100-80GB
        (2, 1, 19968, 81559, "1c.2g.20gb"),
        (1, 1, 16384, 143771, "1g.18gb"),  # H200
        (1, 1, 9984, None, "1g.10gb"),
    ],
)
def test_profiles_are_named_as_nvidia_names_them(
    slices: int, part: int, memory_mib: int, board_mib: int | None, name: str
) -> None:
    attributes = SimpleNamespace(
        gpuInstanceSliceCount=slices, computeInstanceSliceCount=part, memorySizeMB=memory_mib
    )
    assert profile_of(attributes, board_mib and board_mib << 20) == name


def test_process_is_united_from_its_lists() -> None:
    assert united(
        [
            ("compute", 7, NOT_AVAILABLE),
            ("graphics", 7, 5),
            ("mps", 7, 3),
            ("compute", 8, NOT_AVAILABLE),
            ("compute", 0, 1),
            ("compute", 0xFFFFFFFF, 1),
        ]
    ) == (
        ProcessMemory(7, 5, frozenset({"compute", "graphics", "mps"})),
        ProcessMemory(8, None, frozenset({"compute"})),
    )


def test_backoff_doubles_up_to_its_limit_and_can_be_reset() -> None:
    clock = ManualClock()
    retry = Backoff(clock, first_s=1, most_s=4)
    due = [retry.due]
    for wait in (1, 2, 4, 4):
        retry.failed()
        clock.move(wait - 0.5)
        due.append(retry.due)
        clock.move(0.5)
        due.append(retry.due)
    retry.failed()
    retry.reset()
    assert due == [True, *(False, True) * 4]
    assert retry.due


def test_each_sensor_is_of_a_family_of_the_board_with_or_without_a_label() -> None:
    labels = {family.name: bool(family.labels) for family in BOARD}
    numbers = [*(each.family for each in PLAIN), *PERCENTS.values()]
    assert [name for name in numbers if labels.get(name) is not False] == []
    assert [each.family for each in TABLE if labels.get(each.family) is not bool(each.label)] == []
