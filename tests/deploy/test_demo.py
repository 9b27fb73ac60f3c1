"""``make demo``: simulated nodes with a day of history under a real Prometheus, and one Ctrl-C.

Each address and command that it prints is tried.
"""

import base64
import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import psutil
import pytest
import yaml

from exporter.agent.simulation.load_scenario import load
from tests.answers.top.test_terminal import terminal
from tests.e2e.programs import eventually
from tools.demo import __main__ as demo_program
from tools.demo.access import NAMESPACE, OPERATOR, TENANT, reviews
from tools.demo.fleet import ALERTS, GUARDED, NODES, OF_ALERT, PROMETHEUS_READY, quick
from tools.demo.guide import LAST, LATER, LOST, WAITING, Places, where_to_look
from tools.demo.history import SCRAPE_S, SCRAPES, written

ROOT = Path(__file__).parents[2]
FIRING = 'count by (alertname) (ALERTS{alertstate="firing"})'
RULE = "sum(namespace:mgpu_core_seconds:sum_rate5m) > 1"
HISTORY = "count(mgpu_device_up offset 20h)"
# By the comment of each command: its exit status, and what its answer has in it. Off a terminal
# `top` prints once and exits with 1, because a card cannot be read.
SHOWN = {
    "the fleet in a terminal; q ends it": (1, (*(f"{name} 0 " for name in NODES), WAITING, "lost")),
    "who takes this pod's share": (0, ("batch/embed-nightly-7f4d", "its share is 60%")),
    "its card is lost": (0, ("fallen off the bus",)),
    "what to ask for": (0, ("inference/StatefulSet/chat-13b", "koordinator.sh/gpu-core")),
    "what the last day cost": (0, ("research/Job/train", "slurm/4711  ", "576.00")),
    "what a tenant sees": (1, (WAITING, "others, not shown to you")),
}
# What people copy from an answer, which is whole at any width of a terminal.
COPIED = {
    "top --once": (WAITING, "inference/search-embed-7d5b9c6d8f-h4tqw", "batch/embed-nightly-7f4d"),
    f"why {WAITING}": ("batch/embed-nightly-7f4d",),
    "advise --since=1d": ("inference/StatefulSet/chat-13b server", "koordinator.sh/gpu-core: 60"),
    "bill --price=2.00 --by=owner": ("notebooks/StatefulSet/notebook-alice", "slurm/4711"),
}


def test_each_node_can_be_simulated_and_has_devices_of_its_own() -> None:
    loaded = [load(node.scenario) for node in NODES.values()]
    devices = [device.shown.uuid for scenario in loaded for device in scenario.devices]
    assert len(set(devices)) == len(devices)
    assert any(uuid.startswith("MIG-") for uuid in devices)


def test_only_the_alerts_to_expect_are_made_quick_and_all_link_to_the_served_runbooks() -> None:
    shipped = (ROOT / "rules/mgpu-alerts.yaml").read_text()
    pairs = zip(_rules(shipped), _rules(quick(shipped, "http://localhost:7")), strict=True)

    for was, now in pairs:
        runbook = now["annotations"].pop("runbook_url")
        assert runbook == f"http://localhost:7/runbooks/{was['alert']}{OF_ALERT}"
        del was["annotations"]["runbook_url"]
        if was["alert"] in ALERTS:
            was |= {"for": "10s", "keep_firing_for": "5m"}
        assert now == was


