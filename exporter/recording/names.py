"""Names as they are, and pseudonyms in their place.

What a recording may give away - namespaces, pods, containers, owners, nodes, labels, ids - is
replaced on its way to the cycle, the same name by the same pseudonym wherever it stands, so that
processes still find their pods and allotments still decode. What is not known to be harmless is
replaced or left out.

Grants and claims of devices under pseudonyms. Pure.

``name`` gives the pseudonym of a name. Only what decoders read of GPUs is kept: devices of other
drivers, and attributes that no decoder asks for, are left out.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import blake2b

from exporter.allocations.registry import (
    ANNOTATION_PREFIXES,
    LABEL_PREFIXES,
    NODE_ANNOTATION_PREFIXES,
)
from exporter.allocations.schemes.dra import ATTRIBUTES, DRIVERS
from exporter.allocations.schemes.kai import RESERVATION_NAMESPACES
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
from exporter.recording.words import NODE_LABEL_PREFIXES, RESOURCE_PREFIXES, WORDS

Naming = Callable[[str], str]

# Ids of devices by their place in the node: nothing is given away by them.
PLACE = re.compile(
    r"nvidia\d+(/gi\d+)?(/vgpu\d+)?|card\d+-\d+|amdgpu_xcp_\d+"
    r"|[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    re.IGNORECASE | re.ASCII,
)


def disguised_ref(ref: ClaimRef, name: Naming) -> ClaimRef:
    """What a container takes of a claim; the resource is a sharing system's."""
    return ClaimRef(name(ref.claim), _request(ref.request, name), ref.resource)


def disguised_grants(
    grants: Mapping[str, tuple[Grant, ...]], name: Naming, resources: tuple[str, ...]
) -> dict[str, tuple[Grant, ...]]:
    """The grants of resources whose names begin so, by pod."""
    return {
        name(uid): tuple(
            Grant(name(g.container), g.resource, tuple(_device_id(i, name) for i in g.device_ids))
            for g in held
            if g.resource.startswith(resources)
        )
        for uid, held in grants.items()
    }


def _device_id(text: str, name: Naming) -> str:
    device, replica, number = text.partition("::")
    return f"{device if PLACE.fullmatch(device) else name(device)}{replica}{number}"


def disguised_claims(
    claims: Mapping[tuple[str, str], tuple[ClaimedDevice, ...]], name: Naming
) -> dict[tuple[str, str], tuple[ClaimedDevice, ...]]:
    """The claims with the GPUs that they have."""
    return {
        (name(namespace), name(claim)): tuple(
            replace(
                device,
                request=_request(device.request, name),
                pool=name(device.pool),
                share_id=name(device.share_id),
            )
            for device in devices
            if device.driver in DRIVERS
        )
        for (namespace, claim), devices in claims.items()
    }


def disguised_offers(
    offered: Mapping[tuple[str, str, str], OfferedDevice], name: Naming
) -> dict[tuple[str, str, str], OfferedDevice]:
    """The GPUs that are offered, with what decoders read of them."""
    return {
        (driver, name(pool), device): replace(
            own,
            attributes={
                key: name(text) if key.endswith("uuid") else text
                for key, text in own.attributes.items()
                if key.removeprefix(f"{driver}/") in ATTRIBUTES
            },
        )
        for (driver, pool, device), own in offered.items()
        if driver in DRIVERS
    }


def _request(text: str, name: Naming) -> str:
    return "/".join(map(name, text.split("/")))


# The ids of pods, containers and devices: 32 hexadecimal digits, as a UUID or plain, or 64.
ID = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}(?:[0-9a-f]{32})?", re.IGNORECASE
)
WITH_ID = re.compile(rf"(GPU-|MIG-|MIG-GPU-)?(?:{ID.pattern})(/[0-9]+)*", re.IGNORECASE)
DIGIT = re.compile(r"[0-9a-f]", re.IGNORECASE)
TOKEN = re.compile(r"[^\s,;:=/{}\[\]()\"']+")
AMOUNT = re.compile(r"[-+]?[0-9.]+[A-Za-z]{0,2}", re.ASCII)
PUBLIC_LABEL = re.compile(r"[^/]+|([a-z0-9-]+\.)*(kubernetes|k8s)\.io/.*")


