"""Writes the bill of materials of what is locked: ``python -m tools.image.sbom [FILE]``.

In CycloneDX: every Python package of the image, with its version and the hashes that the lock
allows. The packages of the base are not in it; the builder lists those
(``docker buildx build --sbom=true``).
"""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from exporter import __version__

ROOT = Path(__file__).parents[2]
FILE = ROOT / "dist" / "mgpu-exporter.cdx.json"
UV = Path(sysconfig.get_path("scripts")) / "uv"
EXPORT = ["export", "--quiet", "--locked", "--no-dev", "--all-extras", "--format=cyclonedx1.5"]


def bill() -> dict[str, Any]:
    """The document. uv does not know the version, because it stands in the code."""
    done = subprocess.run(
        [UV, *EXPORT, "--preview-features=sbom-export"], cwd=ROOT, check=True, capture_output=True
    )
    document: dict[str, Any] = json.loads(done.stdout)
    document["metadata"]["component"] |= {
        "type": "application",
        "version": __version__,
        "purl": f"pkg:github/mgpu-exporter/mgpu-exporter@{__version__}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    return document


def main(file: Path) -> None:
    """Write it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill(), indent=2) + "\n", encoding="utf-8")
    print(file)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FILE)
