"""Activity of SMs and tensor cores between two samples of a device or MIG instance."""

import pytest

from exporter.sources.gpus.nvml import errors
from exporter.sources.gpus.nvml.gpm import GpmReading
from tests.fakenvml.scenario import Fault, Gpu, Instance, Work
from tests.gpus.known import known
from tests.gpus.nvml.node import START, Node

TX, RX = 197, 198


@pytest.fixture
def parted(node: Node) -> Node:
    """A GPU that is busy half of each second, and one with a busy MIG instance of two."""
    node.scenario.gpus = [Gpu(0), Gpu(1, mig=True)]
    node.scenario.instances = [Instance(1, 0), Instance(1, 1)]
    node.scenario.works = [
        Work(gpu=0, pid=101, start=START - 60, period=1, duty=0.5),
        Work(gpu=1, pid=201, start=START - 60, instance=1),
    ]
    return node


def gpm(node: Node, uuid: str, *, after: float = 0) -> GpmReading | None:
    if after:
        node.advance(after)
    answer: GpmReading | None = node.ask("gpm", uuid)
    return answer


def start(node: Node) -> Node:
    """Open the driver; the source's own boards do not use GPM, so that calls can be counted."""
    node.start(disabled={"profiling"})
    node.read()
    return node


@pytest.fixture
def opened(parted: Node) -> Node:
    """The same, with the driver open."""
    return start(parted)


def test_a_figure_is_the_average_between_two_reads(opened: Node) -> None:
    assert gpm(opened, "GPU-0") is None
    reading = known(gpm(opened, "GPU-0", after=5))
    assert reading.elapsed_ns == 5 * 10**9
    assert reading.graphics_ratio == pytest.approx(0.5)
    assert reading.ratios["sm_active_ratio"] == pytest.approx(0.5)
    assert reading.ratios["sm_occupancy_ratio"] == pytest.approx(0.25)
    assert reading.ratios["tensor_active_ratio"] == pytest.approx(0.125)


def test_samples_closer_than_the_driver_allows_are_not_taken(opened: Node) -> None:
    gpm(opened, "GPU-0")
    assert gpm(opened, "GPU-0", after=0.1) is None
    reading = known(gpm(opened, "GPU-0", after=0.9))
    assert reading.elapsed_ns == 10**9


def test_a_board_without_gpm_is_asked_once(parted: Node) -> None:
    parted.change_gpu(0, gpm=False)
    start(parted)
    assert [gpm(parted, "GPU-0", after=1) for _ in range(3)] == [None] * 3
    asked = parted.ask("close_gpm", "GPU-0")["nvmlGpmQueryDeviceSupport"]
    assert asked.calls == 1 + len(parted.scenario.instances)  # which ask for themselves, once


def test_a_driver_that_does_not_tell_of_support_is_asked_for_a_sample(parted: Node) -> None:
    parted.fail(Fault("error", "nvmlGpmQueryDeviceSupport", code=errors.NOT_SUPPORTED))
    start(parted)
    gpm(parted, "MIG-1-1")
    assert gpm(parted, "MIG-1-1", after=1)


@pytest.mark.parametrize("call", ["nvmlGpmSampleGet", "nvmlGpmMetricsGet"])
def test_a_failed_call_costs_a_reading_and_no_more(opened: Node, call: str) -> None:
    gpm(opened, "GPU-0")
    opened.fail(Fault("error", call, code=errors.UNKNOWN))
    assert gpm(opened, "GPU-0", after=1) is None
    opened.fail()
    assert gpm(opened, "GPU-0", after=1) is None
    assert gpm(opened, "GPU-0", after=1)


def test_a_lost_device_is_reported(opened: Node) -> None:
    gpm(opened, "GPU-0")
    opened.change_gpu(0, lost=True)
    with pytest.raises(errors.DeviceLostError):
        gpm(opened, "GPU-0", after=1)


def test_samples_are_allocated_once_and_given_back(opened: Node) -> None:
    for _ in range(5):
        gpm(opened, "GPU-0", after=1)
    calls = opened.ask("close_gpm", "GPU-0")
    others = 2 * len(opened.scenario.instances)  # those of the source itself
    assert calls["nvmlGpmSampleAlloc"].calls - others == calls["nvmlGpmSampleFree"].calls == 2
    assert gpm(opened, "GPU-0", after=1) is None
    assert gpm(opened, "GPU-0", after=1)
