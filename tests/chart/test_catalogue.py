"""What Artifact Hub reads of the chart."""

import tarfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.chart.rendering import CHART, ROOT, helm, render
from tests.chart.test_alert_values import SOURCES

# artifacthub.io/docs/topics/annotations/helm: those that it knows, of which the chart has some
KNOWN = {
    *("alternativeName", "category", "changes", "containsSecurityUpdates", "crds", "crdsExamples"),
    *("images", "license", "links", "maintainers", "operator", "operatorCapabilities"),
    *("prerelease", "recommendations", "screenshots", "signKey"),
}
CATEGORIES = {
    *("ai-machine-learning", "database", "integration-delivery", "monitoring-logging"),
    *("networking", "security", "storage", "streaming-messaging", "skip-prediction"),
}
META = yaml.safe_load((CHART / "Chart.yaml").read_text())
NOTES = {key.removeprefix("artifacthub.io/"): text for key, text in META["annotations"].items()}


def test_every_annotation_is_one_that_the_catalogue_knows() -> None:
    assert NOTES.keys() <= KNOWN
    assert all(isinstance(text, str) for text in NOTES.values())
    assert NOTES["category"] in CATEGORIES
    assert NOTES["prerelease"] in {"true", "false"}


@pytest.mark.program("helm")
def test_its_images_are_those_that_the_chart_can_run() -> None:
    listed = {one["image"] for one in yaml.safe_load(NOTES["images"])}
    rendered = render(kubeRBACProxy={"enabled": True})
    assert listed == {container["image"] for container in rendered.pod["containers"]}


def test_its_links_are_pages_of_the_repository() -> None:
    base = "https://github.com/mgpu-exporter/mgpu-exporter/"
    for link in yaml.safe_load(NOTES["links"]):
        path = link["url"].removeprefix(base)
        assert path == "issues" or (ROOT / path.removeprefix("blob/main/")).is_file()


def test_its_icon_is_a_picture_in_the_chart() -> None:
    base = "https://raw.githubusercontent.com/mgpu-exporter/mgpu-exporter/main/"
    picture = ET.parse(ROOT / META["icon"].removeprefix(base)).getroot()  # noqa: S314 - ours
    assert picture.tag.endswith("}svg")


def test_the_repositorys_file_is_one() -> None:
    found = yaml.safe_load((ROOT / "charts" / "artifacthub-repo.yml").read_text())
    assert found.keys() <= {"repositoryID", "owners", "ignore"}


@pytest.mark.program("helm")
def test_a_packaged_chart_has_rules_dashboards_and_presets_and_renders(tmp_path: Path) -> None:
    helm("package", str(CHART), f"--destination={tmp_path}")
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as tar:
        inside = {name.removeprefix("mgpu-exporter/") for name in tar.getnames()}
    expected = {
        *("Chart.yaml", "README.md", "icon.svg", "values.schema.json", "files/alerts.json"),
        *(f"files/dashboards/{path.name}" for path in (ROOT / "dashboards").glob("*.json")),
        *(f"files/rules/{path.name}" for path in (ROOT / "rules").glob("*.yaml")),
        f"files/rules/exported/{SOURCES[1].name}",
        "presets/gke.yaml",
    }
    assert expected <= inside
    switched = ("--set=prometheusRule.enabled=true", "--set=dashboards.enabled=true")
    text = helm("template", "packed", str(archive), *switched)
    assert "kind: PrometheusRule" in text
    assert text.count("grafana_dashboard") == len(list((ROOT / "dashboards").glob("*.json")))