class Names:
    """Lets every name pass."""

    def reading(self, reading: Reading) -> Reading:
        """What a GPU source said."""
        return reading

    def identity(self, identity: CgroupIdentity | Unattributed) -> CgroupIdentity | Unattributed:
        """Who a process is."""
        return identity

    def table(self, table: PodTable) -> PodTable:
        """The node's pods."""
        return table

    def node(self, facts: NodeFacts) -> NodeFacts:
        """What the cluster says of the node."""
        return facts

    def group(self, facts: GroupFacts) -> GroupFacts:
        """What a group is called."""
        return facts

    def status(self, status: SourceStatus) -> SourceStatus:
        """How a source fares."""
        return status


class Pseudonyms(Names):
    """Replaces every name by one that only who has the key could find again, by trying."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._given, self._made = PodTable(version=-1), PodTable(version=-1)

    def name(self, text: str) -> str:
        """The pseudonym of a name: an id stays an id of the same form, all else is a word."""
        if not text or text in RESERVATION_NAMESPACES:
            return text
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
        return reading._replace(device=self._device(reading.device), detail="")

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
        """A user's number is left out: whoever needs it asks about the real process."""
        return unit._replace(name=self.name(unit.name), uid=None)

    def group(self, facts: GroupFacts) -> GroupFacts:
        """See ``Names``. A job and its step are in the identity of its processes."""
        name = self.name
        return GroupFacts(name(facts.name), name(facts.user), name(facts.account))

    def _maybe(self, text: str | None) -> str | None:
        return None if text is None else self.name(text)

    def table(self, table: PodTable) -> PodTable:
        """See ``Names``. The same table has the same answer."""
        if table is not self._given:
            self._given, self._made = table, self._table(table)
        return self._made

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
        """A pod under its pseudonyms; it has the allotments of the real one."""
        name = self.name
        return replace(
            pod,
            uid=name(pod.uid),
            namespace=name(pod.namespace),
            name=name(pod.name),
            static_hash=name(pod.static_hash),
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
            limits=_known(container.limits, RESOURCE_PREFIXES),
            claims=tuple(disguised_ref(ref, self.name) for ref in container.claims),
        )

    def _annotations(self, pod: Pod) -> Mapping[str, str]:
        """Those that a sharing system reads. Some keys end in a container's name."""
        containers = {container.name for container in pod.containers}
        made = {}
        for key, value in pod.annotations.items():
            prefix = _prefix(key, ANNOTATION_PREFIXES)
            if not prefix:
                continue
            rest = key.removeprefix(prefix)
            if rest in containers or not AMOUNT.fullmatch(rest):
                rest = self.name(rest)
            made[prefix + rest] = self._tokens(value)
        return made

    def _labels(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Those that a sharing system reads, whose keys may end in a name, and public ones."""
        for key, value in pod.labels.items():
            if prefix := _prefix(key, LABEL_PREFIXES):
                rest = self.name(key.removeprefix(prefix))
                yield prefix + rest, TOKEN.sub(lambda found: self._token(found[0]), value)
            elif PUBLIC_LABEL.fullmatch(key):
                yield key, self.name(value)

    def _tokens(self, text: str) -> str:
        return TOKEN.sub(lambda found: self._token(found[0]), text)

    def _token(self, text: str) -> str:
        return text if text in WORDS or AMOUNT.fullmatch(text) else self.name(text)

    def node(self, facts: NodeFacts) -> NodeFacts:
        """See ``Names``."""
        labels = _known(facts.labels, NODE_LABEL_PREFIXES)
        allocatable = _known(facts.allocatable, RESOURCE_PREFIXES)
        if (facts.labels or facts.allocatable) and not (labels or allocatable):
            labels = {"kubernetes.io/os": "linux"}  # to decoders a known node must stay known
        marks = _known(facts.annotations, NODE_ANNOTATION_PREFIXES)
        return replace(
            facts,
            devices=tuple(map(self._device, facts.devices)),
            labels=labels,
            annotations={key: self._tokens(text) for key, text in marks.items()},
            allocatable=allocatable,
            grants=disguised_grants(facts.grants, self.name, RESOURCE_PREFIXES),
            claims=disguised_claims(facts.claims, self.name),
            offered=disguised_offers(facts.offered, self.name),
            card_policies={card: self._token(own) for card, own in facts.card_policies.items()},
            pods={self.name(uid): self.pod(pod) for uid, pod in facts.pods.items()},
        )

    def status(self, status: SourceStatus) -> SourceStatus:
        """See ``Names``. What it says in words may name anything."""
        return status._replace(detail="")


def _prefix(key: str, prefixes: tuple[str, ...]) -> str:
    return max((p for p in prefixes if key.startswith(p)), key=len, default="")


def _known(texts: Mapping[str, str], prefixes: tuple[str, ...]) -> dict[str, str]:
    return {key: text for key, text in texts.items() if key.startswith(prefixes)}
