"""Puts copies of the rules and dashboards into the chart, which Helm needs and git does not hold.

Helm cannot reach outside of a chart. ``python3 -m charts.package`` writes the copies; it needs
nothing but Python. ``helm package charts/mgpu-exporter`` then makes an archive with all of them.
"""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent

COPIED = {"rules": "*.yaml", "rules/exported": "*.yaml", "dashboards": "*.json"}
"""Folder of the repository, and of the chart's ``files/`` → which files."""


def package(root: Path = ROOT) -> None:
    """Makes the chart's copies what their sources are now. Safe beside others that do the same."""
    files = root / "charts" / "mgpu-exporter" / "files"
    for folder, pattern in COPIED.items():
        copies = files / folder
        copies.mkdir(parents=True, exist_ok=True)
        texts = {source.name: source.read_bytes() for source in (root / folder).glob(pattern)}
        for name, text in texts.items():
            copy = copies / name
            if not copy.exists() or copy.read_bytes() != text:
                unfinished = copies / f".{name}.{os.getpid()}"
                unfinished.write_bytes(text)
                unfinished.replace(copy)
        for copy in copies.glob(pattern):
            if copy.name not in texts:
                copy.unlink(missing_ok=True)


if __name__ == "__main__":
    package()
