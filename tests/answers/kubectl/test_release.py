"""What a release has of ``kubectl mgpu``."""

import hashlib
import subprocess
import sys
from pathlib import Path

from tools.plugin import manifest


def test_krews_manifest_names_each_archive_with_its_digest(tmp_path: Path) -> None:
    names = ("kubectl-mgpu-linux-amd64.tar.gz", "kubectl-mgpu-darwin-arm64.tar.gz")
    for name in names:
        (tmp_path / name).write_text(name)
    found = manifest("1.2.3", tmp_path)
    assert found["metadata"]["name"] == "mgpu"
    platforms = {one["uri"].rpartition("/")[2]: one for one in found["spec"]["platforms"]}
    assert platforms.keys() == set(names)
    for name, one in platforms.items():
        system, machine = name.removesuffix(".tar.gz").split("-")[2:]
        assert one["selector"]["matchLabels"] == {"os": system, "arch": machine}
        assert one["sha256"] == hashlib.sha256(name.encode()).hexdigest()
        assert one["uri"].startswith(
            "https://github.com/mgpu-exporter/mgpu-exporter/releases/download/v1.2.3/"
        )


def test_a_machine_that_is_no_linux_can_import_it() -> None:
    """A Mac, for one, has none of these."""
    code = (
        "import socket\n"
        "for name in ('TCP_KEEPIDLE', 'TCP_USER_TIMEOUT', 'SO_PEERCRED'):\n"
        "    if hasattr(socket, name): delattr(socket, name)\n"
        "import os\n"
        "for name in ('sched_getaffinity', 'pidfd_open', 'posix_fadvise'):\n"
        "    if hasattr(os, name): delattr(os, name)\n"
        "import select\n"
        "del select.epoll\n"
        "from exporter.answers.kubectl.plugin import main\n"
        "main(['--version'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("kubectl-mgpu "), done.stderr


def test_its_help_loads_nothing_that_asks_anybody() -> None:
    code = (
        "import sys\n"
        "from exporter.answers.kubectl.plugin import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "exporter.answers.kubectl.plugin" in loaded
    assert not loaded & {
        "aiohttp",
        "asyncio",
        "exporter.agent",
        "exporter.model",
        "yaml",
        "exporter.answers.reading",
    }
