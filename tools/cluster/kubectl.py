"""The kubectl command, with the cluster's administrator as its user."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tools.cluster.programs import PATIENCE_S
from tools.cluster.tools import program

Document = dict[str, Any]


class KubectlError(Exception):
    """What kubectl said when it failed."""


class Kubectl:
    """Commands that return what they print."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._command = [program("kubectl"), f"--kubeconfig={kubeconfig}"]

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """Run a command.

        Raises:
            KubectlError: it failed.

        """
        done = subprocess.run(
            [*self._command, *arguments], input=given, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise KubectlError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def apply(self, *documents: Document) -> None:
        """Apply these documents, as one list."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})
        self("apply", "-f", "-", given=text)

    def wait(self, namespace: str, what: str, condition: str) -> None:
        """Wait until an object has a condition."""
        until = (f"--for=condition={condition}", f"--timeout={PATIENCE_S:.0f}s")
        self("wait", "-n", namespace, what, *until)

    def get(self, *what: str) -> Document:
        """What ``kubectl get`` knows of an object or a list."""
        found: Document = json.loads(self("get", *what, "-o", "json"))
        return found

    def may(self, user: str, *action: str) -> bool:
        """Whether a user may do something, as the API server judges it."""
        try:
            return self("auth", "can-i", *action, f"--as={user}").strip() == "yes"
        except KubectlError:  # "no" is exit status 1
            return False
