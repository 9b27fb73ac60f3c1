"""The devices of this node's ResourceClaims (dynamic resource allocation), from the API server.

Claims are read one by one, because only those of this node's pods matter: the list of a whole
cluster is long, and an allocated claim does not change while a pod uses it (without any,
Kubernetes' ``pkg/controller/resourceclaim`` takes its devices). Slices are listed for this node.

Versions v1, v1beta2 and v1beta1 of resource.k8s.io differ in one point: v1beta1 nests a slice's
device in ``basic``. The decoders accept both forms in every version.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from http import HTTPStatus
from itertools import islice
from typing import NamedTuple
from urllib.parse import quote

from exporter.agent.fairness import in_turn
from exporter.agent.sources.pods.decode import Json, mapping, mappings, text, texts
from exporter.agent.sources.pods.wire import MAX_OBJECT, JsonError, decode, list_parts
from exporter.agent.sources.polled import Inquiry
from exporter.apiserver.client import KubeClient
from exporter.apiserver.serveranswers import ApiError, explanation
from exporter.model import ClaimedDevice, Clock, NodeFacts, OfferedDevice, PodTable

MAX_RESULTS = 256  # devices of one claim; the API allows 32
MAX_CONFIGS = 64  # of one claim; the API allows 32 of the claim, and its class has some
MAX_DEVICES = 4096  # of one node; a slice has up to 128
MAX_ATTRIBUTES = 64  # of one device; the API allows 32 with its capacity
MAX_TAINTS = 16  # of one device, as the API allows

Place = tuple[str, str, str]  # driver, pool, device


class Slice(NamedTuple):
    """The devices of one ResourceSlice, and the generation of its pool."""

    driver: str
    pool: str
    generation: int
    devices: Mapping[str, OfferedDevice]


def decode_claim(document: object) -> tuple[ClaimedDevice, ...]:
    """The devices that are allocated to a ResourceClaim; empty if none are."""
    if not isinstance(document, dict):
        return ()
    allocation = mapping(mapping(document, "status"), "allocation")
    devices = mapping(allocation, "devices")
    configs = list(islice(mappings(devices, "config"), MAX_CONFIGS))
    return tuple(
        ClaimedDevice(
            request=text(result.get("request")),
            driver=text(result.get("driver")),
            pool=text(result.get("pool")),
            device=text(result.get("device")),
            share_id=text(result.get("shareID")),
            admin_access=result.get("adminAccess") is True,
            consumed=texts(mapping(result, "consumedCapacity")),
            sharing=_sharing(result, configs),
        )
        for result in islice(mappings(devices, "results"), MAX_RESULTS)
    )


def _sharing(result: Json, configs: Iterable[Json]) -> Mapping[str, str]:
    """The sharing of a device by its driver's configuration in the claim.

    Of several that are for its request, the last counts: the claim's stand behind its class's. Its
    number among them shows which devices have the same.

    Source: kubernetes-sigs/dra-driver-nvidia-gpu, ``api/nvidia.com/resource/v1beta1/sharing.go``.
    """
    request, driver = text(result.get("request")), text(result.get("driver"))
    found: Mapping[str, str] = {}
    for number, config in enumerate(configs):
        opaque, requests = mapping(config, "opaque"), config.get("requests")
        meant = not requests or (
            isinstance(requests, list)
            and not {request, request.partition("/")[0]}.isdisjoint(
                name for name in requests if isinstance(name, str)
            )
        )
        sharing = mapping(mapping(opaque, "parameters"), "sharing")
        if meant and text(opaque.get("driver")) == driver and "strategy" in sharing:
            limits = mapping(sharing, "mpsConfig")
            stated = {
                "strategy": sharing.get("strategy"),
                "core": limits.get("defaultActiveThreadPercentage"),
                "memory": limits.get("defaultPinnedDeviceMemoryLimit"),
            }
            each = mapping(limits, "defaultPerDevicePinnedMemoryLimit")
            stated |= {f"memory/{device}": each[device] for device in list(each)[:MAX_RESULTS]}
            found = {"config": str(number), **texts(stated)}
    return found


def decode_slice(document: object) -> Slice | None:
    """A decoded ResourceSlice; None if the document is not one."""
    if not isinstance(document, dict):
        return None
    spec = mapping(document, "spec")
    pool = mapping(spec, "pool")
    driver, name = text(spec.get("driver")), text(pool.get("name"))
    generation = pool.get("generation", 0)
    if not driver or not name or not isinstance(generation, int):
        return None
    devices: dict[str, OfferedDevice] = {}
    for device in mappings(spec, "devices"):
        if own := text(device.get("name")):
            about = mapping(device, "basic") or device  # v1beta1 has it nested
            capacity = mapping(about, "capacity")
            amounts = {
                k: mapping(capacity, k).get("value") for k in list(capacity)[:MAX_ATTRIBUTES]
            }
            devices[own] = OfferedDevice(
                attributes=dict(_attributes(mapping(about, "attributes"))),
                capacity=texts(amounts),
                taints=tuple(map(taint_of, islice(mappings(about, "taints"), MAX_TAINTS))),
            )
    return Slice(driver, name, generation, devices)


def taint_of(taint: Json) -> str:
    """A taint as kubectl writes those of a node."""
    key, value, effect = (text(taint.get(part)) for part in ("key", "value", "effect"))
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _attributes(source: Json) -> Iterator[tuple[str, str]]:
    """Each has one of ``string``, ``int``, ``bool`` and ``version``."""
    for key in list(source)[:MAX_ATTRIBUTES]:
        for kind, value in mapping(source, key).items():
            if kind == "bool" and isinstance(value, bool):
                yield key, str(value).lower()
            elif kind in {"string", "int", "version"}:
                yield from texts({key: value}).items()


def offered(slices: Iterable[Slice]) -> dict[Place, OfferedDevice]:
    """The devices of all slices; for each pool only its newest generation."""
    known = list(slices)
    newest: dict[tuple[str, str], int] = {}
    for one in known:
        key = one.driver, one.pool
        newest[key] = max(one.generation, newest.get(key, one.generation))
    devices = {
        (one.driver, one.pool, name): device
        for one in known
        if one.generation == newest[one.driver, one.pool]
        for name, device in one.devices.items()
    }
    return dict(list(devices.items())[:MAX_DEVICES])


def followed(
    devices: tuple[ClaimedDevice, ...],
    before: Mapping[Place, OfferedDevice],
    now: Mapping[Place, OfferedDevice],
) -> tuple[ClaimedDevice, ...]:
    """The devices of a claim by the names that they have ``now``; it was read ``before``. Pure.

    A claim has the name that its device had when it was allocated. Some drivers number their
    devices, so that a card that is taken away gives its name to the next one, under pods that run
    (dra-driver-nvidia-gpu#427). A device whose name is another's now, and which is not offered any
    more, has none: "". If nobody had the new device before, it is the old one, made again.
    """
    had = {uuid: place for place, device in before.items() if (uuid := _uuid(place, device))}
    has = {uuid: place for place, device in now.items() if (uuid := _uuid(place, device))}

    def name_of(claimed: ClaimedDevice) -> str:
        place = claimed.driver, claimed.pool, claimed.device
        own = _uuid(place, before.get(place))
        other = _uuid(place, now.get(place))
        if not own or own == other:
            return claimed.device
        if own in has:
            return has[own][-1]
        return "" if other in had else claimed.device

    return tuple(replace(each, device=name_of(each)) for each in devices)


def _uuid(place: Place, device: OfferedDevice | None) -> str:
    """The UUID that a driver publishes of its device, "" if none."""
    own = device.attributes if device else {}
    return own.get("uuid") or own.get(f"{place[0]}/uuid", "")


GROUP = "/apis/resource.k8s.io"
VERSIONS = ("v1", "v1beta2", "v1beta1")  # the first that is served is asked
MAX_CLAIMS = 1024  # of this node's pods
MAX_SLICES = 1024
TIMEOUT_S = 10.0
PERMISSION = (
    "a ClusterRole for the group resource.k8s.io with 'resourceclaims: get' and "
    "'resourceslices: list', or set --pods.claims=off"
)
OF_ONE_CLAIM = {HTTPStatus.FORBIDDEN, HTTPStatus.INTERNAL_SERVER_ERROR}  # other claims may be read
KEEP_NS = 600 * 10**9  # how long an allocated claim, and the slices, are not asked for again

Key = tuple[str, str]  # namespace and name


def read_slices(client: KubeClient, version: str, node: str) -> Iterator[Slice | None]:
    """The ResourceSlices of a node, as the API server lists them; None for one that is none.

    Raises:
        ApiError: the API server did not answer.
        JsonError: its answer cannot be read.

    """
    # At version 0 the API server answers from its cache: the nodes of a cluster all ask.
    query = {"fieldSelector": f"spec.nodeName={node}", "resourceVersion": "0"}
    with client.get(f"{GROUP}/{version}/resourceslices", query, TIMEOUT_S) as stream:
        for key, value in list_parts(stream.chunks()):
            if key == "items":
                yield decode_slice(value)


class ClaimsError(Exception):
    """No answer. The message says why and what to do."""


class Claim(NamedTuple):
    """The devices of a claim, and the pods, by uid, that referred to it when it was last wanted.

    While one of them is there, it has the same devices. Without a user it loses them. ``devices``
    is None if the claim could not be read.
    """

    users: frozenset[str]
    devices: tuple[ClaimedDevice, ...] | None

    def known_to(self, users: frozenset[str]) -> tuple[ClaimedDevice, ...] | None:
        """Its devices, if one of these pods had it then; else none are known."""
        return () if self.users.isdisjoint(users) else self.devices


class ClaimsAnswer(NamedTuple):
    """The claims, and the devices that the node offers."""

    claims: Mapping[Key, Claim]
    offered: Mapping[Place, OfferedDevice]


def _referred(table: PodTable) -> dict[Key, set[str]]:
    """The claims that this node's pods refer to, each with these pods, by uid."""
    users: dict[Key, set[str]] = {}
    for pod in table.pods.values():
        if not pod.deleted and not pod.terminal:
            for reference in (one for container in pod.containers for one in container.claims):
                users.setdefault((pod.namespace, reference.claim), set()).add(pod.uid)
    return users


def _wanted(table: PodTable) -> dict[Key, frozenset[str]]:
    """The claims that are asked for; beyond ``MAX_CLAIMS`` the namespaces with most lose some."""
    users = _referred(table)
    asked = in_turn(sorted(users), lambda key: key[0])[:MAX_CLAIMS]
    return {key: frozenset(users[key]) for key in asked}


def served_version(client: KubeClient) -> str:
    """The version of ``resource.k8s.io`` in which this API server is asked; "" if it has none.

    Raises:
        ApiError: it did not answer, or does not serve the group (404).
        JsonError: the answer cannot be read.

    """
    with client.get(GROUP, {}, TIMEOUT_S) as stream:
        document = decode(stream.read(MAX_OBJECT))
    listed = document.get("versions") if isinstance(document, dict) else None
    served = [one.get("version") for one in listed or () if isinstance(one, dict)]
    return next((version for version in VERSIONS if version in served), "")


class Claims(Inquiry[PodTable, ClaimsAnswer, NodeFacts]):
    """Reads ResourceClaims from the API server. ``connect`` reads the credentials again."""

    name = "claims_api"
    nothing = NodeFacts()
    # Claims are known to be asked for, so they are no unknown ones.
    first = ClaimsAnswer({}, {})

    def __init__(self, connect: Callable[[], KubeClient], node: str, clock: Clock = time) -> None:
        super().__init__()
        self._connect, self._node, self._clock = connect, node, clock
        self._client: KubeClient | None = None
        self._version = ""
        self._claims: dict[Key, Claim] = {}
        self._stated: dict[Key, tuple[ClaimedDevice, ...]] = {}  # by the API server's own words
        self._offered: Mapping[Place, OfferedDevice] = {}
        self._as_of_ns: int | None = None  # when all was last asked for
        self._refused: list[ApiError] = []  # of single claims, at the last ask

    def subject(self, given: PodTable) -> frozenset[tuple[Key, frozenset[str]]] | None:
        """The claims of this node's pods, with their users; None where no pod refers to any."""
        return frozenset(_wanted(given).items()) or None

    def ask(self, given: PodTable) -> ClaimsAnswer:
        """Read the claims that are not known yet, and all of them every ``KEEP_NS``.

        Raises:
            ClaimsError: the API server did not answer, or not as expected.

        """
        wanted = _wanted(given)
        for namespace, over in Counter(key[0] for key in _referred(given).keys() - wanted).items():
            self._rejections.reject(
                "claim_over_limit",
                f"a ResourceClaim of namespace {namespace}, whose pods on this node refer to most,",
                over,
                "its devices are not known; find out who makes so many",
                namespace,
            )
        now_ns = self._clock.monotonic_ns()
        is_old = self._as_of_ns is None or now_ns - self._as_of_ns >= KEEP_NS
        self._refused = []
        try:
            client, known = self._connected(), self._claims
            self._claims = {
                key: Claim(users, self._devices(client, key, users, is_old=is_old))
                for key, users in wanted.items()
            }
            if self._refused and all(claim.devices is None for claim in self._claims.values()):
                raise self._refused[0]
        except (ApiError, JsonError) as error:
            self._forget_client()
            raise ClaimsError(_explained(error)) from error
        self._stated = {k: stated for k, stated in self._stated.items() if k in wanted}
        self.problem = _explained(self._refused[0]) if self._refused else ""
        self.is_down = False
        # A driver publishes its devices again when a card comes, goes or is divided. A claim that
        # has a device which nobody offers says that this has happened since.
        misses_devices = any(
            (device.driver, device.pool, device.device) not in self._offered
            for claim in self._claims.values()
            for device in claim.devices or ()
        )
        if is_old or misses_devices:
            before = self._offered
            self._list_slices(client)
            for key, claim in self._claims.items():
                if claim.devices and key in known and claim.devices == known[key].devices:
                    devices = followed(claim.devices, before, self._offered)
                    self._claims[key] = claim._replace(devices=devices)
        if is_old:  # slices that failed are read again while a claim's device is not among them
            self._as_of_ns = now_ns
        return ClaimsAnswer(dict(self._claims), self._offered)

    def facts(self, answer: ClaimsAnswer, given: PodTable) -> NodeFacts:
        """The claims that this node's pods refer to, and all devices offered.

        One that was not asked for yet has no devices so far: it is asked for within a second. One
        that could not be read is not among them.
        """
        known, wanted = answer.claims, _wanted(given)
        found = {k: known[k].known_to(users) if k in known else () for k, users in wanted.items()}
        claims = {key: devices for key, devices in found.items() if devices is not None}
        return NodeFacts(claims=claims, offered=answer.offered if claims else {})

    def interrupt(self) -> None:
        """End the read that is under way."""
        if (client := self._client) is not None:
            client.interrupt()

    # --- in the asking thread ---

    def _connected(self) -> KubeClient:
        if self._client is None:
            self._client, self._version = self._connect(), ""
        if not self._version:
            self._version = served_version(self._client)
            if not self._version:
                said = f"resource.k8s.io is served in none of {', '.join(VERSIONS)}"
                raise ApiError(None, said)
        return self._client

    def _forget_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _devices(
        self, client: KubeClient, key: Key, users: frozenset[str], *, is_old: bool
    ) -> tuple[ClaimedDevice, ...] | None:
        """The devices of a claim; empty if it is gone or not allocated, None if it is not known."""
        claim = self._claims.get(key)
        known = claim.known_to(users) if claim else None
        if known and not is_old:
            return known
        namespace, name = (quote(part, safe="") for part in key)
        path = f"{GROUP}/{self._version}/namespaces/{namespace}/resourceclaims/{name}"
        try:
            with client.get(path, {}, TIMEOUT_S) as stream:
                devices = decode_claim(_object(decode(stream.read(MAX_OBJECT))))
        except JsonError as error:
            item = f"claim {key[0]}/{key[1]} ({error})"
            self._rejections.reject("claim_unusable", item, owner=key[0])
        except ApiError as failure:
            if failure.status in OF_ONE_CLAIM:
                self._refused.append(failure)
                return known or None
            if failure.status != HTTPStatus.NOT_FOUND:
                raise
        else:
            same = devices == self._stated.get(key)
            self._stated[key] = devices
            # What is known may have the name that ``followed`` gave it, which the API server does
            # not have. It stays as long as the server says the same as before.
            return known if known and same else devices
        return ()

    def _list_slices(self, client: KubeClient) -> None:
        """Reads what the node offers. Without it, claims still say that devices are allocated."""
        found: list[Slice] = []
        try:
            for one in read_slices(client, self._version, self._node):
                if one is None or len(found) >= MAX_SLICES:
                    self._rejections.reject("slice_unusable", "a ResourceSlice of this node")
                else:
                    found.append(one)
        except (ApiError, JsonError) as error:
            self._forget_client()
            self.problem, self.is_down = _explained(error), True
            return
        self._offered = offered(found)


def _object(document: object) -> object:
    if isinstance(document, dict):
        return document
    raise JsonError("it is no object")


def _explained(error: ApiError | JsonError) -> str:
    if isinstance(error, ApiError):
        return explanation(error, permission=PERMISSION)
    return f"the API server's answer cannot be read ({error})"
