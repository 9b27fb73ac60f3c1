"""Writes dashboards/*.json from the modules beside it.

``python -m dashboards.generate`` writes them; with ``--check`` it fails where they differ.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Panel, RowPanel

from dashboards import cost, exporter, groups, node, overview, pod
from dashboards.frame import GRAFANA

FOLDER = Path(__file__).parent
BOARDS = (overview, node, pod, groups, cost, exporter)


def text(builder: Dashboard, events: Sequence[Mapping[str, object]]) -> str:
    """A dashboard as Grafana reads it, its panels numbered and its variables' ids their names.

    Grafana 9 and 10 keep variables by id, and the SDK gives all of them the same one.
    """
    dashboard = builder.build()
    panels = [*_all(dashboard.panels or ())]
    for number, panel in enumerate(panels, 1):
        panel.id_val = number
    for variable in dashboard.templating.list_val or ():
        variable.id_val = variable.name
    kinds = sorted({panel.type_val for panel in panels} - {"row"})
    written = {
        **dashboard.to_json(),
        "__requires": _required(kinds),
        "annotations": {"list": list(events)},
    }
    return JSONEncoder(sort_keys=True, indent=2).encode(written) + "\n"


def _all(panels: Iterable[Panel | RowPanel]) -> Iterator[Panel | RowPanel]:
    """Panels and rows, and what is folded in the rows."""
    for panel in panels:
        yield panel
        if isinstance(panel, RowPanel):
            yield from panel.panels


def _required(panels: Iterable[str]) -> list[dict[str, str]]:
    """What a Grafana must have, for those who import a dashboard and for catalogues."""
    parts = [
        ("grafana", "grafana", "Grafana", GRAFANA),
        ("datasource", "prometheus", "Prometheus", "1.0.0"),
        *(("panel", kind, kind, "") for kind in panels),
    ]
    return [
        {"type": kind, "id": name, "name": title, "version": version}
        for kind, name, title, version in parts
    ]


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; 1 if one differs."""
    drifted = []
    for module in BOARDS:
        builder = module.dashboard()
        path, json = folder / f"{builder.build().uid}.json", text(builder, module.EVENTS)
        if "--check" not in arguments:
            path.write_text(json, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != json:
            drifted.append(path.name)
    if drifted:
        print(f"{', '.join(drifted)}: not as in dashboards/; run python -m dashboards.generate")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
