"""Writes the rules of sizing, the table of docs/alerts.md, the XIDs' page, what alerts say of XIDs.

``python rules/generate.py`` writes the files; with ``--check`` it fails where they differ.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent.parent))  # it is run as a script

from rules import parameters, sizing, xids

FOLDER = Path(__file__).parent
BEGIN, END = "<!-- alerts: written by rules/generate.py -->\n", "<!-- end of alerts -->\n"


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
    page = folder.parent / "docs" / "alerts.md"
    file, recording = folder / "mgpu-alerts.yaml", folder / "mgpu-recording.yaml"
    rules = xids.described(file.read_text(encoding="utf-8"))
    lost = folder.parent / "docs" / "runbooks" / "MgpuGpuLost.md"
    texts = {
        lost: xids.ordered(lost.read_text(encoding="utf-8")),
        file: rules,
        recording: sizing.written_into(recording.read_text(encoding="utf-8")),
        page: alerts_page(page.read_text(encoding="utf-8"), rules),
        page.parent / "runbooks" / "xids.md": xids.page(),
    }
    for path, text in texts.items():
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(f"{path.parent.name}/{path.name}")
    if drifted:
        print(f"{', '.join(drifted)}: not as in rules/; run python rules/generate.py")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
