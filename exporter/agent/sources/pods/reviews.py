"""Asks the API server who a client is (TokenReview) and what it may do (SubjectAccessReview).

Blocking; any number of threads. Each request has a connection of its own; some are kept for later
ones. Nothing of an answer is trusted beyond its documented types: a wrong one is an error, never a
permission.

Sources: Kubernetes' API reference, authentication.k8s.io/v1 TokenReview and authorization.k8s.io/v1
SubjectAccessReview.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from exporter.agent.sources.pods.wire import JsonError, decode
from exporter.apiserver.client import KubeClient
from exporter.apiserver.serveranswers import ApiError, explanation
from exporter.model import ReviewError, Right, Subject

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TIMEOUT_S = 4.0
MAX_IDLE = 4  # connections that are kept; each costs the API server memory
_FORBIDDEN = 403
_MISSING = (
    "missing permission: give the exporter's ServiceAccount a ClusterRole with 'tokenreviews: "
    "create' and 'subjectaccessreviews: create', such as system:auth-delegator"
)


class ApiReviewer:
    """Reviews by the API server that ``connect`` reaches.

    ``audiences`` are those that a token must be made for, at least one of them; without any, the
    API server's own.
    """

    def __init__(
        self,
        connect: Callable[[], KubeClient],
        audiences: Sequence[str] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._connect = connect
        self._audiences = tuple(audiences)
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._idle: list[KubeClient] = []

    def identify(self, token: str) -> Subject | None:
        """The subject that a token belongs to; None if it is not valid.

        Raises:
            ReviewError: the API server gave no usable answer.

        """
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = list(self._audiences)
        try:
            status = self._review("authentication", "TokenReview", TOKEN_REVIEWS, spec)
            if not _flag(status, "authenticated"):
                return None
            # A token that was made for another service is not for us, valid as it is: that service
            # may pass on what it receives. An API server that does not know audiences ignores those
            # of the request and names none.
            if self._audiences:
                named = _texts(status.get("audiences"), "audiences")
                if set(self._audiences).isdisjoint(named):
                    return None
            return _subject(status.get("user"))
        except ReviewError as error:
            # An API server may repeat what it was asked. The message goes into the log.
            raise ReviewError(str(error).replace(token, "(the token)")) from None

    def permits(self, subject: Subject, right: Right) -> bool:
        """Whether the subject has the right.

        Raises:
            ReviewError: the API server gave no usable answer.

        """
        spec: dict[str, Any] = {
            "user": subject.name,
            "uid": subject.uid,
            "groups": list(subject.groups),
            "extra": {key: list(values) for key, values in subject.extra.items()},
        }
        if right.path:
            spec["nonResourceAttributes"] = {"path": right.path, "verb": right.verb}
        else:
            named = {"verb": right.verb, "resource": right.resource, "namespace": right.namespace}
            spec["resourceAttributes"] = named
        status = self._review("authorization", "SubjectAccessReview", ACCESS_REVIEWS, spec)
        # An answer without ``allowed`` is no answer. ``denied`` wins where an authorizer says both.
        return _flag(status, "allowed", needed=True) and not _flag(status, "denied")

    def close(self) -> None:
        """Closes the idle connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for client in idle:
            client.close()

    def _review(
        self, group: str, kind: str, path: str, spec: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        document = {"apiVersion": f"{group}.k8s.io/v1", "kind": kind, "spec": spec}
        try:
            answer = decode(self._post(path, document))
        except ApiError as error:
            why = f"{_MISSING} ({error})" if error.status == _FORBIDDEN else explanation(error)
            raise ReviewError(why) from None
        except JsonError as error:
            raise ReviewError(f"the API server's {kind} is {error}") from None
        status = answer.get("status") if isinstance(answer, dict) else None
        if not isinstance(answer, dict) or answer.get("kind") != kind:
            status = None
        if not isinstance(status, dict):
            raise ReviewError(f"the API server's answer is no {kind} with a status")
        return status

    def _post(self, path: str, document: object) -> bytes:
        """The answer. A kept connection may have ended meanwhile; then a new one is made."""
        ends_s = time.monotonic() + self._timeout_s
        with self._lock:
            client = self._idle.pop() if self._idle else None
        if client is not None:
            try:
                return self._asked(client, path, document, self._timeout_s)
            except ApiError as error:
                left_s = ends_s - time.monotonic()
                if error.status is not None or left_s < self._timeout_s / 2:
                    raise
        return self._asked(self._connect(), path, document, max(ends_s - time.monotonic(), 0.1))

    def _asked(self, client: KubeClient, path: str, document: object, timeout_s: float) -> bytes:
        """The answer. After a failure the credentials are read again."""
        try:
            body = client.post(path, document, timeout_s)
        except ApiError:
            client.close()
            raise
        with self._lock:
            kept = len(self._idle) < MAX_IDLE
            if kept:
                self._idle.append(client)
        if not kept:
            client.close()
        return body


def _flag(status: Mapping[str, Any], name: str, *, needed: bool = False) -> bool:
    """A boolean of the status; one that is absent is false, unless it is needed."""
    value = status.get(name, None if needed else False)
    if not isinstance(value, bool):
        raise ReviewError(f"the API server's answer has no true or false as {name}")
    return value


def _subject(user: object) -> Subject:
    if not isinstance(user, dict) or not isinstance(user.get("username"), str):
        raise ReviewError("the API server's TokenReview names no user")
    if not user["username"]:
        raise ReviewError("the API server's TokenReview has an empty user name")
    uid, extra = user.get("uid") or "", user.get("extra") or {}
    if not isinstance(uid, str) or not isinstance(extra, dict):
        raise ReviewError("the API server's TokenReview has a uid or extra of another type")
    return Subject(
        user["username"],
        uid,
        _texts(user.get("groups"), "groups"),
        {str(key): _texts(values, "extra") for key, values in extra.items()},
    )


def _texts(value: object, name: str) -> tuple[str, ...]:
    """A list of texts; None stands for an empty one, as Go writes it."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ReviewError(f"the API server's answer has something else than texts as {name}")
    return tuple(value)
