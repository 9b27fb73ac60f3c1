import re
import subprocess
from pathlib import Path

import pytest

from exporter.agent.allocations.registry import SCHEMES
from exporter.agent.settings import TABLE
from exporter.metrics.families import FAMILIES

DOCS = Path(__file__).parent.parent / "docs"
PAGES = (*DOCS.parent.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("runbooks/*.md"))
RESULTS = Path("benchmarks", "cost", "results.md")


@pytest.mark.parametrize("size", ["1 x 4 x 10", "8 x 64 x 110", "16 x 128 x 250"])
def test_the_page_on_performance_has_the_figures_of_the_benchmark(size: str) -> None:
    gpus, processes, pods = size.split(" x ")
    page = (DOCS / "performance.md").read_text()
    row = re.search(rf"\| {gpus} GPUs?, {processes} processes on \w+, {pods} pods \|(.*)\|\n", page)
    table = (DOCS.parent / RESULTS).read_text().partition(f"### {size}\n")[2]
    names = (
        "CPU a cycle (of a second), ms",
        "CPU a scrape, identity, ms",
        "RSS at rest, MiB",
        "series",
    )

    measured = [table.partition(f"| {name} | ")[2].partition(" |")[0] for name in names]

    assert row is not None
    assert [cell.split()[0] for cell in row[1].split("|")] == measured


def test_every_sharing_system_is_described_and_names_its_sources() -> None:
    page = (DOCS / "sharing.md").read_text()
    sections = {section.partition("`\n")[0]: section for section in page.split("\n## `")[1:]}

    sources = {
        name: DOCS / path
        for name, text in sections.items()
        for path in re.findall(r"\[Sources\]\((.*?)\)", text)
    }

    assert list(sections) == list(sources) == [scheme.name for scheme in SCHEMES]
    assert not [name for name, path in sources.items() if "\n\nSource" not in path.read_text()]
    assert not [name for name, text in sections.items() if "Unconfirmed:" not in text]


def test_the_pages_name_flags_that_exist() -> None:
    named = {
        (page.name, flag)
        for page in PAGES
        if page.name != "CHANGELOG.md"  # which names those that are gone
        for flag in re.findall(r"(?<![\w-])--([a-z]+\.[a-z.-]*[a-z])", page.read_text())
        if not flag.startswith(("storage.tsdb.", "alertmanager."))  # Prometheus', amtool's
    }

    known = {setting.name for setting in TABLE.values()}

    assert len(named) > 50
    assert not [(page, flag) for page, flag in named if flag not in known]


def queries() -> list[str]:
    names = ("metrics.md", "off-kubernetes.md", "questions.md")
    pages = "".join((DOCS / name).read_text() for name in names)
    blocks = re.findall(r"```promql\n(.*?)```", pages, re.DOTALL)
    return [query.strip() for block in blocks for query in block.split("\n\n")]


def test_the_examples_name_families_that_exist() -> None:
    patterns = set(re.findall(r"mgpu_[\w()|]*\w", " ".join(queries())))
    families = [family.full_name for family in FAMILIES]

    assert len(patterns) > 10
    assert not [p for p in patterns if not any(re.fullmatch(p, name) for name in families)]


@pytest.mark.program("promtool")
def test_the_examples_are_valid_promql(tmp_path: Path) -> None:
    rules = "".join(
        f"  - record: example:number_{number}\n    expr: |\n"
        + "".join(f"      {line}\n" for line in query.splitlines())
        for number, query in enumerate(queries())
    )
    file = tmp_path / "rules.yaml"
    file.write_text(f"groups:\n- name: examples\n  rules:\n{rules}")

    done = subprocess.run(
        ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
