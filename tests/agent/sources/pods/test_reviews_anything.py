"""Whatever an API server answers: nobody is let in but by the documented words."""

import json
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.sources.pods.reviews import ApiReviewer
from exporter.apiserver.client import KubeClient
from exporter.model import ReviewError, Right, Subject

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
NAMES = ("username", "uid", "groups", "extra")
USERS = ANYTHING | st.fixed_dictionaries(
    {}, optional={name: ANYTHING | st.text(max_size=9) for name in NAMES}
)
FLAGS = st.sampled_from([True, False, 1, 0, "true", None]) | ANYTHING
STATUSES = ANYTHING | st.fixed_dictionaries(
    {},
    optional={
        "authenticated": FLAGS,
        "allowed": FLAGS,
        "denied": FLAGS,
        "user": USERS,
        "audiences": ANYTHING | st.lists(st.sampled_from(["mgpu", "other"])),
        "error": ANYTHING,
    },
)
KINDS = st.sampled_from(["TokenReview", "SubjectAccessReview", "Status"])
ANSWERS = ANYTHING | st.fixed_dictionaries({}, optional={"kind": KINDS, "status": STATUSES})
METRICS = Right("get", path="/metrics")


class Answering:
    """A connection on which always the same comes back."""

    def __init__(self, answer: object) -> None:
        self._body = json.dumps(answer).encode()

    def post(self, path: str, document: object, timeout_s: float) -> bytes:  # noqa: ARG002 - a client's
        return self._body

    def close(self) -> None:
        """Nothing is open."""


def reviewer(answer: object, *audiences: str) -> ApiReviewer:
    return ApiReviewer(lambda: cast("KubeClient", Answering(answer)), audiences)


def status_of(answer: Any) -> dict[str, Any]:
    status = answer.get("status") if isinstance(answer, dict) else None
    return status if isinstance(status, dict) else {}


@given(ANSWERS)
def test_only_a_true_authenticated_with_a_name_identifies(answer: Any) -> None:
    try:
        subject = reviewer(answer).identify("token")
    except ReviewError:
        return
    if subject is not None:
        assert status_of(answer)["authenticated"] is True
        assert answer["kind"] == "TokenReview"
        assert subject.name == status_of(answer)["user"]["username"] != ""


@given(ANSWERS)
def test_only_a_common_audience_identifies(answer: Any) -> None:
    try:
        subject = reviewer(answer, "mgpu").identify("token")
    except ReviewError:
        return
    if subject is not None:
        assert "mgpu" in status_of(answer)["audiences"]


@given(ANSWERS)
def test_only_a_true_allowed_permits(answer: Any) -> None:
    try:
        permits = reviewer(answer).permits(Subject("a"), METRICS)
    except ReviewError:
        return
    assert permits == (
        status_of(answer)["allowed"] is True and status_of(answer).get("denied", False) is False
    )
