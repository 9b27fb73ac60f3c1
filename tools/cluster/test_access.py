"""Kubernetes' access control, by a real API server: three ServiceAccounts of different rights."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from tools.cluster.agent import NAME, Agent
from tools.cluster.kubectl import Document, KubectlError
from tools.cluster.programs import eventually
from tools.cluster.stage import Running, Stage
from tools.cluster.workloads import NAMESPACE, pod

ACCOUNTS = "clients"  # the namespace of the ServiceAccounts
OTHER = "other-team"
PATHS = ("/metrics", "/", "/api/v1/snapshot", "/api/v1/devices", "/api/v1/history")
EXPIRES = 65.0  # seconds, of a verdict that allows


class Answer(NamedTuple):
    """Status and body of an answer."""

    status: int
    body: str


class Guarded(NamedTuple):
    """The exporter with access control, and the tokens of the accounts."""

    stage: Stage
    agent: Agent
    tokens: dict[str, str]

    def ask(self, path: str, account: str = "") -> Answer:
        """The answer to a request with the account's token, or without any."""
        url = self.agent.address().removesuffix("/metrics") + path
        shown = {"Authorization": f"Bearer {self.tokens[account]}"} if account else {}
        try:
            request = urllib.request.Request(url, headers=shown)  # noqa: S310 - http
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - http
                return Answer(answer.status, answer.read().decode())
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read().decode())

    def snapshot(self, account: str) -> Any:
        """The JSON of everything that an account may see."""
        answer = self.ask("/api/v1/snapshot", account)
        assert answer.status == 200, answer
        return json.loads(answer.body)


def account(name: str) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": ACCOUNTS},
    }


def subject(name: str) -> Document:
    return {"kind": "ServiceAccount", "name": name, "namespace": ACCOUNTS}


def may_get_pods(name: str) -> list[Document]:
    """A Role in the namespace of the workloads, bound to an account."""
    group, metadata = "rbac.authorization.k8s.io", {"name": name, "namespace": NAMESPACE}
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [subject(name)],
        },
    ]


@pytest.fixture(scope="module")
def guarded(stage: Stage) -> Iterator[Guarded]:
    """Another exporter on the node, which asks the API server about its clients."""
    control = {
        "enabled": True,
        "scrapers": [subject("scraper")],
        "viewers": [subject("viewer")],
    }
    more: Document = {"accessControl": control}
    agent = Agent(stage.kubectl, stage.board, "minimal", f"guarded-{NAME}", "guarded", more)
    for namespace in (ACCOUNTS, OTHER):
        stage.kubectl("create", "namespace", namespace)
    names = ("scraper", "viewer", "tenant", "nobody")
    stage.kubectl.apply(*map(account, names), *may_get_pods("tenant"))
    tokens = {name: token(stage, name) for name in names}
    tokens["bad"] = tokens["viewer"][:-8] + "AAAAAAAA"
    tokens["elsewhere"] = token(stage, "viewer", "--audience=elsewhere")
    agent.install()
    yield Guarded(stage, agent, tokens)
    stage.kubectl("delete", "namespace", ACCOUNTS, OTHER, agent.namespace, "--wait=false")
    own = f"app.kubernetes.io/instance={agent.name}"
    stage.kubectl("delete", "clusterroles,clusterrolebindings", "-l", own)


def token(stage: Stage, name: str, *more: str) -> str:
    """A new token of an account, as a pod would be given one."""
    return stage.kubectl("create", "token", name, "-n", ACCOUNTS, *more).strip()


def test_three_accounts_see_what_their_rights_say(guarded: Guarded) -> None:
    allowed = {
        "scraper": {"/metrics"},
        "viewer": set(PATHS) - {"/metrics"},
        "nobody": set(),
    }
    for name, paths in allowed.items():
        statuses = {path: guarded.ask(path, name).status for path in PATHS}
        assert statuses == {path: 200 if path in paths else 403 for path in PATHS}, name
    for name in ("", "bad", "elsewhere"):
        assert {guarded.ask(path, name).status for path in PATHS} == {401}, name
    assert [guarded.ask(path).status for path in ("/-/healthy", "/-/ready")] == [200, 200]


