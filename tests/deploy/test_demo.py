"""``make demo``: three simulated nodes under a real Prometheus, and one Ctrl-C for all of it."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import psutil
import pytest

from exporter.simulation.load import load
from tests.e2e.programs import eventually
from tools.demo import NODES

ROOT = Path(__file__).parents[2]
LAST = "Rates need a minute or two. Ctrl-C ends all of it.\n"
RULE = "sum(namespace:mgpu_core_seconds:sum_rate5m) > 1"


def test_each_node_can_be_simulated_and_has_devices_of_its_own() -> None:
    devices = [device.uuid for what, _, _ in NODES.values() for device in load(what).devices]
    assert len(NODES) == 3
    assert len(set(devices)) == len(devices)
    assert any(uuid.startswith("MIG-") for uuid in devices)


@pytest.mark.slow
@pytest.mark.program("prometheus")
def test_it_says_where_to_look_is_scraped_and_ends_as_a_whole() -> None:
    command = [sys.executable, "-m", "tools.demo"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            said = "".join(iter(demo.stdout.readline, LAST))
            children = psutil.Process(demo.pid).children(recursive=True)
            pages = re.findall(r"http://localhost:\d+(?=  the page)", said)
            (prometheus,) = re.findall(r"(http://localhost:\d+)/alerts", said)

            def ask(expression: str) -> list[dict[str, Any]]:
                url = f"{prometheus}/api/v1/query?{urlencode({'query': expression})}"
                with urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
                    found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                    return found

            for page in pages:
                with urlopen(page, timeout=30) as answer:  # noqa: S310 - loopback
                    assert b"imulated" in answer.read()
            assert len(pages) == len(children) - 1 == 3
            eventually(lambda: len(ask("up == 1")) == 3, "Prometheus scrapes the three nodes")
            eventually(lambda: ask(RULE), "a rule has a value", 120)
        finally:
            demo.send_signal(signal.SIGINT)
            status = demo.wait(60)
    assert status == 0
    assert not [child for child in children if child.is_running()]
