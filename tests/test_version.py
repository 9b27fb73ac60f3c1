"""The version stands in exporter/__init__.py, as pyproject.toml says; all else follows."""

import re
import tomllib
from pathlib import Path

import yaml

from exporter import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHART = yaml.safe_load((ROOT / "charts/mgpu-exporter/Chart.yaml").read_text())
PLACES = re.compile(
    r"mgpu-exporter/mgpu-exporter:([0-9]\S*?)(?=[\s\"'`]|$)"
    r"|mgpu_exporter-([0-9.]+?)-py3"
    r"|refs/tags/v([0-9.]+)"
    r"|app\.kubernetes\.io/version: \"([^\"]+)\""
    r"|^ARG VERSION=(\S+)"
    r"|charts/mgpu-exporter --version ([0-9]\S*)",
    re.MULTILINE,
)
FILES = [
    *("README.md", "Dockerfile"),
    *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").glob("*.md"))),
    *(str(p.relative_to(ROOT)) for p in sorted((ROOT / "deploy").glob("*.yaml"))),
    "charts/mgpu-exporter/Chart.yaml",
]


def named(file: str) -> list[str]:
    """Every version of the exporter that a file names."""
    return ["".join(found) for found in PLACES.findall((ROOT / file).read_text())]


def test_the_project_takes_its_version_from_the_code() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "exporter/__init__.py"}


def test_it_is_a_semantic_version() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?", __version__)


def test_the_chart_its_image_and_the_exporter_have_one_version() -> None:
    images = yaml.safe_load(CHART["annotations"]["artifacthub.io/images"])
    assert CHART["version"] == CHART["appVersion"] == __version__
    assert images[0]["image"] == f"ghcr.io/mgpu-exporter/mgpu-exporter:{__version__}"
    marked = CHART["annotations"]["artifacthub.io/prerelease"]
    assert marked == str("-" in __version__).lower()


def test_no_file_names_another_version() -> None:
    assert {version for file in FILES for version in named(file)} == {__version__}


def test_pages_say_that_there_is_no_release_just_while_there_is_none() -> None:
    """A release is a title of CHANGELOG.md; releasing.md says when it is written."""
    folders = ("docs", "charts", "examples")
    pages = [*ROOT.glob("*.md"), *(p for name in folders for p in (ROOT / name).rglob("*.md"))]
    saying = [str(p.relative_to(ROOT)) for p in pages if "There is no release" in p.read_text()]
    released = f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()
    assert saying == [] if released else len(saying) > 1


def test_the_places_are_found() -> None:
    found = {file: named(file) for file in FILES}
    assert all(found[file] for file in ("README.md", "Dockerfile", "deploy/mgpu-exporter.yaml"))
    assert sum(map(len, found.values())) > 10
