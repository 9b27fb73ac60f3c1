"""Writes what the chart has from elsewhere: values, schema, presets, tables of documents.

``python -m charts.generate`` writes them; with ``--check`` it fails where they differ. With
``--manifests`` (needs Helm) it writes ``deploy/`` instead, or checks it. Rules and dashboards are
in the chart by links, which Helm follows.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from charts import alerts, manifests, presets, settings, written
from charts.table.presets import PRESETS

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts" / "mgpu-exporter"


def chart_files(root: Path = ROOT) -> dict[Path, str]:
    """Path → text of every file of the chart that is written."""
    chart, page = root / "charts" / "mgpu-exporter", root / "docs" / "installation.md"
    readme = (chart / "README.md").read_text(encoding="utf-8")
    return {
        chart / "Chart.yaml": written.with_version((chart / "Chart.yaml").read_text("utf-8")),
        chart / "values.yaml": written.values_yaml(),
        chart / "values.schema.json": written.schema_json(),
        chart / "README.md": written.with_table(readme),
        chart / "files" / "restarting.txt": "".join(f"{s}\n" for s in settings.restarting()),
        chart / "files" / "alerts.json": alerts.places_json(),
        chart / "files" / "defaults.json": written.defaults_json(),
        **{chart / "presets" / f"{p.name}.yaml": presets.text(p) for p in PRESETS},
        page: presets.with_tables(page.read_text(encoding="utf-8")),
    }


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with ``--check`` compare them; 1 if one differs."""
    gone: list[Path] = []
    if "--manifests" in arguments:
        texts = {ROOT / "deploy" / name: text for name, text in manifests.rendered(CHART).items()}
        gone = [path for path in (ROOT / "deploy").glob("*.yaml") if path not in texts]
    else:
        texts = chart_files()
        # A preset that the table has no more must not stay in the chart.
        gone = [path for path in (CHART / "presets").glob("*.yaml") if path not in texts]
    if "--check" not in arguments:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        for path in gone:
            path.unlink()
        return 0
    differ = [p for p, t in texts.items() if not p.exists() or p.read_text(encoding="utf-8") != t]
    for path in (*differ, *gone):
        print(f"{path.relative_to(ROOT)}: not as its source; run python -m charts.generate")
    return 1 if differ or gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
