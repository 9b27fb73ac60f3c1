"""What the check says of a board's samples."""

import pytest

from exporter.doctor import CheckVerdict
from exporter.doctor.gpus import sampling
from exporter.model import Device, DeviceReading, Naming, Sampling

ALWAYS, PARTLY, NEVER, UNKNOWN = Naming

DEVICES = [DeviceReading(Device("GPU-0", 0, "nvidia", "A100"))]


@pytest.mark.parametrize(
    ("seen", "verdict", "said"),
    [
        (
            Sampling(166_700, (ALWAYS, ALWAYS, UNKNOWN, UNKNOWN)),
            CheckVerdict.OK,
            (
                "one every 0.17 s; each busy sample names a process (core, memory_active); "
                "not known yet: encoder, decoder"
            ),
        ),
        (
            Sampling(500_000, (PARTLY, ALWAYS, ALWAYS, ALWAYS)),
            CheckVerdict.NOTE,
            (
                "one every 0.5 s; some busy samples name no process (core); "
                "each busy sample names a process (memory_active, encoder, decoder)"
            ),
        ),
        (
            Sampling(None, (NEVER, NEVER, NEVER, NEVER)),
            CheckVerdict.NOTE,
            "no busy sample names a process (core, memory_active, encoder, decoder)",
        ),
    ],
)
def test_the_check_says_how_a_board_samples(
    seen: Sampling, verdict: CheckVerdict, said: str
) -> None:
    (result,) = sampling(DEVICES, {"GPU-0": seen})

    assert (result.subject, result.verdict, result.found) == ("GPU 0 samples", verdict, said)
    assert bool(result.remedy) is (verdict is CheckVerdict.NOTE)


def test_nothing_is_said_of_a_device_that_names_no_processes() -> None:
    assert not list(sampling(DEVICES, {}))