def test_a_tenant_sees_a_namespace_and_the_rest_as_one_sum(guarded: Guarded) -> None:
    stage = guarded.stage
    mine = stage.run(pod("mine"))["main"]
    theirs = run_elsewhere(stage, "theirs")
    for one in (mine, theirs):
        stage.board.work(one.pid, 0, 0.4)
    try:
        eventually(lambda: both_are_known(guarded), "the viewer sees both pods")
        left, whole = guarded.snapshot("tenant"), guarded.snapshot("viewer")
        page = guarded.ask("/?all=1", "tenant").body
    finally:
        for one in (mine, theirs):
            stage.board.rest(one.pid)
    assert left["namespaces_shown"] == [NAMESPACE]
    assert {one["namespace"] for one in left["pods"]} == {NAMESPACE}
    assert {one["namespace"] for one in whole["pods"]} >= {NAMESPACE, OTHER}
    device = next(one for one in left["devices"] if one["index"] == 0)
    assert device["others"]["core_utilization_ratio"] > 0.1
    assert OTHER not in json.dumps(left) + page
    assert "theirs" not in json.dumps(left) + page
    stage.notes.append(
        f"access: the tenant sees {device['utilization_ratio']:.2f} of GPU 0 in use, of it "
        f"{device['others']['core_utilization_ratio']:.2f} by others without names"
    )
    assert guarded.ask(f"/api/v1/pods/{NAMESPACE}/mine", "tenant").status == 200
    assert guarded.ask(f"/api/v1/pods/{OTHER}/theirs", "tenant").status == 404
    stage.delete("mine")


def both_are_known(guarded: Guarded) -> bool:
    """Whether both pods and their use are in the document by now."""
    found = {
        (one["namespace"], one["pod"]): one.get("core_usage_gpus", 0.0)
        for one in guarded.snapshot("viewer")["pods"]
    }
    wanted = ((NAMESPACE, "mine"), (OTHER, "theirs"))
    if not all(found.get(name, 0.0) > 0.1 for name in wanted):
        return False
    answer = guarded.ask("/api/v1/snapshot", "tenant")  # a refusal is cached for a while
    return answer.status == 200


def run_elsewhere(stage: Stage, name: str) -> Running:
    """A pod in the namespace of another team."""
    document = pod(name)
    document["metadata"]["namespace"] = OTHER

    def applied() -> bool:
        try:
            stage.kubectl.apply(document)
        except KubectlError:  # the namespace has no default ServiceAccount yet
            return False
        return True

    eventually(applied, "the pod is taken")
    stage.kubectl.wait(OTHER, f"pod/{name}", "Ready")
    return stage.running(name, OTHER)["main"]


def test_every_account_may_get_the_paths_of_the_api_but_not_the_page(guarded: Guarded) -> None:
    """Why the right to the page is not that to its own paths."""
    user = f"system:serviceaccount:{ACCOUNTS}:nobody"
    assert guarded.stage.kubectl.may(user, "get", "/api/v1/snapshot")
    assert not guarded.stage.kubectl.may(user, "get", "/mgpu-exporter/page")


def test_a_right_that_is_taken_away_ends_within_a_minute(guarded: Guarded) -> None:
    assert guarded.ask("/metrics", "scraper").status == 200
    name = f"guarded-guarded-{NAME}-scrape"
    guarded.stage.kubectl("delete", "clusterrolebinding", name)
    try:
        eventually(lambda: guarded.ask("/metrics", "scraper").status == 403, "it ends", EXPIRES)
    finally:
        guarded.agent.apply()
    eventually(lambda: guarded.ask("/metrics", "scraper").status == 200, "it is back", EXPIRES)


def test_without_the_api_server_nobody_new_is_let_in(guarded: Guarded) -> None:
    fresh = token(guarded.stage, "scraper")
    guarded.tokens["fresh"] = fresh
    url = guarded.agent.address()
    assert guarded.ask("/metrics", "scraper").status == 200
    with guarded.stage.plane.away():
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(  # noqa: S310 - http
                urllib.request.Request(url, headers={"Authorization": f"Bearer {fresh}"}),  # noqa: S310 - http
                timeout=30,
            )
        assert refused.value.code == 503
        assert b"cannot be asked" in refused.value.read()
    guarded.stage.node.wait()
    eventually(lambda: guarded.ask("/metrics", "fresh").status == 200, "it is let in again")


def test_with_an_audience_of_its_own_no_other_token_opens_anything(guarded: Guarded) -> None:
    """Last, because it changes the exporter."""
    stage, old = guarded.stage, guarded.agent
    control = {**old.more["accessControl"], "audiences": ["mgpu-exporter"]}
    agent = Agent(
        *(stage.kubectl, stage.board, "minimal", old.name, old.namespace),
        more={"accessControl": control},
    )
    agent.apply()
    agent.wait()
    eventually(lambda: guarded.ask("/-/ready").status == 200, "the new one is ready")
    guarded.tokens["own"] = token(stage, "scraper", "--audience=mgpu-exporter")
    assert guarded.ask("/metrics", "own").status == 200
    assert guarded.ask("/metrics", "scraper").status == 401
    assert guarded.ask("/metrics", "elsewhere").status == 401
