"""``kubectl mgpu`` as one file that needs no Python, and its manifest for krew.

``make kubectl`` makes ``kubectl-mgpu-OS-ARCH.tar.gz`` for this machine, of locked packages;
``python3 tools/plugin.py manifest VERSION DIST`` writes ``mgpu.yaml`` of the archives there.
"""

import hashlib
import json
import platform
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
NAME = "kubectl-mgpu"
RELEASES = "https://github.com/mgpu-exporter/mgpu-exporter/releases/download"
# Modules of these are imported by their names, so PyInstaller does not see that they are needed. It
# finds the vocabulary by the answers' imports. The agent is not among them.
BY_NAME = ("exporter.answers", "textual")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def build(dist: Path) -> Path:
    """The archive for this machine: the program and its licence."""
    system, machine = platform.system().lower(), _ARCHITECTURES[platform.machine()]
    archive = dist.resolve() / f"{NAME}-{system}-{machine}.tar.gz"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        _run(
            *(sys.executable, "-m", "PyInstaller", "--log-level=ERROR", "--onefile"),
            f"--name={NAME}",
            *(f"--distpath={work}", f"--workpath={work / 'work'}", f"--specpath={work}"),
            *(f"--collect-submodules={package}" for package in BY_NAME),
            ROOT / "exporter/answers/kubectl/__main__.py",
        )
        for command in ("top", "why", "advise", "bill"):  # what each imports by name is there
            _run(work / NAME, command, "--help")
        with tarfile.open(archive, "w:gz") as file:
            file.add(work / NAME, NAME)
            file.add(ROOT / "LICENSE", "LICENSE")
    return archive


def manifest(version: str, dist: Path) -> dict[str, Any]:
    """The plug-in as krew installs it, from the archives of a release."""
    platforms = []
    for archive in sorted(dist.glob(f"{NAME}-*.tar.gz")):
        system, machine = archive.name.removesuffix(".tar.gz").rsplit("-", 2)[1:]
        platforms.append(
            {
                "selector": {"matchLabels": {"os": system, "arch": machine}},
                "uri": f"{RELEASES}/v{version}/{archive.name}",
                "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(),
                "bin": NAME,
            }
        )
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "mgpu"},
        "spec": {
            "version": f"v{version}",
            "homepage": "https://github.com/mgpu-exporter/mgpu-exporter",
            "shortDescription": "Who uses the cluster's shared GPUs, and who waits",
            "description": "Asks the mgpu-exporters of a cluster, or its Prometheus: use by pod, "
            "why a pod is slow, what to ask for, what it cost.",
            "platforms": platforms,
        },
    }


def _run(*command: str | Path) -> None:
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL)


def main() -> int:
    """Build, or write the manifest."""
    match sys.argv[1:]:
        case ["build", dist]:
            print(build(Path(dist)))
        case ["manifest", version, dist]:
            # JSON is YAML; krew reads both.
            text = json.dumps(manifest(version, Path(dist)), indent=2) + "\n"
            (Path(dist) / "mgpu.yaml").write_text(text)
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
