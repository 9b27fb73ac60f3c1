"""What Artifact Hub reads of the chart."""

import re
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.chart.rendering import CHART, ROOT, helm, render

META = yaml.safe_load((CHART / "Chart.yaml").read_text())
NOTES = {key.removeprefix("artifacthub.io/"): text for key, text in META["annotations"].items()}


@pytest.mark.program("helm")
def test_its_images_are_those_that_the_chart_can_run() -> None:
    listed = {one["image"] for one in yaml.safe_load(NOTES["images"])}
    rendered = render(kubeRBACProxy={"enabled": True})
    assert listed == {container["image"] for container in rendered.pod["containers"]}


def test_its_links_are_pages_of_the_repository() -> None:
    """Those of its README too: it is read where the repository is not."""
    base = "https://github.com/mgpu-exporter/mgpu-exporter/"
    written = re.findall(r"\]\(([^)#]+)", (CHART / "README.md").read_text())
    for link in [*written, *(one["url"] for one in yaml.safe_load(NOTES["links"]))]:
        path = link.removeprefix(base)
        assert path == "issues" or (ROOT / path.removeprefix("blob/main/")).is_file()
        assert link != path


@pytest.mark.program("helm")
def test_a_packaged_chart_has_rules_dashboards_and_presets_and_renders(tmp_path: Path) -> None:
    helm("package", str(CHART), f"--destination={tmp_path}")
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as tar:
        inside = {name.removeprefix("mgpu-exporter/") for name in tar.getnames()}
    expected = {
        *("Chart.yaml", "README.md", "icon.svg", "values.schema.json", "files/alerts.json"),
        "presets/gke.yaml",
    }
    linked = {
        f"files/{path.relative_to(ROOT)}"
        for folder, pattern in (("dashboards", "*.json"), ("rules", "**/*.yaml"))
        for path in (ROOT / folder).glob(pattern)
    }
    assert expected <= inside
    assert {path for path in inside if path.startswith(("files/rules/", "files/dash"))} == linked
    switched = ("--set=prometheusRule.enabled=true", "--set=dashboards.enabled=true")
    text = helm("template", "packed", str(archive), *switched)
    assert "kind: PrometheusRule" in text
    assert text.count("grafana_dashboard") == len(list((ROOT / "dashboards").glob("*.json")))
