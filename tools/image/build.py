"""Builds the image into an OCI archive, with buildah: ``python -m tools.image.build [ARCHIVE]``.

For containerd (``ctr images import``), for the tests, and for machines without a registry
(``--stand-in``). For a registry, any builder takes the Dockerfile as it is: docs/installation.md.
"""

import argparse
import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from exporter import __version__
from tools.image import standin
from tools.image.store import Store

ROOT = Path(__file__).parents[2]
STORE = Path.home() / ".cache/mgpu-exporter-image"
ARCHIVE = ROOT / "dist" / "mgpu-exporter.oci.tar"
NAME = f"ghcr.io/mgpu-exporter/mgpu-exporter:{__version__}"
MEGABYTE = 1_000_000


def build(store: Store, *, stand_in: bool = False, name: str = NAME) -> None:
    """Build the Dockerfile to an image of this name in the store."""
    options = [f"--build-arg=VERSION={__version__}", f"--build-arg=REVISION={revision()}"]
    if stand_in:
        base = base_name().partition("@")[0]
        standin.make(store, base)
        options += [f"--build-arg=BASE={base}", "--pull-never"]
    # chroot: builds inside a container too, where no further container can be started
    options += ["--isolation=chroot", "--network=host", "--layers", "--force-rm", "--format=oci"]
    store.call("build-using-dockerfile", *options, f"--tag={name}", str(ROOT))


def base_name() -> str:
    """The base that the Dockerfile names."""
    found = re.search(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found
    return found[1]


def revision() -> str:
    """The commit that is built; nothing where there is no repository."""
    line = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    return subprocess.run(line, check=False, text=True, capture_output=True).stdout.strip()


def export(store: Store, archive: Path) -> None:
    """Write the image from the store into an archive."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.unlink(missing_ok=True)
    store.call("push", "--quiet", NAME, f"oci-archive:{archive}:{NAME}")


def layers(archive: Path) -> list[tarfile.TarInfo]:
    """The layers as they are pulled, the base's first: their place in the archive, their size."""
    with tarfile.open(archive) as tar:

        def read(path: str) -> dict[str, list[dict[str, str]]]:
            member = tar.extractfile(path)
            assert member
            document: dict[str, list[dict[str, str]]] = json.load(member)
            return document

        manifest = read(_blob(read("index.json")["manifests"][0]))
        return [tar.getmember(_blob(layer)) for layer in manifest["layers"]]


def _blob(described: Mapping[str, str]) -> str:
    return f"blobs/{described['digest'].replace(':', '/')}"


def main() -> None:
    """Build, write the archive, say how large it is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("archive", nargs="?", type=Path, default=ARCHIVE)
    parser.add_argument(
        "--stand-in", action="store_true", help="make the base with debootstrap, pull nothing"
    )
    given = parser.parse_args()
    store = Store(STORE)
    try:
        build(store, stand_in=given.stand_in)
        export(store, given.archive)
    except subprocess.CalledProcessError as error:
        sys.exit(f"{error.cmd[0]} failed; see above")
    *base, own = (layer.size / MEGABYTE for layer in layers(given.archive))
    print(f"{given.archive}: {NAME}")
    print(f"base {sum(base):.0f} MB and our layer {own:.0f} MB, compressed")


if __name__ == "__main__":
    main()
