"""Writes the pages of docs/ that are made from the code, drawn pictures and api.schema.json.

``python docs/generate.py`` writes them; with ``--check`` it fails where they differ from the code.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pages.architecture_picture import architecture
from pages.atlas import ATLAS, boards
from pages.bounds import bounds
from pages.compatibility import compatibility
from pages.configuration import configuration
from pages.costs import with_costs
from pages.dcgm import dcgm
from pages.drawing import SCHEMES
from pages.field import FOLDER as REPORTS
from pages.field import field
from pages.forging import security
from pages.glossary import glossary
from pages.groups import off_kubernetes
from pages.metrics import metrics
from pages.performance_picture import performance
from pages.scenarios import keys, scenarios
from pages.sharing import sharing

import exporter
from exporter.agent import api

FOLDER = Path(__file__).parent
OFF = "off-kubernetes.md"
POLICY = FOLDER.parent / "SECURITY.md"
RESULTS = FOLDER.parent / "benchmarks" / "cost" / "results.md"
KEYS = str(Path(exporter.__file__).parent / "agent" / "simulation" / "README.md")
WORDS = str(Path(exporter.__file__).parent / "agent" / "web" / "page" / "glossary.json")


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; 1 if one differs."""
    drifted = []
    for name, text in (
        *pictures(),
        ("metrics.md", metrics()),
        ("configuration.md", configuration()),
        ("compatibility.md", compatibility()),
        ("dcgm.md", dcgm()),
        (str(REPORTS / "README.md"), field()),
        ("scenarios.md", scenarios()),
        (KEYS, keys()),
        ("api.schema.json", json.dumps(api.schema(), indent=1) + "\n"),
        ("sharing.md", sharing()),
        (str(ATLAS / "README.md"), boards()),
        ("security.md", security((folder / "security.md").read_text(encoding="utf-8"))),
        (str(POLICY), bounds(POLICY.read_text(encoding="utf-8"))),
        (OFF, off_kubernetes((folder / OFF).read_text(encoding="utf-8"))),
        *costs(folder),
        (WORDS, glossary((FOLDER / "glossary.md").read_text(encoding="utf-8"))),
    ):
        path = folder / name
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(path.name)
    if drifted:
        print(f"{', '.join(drifted)}: not as in the code; run python docs/generate.py")
    return 1 if drifted else 0


def costs(folder: Path) -> list[tuple[str, str]]:
    """Return the pages that name what the exporter costs."""
    results = RESULTS.read_text(encoding="utf-8")
    return [
        (name, with_costs((folder / name).read_text(encoding="utf-8"), results))
        for name in ("performance.md", "faq.md", "comparison.md", "../README.md")
    ]


def pictures() -> list[tuple[str, str]]:
    """Return the drawn pictures in each colour scheme: path and SVG."""
    page = RESULTS.read_text(encoding="utf-8")
    return [
        (f"pictures/{name}-{scheme}.svg", picture)
        for scheme in SCHEMES
        for name, picture in (
            ("architecture", architecture(scheme)),
            ("performance", performance(scheme, page)),
        )
    ]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
