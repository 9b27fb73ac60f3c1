"""Reviews over real HTTP: who a token belongs to, what its user may do, and bad answers."""

import json
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from exporter.agent.sources.pods.reviews import MAX_IDLE, ApiReviewer
from exporter.apiserver.client import connect, from_kubeconfig
from exporter.model import ReviewError, Right, Subject
from tests.agent.sources.pods.apiserver import ApiServer, write_kubeconfig
from tests.agent.sources.pods.apistate import Account

EXTRA = {"authentication.kubernetes.io/pod-name": ["prometheus-0"]}
USER = {"username": "system:serviceaccount:m:prometheus", "uid": "u-1", "groups": ["a", "b"]}
SUBJECT = Subject(
    "system:serviceaccount:m:prometheus",
    "u-1",
    ("a", "b"),
    {"authentication.kubernetes.io/pod-name": ("prometheus-0",)},
)
METRICS = Right("get", path="/metrics")
PODS = Right("get", resource="pods", namespace="team-a")


@pytest.fixture
def kubeconfig(server: ApiServer, tmp_path: Path) -> Path:
    return write_kubeconfig(tmp_path / "config", server.url, token="exporter")  # noqa: S106


@pytest.fixture
def reviewer(kubeconfig: Path) -> Iterator[ApiReviewer]:
    made = ApiReviewer(partial(connect, from_kubeconfig(str(kubeconfig))), timeout_s=1.0)
    yield made
    made.close()


def audience(kubeconfig: Path, *names: str) -> ApiReviewer:
    return ApiReviewer(partial(connect, from_kubeconfig(str(kubeconfig))), names)


def test_a_tokens_user_is_passed_on_whole_to_the_next_question(
    server: ApiServer, reviewer: ApiReviewer
) -> None:
    user = {**USER, "extra": EXTRA}
    server.add_account("right", Account(user, rights={("get", "/metrics"), ("get", "pods/team-a")}))
    subject = reviewer.identify("right")
    assert subject == SUBJECT
    assert reviewer.permits(SUBJECT, METRICS)
    assert reviewer.permits(SUBJECT, PODS)
    assert not reviewer.permits(SUBJECT, Right("get", resource="pods"))
    assert not reviewer.permits(SUBJECT, Right("post", path="/metrics"))

    first, second = server.requests("permit")[:2]
    assert first.authorization == "Bearer exporter"
    spec = {"user": USER["username"], "uid": "u-1", "groups": ["a", "b"], "extra": EXTRA}
    url = {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    named = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "team-a"}}
    assert first.document["spec"] == spec | url
    assert second.document["spec"] == spec | named


def test_an_unknown_token_is_nobodys(server: ApiServer, reviewer: ApiReviewer) -> None:
    assert reviewer.identify("wrong") is None
    assert server.requests("identify")[0].document["spec"] == {"token": "wrong"}


def test_a_token_must_be_for_the_audience(server: ApiServer, kubeconfig: Path) -> None:
    server.add_account("mine", Account(USER, audiences=("mgpu", "other")))
    server.add_account("theirs", Account(USER))
    mine = audience(kubeconfig, "mgpu", "second")
    assert mine.identify("mine") is not None
    assert mine.identify("theirs") is None
    assert audience(kubeconfig, "https://kubernetes.default.svc").identify("theirs") is not None


def test_an_api_server_that_knows_no_audiences_identifies_nobody(
    server: ApiServer, kubeconfig: Path
) -> None:
    answer = {"kind": "TokenReview", "status": {"authenticated": True, "user": USER}}
    server.answer_reviews_with("identify", json.dumps(answer).encode())
    assert audience(kubeconfig, "mgpu").identify("any") is None


def review(kind: str, **status: object) -> bytes:
    return json.dumps({"kind": kind, "status": status}).encode()


