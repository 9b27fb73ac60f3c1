"""The collector's configuration and the page that explains it have the same, existing names."""

import re
from pathlib import Path

import yaml

from exporter.metrics.families import FAMILIES

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "examples/opentelemetry/collector.yaml"
RENAMED = re.compile(
    r'set\(metric\.name, "([^"]+)"\) where (?:metric\.name == |IsMatch\(metric\.name, )"([^"]+)"'
)
THEIRS = re.compile(r"`((?:hw|container\.gpu)\.[a-z.]+)`")


def renamed() -> dict[str, set[str]]:
    """Our families by the name that they get."""
    ours = {f"mgpu_{family.level}_{family.name}" for family in FAMILIES}
    found: dict[str, set[str]] = {}
    for name, pattern in RENAMED.findall(CONFIGURATION.read_text()):
        matching = {family for family in ours if re.search(f"^{pattern.strip('^$')}$", family)}
        assert matching, pattern
        found.setdefault(name, set()).update(matching)
    return found


def test_the_page_has_the_mapping_of_the_configuration() -> None:
    rows = [
        line.split("|")[1:3]
        for line in (ROOT / "docs/opentelemetry.md").read_text().splitlines()
        if line.startswith("| `mgpu_")
    ]
    page: dict[str, set[str]] = {}
    for here, there in rows:
        names = re.findall(r"`([^`]+)`", here)
        level = names[0].removeprefix("mgpu_").partition("_")[0]
        (their,) = THEIRS.findall(there)
        page[their] = {name.replace("…", f"mgpu_{level}") for name in names}
    assert page == renamed()


def test_every_metric_that_is_sent_on_is_renamed_and_the_pipeline_is_whole() -> None:
    given = yaml.safe_load(CONFIGURATION.read_text())
    pipeline = given["service"]["pipelines"]["metrics"]
    assert pipeline["processors"] == list(given["processors"])
    (dropped,) = given["processors"]["filter/mgpu"]["metrics"]["metric"]
    pattern = re.search(r'"(.+)"', dropped)
    assert pattern
    assert all(re.search(pattern[1], name) for name in renamed())
