"""What a workload writes into its pod to have the advised amount."""

import time
from urllib.parse import parse_qs

import pytest

from exporter.agent.allocations.registry import SCHEMES
from exporter.answers.prometheus.advice import Resource
from exporter.answers.prometheus.advice_report import ASKED, Asked, asked
from exporter.cli import main
from tests.answers.terminal.test_http import Server

GIB = 1 << 30
OF_SCHEME = {scheme.name: scheme for scheme in SCHEMES}


@pytest.mark.parametrize(
    ("scheme", "resource", "recommended", "wanted"),
    [
        ("hami", Resource.CORE, 0.29, Asked("nvidia.com/gpucores", 29)),
        ("hami", Resource.MEMORY, 3 * GIB, Asked("nvidia.com/gpumem", 3072)),
        ("tke-qgpu", Resource.MEMORY, 3.1 * GIB, Asked("tke.cloud.tencent.com/qgpu-memory", 4)),
        ("tkestack-gpu-manager", Resource.MEMORY, GIB, Asked("tencent.com/vcuda-memory", 4)),
        ("koordinator", Resource.MEMORY, GIB, Asked("koordinator.sh/gpu-memory", GIB)),
        ("nvidia-device-plugin", Resource.CORE, 0.5, None),
        ("hami", Resource.CORE, None, None),
        ("", Resource.CORE, 0.5, None),
    ],
)
def test_the_amount_in_the_systems_own_unit(
    scheme: str, resource: Resource, recommended: float | None, wanted: Asked | None
) -> None:
    assert asked(scheme, resource, recommended) == wanted


@pytest.mark.parametrize(("scheme", "resource"), ASKED)
def test_each_name_is_one_that_the_systems_decoder_reads(scheme: str, resource: Resource) -> None:
    of = OF_SCHEME[scheme]
    assert ASKED[scheme, resource][0] in {*of.resources, *of.annotations}


def test_advice_is_of_no_time_to_come(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    server.answer = lambda *_: (200, {}, b'{"status": "success", "data": {"result": []}}')
    try:
        assert main(["advise", f"--prometheus={server.url}", "--until=2999-01-01"]) == 2
    finally:
        server.stop()
    assert "knows no container" in capsys.readouterr().err
    times = [float(parse_qs(path.partition("?")[2])["time"][0]) for path, _ in server.asked]
    assert times
    assert max(times) <= time.time()
