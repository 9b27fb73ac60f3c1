"""Images made here, for there may be no registry: archives in the OCI image layout.

Image specification: image-layout.md, manifest.md, config.md.
"""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PAUSE = "localhost/pause:1"
BUSYBOX = "localhost/busybox:1"

# Waits for signals and takes the processes whose parents are gone, as the real one does.
_PAUSE_C = """
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int n) { (void)n; _exit(0); }
static void reap(int n) { (void)n; while (waitpid(-1, NULL, WNOHANG) > 0); }
int main(void)
{
    signal(SIGINT, end), signal(SIGTERM, end), signal(SIGCHLD, reap);
    for (;;) pause();
}
"""


def pause(folder: Path) -> Path:
    """An image of a program that waits; the file."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "pause.c"
        source.write_text(_PAUSE_C)
        root = Path(scratch) / "root"
        root.mkdir()
        command = ["gcc", "-Os", "-static", "-o", str(root / "pause"), str(source)]
        subprocess.run(command, check=True)
        return archive(folder / "pause.tar", PAUSE, [layer(root)], {"Entrypoint": ["/pause"]})


def busybox(folder: Path) -> Path:
    """An image of a small system; the file."""
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch) / "root"
        for name in ("bin", "tmp", "etc"):
            (root / name).mkdir(parents=True)
        held = root / "bin" / "busybox"
        shutil.copy(shutil.which("busybox") or "/bin/busybox", held)
        listed = subprocess.run([held, "--list"], capture_output=True, text=True, check=True)
        for name in listed.stdout.split():
            if name != "busybox":
                (root / "bin" / name).symlink_to("busybox")
        settings = {"Env": ["PATH=/bin"], "Cmd": ["sh"]}
        return archive(folder / "busybox.tar", BUSYBOX, [layer(root)], settings)


def layer(root: Path, below: str = "") -> bytes:
    """A folder as a layer, owned by root; ``below`` is where in the image it goes."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        tar.add(root, arcname=below or ".", filter=_owned_by_root)
    return held.getvalue()


def archive(path: Path, name: str, layers: Sequence[bytes], settings: Mapping[str, object]) -> Path:
    """Write an image of these layers; ``settings`` are those of config.md under ``config``."""
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [_digest(content) for content in layers]},
    }
    with tarfile.open(path, "w") as tar:
        manifest = {
            "schemaVersion": 2,
            "config": _blob(tar, "config", json.dumps(config).encode()),
            "layers": [_blob(tar, "layer", content) for content in layers],
        }
        listed = _blob(tar, "manifest", json.dumps(manifest).encode())
        listed["annotations"] = {"io.containerd.image.name": name}
        index = {"schemaVersion": 2, "manifests": [listed]}
        _add(tar, "index.json", json.dumps(index).encode())
        _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    return path


_MEDIA = {
    "config": "application/vnd.oci.image.config.v1+json",
    "layer": "application/vnd.oci.image.layer.v1.tar",
    "manifest": "application/vnd.oci.image.manifest.v1+json",
}


def _blob(tar: tarfile.TarFile, kind: str, content: bytes) -> dict[str, object]:
    digest = _digest(content)
    _add(tar, f"blobs/{digest.replace(':', '/')}", content)
    return {"mediaType": _MEDIA[kind], "digest": digest, "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
