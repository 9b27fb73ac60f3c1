"""The example for Docker Compose: its files fit together, and give no right away unasked."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from exporter.agent.settings.table import BY_NAME
from exporter.agent.simulation.load_scenario import shipped

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples/compose"


class _Loader(yaml.SafeLoader):
    """Reads Compose's own tags as what they stand on."""


_Loader.add_constructor("!reset", lambda *_: None)


def read(name: str) -> Any:
    return yaml.load((FOLDER / name).read_text(), _Loader)  # noqa: S506 - a safe loader


def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = read("compose.yaml")["services"]
    return found


def test_the_exporter_sees_the_machines_processes_and_may_change_nothing() -> None:
    exporter = services()["exporter"]
    assert exporter["pid"] == "host"
    assert exporter["read_only"]
    assert exporter["cap_drop"] == ["ALL"]
    assert "privileged" not in exporter
    assert all(volume.endswith(":ro") for volume in exporter["volumes"])
    assert not [volume for volume in exporter["volumes"] if "docker.sock" in volume]


@pytest.mark.parametrize("name", ["compose.yaml", "simulate.yaml"])
def test_the_exporters_flags_are_settings(name: str) -> None:
    command, *flags = read(name)["services"]["exporter"]["command"]
    assert command == "serve"
    for flag in flags:
        setting, _, value = flag.removeprefix("--").partition("=")
        assert BY_NAME[setting].kind.read(value)
        assert setting != "simulate" or value in shipped()


def test_every_path_that_is_mounted_from_here_exists() -> None:
    volumes = [v for service in services().values() for v in service["volumes"]]
    own = [volume.partition(":")[0] for volume in volumes if volume.startswith(".")]
    assert len(own) == 3
    assert all((FOLDER / path).exists() for path in own)


def test_only_this_machine_reaches_prometheus_and_grafana() -> None:
    ports = [port for service in services().values() for port in service.get("ports", ())]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_grafana_is_given_prometheus_and_the_dashboards() -> None:
    source = read("grafana/provisioning/datasources/prometheus.yaml")["datasources"][0]
    host, _, port = source["url"].removeprefix("http://").partition(":")
    assert host in services()
    assert services()[host]["ports"][0].endswith(f":{port}")
    provider = read("grafana/provisioning/dashboards/mgpu.yaml")["providers"][0]
    grafana = services()["grafana"]
    assert f"../../dashboards:{provider['options']['path']}:ro" in grafana["volumes"]
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    board = ROOT / "dashboards" / home.rpartition("/")[2]
    assert json.loads(board.read_text())["uid"] == "mgpu-groups"


@pytest.mark.program("promtool")
def test_prometheus_scrapes_the_exporter() -> None:
    command = ["promtool", "check", "config", "--syntax-only", str(FOLDER / "prometheus.yml")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    (job,) = read("prometheus.yml")["scrape_configs"]
    assert job["honor_labels"]
    (target,) = job["static_configs"][0]["targets"]
    assert target == f"exporter{BY_NAME['web.listen-address'].default}"
