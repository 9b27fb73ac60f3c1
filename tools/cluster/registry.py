"""A real OCI registry on the node's loopback address, and what a release puts into it."""

import re
import subprocess
import tarfile
import urllib.request
from pathlib import Path

from tools.cluster.agent import CHART
from tools.cluster.programs import Program, eventually
from tools.cluster.tools import program

HOST = "127.0.0.1:5001"  # containerd speaks plain HTTP with loopback addresses
CHARTS = f"oci://{HOST}/charts"
IMAGE = "mgpu-exporter/mgpu-exporter"

_CONFIG = """\
version: 0.1
log: {level: warn}
storage: {filesystem: {rootdirectory: %s}}
http: {addr: "%s"}
"""


class Registry:
    """The registry of github.com/distribution/distribution, with a folder of its own."""

    def __init__(self, state: Path, logs: Path) -> None:
        self._folder = state / "registry"
        self._folder.mkdir()
        config = self._folder / "config.yaml"
        config.write_text(_CONFIG % (self._folder / "content", HOST))
        command = [program("registry"), "serve", str(config)]
        self._program = Program("registry", command, logs, {"OTEL_TRACES_EXPORTER": "none"})

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._program.start()
        eventually(self._answers, "the registry answers")

    def stop(self) -> None:
        """End it."""
        self._program.stop()

    def push_image(self, archive: Path, *tags: str) -> None:
        """Push the image of an archive under these tags, by skopeo.

        As a folder: an archive it would unpack below /var/tmp, which cannot be written to here.
        """
        layout = self._folder / "image"
        with tarfile.open(archive) as tar:
            tar.extractall(layout, filter="data")
        for tag in tags:
            to = f"docker://{HOST}/{IMAGE}:{tag}"
            _do("skopeo", "copy", "--quiet", "--dest-tls-verify=false", f"oci:{layout}", to)

    def push_chart(self, version: str) -> str:
        """Package the chart as this version and push it, by Helm; its digest."""
        where = self._folder / version
        own = (f"--version={version}", f"--app-version={version}")
        _do(program("helm"), "package", str(CHART), *own, f"--destination={where}")
        (archive,) = where.glob("*.tgz")
        said = _do(program("helm"), "push", str(archive), CHARTS, "--plain-http")
        digest = re.search(r"sha256:[0-9a-f]{64}", said)
        assert digest, said
        return digest[0]

    def tags(self, repository: str) -> str:
        """The tags that it has of a repository, as it says them."""
        with urllib.request.urlopen(f"http://{HOST}/v2/{repository}/tags/list") as answer:
            return str(answer.read().decode())

    def _answers(self) -> bool:
        self._program.check()
        try:
            with urllib.request.urlopen(f"http://{HOST}/v2/") as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def _do(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, f"{' '.join(command[:8])}: {said}"
    return said if command[0].endswith("helm") else done.stdout
