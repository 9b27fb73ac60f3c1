"""What a workload writes into its pod to have the advised amount."""

import json
import time
from urllib.parse import parse_qs

import pytest

from exporter.agent.allocations.registry import SCHEMES
from exporter.answers.advise.amounts import (
    KERNEL,
    UNITS,
    AskedAmount,
    Resource,
    asked,
    is_known,
    steps_of_unit,
)
from exporter.answers.advise.formula import figure, steps
from exporter.cli import main
from tests.answers.reading.test_remote import Server

GIB = 1 << 30
OF_SCHEME = {scheme.name: scheme for scheme in SCHEMES}


@pytest.mark.parametrize(
    ("scheme", "resource", "recommended", "wanted"),
    [
        ("hami", Resource.CORE, 0.29, AskedAmount("nvidia.com/gpucores", 29)),
        ("hami", Resource.MEMORY, 3 * GIB, AskedAmount("nvidia.com/gpumem", 3072)),
        (
            "tke-qgpu",
            Resource.MEMORY,
            3.1 * GIB,
            AskedAmount("tke.cloud.tencent.com/qgpu-memory", 4),
        ),
        ("tkestack-gpu-manager", Resource.MEMORY, GIB, AskedAmount("tencent.com/vcuda-memory", 4)),
        (
            "vke-mgpu",
            Resource.MEMORY,
            100 << 20,
            AskedAmount("vke.volcengine.com/mgpu-memory", 256),
        ),
        ("baidu-cce", Resource.CORE, 0.25, None),  # whose names have the card's model in them
        ("koordinator", Resource.MEMORY, GIB, AskedAmount("koordinator.sh/gpu-memory", GIB)),
        ("kai", Resource.CORE, 0.29, AskedAmount("gpu-fraction", 0.29)),
        ("nvidia-device-plugin", Resource.CORE, 0.5, None),
        ("hami", Resource.CORE, None, None),
        ("", Resource.CORE, 0.5, None),
    ],
)
def test_the_amount_in_the_systems_own_unit(
    scheme: str, resource: Resource, recommended: float | None, wanted: AskedAmount | None
) -> None:
    assert asked(scheme, resource, recommended) == wanted


@pytest.mark.parametrize(
    ("scheme", "resource", "need", "amount"),
    [
        ("hami", Resource.CORE, 0.2811, 0.29),
        ("tke-qgpu", Resource.CORE, 0.13, 0.15),
        ("baidu-cce", Resource.CORE, 0.13, 0.15),
        ("huawei-cce", Resource.CORE, 0.0, 0.05),
        ("tke-qgpu", Resource.MEMORY, 3.1 * GIB, 4 * GIB),
        ("huawei-cce", Resource.MEMORY, GIB + (1 << 20), GIB + (128 << 20)),
        ("koordinator", Resource.MEMORY, GIB - 5, GIB),  # a need is not known to the byte
        ("aliyun-ack", Resource.CORE, 0.131, 0.14),
        ("kai", Resource.CORE, 0.131, 0.14),
    ],
)
def test_what_is_needed_goes_up_to_a_step_of_the_system(
    scheme: str, resource: Resource, need: float, amount: float
) -> None:
    by = figure("by")
    amounts = steps(figure("need"), by) / by
    assert amounts.of({"need": need, "by": steps_of_unit(scheme, resource)}) == amount


def test_an_unknown_step_is_not_one() -> None:
    assert is_known("hami", Resource.CORE)
    assert not is_known("aliyun-ack", Resource.CORE)
    assert not is_known("dra", Resource.MEMORY)
    assert not is_known("", Resource.MEMORY)  # a label that somebody left out
    assert is_known(KERNEL, Resource.MEMORY)


@pytest.mark.parametrize(("scheme", "resource"), [of for of in UNITS if UNITS[of].name])
def test_each_name_is_one_that_the_systems_decoder_reads(scheme: str, resource: Resource) -> None:
    of = OF_SCHEME[scheme]
    assert UNITS[scheme, resource].name in {*of.resources, *of.annotations}


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


@pytest.mark.parametrize(
    ("series", "said"),
    [
        ("", "has no series of the rules of mgpu-recording.yaml: "),
        ("namespace:mgpu_core", "the rules of mgpu-recording.yaml have recorded no workload in "),
    ],
)
def test_rules_that_are_there_and_have_not_recorded_yet_are_not_said_to_lack(
    series: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sizing is recorded every 15 minutes, all else of the same file more often."""
    known = ["mgpu_container_allocation_info", *filter(None, [series])]

    def answer(path: str, _: str) -> tuple[int, dict[str, str], bytes]:
        asked = parse_qs(path.partition("?")[2])["query"][0]
        now = time.time()
        found = [{"metric": {}, "value": [now, str(now - 60)]}] * any(one in asked for one in known)
        result = {"status": "success", "data": {"resultType": "vector", "result": found}}
        return 200, {}, json.dumps(result).encode()

    server = Server()
    server.answer = answer
    try:
        main(["advise", f"--prometheus={server.url}"])
    finally:
        server.stop()
    assert said in " ".join(capsys.readouterr().err.split())
