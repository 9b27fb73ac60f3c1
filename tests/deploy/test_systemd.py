"""The unit file: what systemd itself says of it, and what must never be set in it."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from exporter.agent.settings import TABLE

UNIT = Path(__file__).parents[2] / "deploy/systemd/mgpu-exporter.service"
WOULD_BLIND = {
    *("PrivateDevices", "ProtectClock", "DevicePolicy", "DeviceAllow", "PrivateUsers"),
    *("ProcSubset", "ProtectProc", "MemoryDenyWriteExecute", "PrivateNetwork"),
}


def keys() -> dict[str, list[str]]:
    """The values of each key of the section Service."""
    found: dict[str, list[str]] = defaultdict(list)
    section = ""
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def test_it_has_no_right_beyond_its_users() -> None:
    service = keys()
    assert service["DynamicUser"] == ["yes"]
    assert service["CapabilityBoundingSet"] == service["AmbientCapabilities"] == [""]
    assert service["NoNewPrivileges"] == ["yes"]
    assert service["ProtectSystem"] == ["strict"]
    assert service["SystemCallFilter"][0] == "@system-service"


def test_nothing_is_set_that_hides_devices_or_processes_from_it() -> None:
    assert not WOULD_BLIND & keys().keys()
    named = UNIT.read_text().partition("# Not set")[2].partition("\n\n")[0]
    assert all(key in named for key in WOULD_BLIND - {"PrivateNetwork"})


def test_the_settings_in_it_are_settings() -> None:
    variables = {setting.variable for setting in TABLE.values()}
    assert {value.partition("=")[0] for value in keys()["Environment"]} <= variables
    assert "MGPU_CONFIG_FILE" in variables


@pytest.mark.parametrize("settings", [["default/mgpu-exporter"], []], ids=["settings", "none"])
def test_what_removes_it_leaves_no_file_of_it(tmp_path: Path, settings: list[str]) -> None:
    """The settings' file need not be there; a drop-in is in a folder beside the unit."""
    places = ["systemd/system/mgpu-exporter.service", "systemd/system/mgpu-exporter.service.d/a"]
    for place in (*places, *settings):
        file = tmp_path / "etc" / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    page = (UNIT.parents[2] / "docs/upgrading.md").read_text()
    (line,) = (one for one in page.splitlines() if one.startswith("$ sudo rm "))
    own = line.removeprefix("$ sudo ").replace(" /etc/", f" {tmp_path}/etc/")

    subprocess.run(own.split(), check=True)

    assert [path for path in (tmp_path / "etc").rglob("*") if "mgpu" in path.name] == []


@pytest.mark.program("systemd-analyze")
def test_systemd_finds_nothing_wrong_and_little_exposed(tmp_path: Path) -> None:
    file = tmp_path / UNIT.name
    file.write_text(UNIT.read_text().replace("/usr/local/bin/mgpu-exporter", sys.executable))
    verified = _analyze("verify", str(file))
    assert (verified.stdout + verified.stderr, verified.returncode) == ("", 0)
    secured = _analyze("security", "--offline=true", "--threshold=25", str(file))
    assert secured.returncode == 0, secured.stdout


def _analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["systemd-analyze", "--no-pager", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)
