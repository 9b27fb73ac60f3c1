"""Names that are given as text, such as modules to start, are those of today."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OURS = ("benchmarks", "charts", "dashboards", "docs", "exporter", "tests", "tools")
PLACES = ("*.md", "Makefile", ".ci/run", ".github/**/*.yml", *(f"{folder}/**/*" for folder in OURS))
STARTED = re.compile(rf'-m(?: |", *"|\', *\')((?:{"|".join(OURS)})(?:\.[a-z_]+)*)\b(?!\\)')
TEXTS = frozenset({"", ".md", ".py", ".yaml", ".yml", ".service", ".tpl"})


def started() -> set[tuple[str, str]]:
    """Each module that a file starts with ``python -m``, with the file."""
    files = {path for place in PLACES for path in ROOT.glob(place) if path.suffix in TEXTS}
    return {
        (str(path.relative_to(ROOT)), name)
        for path in files
        if path.is_file() and "_site" not in path.parts and "__pycache__" not in path.parts
        for name in STARTED.findall(path.read_text(encoding="utf-8", errors="ignore"))
    }


def test_a_module_that_is_started_by_its_name_is_there() -> None:
    found = started()
    assert len({name for _, name in found}) > 20
    assert sorted((path, name) for path, name in found if not _starts(name)) == []


def _starts(name: str) -> bool:
    """Whether ``python -m`` finds it: a module, or a package with a ``__main__``."""
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
