"""Names as they are, or pseudonyms in their place. Pure.

A recording may hold private names: namespaces, pods, containers, owners, nodes, labels, ids. They
are replaced on their way to the cycle. The same name gets the same pseudonym everywhere, so that
processes still find their pods and allocations can still be decoded. What is not known to be
harmless is replaced or left out. Of grants and claims, only what decoders read is kept: attributes
that no decoder reads are left out, and drivers that are not known are replaced too.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b

from exporter.allocations.registry import (
    ANNOTATION_PREFIXES,
    LABEL_PREFIXES,
    NODE_ANNOTATION_PREFIXES,
    SCHEMES,
)
from exporter.allocations.schemes import nvfractions
from exporter.allocations.schemes.dra import ATTRIBUTES, CAPACITIES, DRIVERS
from exporter.allocations.schemes.hami import OTHER_RESOURCES
from exporter.allocations.schemes.kai import (
    RESERVATION_CONTAINER,
    RESERVATION_NAME,
    RESERVATION_NAMESPACES,
)
from exporter.model import (
    CgroupIdentity,
    ClaimedDevice,
    ClaimRef,
    Container,
    Device,
    DeviceReading,
    Grant,
    GroupFacts,
    NodeFacts,
    OfferedDevice,
    Pod,
    PodSlot,
    PodTable,
    Reading,
    SourceStatus,
    Unattributed,
    Unit,
)

Pseudonymise = Callable[[str], str]
_LIMIT = "memory/"  # begins the name of MPS's limit of one device

_OPEN = ("/", "-", "_")  # ends of a name that is the beginning of some
RESOURCES = OTHER_RESOURCES | {name for scheme in SCHEMES for name in scheme.resources}
RESOURCE_PREFIXES = tuple(sorted(name for name in RESOURCES if name.endswith(_OPEN)))
_PROFILE = r"(\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb([.+-](me|gfx|all))*"
RESOURCE_ENDS = re.compile(  # a MIG profile, nos' size, Baidu's card
    rf"{_PROFILE}(\.shared)?|\d{{1,4}}gb"
    r"|[a-z]{1,2}\d{1,4}(_\d{1,3}g)?_cgpu(_core|_memory(_percent)?)?",
    re.ASCII,
)
NODE_LABELS = re.compile(  # how the node's cards are shared, and their model
    rf"nvidia\.com/(gpu|gpu\.shared|mig-{_PROFILE})"
    r"\.(count|memory|product|replicas|sharing-strategy)"
    r"|cloud\.google\.com/gke-(accelerator|gpu-sharing-strategy|max-shared-clients-per-gpu"
    r"|gpu-partition-size)"
    r"|((beta\.)?amd\.com/gpu|amd\.com)[./]compute-memory-partition"
    r"|vke\.volcengine\.com/mgpu-compute-policy|tke\.cloud\.tencent\.com/qgpu-schedule-policy"
    r"|mixed-qgpu-enable|ack\.node\.gpu\.schedule|cgpu|gpushare",
    re.ASCII,
)
MODEL = re.compile(r"[a-z]{0,3}\d{1,5}[a-z]{0,2}", re.ASCII | re.IGNORECASE)  # H100, 80GB, 1g
WORDS = frozenset(  # in the values of such labels, beside those
    {
        *("nvidia", "amd", "intel", "tesla", "geforce", "quadro", "rtx", "gtx", "titan"),
        *("instinct", "radeon", "sxm", "pcie", "nvl", "hbm", "ti", "super", "ada", "generation"),
        *("laptop", "gpu", "gb", "mig", "me", "shared", "time", "slicing", "sharing", "mps"),
        *("spx", "dpx", "tpx", "qpx", "cpx", "nps", "cgpu", "core", "mem", "topology", "default"),
        *("fixed", "guaranteed", "burst", "native", "share", "best", "effort", "be", "fs", "bs"),
        *("none", "enable", "true", "false"),
    }
)
OWNER_KINDS = frozenset(
    {
        *("", "Pod", "Node", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"),
        *("ReplicationController", "Job", "CronJob", "JobSet", "Rollout", "Workflow"),
        *("RayCluster", "RayJob", "RayService", "LeaderWorkerSet", "Notebook"),
        *("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "TrainJob", "InferenceService"),
    }
)
ALLOWED_TERMS = frozenset(  # in annotations: fixed terms of sharing systems
    {
        *("fixed-share", "guaranteed-burst-share", "native-burst-share"),
        *("best-effort", "burst-share", "be", "fs", "bs"),
        *("online", "offline", "true", "false", "null"),
        *("MPS", "TimeSlicing", "time-slicing", "sm-sharing"),  # strategies of claims, NvFractions
        *("hami-core", "mig", "mps", "containerIndex", "deviceIndex", "gpuUUID", "migUUID"),
        *("gpu", "id", "devmem", "minor", "resources", "koordinator.sh"),
        *("gpu-core", "gpu-memory", "gpu-memory-ratio"),
    }
)

OFFERED_WORDS = re.compile(  # types of devices, and their places on the bus
    r"gpu|mig|vfio|amdgpu(-partition)?|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    re.IGNORECASE | re.ASCII,
)

# Ids of devices by their place in the node. They give nothing away.
PLACE = re.compile(
    r"nvidia\d+(/gi\d+)?(/vgpu\d+)?|card\d+-\d+|amdgpu_xcp_\d+"
    r"|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    re.IGNORECASE | re.ASCII,
)


def disguised_ref(ref: ClaimRef, name: Pseudonymise) -> ClaimRef:
    """Returns a container's use of a claim; the resource is a sharing system's."""
    return ClaimRef(name(ref.claim), _request(ref.request, name), _resource(ref.resource, name))


def _resource(key: str, name: Pseudonymise) -> str:
    """Returns a resource that is on the list, else with a pseudonym behind its known beginning."""
    prefix = _prefix(key, RESOURCE_PREFIXES)
    rest = key.removeprefix(prefix)
    if not key or key in RESOURCES or (prefix and RESOURCE_ENDS.fullmatch(rest)):
        return key
    return prefix + name(rest)


def _amounts(amounts: Mapping[str, str], name: Pseudonymise) -> dict[str, str]:
    """Returns the amounts of the resources of sharing systems."""
    return {
        _resource(key, name): _amount(text, name)
        for key, text in amounts.items()
        if key in RESOURCES or key.startswith(RESOURCE_PREFIXES)
    }


def _amount(text: str, name: Pseudonymise) -> str:
    return text if AMOUNT.fullmatch(text) else name(text)


def disguised_grants(
    grants: Mapping[str, tuple[Grant, ...]], name: Pseudonymise
) -> dict[str, tuple[Grant, ...]]:
    """Returns the grants, by pod, of the resources of sharing systems."""
    return {
        name(uid): tuple(
            Grant(
                name(g.container),
                _resource(g.resource, name),
                tuple(_device_id(i, name) for i in g.device_ids),
            )
            for g in held
            if g.resource in RESOURCES or g.resource.startswith(RESOURCE_PREFIXES)
        )
        for uid, held in grants.items()
    }


def _device_id(text: str, name: Pseudonymise) -> str:
    device, replica, number = text.partition("::")
    return f"{device if PLACE.fullmatch(device) else name(device)}{replica}{number}"


def disguised_claims(
    claims: Mapping[tuple[str, str], tuple[ClaimedDevice, ...]],
    offered: Mapping[tuple[str, str, str], OfferedDevice],
    name: Pseudonymise,
) -> dict[tuple[str, str], tuple[ClaimedDevice, ...]]:
    """Returns the claims with their GPUs."""
    return {
        (name(namespace), name(claim)): tuple(
            replace(
                device,
                request=_request(device.request, name),
                pool=name(device.pool),
                share_id=name(device.share_id),
                driver=_driver(device.driver, name),
                device=_offered_name(device.driver, device.device, name),
                consumed={
                    bare
                    if (bare := key.removeprefix(f"{device.driver}/")) in CAPACITIES
                    else name(key): _amount(text, name)
                    for key, text in device.consumed.items()
                },
                sharing={
                    "/".join((part, *(one if one.isdecimal() else name(one) for one in rest))): (
                        text if text in ALLOWED_TERMS else _amount(text, name)
                    )
                    for key, text in _by_uuid(device, devices, offered).items()
                    for part, *rest in (key.split("/", 1),)
                },
            )
            for device in devices
        )
        for (namespace, claim), devices in claims.items()
    }


def _by_uuid(
    device: ClaimedDevice,
    devices: tuple[ClaimedDevice, ...],
    offered: Mapping[tuple[str, str, str], OfferedDevice],
) -> dict[str, str]:
    """Returns how a device is shared, with UUIDs in place of the numbers of devices.

    Numbers count UUIDs in their order, which is not that of their pseudonyms.
    """
    alike = [d for d in devices if (d.driver, d.sharing) == (device.driver, device.sharing)]
    offers = [offered.get((d.driver, d.pool, d.device), OfferedDevice()).attributes for d in alike]
    uuids = sorted({own.get("uuid") or own.get(f"{device.driver}/uuid", "") for own in offers})
    known = {} if "" in uuids else {f"{_LIMIT}{n}": f"{_LIMIT}{u}" for n, u in enumerate(uuids)}
    numbered = {known[key]: text for key, text in device.sharing.items() if key in known}
    return {**numbered, **{key: t for key, t in device.sharing.items() if key not in known}}


def disguised_offers(
    offered: Mapping[tuple[str, str, str], OfferedDevice], name: Pseudonymise
) -> dict[tuple[str, str, str], OfferedDevice]:
    """Returns the offered devices with the attributes and capacities that decoders read."""
    return {
        (_driver(driver, name), name(pool), _offered_name(driver, device, name)): OfferedDevice(
            attributes={
                key: text if OFFERED_WORDS.fullmatch(text) else name(text)
                for whole, text in own.attributes.items()
                if (key := whole.removeprefix(f"{driver}/")) in ATTRIBUTES
            },
            capacity={
                key: _amount(text, name)
                for whole, text in own.capacity.items()
                if (key := whole.removeprefix(f"{driver}/")) in CAPACITIES
            },
        )
        for (driver, pool, device), own in offered.items()
    }


def _driver(driver: str, name: Pseudonymise) -> str:
    return driver if driver in DRIVERS else name(driver)


def _offered_name(driver: str, device: str, name: Pseudonymise) -> str:
    """A known driver names a device by its place in the node; another may say more."""
    return device if driver in DRIVERS else name(device)


def _request(text: str, name: Pseudonymise) -> str:
    return "/".join(map(name, text.split("/")))


# The ids of pods, containers and devices: 32 hexadecimal digits, as a UUID or plain, or 64.
ID = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}(?:[0-9a-f]{32})?", re.IGNORECASE
)
WITH_ID = re.compile(rf"(GPU-|MIG-|MIG-GPU-)?(?:{ID.pattern})(/[0-9]+)*", re.IGNORECASE)
DIGIT = re.compile(r"[0-9a-f]", re.IGNORECASE)
TOKEN = re.compile(r"[^\s,;:=/{}\[\]()\"'_]+")
AMOUNT = re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]{1,2}|[A-Za-z]{0,2})", re.ASCII)
PUBLIC_LABEL = re.compile(
    r"app|k8s-app|component|tier|team|owner|env|environment|project|role|release|version|job-name|controller-uid|pod-template-hash"
    r"|controller-revision-hash|pod-template-generation"
    r"|app\.kubernetes\.io/(name|instance|version|component|part-of|managed-by)"
    r"|batch\.kubernetes\.io/(job-name|controller-uid|job-completion-index)"
    r"|statefulset\.kubernetes\.io/pod-name|apps\.kubernetes\.io/pod-index"
)


class Names:
    """Passes every name unchanged."""

    def reading(self, reading: Reading) -> Reading:
        """Returns a GPU source's reading, without what the driver answered before it."""
        devices = tuple(device._replace(raw=None) for device in reading.devices)
        return reading._replace(devices=devices)

    def identity(self, identity: CgroupIdentity | Unattributed) -> CgroupIdentity | Unattributed:
        """Returns a process's identity."""
        return identity

    def table(self, table: PodTable) -> PodTable:
        """Returns the node's pods."""
        return table

    def node(self, facts: NodeFacts) -> NodeFacts:
        """Returns the facts about the node."""
        return facts

    def group(self, facts: GroupFacts) -> GroupFacts:
        """Returns the facts about a group."""
        return facts

    def status(self, status: SourceStatus) -> SourceStatus:
        """Returns a source's status."""
        return status


