"""A node's log files, as its kubelet and its runtime lay them out."""

import shutil
from pathlib import Path

from tests.agent.sources.pods.documents import container_id

UID = "11111111-2222-4333-8444-555555555555"
CID = container_id("main")


class Logs:
    """The directories ``pods`` and ``containers`` below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "pods").mkdir(parents=True)
        (root / "containers").mkdir()

    def run(
        self,
        name: str,
        uid: str = UID,
        container: str = "main",
        cid: str = CID,
        restart: int = 0,
        namespace: str = "ml",
    ) -> Path:
        """One container of a pod; its pod's directory."""
        pod = self.root / "pods" / f"{namespace}_{name}_{uid}"
        (pod / container).mkdir(parents=True, exist_ok=True)
        log = pod / container / f"{restart}.log"
        log.write_text("secret\n")
        (self.root / "containers" / f"{name}_{namespace}_{container}-{cid}.log").symlink_to(log)
        return pod

    def remove(self, pod: Path) -> None:
        """The pod's directory, and the links into it."""
        for link in (self.root / "containers").iterdir():
            if str(pod) in str(link.readlink()):
                link.unlink()
        shutil.rmtree(pod)
