"""The example configuration on a real Alertmanager: who is told of what, and what is kept quiet."""

import json
import re
import shlex
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.alertmanager.receivers import DISCORD, PAGER, Inbox, mail_of, receivers
from tests.e2e.programs import PATIENCE_S, Exporter, Prometheus, eventually

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "alertmanager"
RULES = ROOT / "rules"
LOST = ROOT / "tests" / "dashboards" / "node.yaml"
RUNBOOK = "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/docs/runbooks"

pytestmark = pytest.mark.program("prometheus-alertmanager", "amtool")


class Told(NamedTuple):
    """An Alertmanager and what it sent."""

    address: str
    inbox: Inbox

    def send(self, name: str, **labels: str) -> None:
        """Raise an alert."""
        self._post(name, labels, {})

    def end(self, name: str, **labels: str) -> None:
        """Tell that an alert is over."""
        self._post(name, labels, {"endsAt": "2020-01-01T00:00:00Z"})

    def _post(self, name: str, labels: dict[str, str], more: dict[str, str]) -> None:
        alert = {
            "labels": {"alertname": name, "severity": SEVERITY[name], **labels},
            "annotations": {
                "summary": f"{name} is what it is.",
                "description": f"{name} of {labels}.",
                "runbook_url": f"{RUNBOOK}/{name}.md",
            },
            **more,
        }
        request = urllib.request.Request(
            f"http://{self.address}/api/v2/alerts",
            data=json.dumps([alert]).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30):  # noqa: S310 - loopback
            pass

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that it knows."""
        with urllib.request.urlopen(f"http://{self.address}/api/v2/alerts", timeout=30) as answer:
            return list(json.load(answer))

    def state(self, name: str, **labels: str) -> str | None:
        """Whether an alert is active or suppressed; None: it is neither yet."""
        for alert in self.alerts():
            if {"alertname": name, **labels}.items() <= alert["labels"].items():
                state = str(alert["status"]["state"])
                return None if state == "unprocessed" else state
        return None

    def when(
        self, true: Callable[[Inbox], object], what: str, patience_s: float = PATIENCE_S
    ) -> None:
        """Wait for something to be told."""
        eventually(lambda: true(self.inbox) or self.inbox.refused, what, patience_s)
        assert self.inbox.refused == []


def _severities() -> dict[str, str]:
    groups = yaml.safe_load((RULES / "mgpu-alerts.yaml").read_text())["groups"]
    return {rule["alert"]: rule["labels"]["severity"] for g in groups for rule in g["rules"]}


SEVERITY = _severities()


def _config(folder: Path, web: str, mail: str) -> Path:
    """The example, with the receivers here in place of its addresses, and without its waiting."""
    text = (EXAMPLE / "alertmanager.yml").read_text()
    for example, here in (
        ("https://discord.com/api/webhooks/ID/TOKEN", f"http://{web}{DISCORD}"),
        ("https://pager.example.com/alertmanager", f"http://{web}{PAGER}"),
        ("smtp.example.com:587", mail),
        ("smtp_require_tls: true", "smtp_require_tls: false"),
        ("group_wait: 30s", "group_wait: 1s"),
        ("group_interval: 5m", "group_interval: 1s"),
    ):
        assert example in text
        text = text.replace(example, here)
    shutil.copy(EXAMPLE / "mgpu.tmpl", folder)
    config = folder / "alertmanager.yml"
    config.write_text(text)
    return config


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with receivers() as (inbox, web, mail):
        process = subprocess.Popen(
            [
                "prometheus-alertmanager",
                f"--config.file={_config(tmp_path, web, mail)}",
                f"--storage.path={tmp_path / 'data'}",
                f"--web.listen-address={address}",
                "--cluster.listen-address=",
                "--log.level=warn",
            ],
        )
        try:
            found = Told(address, inbox)
            eventually(lambda: _answers(found), "Alertmanager answers")
            yield found
        finally:
            process.terminate()
            process.wait(60)


def _answers(told: Told) -> bool:
    try:
        return told.alerts() == []
    except OSError:
        return False


def test_what_the_runbook_tells_to_type_silences_and_ends_it(told: Told) -> None:
    labels = {"instance": "gpu-node-1", "uuid": "GPU-a", "namespace": "n"}
    values = {f"${'NODE' if k == 'instance' else k.upper()}": v for k, v in labels.items()}
    values |= {"$ALERT": "MgpuGpuLost", "http://localhost:9093": f"http://{told.address}"}
    text = (ROOT / "docs" / "runbooks" / "silence.md").read_text()
    commands = re.findall(r"-- (amtool silence .*)", text)
    adds = [command for command in commands if " add " in command]
    (query,) = (command for command in commands if " query " in command)
    (expire,) = (command for command in commands if " expire " in command)

    def typed(command: str, **more: str) -> str:
        for name, value in {**values, **more}.items():
            command = command.replace(name, value)
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    told.send("MgpuGpuLost", **labels)
    assert len(adds) == 3
    for add in adds:
        made = typed(add).strip()
        eventually(lambda: told.state("MgpuGpuLost") == "suppressed", f"{add}: it is silenced")
        assert made in typed(f"{query} -o extended")
        typed(expire, **{"$ID": made})
        eventually(lambda: told.state("MgpuGpuLost") == "active", f"{add}: it is heard again")


def test_amtool_has_nothing_against_the_example() -> None:
    done = subprocess.run(
        ["amtool", "check-config", str(EXAMPLE / "alertmanager.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


RECEIVERS = {"critical": "gpu-on-call", "warning": "gpu-team", "info": "gpu-owners"}
OF_OWNERS = {"MgpuContainerStarved": "gpu-owners"}  # the victim's


@pytest.mark.parametrize(
    ("name", "receiver"),
    [
        (name, OF_OWNERS.get(name, RECEIVERS[severity]))
        for name, severity in sorted(SEVERITY.items())
    ],
)
def test_each_alert_has_its_receiver(name: str, receiver: str) -> None:
    done = subprocess.run(
        [
            "amtool",
            "config",
            "routes",
            "test",
            f"--config.file={EXAMPLE / 'alertmanager.yml'}",
            f"alertname={name}",
            f"severity={SEVERITY[name]}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == receiver


@pytest.mark.slow
def test_what_is_critical_goes_to_discord_pager_and_mail(told: Told) -> None:
    told.send("MgpuGpuLost", instance="gpu-node-1", uuid="GPU-a")
    told.when(lambda inbox: inbox.discord and inbox.pager and inbox.mail, "all three are told")

    (embed,) = told.inbox.discord[0]["embeds"]
    assert embed["title"] == "[FIRING: 1] MgpuGpuLost on gpu-node-1"
    assert embed["description"].startswith("MgpuGpuLost is what it is.")
    assert f"{RUNBOOK}/MgpuGpuLost.md" in embed["description"]
    assert told.inbox.pager[0]["commonLabels"]["uuid"] == "GPU-a"
    ((recipient, subject, text),) = mail_of(told.inbox)
    assert recipient == "gpu-team@example.com"
    assert subject == embed["title"]
    assert f"{RUNBOOK}/MgpuGpuLost.md" in text


@pytest.mark.slow
def test_a_warning_goes_to_discord_and_an_info_by_mail_only(told: Told) -> None:
    told.send("MgpuGpuThrottled", instance="gpu-node-1", uuid="GPU-a")
    told.send("MgpuAllocatedGpuIdle", instance="gpu-node-1", namespace="research", pod="p")
    told.when(lambda inbox: inbox.discord and inbox.mail, "both are told")

    assert told.inbox.discord_titles() == ["[FIRING: 1] MgpuGpuThrottled on gpu-node-1"]
    assert [subject for _, subject, _ in mail_of(told.inbox)] == [
        "[FIRING: 1] MgpuAllocatedGpuIdle in research"
    ]
    assert told.inbox.pager == []


@pytest.mark.slow
def test_a_victims_namespace_is_told_and_the_gpu_team_of_the_culprit(told: Told) -> None:
    here = {"instance": "gpu-node-1", "uuid": "GPU-a"}
    told.send("MgpuContainerStarved", **here, namespace="inference", pod="chat-0")
    told.send("MgpuContainerCrowdsOutNeighbour", **here, namespace="batch", pod="crawl-0")
    told.when(lambda inbox: inbox.discord and inbox.mail, "both are told")

    crowds = "[FIRING: 1] MgpuContainerCrowdsOutNeighbour on gpu-node-1"
    assert told.inbox.discord_titles() == [crowds]
    assert [subject for _, subject, _ in mail_of(told.inbox)] == [
        "[FIRING: 1] MgpuContainerStarved in inference"
    ]


@pytest.mark.slow
def test_the_end_of_an_alert_is_told(told: Told) -> None:
    told.send("MgpuGpuThrottled", instance="gpu-node-1", uuid="GPU-a")
    told.when(lambda inbox: inbox.discord, "it is told")
    told.end("MgpuGpuThrottled", instance="gpu-node-1", uuid="GPU-a")
    told.when(lambda inbox: len(inbox.discord) > 1, "its end is told")
    assert told.inbox.discord_titles()[-1] == "[RESOLVED] MgpuGpuThrottled on gpu-node-1"


@pytest.mark.slow
def test_many_alerts_of_a_node_are_one_message_that_discord_takes(told: Told) -> None:
    for number in range(120):
        told.send("MgpuPlacementMismatch", instance="gpu-node-1", pod=f"{number}" * 80)
    told.when(lambda inbox: any("120" in title for title in inbox.discord_titles()), "all are told")


@pytest.mark.slow
def test_an_exporter_that_is_down_keeps_its_node_quiet_and_no_other(told: Told) -> None:
    told.send("MgpuExporterDown", instance="gpu-node-1")
    eventually(lambda: told.state("MgpuExporterDown") == "active", "it is down")
    told.send("MgpuGpuThrottled", instance="gpu-node-1", uuid="GPU-a")
    told.send("MgpuGpuThrottled", instance="gpu-node-2", uuid="GPU-b")
    told.when(lambda inbox: len(inbox.discord) > 1, "two are told")

    assert sorted(told.inbox.discord_titles()) == [
        "[FIRING: 1] MgpuExporterDown on gpu-node-1",
        "[FIRING: 1] MgpuGpuThrottled on gpu-node-2",
    ]
    assert told.state("MgpuGpuThrottled", instance="gpu-node-1") == "suppressed"


@pytest.mark.parametrize(
    ("cause", "effect", "same"),
    [
        ("MgpuExporterDown", "MgpuGpuLost", {}),
        ("MgpuExporterStuck", "MgpuPodNearMemoryLimit", {}),
        ("MgpuGpuLost", "MgpuXidHardware", {"uuid": "GPU-a"}),
        ("MgpuGpuLost", "MgpuPlacementMismatch", {"uuid": "GPU-a"}),
        ("MgpuExporterBlind", "MgpuContainerUnmeasured", {}),
        (
            "MgpuContainerCrowdsOutNeighbour",
            "MgpuContainerOverCoreShare",
            {"uuid": "GPU-a", "namespace": "n", "pod": "p", "container": "c"},
        ),
    ],
)
def test_an_effect_is_kept_quiet_where_its_cause_is(
    told: Told, cause: str, effect: str, same: dict[str, str]
) -> None:
    here = {"instance": "gpu-node-1", **same}
    elsewhere = dict.fromkeys(same, "other") or {"instance": "gpu-node-2"}
    told.send(cause, **here)
    eventually(lambda: told.state(cause) == "active", "the cause is known")
    told.send(effect, **here)
    told.send(effect, **{**here, **elsewhere})

    eventually(lambda: told.state(effect, **elsewhere) == "active", "elsewhere it is told")
    eventually(lambda: told.state(effect, **here) == "suppressed", "here it is not")


def test_every_alert_that_an_inhibition_names_is_one() -> None:
    rules = yaml.safe_load((EXAMPLE / "alertmanager.yml").read_text())["inhibit_rules"]
    patterns = [
        pattern
        for rule in rules
        for matcher in (*rule["source_matchers"], *rule["target_matchers"])
        for pattern in re.findall(r"Mgpu[\w.+]+", matcher)
    ]
    assert patterns
    for pattern in patterns:
        assert any(re.fullmatch(pattern, name) for name in SEVERITY), pattern


@pytest.mark.slow
@pytest.mark.program("prometheus")
def test_a_lost_gpu_reaches_discord_from_a_scraped_node(told: Told, tmp_path: Path) -> None:
    folder = tmp_path / "prometheus"
    folder.mkdir()
    more = (
        "rule_files:\n"
        f"  - {RULES / 'mgpu-recording.yaml'}\n  - {RULES / 'mgpu-alerts.yaml'}\n"
        f"alerting: {{alertmanagers: [{{static_configs: [{{targets: ['{told.address}']}}]}}]}}\n"
    )
    with (
        Exporter(f"--simulate={LOST}") as exporter,
        Prometheus(exporter.ready().url, folder, "1s, evaluation_interval: 1s", job=more),
    ):
        told.when(
            lambda inbox: any("MgpuGpuLost" in title for title in inbox.discord_titles()),
            "Discord is told of the lost GPU",
            patience_s=180,  # it has to be lost for a minute
        )
    told_of = [embed for message in told.inbox.discord for embed in message["embeds"]]
    (embed,) = [embed for embed in told_of if "MgpuGpuLost" in embed["title"]][:1]
    assert "XID 79" in embed["description"]
    assert "fallen off the bus. To do: restart the node." in embed["description"]
