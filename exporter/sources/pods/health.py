"""The status of a source that runs in its own thread, and explanations of its failed requests."""

import logging
import re
import threading
from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus

from exporter.model import Clock, SourceStatus

logger = logging.getLogger(__name__)

SECOND_NS = 10**9
MAX_REMEMBERED = 256


class SourceHealth:
    """Status, rejected items and one-time log lines of a source. Written by its thread only.

    ``watches``: the source receives changes as they happen, so that it is current while it is up.
    """

    def __init__(self, name: str, clock: Clock, *, watches: bool = True) -> None:
        self._clock = clock
        self._watches = watches
        self._lock = threading.Lock()
        self._name, self._up, self._detail = name, False, "not connected yet"
        self._duration_ns = 0
        self._heard_mono_ns: int | None = None
        self._heard_unix_ns: int | None = None
        self._logged: set[str] = set()
        self._rejected: Counter[str] = Counter()

    def heard(self, duration_ns: int | None = None) -> None:
        """Record that the list is current now, and how long a full list took."""
        with self._lock:
            self._heard_mono_ns = self._clock.monotonic_ns()
            self._heard_unix_ns = self._clock.time_ns()
            if duration_ns is not None:
                self._duration_ns = duration_ns

    def up(self) -> bool:
        """Set the source up; True if that is a change."""
        return self._change(up=True, detail="")

    def down(self, detail: str) -> bool:
        """Set the source down; True if that or ``detail`` is a change."""
        return self._change(up=False, detail=detail)

    def status(self) -> SourceStatus:
        """The current status. While the source is down, its detail has the age of the list."""
        with self._lock:
            up, detail, took_ns = self._up, self._detail, self._duration_ns
            heard_ns, success_ns = self._heard_mono_ns, self._heard_unix_ns
        if up and self._watches:
            success_ns = self._clock.time_ns()
        elif not up:
            detail = f"{detail}; {self._age(heard_ns)}"
        return SourceStatus(
            self._name, up=up, detail=detail, duration_ns=took_ns, last_success_unix_ns=success_ns
        )

    def _age(self, heard_ns: int | None) -> str:
        if heard_ns is None:
            return "no pods are known yet"
        seconds = (self._clock.monotonic_ns() - heard_ns) // SECOND_NS
        return f"the list of pods is {seconds} s old"

    def reject(self, reason: str, item: str, count: int = 1, remedy: str = "") -> None:
        """Count an unusable item, and log it once, with what to do."""
        with self._lock:
            self._rejected[reason] += count
        self.once(logging.WARNING, f"{item} is left out: {reason}{remedy and f'; {remedy}'}")

    def rejected(self) -> Mapping[str, int]:
        """Unusable items since the start, by reason."""
        with self._lock:
            return dict(self._rejected)

    def once(self, level: int, line: str) -> None:
        """Log a line unless it was logged before. At most ``MAX_REMEMBERED`` lines are logged."""
        if line not in self._logged and len(self._logged) < MAX_REMEMBERED:
            self._logged.add(line)
            logger.log(level, "%s", line)

    def _change(self, *, up: bool, detail: str) -> bool:
        with self._lock:
            before = self._up, self._detail
            self._up, self._detail = up, detail
        return before != (up, detail)


SERVICE_ACCOUNT_USER = re.compile(r"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)", re.ASCII)
CERTIFICATE = "CERTIFICATE_VERIFY_FAILED"  # of Python's ssl module


class ServerKind(StrEnum):
    """The server that was asked."""

    API = "the API server"
    KUBELET = "the kubelet"


class ApiError(Exception):
    """A request without an answer (``status`` is None), or with another status than 200."""

    def __init__(self, status: int | None, message: str) -> None:
        super().__init__(message)
        self.status = status


def explanation(failure: ApiError, server: ServerKind = ServerKind.API) -> str:
    """What is wrong and what to do, in one line."""
    if failure.status is None:
        hint = ""
        if server is ServerKind.KUBELET and CERTIFICATE in str(failure).upper():
            hint = (
                "; most kubelets sign their own certificate: give it with --kubelet.ca-file, let "
                "the "
                "cluster sign it (serverTLSBootstrap), or give --kubelet.insecure-tls"
            )
        return f"no connection to {server} ({failure}){hint}"
    if failure.status == HTTPStatus.UNAUTHORIZED:
        return f"{server} does not accept the credentials; they are read again ({failure})"
    if failure.status == HTTPStatus.FORBIDDEN:
        return f"missing permission: give {_who(failure)} {_permission(server)} ({failure})"
    return f"{server} answers {failure.status} ({failure})"


def _who(failure: ApiError) -> str:
    match = SERVICE_ACCOUNT_USER.search(str(failure))
    return f"ServiceAccount {match[1]}/{match[2]}" if match else "this user"


def _permission(server: ServerKind) -> str:
    """The permission that the server checks. KEP-2862 gave pods a resource of their own."""
    if server is ServerKind.API:
        return "a ClusterRole with 'pods: list, watch'"
    return (
        "a ClusterRole with 'nodes/pods: get' (kubelets from 1.33 on). Older ones ask for "
        "'nodes/proxy: get', which also permits commands in every container of the node: better "
        "do without the kubelet"
    )
