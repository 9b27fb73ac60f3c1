"""What an agent met whose node was not ready yet, or for ever."""

import shutil
from pathlib import Path

import pytest

from tests.e2e.programs import Exporter
from tests.fakenvml.build import library
from tests.fakenvml.scenario import Gpu, Scenario
from tests.field.report import report


@report(
    source="NVIDIA/dcgm-exporter#523, utkuozdemir/nvidia_gpu_exporter#281",
    seen="On GKE an exporter often starts before the driver's installer is through, and then had "
    "no figures until somebody restarted it.",
    first="right",
    group="configuration",
)
@pytest.mark.slow
def test_a_driver_that_comes_after_the_exporter_is_found(tmp_path: Path) -> None:
    path, told = tmp_path / "libnvidia-ml.so.1", tmp_path / "gpus.txt"
    Scenario(gpus=[Gpu(0)]).write(told)
    exporter = Exporter(
        f"--nvml.library={path}",
        "--gpus.source=nvml",
        "--pods.source=none",
        environment={"FAKENVML_SCENARIO": str(told)},
    )
    try:
        exporter.when(
            lambda page: page.value("mgpu_exporter_source_up", source="nvml") == 0,
            "a page without a driver",
        )
        assert exporter.get("/-/ready")[0] == 200  # a rollout does not wait for this node
        shutil.copy(library(), path)
        exporter.when(
            lambda page: (
                page.value("mgpu_exporter_source_up", source="nvml") == 1
                and page.all("mgpu_device_info")
            ),
            "the driver",
        )
    finally:
        exporter.stop()
