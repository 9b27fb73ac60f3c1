"""The image run by runc as a strict pod's container is, but on the network of this machine."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from tools.image.store import Store

SHELLS = ("/usr/bin/dash", "/usr/bin/bash")


class Container:
    """A container of an image. Its root is read-only, and no shell in it can be started."""

    def __init__(self, store: Store, image: str, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._runs = 0
        self._name = store.call("from", "--pull-never", image).strip()
        self.root = Path(store.call("mount", self._name).strip())
        said = json.loads(store.call("inspect", "--type=image", image))
        self.config: dict[str, Any] = said["OCIv1"]["config"]

    def command(self, arguments: Sequence[str], *, entry: Sequence[str] = ()) -> list[str]:
        """The command line that runs the image once with these arguments."""
        self._runs += 1
        bundle = self._folder / str(self._runs)
        bundle.mkdir()
        subprocess.run(["runc", "spec"], cwd=bundle, check=True)
        spec = json.loads((bundle / "config.json").read_text())
        self._restrict(spec, [*(entry or self.config["Entrypoint"]), *arguments])
        (bundle / "config.json").write_text(json.dumps(spec))
        state = f"--root={self._folder / 'state'}"
        return [
            "runc",
            state,
            "run",
            f"--bundle={bundle}",
            f"mgpu-{self._folder.name}-{self._runs}",
        ]

    def run(self, *arguments: str, entry: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
        """Run it to its end."""
        return subprocess.run(
            self.command(arguments, entry=entry),
            check=False,
            capture_output=True,
            text=True,
            errors="replace",  # a recording is binary
            stdin=subprocess.DEVNULL,
            timeout=60,
        )

    def _restrict(self, spec: dict[str, Any], arguments: list[str]) -> None:
        user, group = map(int, self.config["User"].split(":"))
        spec["root"] = {"path": str(self.root), "readonly": True}
        spec["process"] = {
            "args": arguments,
            "env": self.config["Env"],
            "cwd": self.config.get("WorkingDir") or "/",
            "user": {"uid": user, "gid": group},
            "capabilities": {},
            "noNewPrivileges": True,
        }
        spec["mounts"] = [one for one in spec["mounts"] if one["type"] in {"proc", "tmpfs"}]
        spec["mounts"] += [
            {"destination": shell, "source": "/dev/null", "options": ["bind", "ro"]}
            for shell in SHELLS
        ]
        linux = spec["linux"]
        linux["namespaces"] = [one for one in linux["namespaces"] if one["type"] != "network"]
        linux.pop("resources")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.call("rm", self._name)