class Pseudonyms(Names):
    """Replaces every name by a keyed hash: without the key, guessing a name cannot be verified."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._real, self._pseudonymised = PodTable(version=-1), PodTable(version=-1)

    def name(self, text: str) -> str:
        """Returns the pseudonym of a name. An id stays an id of the same form."""
        if not text or text in RESERVATION_NAMESPACES or text == RESERVATION_CONTAINER:
            return text
        if text.startswith(f"{RESERVATION_NAME}-"):
            return f"{RESERVATION_NAME}-{self._digest(text)[:10]}"
        if WITH_ID.fullmatch(text):
            return ID.sub(lambda found: self._id(found[0]), text)
        return f"x{self._digest(text)[:10]}"

    def _id(self, text: str) -> str:
        digits = iter(self._digest(text.lower().replace("-", "")))
        return DIGIT.sub(lambda _: next(digits), text)

    def _digest(self, text: str) -> str:
        content = text.encode(errors="surrogatepass")
        return blake2b(content, key=self._key, digest_size=32).hexdigest()

    def reading(self, reading: Reading) -> Reading:
        """See ``Names``."""
        return reading._replace(
            status=self.status(reading.status),
            devices=tuple(map(self._device_reading, reading.devices)),
        )

    def _device_reading(self, reading: DeviceReading) -> DeviceReading:
        return reading._replace(device=self._device(reading.device), detail="", raw=None)

    def _device(self, device: Device) -> Device:
        uuid, parent = self.name(device.uuid), self.name(device.parent_uuid)
        return replace(device, uuid=uuid, parent_uuid=parent)

    def identity(self, identity: CgroupIdentity | Unattributed) -> CgroupIdentity | Unattributed:
        """See ``Names``."""
        if isinstance(identity, Unattributed):
            return identity
        return identity._replace(
            pod_uid=self._maybe(identity.pod_uid),
            container_id=self._maybe(identity.container_id),
            enclosing=tuple(
                PodSlot(self.name(slot.pod_uid), self._maybe(slot.container_id))
                for slot in identity.enclosing
            ),
            unit=identity.unit and self._unit(identity.unit),
        )

    def _unit(self, unit: Unit) -> Unit:
        """The user's number is left out: group sources are asked about the real process."""
        return unit._replace(name=self.name(unit.name), uid=None)

    def group(self, facts: GroupFacts) -> GroupFacts:
        """Returns it under pseudonyms. A job's step is in the identity of its processes."""
        name = self.name
        return GroupFacts(name(facts.name), name(facts.user), name(facts.account))

    def _maybe(self, text: str | None) -> str | None:
        return None if text is None else self.name(text)

    def table(self, table: PodTable) -> PodTable:
        """Returns the pods under pseudonyms; those of the last table are kept."""
        if table is not self._real:
            self._real, self._pseudonymised = table, self._table(table)
        return self._pseudonymised

    def _table(self, table: PodTable) -> PodTable:
        name = self.name
        by_id = table.by_container_id.items()
        return PodTable(
            version=table.version,
            pods={name(uid): self.pod(pod) for uid, pod in table.pods.items()},
            by_kubelet_uid={name(a): name(b) for a, b in table.by_kubelet_uid.items()},
            by_container_id={name(cid): (name(uid), name(own)) for cid, (uid, own) in by_id},
        )

    def pod(self, pod: Pod) -> Pod:
        """Returns a pod under pseudonyms, with the allocations of the real one."""
        name = self.name
        return replace(
            pod,
            uid=name(pod.uid),
            namespace=name(pod.namespace),
            name=name(pod.name),
            static_hash=name(pod.static_hash),
            owner_kind=pod.owner_kind if pod.owner_kind in OWNER_KINDS else name(pod.owner_kind),
            owner_name=name(pod.owner_name),
            containers=tuple(map(self._container, pod.containers)),
            annotations=dict(self._annotations(pod)),
            labels=dict(self._labels(pod)),
        )

    def _container(self, container: Container) -> Container:
        return replace(
            container,
            name=self.name(container.name),
            container_ids=tuple(map(self.name, container.container_ids)),
            limits=_amounts(container.limits, self.name),
            claims=tuple(disguised_ref(ref, self.name) for ref in container.claims),
        )

    def _annotations(self, pod: Pod) -> Mapping[str, str]:
        """Annotations that a sharing system reads. Some keys end in a container's name."""
        containers = {container.name for container in pod.containers}
        made = {}
        for key, value in pod.annotations.items():
            prefix = _prefix(key, ANNOTATION_PREFIXES)
            if not prefix:
                continue
            rest = key.removeprefix(prefix)
            owner, _, end = rest.partition(".")
            if owner in containers and end in nvfractions.ENDS:
                rest = f"{self.name(owner)}.{end}"
            elif rest in containers or not AMOUNT.fullmatch(rest):
                rest = self.name(rest)
            made[prefix + rest] = self._tokens(value)
        return made

    def _labels(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Labels that a sharing system reads, whose keys may end in a name, and public labels."""
        for key, value in pod.labels.items():
            if prefix := _prefix(key, LABEL_PREFIXES):
                rest = self.name(key.removeprefix(prefix))
                yield prefix + rest, TOKEN.sub(lambda found: self._token(found[0]), value)
            elif PUBLIC_LABEL.fullmatch(key):
                yield key, self.name(value)

    def _tokens(self, text: str) -> str:
        return TOKEN.sub(lambda found: self._token(found[0]), text)

    def _token(self, text: str) -> str:
        return text if text in ALLOWED_TERMS or AMOUNT.fullmatch(text) else self.name(text)

    def _word(self, text: str) -> str:
        known = MODEL.fullmatch(text) or text.lower() in WORDS
        return text if known else self.name(text)

    def node(self, facts: NodeFacts) -> NodeFacts:
        """See ``Names``."""
        labels = {
            key: re.sub(r"[^\W_]+", lambda found: self._word(found[0]), text)
            for key, text in facts.labels.items()
            if NODE_LABELS.fullmatch(key)
        }
        allocatable = _amounts(facts.allocatable, self.name)
        if (facts.labels or facts.allocatable) and not (labels or allocatable):
            labels = {"kubernetes.io/os": "linux"}  # without labels it counts as unknown
        annotations = _known(facts.annotations, NODE_ANNOTATION_PREFIXES)
        return replace(
            facts,
            devices=tuple(map(self._device, facts.devices)),
            labels=labels,
            annotations={key: self._tokens(text) for key, text in annotations.items()},
            allocatable=allocatable,
            grants=disguised_grants(facts.grants, self.name),
            claims=disguised_claims(facts.claims, facts.offered, self.name),
            offered=disguised_offers(facts.offered, self.name),
            card_policies={card: self._token(own) for card, own in facts.card_policies.items()},
            pods={self.name(uid): self.pod(pod) for uid, pod in facts.pods.items()},
        )

    def status(self, status: SourceStatus) -> SourceStatus:
        """Returns it without the detail, which is free text and may name anything."""
        return status._replace(detail="")


def _prefix(key: str, prefixes: tuple[str, ...]) -> str:
    return max((p for p in prefixes if key.startswith(p)), key=len, default="")


def _known(texts: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if key.startswith(prefixes)}