def _rules(text: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_the_pods_that_it_asks_about_are_there() -> None:
    pods = {f"{pod.namespace}/{pod.name}" for pod in load(NODES[GUARDED].scenario).pods}
    assert {WAITING, LOST} <= pods
    assert WAITING.startswith(f"{NAMESPACE}/")


def _places(alerts: str | None) -> Places:
    return Places({name: node.port for name, node in NODES.items()}, 9, alerts, Path("/x"), False)


@pytest.mark.parametrize("path", ["/alerts", "/classic/alerts", None])
def test_the_alerts_are_where_this_prometheus_has_them(path: str | None) -> None:
    said = "\n".join(where_to_look(_places(path)))

    assert f"http://localhost:9{path or '/api/v1/alerts'}  " in said
    assert ("has no pages" in said) is (path is None)


def test_a_port_that_is_taken_while_the_history_is_made_is_left_to_who_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = tmp_path / "prometheus"
    ready.write_text(f"#!/bin/sh\necho {PROMETHEUS_READY}\nexec sleep 60\n")
    ready.chmod(0o755)
    ended, said = threading.Event(), StringIO()
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # free until it listens
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]

        def taken(*_: object) -> list[object]:
            other.listen()
            return []

        def told(places: Places) -> Iterator[str]:
            ended.set()
            yield str(places.prometheus)

        for name, value in {
            "NODES": {},
            "prometheus_config": lambda *_: "",
            "PROMETHEUS_PORT": port,
            "prometheus_program": lambda: str(ready),
            "_backfilled": taken,
            "where_to_look": told,
            "pages": lambda _: iter(()),
            "alerts_page": lambda _: None,
        }.items():
            monkeypatch.setattr(demo_program, name, value)
        assert demo_program.run(said, tmp_path, ended) == 0
    assert said.getvalue().split() != [str(port)]


def test_a_day_repeats_what_lasts_and_counters_grow_on() -> None:
    pods = ['mgpu_pod_info{pod="a"} 1.0', 'mgpu_pod_info{pod="short"} 1.0']
    pages = [
        "\n".join([*pods[: 2 - number], f'mgpu_pod_core_seconds_total{{pod="a"}} {10 + number}.0'])
        for number in (0, 1)
    ]
    lines = list(written(pages, "n", 10**9))

    own = '{pod="a",instance="n",job="mgpu-exporter"}'
    grown = [line for line in lines if line.startswith(f"mgpu_pod_core_seconds_total{own} ")]
    assert [line.split()[1:] for line in grown[:2]] == [
        ["10", str(10**9 - SCRAPES * SCRAPE_S)],
        ["11", str(10**9 - (SCRAPES - 1) * SCRAPE_S)],
    ]
    assert grown[-1].split()[1:] == [str(10 + SCRAPES), str(10**9)]
    assert lines.count(f"mgpu_pod_info{own} 1 {10**9}\n") == 1
    assert not [line for line in lines if "short" in line]


def test_the_parts_of_a_day_are_kept_as_the_whole_is() -> None:
    for name in ("core_seconds", "energy_joules"):
        page = f'mgpu_device_unattributed_{name}_total{{reason="mig"}} 7.0'
        assert list(written([page, page], "n", 10**9))[-1].startswith(page.partition("{")[0])


