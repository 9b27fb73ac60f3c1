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
import yaml

from exporter.simulation.load import load
from tests.e2e.programs import eventually
from tools.demo import ALERT, NODES, OF_ALERT, WAITING, quick, where_to_look

ROOT = Path(__file__).parents[2]
LAST = "Rates need a minute or two. Ctrl-C ends all of it.\n"
WAITED = "mgpu_container_core_waiting_on_seconds_total > 0"
FIRING = f'ALERTS{{alertname="{ALERT}",alertstate="firing"}}'
RULE = "sum(namespace:mgpu_core_seconds:sum_rate5m) > 1"


def test_each_node_can_be_simulated_and_has_devices_of_its_own() -> None:
    devices = [device.shown.uuid for what, _, _ in NODES.values() for device in load(what).devices]
    assert len(NODES) == 3
    assert len(set(devices)) == len(devices)
    assert any(uuid.startswith("MIG-") for uuid in devices)


def test_only_the_alert_to_expect_is_made_quick_and_all_link_to_the_served_runbooks() -> None:
    shipped = (ROOT / "rules/mgpu-alerts.yaml").read_text()
    pairs = zip(_rules(shipped), _rules(quick(shipped, "http://localhost:7")), strict=True)

    for was, now in pairs:
        runbook = now["annotations"].pop("runbook_url")
        assert runbook == f"http://localhost:7/runbooks/{was['alert']}{OF_ALERT}"
        del was["annotations"]["runbook_url"]
        if was["alert"] == ALERT:
            was |= {"for": "10s", "keep_firing_for": "5m"}
        assert now == was


def _rules(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_the_pod_that_it_asks_about_is_there() -> None:
    pods = {f"{pod.namespace}/{pod.name}" for pod in load(NODES["gpu-node-1"][0]).pods}
    assert WAITING in pods
    assert f" why {WAITING} --prometheus http://localhost:9 " in "\n".join(
        where_to_look({}, 9, None, grafana=False)
    )


@pytest.mark.parametrize("path", ["/alerts", "/classic/alerts", None])
def test_the_alerts_are_where_this_prometheus_has_them(path: str | None) -> None:
    said = "\n".join(where_to_look({}, 9, path, grafana=False))

    assert f"http://localhost:9{path or '/api/v1/alerts'}  " in said
    assert ("has no pages" in said) is (path is None)


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
            ((alerts, prometheus),) = re.findall(r"((http://localhost:\d+)\S*/alerts)  ", said)

            def ask(expression: str) -> list[dict[str, Any]]:
                url = f"{prometheus}/api/v1/query?{urlencode({'query': expression})}"
                with urlopen(url, timeout=30) as answer:  # noqa: S310 - loopback
                    found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                    return found

            for page, name in zip(pages, NODES, strict=True):
                with urlopen(page, timeout=30) as answer:  # noqa: S310 - loopback
                    assert f"<title>{name} " in answer.read().decode()
            urlopen(alerts, timeout=30).close()  # noqa: S310 - loopback
            with urlopen(f"{pages[0]}/runbooks/{ALERT}", timeout=30) as answer:  # noqa: S310
                assert ALERT in answer.read().decode()
            assert len(pages) == len(children) - 1 == 3
            eventually(lambda: len(ask("up == 1")) == 3, "Prometheus scrapes the three nodes")
            eventually(lambda: ask(RULE), "a rule has a value", 120)
            eventually(lambda: ask(WAITED), "who ran instead is named", 120)
            eventually(lambda: ask(FIRING), "the alert fires", 120)
        finally:
            demo.send_signal(signal.SIGINT)
            status = demo.wait(60)
    assert status == 0
    assert not [child for child in children if child.is_running()]
