"""Writes dashboards/*.json from the modules beside it.

``python -m dashboards.generate`` writes them; with ``--check`` it fails where they differ.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from dashboards import cost, exporter, groups, node, overview, pod

FOLDER = Path(__file__).parent
BOARDS = (overview, node, pod, groups, cost, exporter)


def text(builder: Dashboard) -> str:
    """A dashboard as Grafana reads it, its panels numbered."""
    dashboard = builder.build()
    for number, panel in enumerate(dashboard.panels or (), 1):
        panel.id_val = number
    return JSONEncoder(sort_keys=True, indent=2).encode(dashboard) + "\n"


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; 1 if one differs."""
    drifted = []
    for module in BOARDS:
        builder = module.dashboard()
        path = folder / f"{builder.build().uid}.json"
        if "--check" not in arguments:
            path.write_text(text(builder), encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text(builder):
            drifted.append(path.name)
    if drifted:
        print(f"{', '.join(drifted)}: not as in dashboards/; run python -m dashboards.generate")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
