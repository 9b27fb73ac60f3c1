"""Writes dashboards/*.json from the modules beside it.

``python -m dashboards.generate`` writes them; with ``--check`` it fails where they differ.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Panel, RowPanel

from dashboards import cost, exporter, groups, node, overview, pod
from dashboards.frame import GRAFANA

FOLDER = Path(__file__).parent
CATALOGUE = "grafana.com/boards.json"  # not beside the boards: all files there are boards
PAGES = "https://github.com/mgpu-exporter/mgpu-exporter/blob/main/docs"
# $__rate_interval is at least four times this: with scrapes a minute apart, as Prometheus has them
# by default, two are in it. Without it Grafana takes its data source's 15 s.
LEAST_STEP = "30s"
BOARDS = (overview, node, pod, groups, cost, exporter)


def text(builder: Dashboard, events: Sequence[Mapping[str, object]]) -> str:
    """A dashboard as Grafana reads it, its panels numbered and its variables' ids their names.

    Grafana 9 and 10 keep variables by id, and the SDK gives all of them the same one.
    """
    dashboard = builder.build()
    panels = [*_all(dashboard.panels or ())]
    for number, panel in enumerate(panels, 1):
        panel.id_val = number
        if isinstance(panel, Panel) and "$__rate_interval" in JSONEncoder().encode(panel.targets):
            panel.interval = panel.interval or LEAST_STEP
    for variable in dashboard.templating.list_val or ():
        variable.id_val = variable.name
    kinds = sorted({panel.type_val for panel in panels} - {"row"})
    written = {
        **dashboard.to_json(),
        "__requires": _required(kinds),
        "annotations": {"list": list(events)},
    }
    return JSONEncoder(sort_keys=True, indent=1).encode(written) + "\n"


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


def catalogue(builders: Iterable[Dashboard]) -> str:
    """What the form of grafana.com asks about each board, beside its file."""
    written = []
    for builder in builders:
        board = builder.build()
        written.append(
            {
                "file": f"{board.uid}.json",
                "name": board.title,
                "summary": board.description,
                "readme": f"Needs [mgpu-exporter]({PAGES}/installation.md) and its recording rules "
                f"({PAGES}/alerts.md). [What it shows]({PAGES}/dashboards.md).",
                "grafana": f">= {GRAFANA}",
                "dataSource": "prometheus",
                "collector": "mgpu-exporter",
                "tags": ["gpu", "nvidia", "kubernetes", "mgpu-exporter"],
                "gnetId": None,  # none is uploaded yet
            }
        )
    return json.dumps(written, indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; 1 if one differs."""
    drifted = []
    builders = [module.dashboard() for module in BOARDS]
    texts = {
        f"{builder.build().uid}.json": text(builder, module.EVENTS)
        for builder, module in zip(builders, BOARDS, strict=True)
    }
    texts[CATALOGUE] = catalogue(builders)
    for name, written in texts.items():
        path = folder / name
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(written, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != written:
            drifted.append(name)
    if drifted:
        print(f"{', '.join(drifted)}: not as in dashboards/; run python -m dashboards.generate")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
