"""Real containers of Podman, as root: no image, no network, a storage of their own."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.programs import eventually

BUSYBOX = Path("/bin/busybox")
LIMITS = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")  # raising them takes a right


class Podman:
    """Podman with everything it keeps below one folder."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "s"
        self._folder = folder
        self._rootfs = folder / "rootfs"
        for name in ("bin", "dev", "etc", "proc", "run", "sys", "tmp"):
            (self._rootfs / name).mkdir(parents=True)
        shutil.copy(BUSYBOX, self._rootfs / "bin")
        self._names: list[str] = []

    def run(self, name: str) -> tuple[str, int]:
        """Start a container of this name; its id and the pid of its process."""
        self._names.append(name)
        self._call(
            *("run", "--detach", f"--name={name}", "--network=none", "--log-driver=none"),
            *(*LIMITS, "--rootfs", str(self._rootfs), "/bin/busybox", "sleep", "1000"),
        )
        told = self._call("inspect", "--format={{.Id}} {{.State.Pid}}", name).split()
        return told[0], int(told[1])

    def remove(self, name: str) -> None:
        """End a container and forget it."""
        self._names.remove(name)
        self._call("rm", "--force", "--time=0", name)

    @contextlib.contextmanager
    def serving(self) -> Iterator[None]:
        """``podman system service`` on the socket."""
        command = self._command("system", "service", "--time=0", f"unix://{self.socket}")
        with subprocess.Popen(command, stdin=subprocess.DEVNULL) as service:
            try:
                eventually(self.socket.is_socket, "podman listens")
                yield
            finally:
                service.terminate()

    def clear(self) -> None:
        """End all containers."""
        for name in list(self._names):
            self.remove(name)

    def _command(self, *arguments: str) -> list[str]:
        return [
            *("podman", f"--root={self._folder}/storage", f"--runroot={self._folder}/run"),
            *("--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=none"),
            *("--log-level=error", *arguments),
        ]

    def _call(self, *arguments: str) -> str:
        with (self._folder / "log").open("w+") as log:
            # A file, not a pipe: conmon inherits it and would keep a pipe open.
            done = subprocess.run(
                self._command(*arguments),
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
            log.seek(0)
            said = log.read()
        assert done.returncode == 0, said
        return said
