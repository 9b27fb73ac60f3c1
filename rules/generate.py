"""Writes rules/exported/ from rules/: the same rules for series whose labels Prometheus renamed.

Without ``honorLabels`` the workload is in ``exported_namespace``, ``exported_pod`` and
``exported_container``, and the plain names are the exporter's own. ``python rules/generate.py``
writes the files; with ``--check`` it fails where they differ.
"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
HEAD = "# Written by rules/generate.py, for series with exported_ labels. Do not edit.\n"

COMMENT = re.compile(r"^\s*#.*\n", re.MULTILINE)
ANNOTATION = re.compile(r"(\$labels\.)(namespace|pod|container)\b")
# a label in an expression: not in braces of a template, not the level in a recorded name
LABEL = re.compile(r"(?<![\w$.])(namespace|pod|container)\b(?=\s*(?:[,)]|[=!]))")


def exported(text: str) -> str:
    """The rules of a file with the renamed labels."""
    renamed = LABEL.sub(r"exported_\1", ANNOTATION.sub(r"\1exported_\2", COMMENT.sub("", text)))
    return HEAD + renamed


def main(arguments: Sequence[str], folder: Path = FOLDER) -> int:
    """Write the files, or with ``--check`` compare them; 1 if one differs."""
    drifted = []
    for source in sorted(folder.glob("*.yaml")):
        path, text = folder / "exported" / source.name, exported(source.read_text())
        if "--check" not in arguments:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            drifted.append(f"exported/{path.name}")
    if drifted:
        print(f"{', '.join(drifted)}: not as in rules/; run python rules/generate.py")
    return 1 if drifted else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
