"""Writes what is made from rules/: rules/exported/, the table of docs/alerts.md, the XIDs' page.

rules/exported/ has the same rules for series whose labels Prometheus renamed.

Without ``honorLabels`` the workload is in ``exported_namespace``, ``exported_pod`` and
``exported_container``, and the plain names are the exporter's own. ``python rules/generate.py``
writes the files; with ``--check`` it fails where they differ.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent.parent))  # it is run as a script

from rules import parameters, xids

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- alerts: written by rules/generate.py -->\n", "<!-- end of alerts -->\n"
HEAD = "# Written by rules/generate.py, for series with exported_ labels. Do not edit.\n"

COMMENT = re.compile(r"^\s*#.*\n", re.MULTILINE)
ANNOTATION = re.compile(r"(\$labels\.|\blabel \")(namespace|pod|container)\b")
# a label in an expression: not in braces of a template, not the level in a recorded name
LABEL = re.compile(r"""(?<![\w$.])(namespace|pod|container)\b(?=\s*(?:"?[,)]|[=!]))""")


def exported(text: str) -> str:
    """The rules of a file with the renamed labels."""
    renamed = LABEL.sub(r"exported_\1", ANNOTATION.sub(r"\1exported_\2", COMMENT.sub("", text)))
    return HEAD + renamed


def alerts_page(page: str, rules: str) -> str:
    """The page with its table replaced by the alerts of these rules."""
    rows = [
        f"| [{rule['alert']}](runbooks/{rule['alert']}.md) | {rule['labels']['severity']}, "
        f"{rule.get('for', 'at once')} | {rule['annotations']['summary'].strip()}"
        f"{_values(rule['alert'])} |\n"
        for group in yaml.safe_load(rules)["groups"]
        for rule in group["rules"]
    ]
    table = "| alert | severity, for | what it says, and the values to set |\n|---|---|---|\n"
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{table}{''.join(rows)}\n{END}{tail}"


def _values(alert: str) -> str:
    """What the chart can set of an alert beside its severity and time."""
    shown = [f"{_code(f'{one.name}: {one.default}')} {one.about}" for one in parameters.of(alert)]
    return f" {'; '.join(shown)}." if shown else ""


def _code(text: str) -> str:
    return f"`{text}`".replace("|", r"\|")


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; 1 if one differs."""
    drifted = []
    texts = {
        folder / "exported" / source.name: exported(source.read_text())
        for source in sorted(folder.glob("*.yaml"))
    }
    page, rules = folder.parent / "docs" / "alerts.md", folder / "mgpu-alerts.yaml"
    if page.exists() and rules.exists():
        texts[page] = alerts_page(page.read_text(encoding="utf-8"), rules.read_text())
        texts[page.parent / "runbooks" / "xids.md"] = xids.page()
    for path, text in texts.items():
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(f"{path.parent.name}/{path.name}")
    if drifted:
        print(f"{', '.join(drifted)}: not as in rules/; run python rules/generate.py")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