def token_review(**status: object) -> bytes:
    return review("TokenReview", **{"authenticated": True, "user": USER, **status})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "no TokenReview with a status"),
        (b"{}", "no TokenReview with a status"),
        (b'{"kind": "TokenReview", "status": []}', "no TokenReview with a status"),
        (review("Status", authenticated=True, user=USER), "no TokenReview with a status"),
        (token_review(authenticated="true"), "no true or false as authenticated"),
        (token_review(authenticated=1), "no true or false as authenticated"),
        (token_review(user=None), "names no user"),
        (token_review(user={"username": 7}), "names no user"),
        (token_review(user={"username": ""}), "empty user name"),
        (token_review(user={**USER, "uid": 7}), "another type"),
        (token_review(user={**USER, "extra": "x"}), "another type"),
        (token_review(user={**USER, "groups": "system:masters"}), "else than texts as groups"),
        (token_review(user={**USER, "groups": [["x"]]}), "else than texts as groups"),
        (token_review(user={**USER, "groups": ["x" * 300_000]}), "more than 262144 bytes"),
    ],
)
def test_a_malformed_answer_identifies_nobody_and_says_why(
    server: ApiServer, reviewer: ApiReviewer, body: bytes, words: str
) -> None:
    server.answer_reviews_with("identify", body)
    with pytest.raises(ReviewError, match=words):
        reviewer.identify("any")


@pytest.mark.parametrize(
    ("status", "permits"),
    [
        ({"allowed": True}, True),
        ({"allowed": False}, False),
        ({"allowed": True, "denied": True}, False),
        ({"allowed": False, "evaluationError": "webhook is away"}, False),
        ({"allowed": "true"}, None),
        ({"allowed": 1}, None),
        ({"allowed": None}, None),
        ({"allowed": True, "denied": "no"}, None),
        ({}, None),
    ],
)
def test_only_a_plain_yes_permits(
    server: ApiServer,
    reviewer: ApiReviewer,
    status: dict[str, object],
    permits: bool | None,  # noqa: FBT001 - a table
) -> None:
    server.answer_reviews_with("permit", review("SubjectAccessReview", **status))
    if permits is None:
        with pytest.raises(ReviewError, match="no true or false"):
            reviewer.permits(SUBJECT, METRICS)
    else:
        assert reviewer.permits(SUBJECT, METRICS) is permits


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (403, "tokenreviews: create"),
        (401, "does not accept the credentials"),
        (429, "answers 429"),
        (500, "answers 500"),
        (204, "answers 204"),
    ],
)
def test_a_refusal_says_what_to_do(
    server: ApiServer, reviewer: ApiReviewer, status: int, words: str
) -> None:
    server.fail("identify", status, times=9)
    with pytest.raises(ReviewError, match=words):
        reviewer.identify("any")


def test_no_message_has_the_token(server: ApiServer, reviewer: ApiReviewer) -> None:
    server.fail("identify", 500, "cannot review s3cret-token", times=9)
    with pytest.raises(ReviewError) as caught:
        reviewer.identify("s3cret-token")
    assert "s3cret" not in str(caught.value)


def test_a_silent_and_a_dripping_api_server_are_left(
    server: ApiServer, reviewer: ApiReviewer
) -> None:
    began = time.monotonic()
    server.hold("identify")
    with pytest.raises(ReviewError, match="no connection"):
        reviewer.identify("any")
    server.release()
    server.drip_reviews(0.05)
    with pytest.raises(ReviewError, match=r"took more than [\d.]+ s"):
        reviewer.identify("any")
    assert time.monotonic() - began < 30


def test_few_connections_are_kept_after_a_crowd(server: ApiServer, kubeconfig: Path) -> None:
    reviewer = ApiReviewer(partial(connect, from_kubeconfig(str(kubeconfig))), timeout_s=60.0)
    server.hold("identify")
    crowd = [threading.Thread(target=reviewer.identify, args=(f"t{n}",)) for n in range(12)]
    for each in crowd:
        each.start()
    server.wait_for_requests("identify", 12)
    server.release()
    for each in crowd:
        each.join()
    server.wait_for(lambda: server.connections <= MAX_IDLE, "the others are closed")
    assert reviewer.identify("t1") is None
    reviewer.close()


def test_connections_are_kept_and_replaced_after_the_server_came_back(
    server: ApiServer, reviewer: ApiReviewer
) -> None:
    server.add_account("right", Account(USER))
    for _ in range(3):
        assert reviewer.identify("right")
    assert server.connections == 1
    server.stop()
    with pytest.raises(ReviewError, match="no connection"):
        reviewer.identify("right")
    server.start()
    assert reviewer.identify("right")
    server.drop_connections()
    assert reviewer.identify("right")
