"""The devices of this node's ResourceClaims (dynamic resource allocation), from the API server.

Claims are asked for one by one, because only those of this node's pods matter: the list of a whole
cluster is long, and an allocated claim does not change. Slices are listed for this node.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import quote

from exporter.model import ClaimedDevice, Clock, NodeFacts, OfferedDevice, Pod, PodTable
from exporter.pods.client import Client
from exporter.pods.devices import Place, Slice, decode_claim, decode_slice, offered
from exporter.pods.failure import SERVICE_ACCOUNT_USER, ApiError
from exporter.pods.wire import MAX_OBJECT, JsonError, decode, list_parts

logger = logging.getLogger(__name__)

GROUP = "/apis/resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")  # the first that is served is asked
MAX_CLAIMS = 1024  # of this node's pods
MAX_SLICES = 1024
TIMEOUT_S = 10.0
KEEP_NS = 600 * 10**9  # how long an allocated claim, and the slices, are not asked for again

Key = tuple[str, str]  # namespace and name


class ClaimsError(Exception):
    """There is no answer; the text says why and what to do."""


class Answer(NamedTuple):
    """What the claims were allocated, and what devices the node offers."""

    claims: Mapping[Key, tuple[ClaimedDevice, ...]]
    offered: Mapping[Place, OfferedDevice]


class Claims:
    """What ``exporter.node.polled`` asks of the API server. ``connect`` reads credentials anew."""

    name = "claims_api"

    def __init__(self, connect: Callable[[], Client], node: str, clock: Clock = time) -> None:
        self._connect, self._node, self._clock = connect, node, clock
        self._client: Client | None = None
        self._version = ""
        self._claims: dict[Key, tuple[ClaimedDevice, ...]] = {}
        self._offered: Mapping[Place, OfferedDevice] = {}
        self._as_of_ns: int | None = None  # when all was last asked for
        self._rejected: Counter[str] = Counter()

    def subject(self, table: PodTable) -> frozenset[Key] | None:
        """The claims of this node's pods; None where no pod refers to any."""
        keys = {
            (pod.namespace, reference.claim)
            for pod in table.pods.values()
            for container in pod.containers
            for reference in container.claims
            if not pod.deleted and not pod.terminal
        }
        return frozenset(sorted(keys)[:MAX_CLAIMS]) or None

    def concerns(self, pod: Pod) -> bool:
        """Whether it refers to a claim."""
        return any(container.claims for container in pod.containers)

    def ask(self, table: PodTable) -> Answer:
        """Ask for the claims that are not known yet, now and then for all.

        Raises:
            ClaimsError: the API server did not answer, or not what was asked for.

        """
        wanted = self.subject(table) or frozenset()
        now_ns = self._clock.monotonic_ns()
        if self._as_of_ns is None or now_ns - self._as_of_ns >= KEEP_NS:
            self._claims, self._as_of_ns = {}, None
        try:
            client = self._connected()
            self._claims = {key: self._claim(client, key) for key in wanted}
            if self._as_of_ns is None or self._misses_devices():
                self._offered = self._slices(client)
        except (ApiError, JsonError) as error:
            self._forget_client()
            raise ClaimsError(_explanation(error)) from error
        self._as_of_ns = self._as_of_ns or now_ns
        return Answer(dict(self._claims), self._offered)

    def facts(self, answer: Answer, table: PodTable) -> NodeFacts:
        """The claims that this node's pods still refer to, and all devices offered."""
        wanted = self.subject(table) or frozenset()
        claims = {key: devices for key, devices in answer.claims.items() if key in wanted}
        return NodeFacts(claims=claims, offered=answer.offered if claims else {})

    def rejected(self) -> Mapping[str, int]:
        """Slices and claims that could not be used, by reason."""
        return dict(self._rejected)

    def interrupt(self) -> None:
        """End the read that is under way."""
        if (client := self._client) is not None:
            client.interrupt()

    # --- in the asking thread ---

    def _connected(self) -> Client:
        if self._client is None:
            self._client, self._version = self._connect(), ""
        if not self._version:
            self._version = self._discover(self._client)
        return self._client

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _discover(self, client: Client) -> str:
        with client.get(GROUP, {}, TIMEOUT_S) as stream:
            document = decode(stream.read(MAX_OBJECT))
        served = document.get("versions") if isinstance(document, dict) else None
        names = [one.get("version") for one in served or () if isinstance(one, dict)]
        for version in VERSIONS:
            if version in names:
                return version
        raise ApiError(None, f"resource.k8s.io is served in none of {', '.join(VERSIONS)}")

    def _claim(self, client: Client, key: Key) -> tuple[ClaimedDevice, ...]:
        """What a claim was allocated. One that is gone, or not allocated, has no devices."""
        if known := self._claims.get(key):
            return known
        namespace, name = (quote(part, safe="") for part in key)
        path = f"{GROUP}/{self._version}/namespaces/{namespace}/resourceclaims/{name}"
        try:
            with client.get(path, {}, TIMEOUT_S) as stream:
                return decode_claim(decode(stream.read(MAX_OBJECT)))
        except JsonError as error:
            self._reject("claim_unusable", f"claim {key[0]}/{key[1]} ({error})")
        except ApiError as failure:
            if failure.status != HTTPStatus.NOT_FOUND:
                raise
        return ()

    def _slices(self, client: Client) -> Mapping[Place, OfferedDevice]:
        found: list[Slice] = []
        query = {"fieldSelector": f"spec.nodeName={self._node}", "resourceVersion": "0"}
        with client.get(f"{GROUP}/{self._version}/resourceslices", query, TIMEOUT_S) as stream:
            for key, value in list_parts(stream.chunks()):
                if key != "items":
                    continue
                one = decode_slice(value) if len(found) < MAX_SLICES else None
                if one is None:
                    self._reject("slice_unusable", "a ResourceSlice of this node")
                else:
                    found.append(one)
        return offered(found)

    def _misses_devices(self) -> bool:
        """Whether a device of a claim is not among those offered."""
        return any(
            (device.driver, device.pool, device.device) not in self._offered
            for devices in self._claims.values()
            for device in devices
        )

    def _reject(self, reason: str, item: str) -> None:
        if reason not in self._rejected:
            logger.warning("%s is left out: %s; more of the kind are only counted", item, reason)
        self._rejected[reason] += 1


def _explanation(error: ApiError | JsonError) -> str:
    """What is wrong and what to do about it, in one line."""
    if not isinstance(error, ApiError):
        return f"the API server's answer cannot be read ({error})"
    if error.status == HTTPStatus.FORBIDDEN:
        match = SERVICE_ACCOUNT_USER.search(str(error))
        who = f"ServiceAccount {match[1]}/{match[2]}" if match else "this user"
        return (
            f"missing permission: give {who} a ClusterRole for the group resource.k8s.io with "
            f"'resourceclaims: get' and 'resourceslices: list', or set --pods.claims=off ({error})"
        )
    if error.status is None:
        return f"no answer from the API server ({error})"
    return f"the API server answers {error.status} ({error})"