def test_the_tokens_are_of_an_operator_and_a_tenant_and_no_other_counts(tmp_path: Path) -> None:
    with reviews(tmp_path) as kubeconfig:
        (cluster,) = json.loads(kubeconfig.read_text())["clusters"]
        server = cluster["cluster"]["server"]

        def ask(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
            body = json.dumps({"kind": kind, "spec": spec}).encode()
            with urlopen(Request(f"{server}/x", body), timeout=30) as answer:  # noqa: S310
                status: dict[str, Any] = json.load(answer)["status"]
                return status

        def may(user: str, **what: object) -> object:
            return ask("SubjectAccessReview", {"user": user, **what})["allowed"]

        for token in (OPERATOR, TENANT):
            assert (tmp_path / token).read_text() == token
            assert ask("TokenReview", {"token": token})["user"] == {"username": token}
        assert ask("TokenReview", {"token": "x"}) == {"authenticated": False}
        whole = {"nonResourceAttributes": {"path": "/mgpu-exporter/page", "verb": "get"}}
        assert (may(OPERATOR, **whole), may(TENANT, **whole)) == (True, False)
        for namespace, expected in ((NAMESPACE, True), ("batch", False)):
            pods = {"namespace": namespace, "resource": "pods", "verb": "get"}
            assert may(TENANT, resourceAttributes=pods) is expected


@contextmanager
def _demo() -> Iterator[tuple[str, list[psutil.Process]]]:
    """What it said, and the programs that it started; afterwards Ctrl-C, and nothing is left."""
    command = [sys.executable, "-m", "tools.demo"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stdout is not None
            said = "".join(iter(demo.stdout.readline, f"{LATER}\n"))
            for page in re.findall(r"(http://\S+)  ", said):
                assert _page(page)  # what is said first is there already
            said += "".join(iter(demo.stdout.readline, f"{LAST}\n"))
            children = psutil.Process(demo.pid).children(recursive=True)
            yield said, children
        finally:
            demo.send_signal(signal.SIGINT)
            status = demo.wait(60)
    assert status == 0
    assert not [child for child in children if child.is_running()]


def _page(address: str) -> str:
    """A page, as a browser asks for it that was given a user and a password in its address."""
    user, _, host = address.removeprefix("http://").rpartition("@")
    headers = {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"} if user else {}
    request = Request(f"http://{host}", headers=headers)

    def ask() -> str | None:
        try:
            with urlopen(request, timeout=60) as answer:  # noqa: S310
                text: str = answer.read().decode()
                return text
        except HTTPError as error:
            if error.code == HTTPStatus.SERVICE_UNAVAILABLE:  # of its first second
                return None
            raise

    return eventually(ask, f"{host} answers")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.program("prometheus")
def test_all_that_it_says_is_there_and_it_ends_as_a_whole() -> None:
    with _demo() as (said, children):
        ((alerts, prometheus),) = re.findall(r"((http://localhost:\d+)\S*/alerts)  ", said)

        def ask(expression: str) -> list[dict[str, Any]]:
            url = f"{prometheus}/api/v1/query?{urlencode({'query': expression})}"
            with urlopen(url, timeout=60) as answer:  # noqa: S310 - loopback
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return found

        pages = re.findall(r"(http://\S+)  (\S+): ", said)
        for page, name in pages:
            assert f"<title>{name} " in _page(page)
        assert {name for _, name in pages} == NODES.keys() - {GUARDED}
        assert ALERTS[0] in _page(f"{pages[0][0]}/runbooks/{ALERTS[0]}")
        _page(alerts)
        ((operators, tenants),) = re.findall(
            r"(http://\S+)  as an op.*\n.*(http://\S+)  as a", said
        )
        assert "embed-nightly-7f4d" in _page(operators)
        assert WAITING.partition("/")[2] in (page := _page(tenants))
        assert "embed-nightly-7f4d" not in page
        with pytest.raises(HTTPError, match="401"):
            _page(tenants.replace(f"me:{TENANT}", "me:x"))
        assert len(children) == len(NODES) + 1

        eventually(lambda: len(ask("up == 1")) == len(NODES), "all nodes are scraped")
        (history,) = ask(HISTORY)
        assert int(history["value"][1]) >= len(NODES)
        eventually(lambda: ask(RULE), "a rule has a value", 120)
        lost = 'mgpu_device_unmeasured{reason="gpu_lost"} == 1'
        eventually(lambda: ask(lost), "the card is lost", 120)
        eventually(
            lambda: {one["metric"]["alertname"] for one in ask(FIRING)} >= set(ALERTS),
            "the alerts fire",
            400,
        )
        found = re.findall(r"^  (\.venv\S+ .+)  # (.+)$", said, re.MULTILINE)
        assert {comment for _, comment in found} == SHOWN.keys()
        for command, comment in found:
            words = shlex.split(command.replace(".venv/bin/mgpu-exporter", "-m exporter"))
            done = subprocess.run(
                [sys.executable, *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            status, answers = SHOWN[comment]
            assert done.returncode == status, (command, done.stderr)
            for answer in answers:
                assert answer in done.stdout, (command, answer, done.stdout)
        for command, copied in COPIED.items():
            for columns in (60, 80, 120, 200):
                words = f"{command} --prometheus={prometheus}".split()
                with terminal(*words, columns=columns, rows=500) as screen:
                    shown = screen.lines()
                assert max(map(len, shown)) <= columns, (words, columns, shown)
                for name in copied:
                    assert any(name in line for line in shown), (words, columns, name, shown)
