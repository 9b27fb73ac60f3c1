"""A stand-in for the base image, where no image registry can be reached.

Debian's own Python in a minimal Debian of the same release, under the name of the base. It is not
the base: its Python is built and laid out otherwise. It shows that the Dockerfile builds and that
what it builds runs; sizes on top of it are those on top of the base.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

from tools.image.store import Store

RELEASE = "trixie"
PACKAGES = "python3,python3-venv,ca-certificates"
MIRROR = "http://deb.debian.org/debian"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
AUTHORITIES_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT")  # of uv and pip, behind a proxy's authority


def make(store: Store, name: str) -> None:
    """Make the image of this name in the store if it is not there; takes root and a minute."""
    if store.has(name):
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE]
        subprocess.run([*command, str(root), MIRROR], check=True)
        for program in ("python", "python3"):
            (root / "usr/local/bin" / program).symlink_to("/usr/bin/python3")
        shutil.copy(AUTHORITIES, root / AUTHORITIES.relative_to("/"))
        shutil.rmtree(root / "var/cache/apt")
        container = store.call("from", "scratch").strip()
        store.call("add", "--quiet", container, str(root), "/")
        for variable in AUTHORITIES_VARIABLES:
            store.call("config", f"--env={variable}={AUTHORITIES}", container)
        store.call("commit", "--quiet", "--rm", container, name)
