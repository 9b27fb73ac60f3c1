"""While there is no release, no document or message promises what needs one."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter import __version__
from tests.chart.rendering import CHART, Rendered, helm

ROOT = Path(__file__).parent.parent
PAGES = [
    *ROOT.glob("*.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "charts").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.y*ml")),
]
PROGRAM = [
    *sorted((ROOT / "exporter").rglob("*.py")),
    *sorted((ROOT / "exporter").rglob("*.js")),
    *sorted((ROOT / "exporter").rglob("*.html")),
    *sorted((ROOT / "charts" / "mgpu-exporter" / "templates").rglob("*")),
    *sorted((ROOT / "tools" / "image").glob("*.py")),
]
BY_NAME = re.compile(
    r"mgpu[-_]exporter\[|pkg:pypi/mgpu|"
    r"\b(pip3?|pipx|uvx|uv (pip|tool|add)|poetry add)( (install|run|upgrade))?( --?\S+)* "
    r"['\"]?mgpu[-_]exporter(?![-_.\w]*\.(whl|tar))"
)
INSTALLED = re.compile(
    r"^\$ helm install mgpu-exporter charts.*?(?<!\\)$", re.MULTILINE | re.DOTALL
)
LABEL = "kubectl label namespace mgpu-exporter pod-security.kubernetes.io/enforce=privileged"


def released() -> bool:
    return f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


pytestmark = pytest.mark.skipif(released(), reason="there is a release: its words are others")


def _installs() -> Iterator[tuple[str, str, str]]:
    """Name of a page, the text before an install command by Helm, and the command."""
    for page in PAGES:
        text = page.read_text()
        for found in INSTALLED.finditer(text):
            yield str(page.relative_to(ROOT)), text[: found.start()], found[0].removeprefix("$ ")


INSTALLS = list(_installs())
NAMES = [page for page, _, _ in INSTALLS]


def test_nothing_says_to_install_the_exporter_by_name() -> None:
    """Whoever takes the name on the package index would be what people install."""
    texts = {path: path.read_text() for path in (*PAGES, *PROGRAM) if path.is_file()}
    assert len(texts) > 400
    assert [(path, found[0]) for path in texts for found in BY_NAME.finditer(texts[path])] == []


@pytest.mark.parametrize("name", ["README.md", "docs/installation.md"])
def test_the_first_pages_say_that_there_is_no_release_and_how_to_build(name: str) -> None:
    before, said, after = (ROOT / name).read_text().partition("There is no release yet")
    assert said
    assert "helm install" not in before
    assert (
        after.index("docker build --tag=")
        < after.index("docker push ")
        < after.index("helm install")
    )


@pytest.mark.parametrize(("page", "before", "_"), INSTALLS, ids=NAMES)
def test_the_namespace_is_labelled_before_the_chart_is_installed(
    page: str, before: str, _: str
) -> None:
    assert page
    block = before.rpartition("```console\n")[2]
    assert "kubectl create namespace mgpu-exporter\n" in block
    assert LABEL in block


@pytest.mark.program("helm")
@pytest.mark.parametrize(("page", "_", "command"), INSTALLS, ids=NAMES)
def test_the_chart_pulls_the_image_that_the_page_builds(page: str, _: str, command: str) -> None:
    words = shlex.split(command.replace("\\\n", " "))
    values = words[words.index("charts/mgpu-exporter") + 1 :]
    rendered = Rendered(helm("template", "mgpu-exporter", str(CHART), *values))
    image = rendered.container["image"]
    built = f"registry.example/mgpu-exporter/mgpu-exporter:{__version__}"
    assert image == built
    first = ROOT / ("README.md" if page == "README.md" else "docs/installation.md")
    assert f"docker build --tag={built} .\n" in first.read_text()
    assert f"docker push {built}\n" in first.read_text()


def test_the_archive_for_a_node_has_the_name_that_the_chart_looks_for() -> None:
    from tools.image.build import ARCHIVE, NAME  # noqa: PLC0415 - for this test only

    page = (ROOT / "docs/installation.md").read_text()
    assert f"images import {ARCHIVE.relative_to(ROOT)}\n" in page
    assert NAME in (ROOT / "deploy/mgpu-exporter.yaml").read_text()
