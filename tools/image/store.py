"""Images in a store of our own, by buildah; what else the machine holds stays untouched."""

import subprocess
from pathlib import Path


class Store:
    """A folder of images. Needs root, and no service."""

    def __init__(self, folder: Path) -> None:
        self._options = [
            f"--root={folder / 'images'}",
            f"--runroot={folder / 'run'}",
            "--storage-driver=overlay",
            "--storage-opt=overlay.skip_mount_home=true",  # so that no mount stays behind
        ]

    def has(self, name: str) -> bool:
        """Whether an image of this name is there."""
        return bool(self.call("images", "--quiet", "--filter", f"reference={name}"))

    def call(self, command: str, *arguments: str) -> str:
        """Call buildah; what it prints. What it says of its progress is passed on."""
        line = ["buildah", *self._options, command, *arguments]
        return subprocess.run(line, check=True, text=True, stdout=subprocess.PIPE).stdout
