"""``kubectl mgpu`` by the real kubectl: a tenant with few rights, through real port-forwards."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from tools.cluster.agent import NAME, Agent
from tools.cluster.kubectl import Document
from tools.cluster.programs import eventually
from tools.cluster.stage import Stage
from tools.cluster.test_access import may_get_pods, run_elsewhere
from tools.cluster.tools import program
from tools.cluster.workloads import NAMESPACE, pod

WHERE, TENANT, OTHER = "asked", "tenant-of-one", "other-team"
SOON_S = 60
EXAMPLE = Path(__file__).parents[2] / "examples/kubectl/tenants.yaml"


class Asked(NamedTuple):
    """What ``kubectl mgpu`` said."""

    status: int
    out: str
    err: str
    seconds: float


class Tenant(NamedTuple):
    """A user with a token."""

    stage: Stage
    kubeconfig: Path

    def ask(self, *words: str) -> Asked:
        """``kubectl mgpu WORDS`` as this user types it."""
        own = Path(sys.executable).parent  # has kubectl-mgpu
        path = {"PATH": f"{own}:{os.environ['PATH']}", "KUBECONFIG": str(self.kubeconfig)}
        begun = time.monotonic()
        done = subprocess.run(
            [program("kubectl"), "mgpu", *words],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **path},
        )
        print(words, done)  # shown with a failure
        return Asked(done.returncode, done.stdout, done.stderr, time.monotonic() - begun)


@pytest.fixture(scope="module")
def tenant(stage: Stage) -> Iterator[Tenant]:
    """An exporter with access control, and a user who may see the workloads' namespace."""
    agent = Agent(
        stage.kubectl,
        stage.board,
        "minimal",
        f"asked-{NAME}",
        WHERE,
        {"accessControl": {"enabled": True}},
    )
    agent.install()
    stage.kubectl("create", "namespace", OTHER)
    account: Document = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": TENANT, "namespace": WHERE},
    }
    stage.kubectl.apply(account, *rights())
    token = stage.kubectl("create", "token", TENANT, "-n", WHERE).strip()
    document = yaml.safe_load(stage.plane.admin.read_text())
    document["users"][0]["user"] = {"token": token}
    document["contexts"][0]["context"]["namespace"] = NAMESPACE
    path = stage.state / "tenant.kubeconfig"
    path.write_text(json.dumps(document))
    yield Tenant(stage, path)
    stage.kubectl("delete", "namespace", OTHER, WHERE, "--wait=false")
    stage.kubectl("delete", "role,rolebinding", TENANT, "-n", NAMESPACE)
    own = f"app.kubernetes.io/instance={agent.name}"
    stage.kubectl("delete", "clusterroles,clusterrolebindings", "-l", own)


def rights() -> Iterator[Document]:
    """The documents' own example, and what tenants have anyway: their pods."""
    who = {"kind": "ServiceAccount", "name": TENANT, "namespace": WHERE}
    for each in yaml.safe_load_all(EXAMPLE.read_text()):
        each["metadata"]["namespace"] = WHERE
        if "subjects" in each:
            each["subjects"] = [who]
        yield each
    for each in may_get_pods(TENANT):
        if "subjects" in each:
            each["subjects"] = [who]
        yield each


def test_a_tenant_asks_with_few_rights(tenant: Tenant) -> None:
    stage = tenant.stage
    mine = stage.run(pod("asked"))["main"]
    theirs = run_elsewhere(stage, "secret-neighbour")
    for one in (mine, theirs):
        stage.board.work(one.pid, 0, 0.5)
    try:
        where = f"--exporter-namespace={WHERE}"
        eventually(lambda: "asked" in tenant.ask("top", where).out, "he sees his pod", SOON_S)
        why = eventually(lambda: uses(tenant.ask("why", "asked", where)), "and its use", SOON_S)
        top = tenant.ask("top", where)
    finally:
        for one in (mine, theirs):
            stage.board.rest(one.pid)
    for said in (top, why):
        assert said.status in {0, 1}, said
        assert "secret-neighbour" not in said.out
        assert "others" in said.out or "other" in said.out
    assert OTHER not in top.out + why.out
    stage.notes.append(f"kubectl mgpu why asked ({why.seconds:.1f} s):\n{why.out}")
    stage.notes.append(f"kubectl mgpu top ({top.seconds:.1f} s):\n{top.out}")
    elsewhere = tenant.ask("why", f"{OTHER}/secret-neighbour", where)
    assert elsewhere.status == 2
    assert "you may not see pod secret-neighbour" in elsewhere.err
    stage.delete("asked")


def uses(said: Asked) -> Asked | None:
    """The answer, once it is of a pod that used its card."""
    return (
        said if said.status == 0 and "It used 0%" not in said.out and "others" in said.out else None
    )
