"""Bounded access to one pod for one scheme's decoder. What it rejects becomes a problem."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, wraps
from typing import NamedTuple

from exporter.agent.allocations.devicenames import (
    card_by_number,
    cards,
    common_memory,
    device_by_uuid,
)
from exporter.agent.allocations.quantities import (
    MAX_MEMORY_BYTES,
    parse_natural,
    parse_naturals,
    parse_quantity,
    parse_share,
)
from exporter.agent.allocations.room import MAX_OF_POD
from exporter.agent.allocations.terms import Decoded, DecodeProblem, IndexBasis, Reason
from exporter.model import Allocation, ClaimRef, Container, Device, NodeFacts, Pod

MAX_CARDS = 64  # of one container; the largest node has 16
# A pod's annotations together are no longer, by ``decode.MAX_ANNOTATIONS``, which comes first and
# cuts. This one is met by the pods of a recording, which nothing has cut.
MAX_ANNOTATION_LENGTH = 64 * 1024  # the API server allows 256 KiB for all annotations of an object
MAX_NUMBERS_LENGTH = 4096  # of a list of numbers: one for each of a pod's 512 containers takes less
_MAX_MADE = 4 * MAX_OF_POD  # some decoders drop a part of what they make
_MAX_DETAIL_LENGTH = 200
_WHOLE_CARD = 100
_POD = Container(name="")


class Share(NamedTuple):
    """An owner's share of each of its devices: a part of the core, and bytes of memory."""

    core: float | None
    memory_bytes: int | None
    policy: str = ""
    priority: str = ""
    replicas: int | None = None


NOTHING = Share(None, None)


def app_containers(pod: Pod) -> tuple[Container, ...]:
    """Return ``spec.containers``, in order."""
    return tuple(container for container in pod.containers if container.kind == "app")


def lasting_containers(pod: Pod) -> tuple[Container, ...]:
    """Return the containers that have devices for the pod's life: apps and sidecars.

    An ordinary init container is left out: the kubelet passes its devices on to the app containers
    (device manager, "reusable devices"), so counting both would double the pod's allocation. It is
    there for what no other container asks for in the same domain, because the pod keeps that until
    it ends. Of several init containers, that is the last that has started. A device that was
    claimed for an init container alone is passed on to nobody: its claim keeps it for the pod.
    """
    lasting = tuple(c for c in pod.containers if c.kind in {"app", "sidecar"})
    inits = [c for c in pod.containers if c.kind == "init" and (c.limits or c.claims)]
    taken = _asked(*lasting) if inits else set()
    asking = [left for init in inits if _asked(left := _without(init, taken))]
    counted = [each for each in asking if _asked(replace(each, claims=()))]
    started = [each for each in counted if each.container_ids]
    last = (started or counted[:1])[-1:]
    held = [c if c in last else replace(c, limits={}) for c in asking if c in last or c.claims]
    return (*held, *lasting)


def _asked(*containers: Container) -> set[str]:
    """The domains of the resources that containers ask for, and the claims with their requests."""
    limits = (item for each in containers for item in each.limits.items())
    refs = [ref for each in containers for ref in each.claims]
    domains = {name.partition("/")[0] for name, text in limits if parse_quantity(text) != 0}
    return domains | {f"claim/{r.claim}" for r in refs} | {_request(r) for r in refs}


def _request(ref: ClaimRef) -> str:
    return f"claim/{ref.claim}/{ref.request}"


def _without(container: Container, taken: Collection[str]) -> Container:
    """The container with what it asks for, but for these domains, and requests of claims.

    A claim without a request is all of it.
    """

    def is_taken(ref: ClaimRef) -> bool:
        if not ref.request:
            return f"claim/{ref.claim}" in taken
        return _request(ref) in taken or _request(ref._replace(request="")) in taken

    return replace(
        container,
        limits={k: v for k, v in container.limits.items() if k.partition("/")[0] not in taken},
        claims=tuple(ref for ref in container.claims if not is_taken(ref)),
    )


class PodReader:
    """One decoder's view of one pod. Lives for one call; nothing in it raises.

    ``basis`` is what the scheme's device numbers mean, by the user's setting, else as ``declared``.

    What is asked for each of a pod's containers is computed once for the pod: a tenant chooses how
    many containers he has, and how long his annotations are.
    """

    def __init__(
        self, scheme: str, pod: Pod, node: NodeFacts, declared: IndexBasis | None = None
    ) -> None:
        stated = node.index_bases.get(scheme, "")
        known = declared or IndexBasis.UUID
        self.basis = IndexBasis(stated) if stated in set(IndexBasis) else known
        self.scheme = scheme
        self.pod = pod
        self.node = node
        self._problems: dict[Reason, DecodeProblem] = {}
        self._suspected: list[DecodeProblem] = []
        self._is_consumer = True
        self._made = 0  # allocations
        self._numbers: dict[str, tuple[int, ...]] = {}  # by annotation
        self._placements: dict[tuple[str, int], tuple[Device | None, ...]] = {}

    @cached_property
    def apps(self) -> tuple[Container, ...]:
        """``spec.containers``, in order."""
        return app_containers(self.pod)

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The place of each container in ``spec.containers``, by its name."""
        return {app.name: place for place, app in enumerate(self.apps)}

    @cached_property
    def lasting(self) -> tuple[Container, ...]:
        """The containers that have devices for the pod's life; see ``lasting_containers``."""
        return lasting_containers(self.pod)

    @cached_property
    def _grants(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """The ids that the kubelet has granted to the pod, by container and resource."""
        grants: dict[str, dict[str, list[str]]] = {}
        for grant in self.node.grants.get(self.pod.uid, ()):
            own = grants.setdefault(grant.container, {})
            own.setdefault(grant.resource, []).extend(grant.device_ids)
        return grants

    @cached_property
    def _by_claim(self) -> Mapping[str, frozenset[str]]:
        """The resources that a ResourceClaim stands for (KEP-5004), which is counted instead."""
        stands = ((c.name, frozenset(r.resource for r in c.claims)) for c in self.pod.containers)
        return {name: resources for name, resources in stands if resources}

    def reject(self, reason: Reason, detail: str) -> None:
        """Records what could not be read. Of each reason, only the first problem is recorded."""
        # A tenant's text may have half a surrogate pair, with which no line of the log can be
        # written.
        detail = detail[:_MAX_DETAIL_LENGTH].encode(errors="replace").decode()
        self._problems.setdefault(reason, DecodeProblem(self.pod.uid, self.scheme, reason, detail))

    def suspect(self, container: str, named: Collection[str], granted: Collection[str]) -> None:
        """Records that a container was granted other devices than its annotation names."""
        if others := tuple(sorted(set(granted) - set(named))):
            detail = f"{container}: granted {', '.join(others)}"[:_MAX_DETAIL_LENGTH]
            made = DecodeProblem(
                self.pod.uid, self.scheme, Reason.GRANT_DIFFERS, detail, container, others
            )
            self._suspected.append(made)

    def decoded(self, allocations: Iterable[Allocation]) -> Decoded:
        """Return the allocations together with the problems found so far."""
        found = tuple(allocations)  # may reject
        if len(found) > MAX_OF_POD:
            self.reject(Reason.TOO_MANY_ALLOCATIONS, f"{len(found)} in this pod")
        if Reason.TOO_MANY_ALLOCATIONS in self._problems:  # a part of them would be a wrong sum
            found = ()
        problems = (*self._problems.values(), *self._suspected)
        return Decoded(found, problems, consumer=self._is_consumer)

    def holds_for_others(self) -> None:
        """Records that the pod is the scheme's own, and holds its devices for others."""
        self._is_consumer = False

    def quantity(self, container: Container, resource: str) -> int | None:
        """Return a container's limit of a resource; None if it has none or the limit is 0."""
        return self.limit(container, resource) or None

    def limit(self, container: Container, resource: str) -> int | None:
        """Return a container's limit of a resource, which may be 0; None without a limit."""
        text = container.limits.get(resource)
        if text is None or resource in self._by_claim.get(container.name, ()):
            return None
        value = parse_quantity(text)
        if value is None:
            self.reject(Reason.BAD_QUANTITY, f"{container.name}: {resource}={text[:50]}")
        return value

    def granted(self, container: Container, resource: str) -> tuple[str, ...]:
        """Return the ids of a resource's devices that the kubelet has granted to a container."""
        if resource in self._by_claim.get(container.name, ()):
            return ()
        return tuple(dict.fromkeys(self._grants.get(container.name, {}).get(resource, ())))

    def granted_resources(self, container: Container) -> frozenset[str]:
        """Return the resources of which the kubelet has granted devices to a container."""
        return frozenset(self._grants.get(container.name, ()))

    def device(self, uuid: str) -> Device | None:
        """Return the device with this UUID; None if there is none.

        That is a problem only if the node has other devices: before they are read nothing is wrong.
        """
        device = device_by_uuid(self.node, uuid)
        if device is None and self.node.devices:
            self.reject(Reason.UNKNOWN_DEVICE, uuid)
        return device

    def annotation(self, key: str) -> str:
        """Return an annotation's text, "" if there is none or it is too long."""
        text = self.pod.annotations.get(key, "")
        if len(text) > MAX_ANNOTATION_LENGTH:
            self.reject(Reason.BAD_ANNOTATION, f"{key} has {len(text)} characters")
            return ""
        return text

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return the numbers that an annotation lists; empty if it is absent or malformed."""
        if key not in self._numbers:
            text = self.annotation(key)
            is_short = len(text) <= MAX_NUMBERS_LENGTH
            numbers = parse_naturals(text) if text and is_short else None
            if text and numbers is None:
                self.reject(Reason.BAD_ANNOTATION, f"{key}={text[:_MAX_DETAIL_LENGTH]}")
            self._numbers[key] = numbers or ()
        return self._numbers[key]

    def share(self, key: str) -> float | None:
        """Return the share of one card in an annotation; None if it is absent or malformed."""
        text = self.annotation(key)
        share = parse_share(text)
        if text and share is None:
            self.reject(Reason.CORE_OUT_OF_RANGE, f"{key}={text}")
        return share

    def document(self, key: str) -> object:
        """Return the JSON document in an annotation, None if it is absent or malformed."""
        text = self.annotation(key)
        if not text:
            return None
        try:
            document: object = json.loads(text)
        except (ValueError, RecursionError) as error:  # not JSON, a number too long, or too deep
            self.reject(Reason.BAD_ANNOTATION, f"{key}: {error}")
            return None
        return document

    def spread(self, label: str) -> int:
        """Return the number of cards over which each container's request is divided.

        It stands in a label of the pod; 1 without that label, or if that cannot be.
        """
        text = self.pod.labels.get(label, "1")
        count = parse_natural(text)
        if not count:
            self.reject(Reason.BAD_QUANTITY, f"label {label}={text[:50]}")
        return count if count and self.allows(_POD, count) else 1

    def one_of(self, known: Mapping[str, str], value: str) -> str:
        """Return the name of a policy, "" if none is stated or it is unknown."""
        if value and value not in known:
            self.reject(Reason.UNKNOWN_POLICY, value)
        return known.get(value, "")

    def placement(self, key: str, count: int) -> tuple[Device | None, ...]:
        """Return the ``count`` cards that an annotation lists by number, in its order.

        A card is None if the placement is unknown or the node has no such card. A list of another
        length, or one that names a card twice, is rejected as a whole.
        """
        if (key, count) not in self._placements:
            numbers = self.numbers(key)
            if numbers and (len(numbers) != count or len(set(numbers)) != count):
                self.reject(Reason.PLACEMENT_MISMATCH, f"{key}={numbers} for {count} cards")
                numbers = ()
            found = tuple(self.card(number) for number in numbers)
            self._placements[key, count] = found or (None,) * count
        return self._placements[key, count]

    def card(self, number: int) -> Device | None:
        """Return the card with this number; None if there is none.

        That is a problem only if the node has other cards: before they are read nothing is wrong.
        """
        card = card_by_number(self.node, self.basis, number)
        if card is None and cards(self.node):
            self.reject(Reason.UNKNOWN_DEVICE, f"{self.basis} {number}")
        return card

    def owner(self, users: Sequence[Container]) -> Container:
        """Return the owner of what is stated for the pod as a whole.

        It is the only container that asks for GPUs, else the pod itself, whose name is "".
        """
        users = users or self.lasting
        return users[0] if len(users) == 1 else _POD

    def allocate(
        self,
        owner: Container,
        cards: Iterable[Device | None],
        share: Share,
        *,
        whole: bool = False,
        among: Iterable[Device] | None = None,
    ) -> list[Allocation]:
        """Return the owner's allocations: the same share of each card.

        ``whole``: the cards are not shared, so the share has all of their memory. ``among``: the
        devices of which one that is None is one; none of them if it is named and is not known.
        """
        uuids = None if among is None else tuple(device.uuid for device in among)
        devices = tuple(cards)
        self._made += len(devices)
        if self._made > _MAX_MADE:
            self.reject(Reason.TOO_MANY_ALLOCATIONS, f"{owner.name or 'pod'}: {self._made} so far")
            return []
        return [
            Allocation(
                pod_uid=self.pod.uid,
                container=owner.name,
                device=card.uuid if card else None,
                core=share.core,
                memory_bytes=self.card_memory(card) if whole else share.memory_bytes,
                scheme=self.scheme,
                policy=share.policy,
                priority=share.priority,
                replicas=share.replicas,
                among=uuids if card is None else None,
            )
            for card in devices
        ]

    def allows(self, container: Container, count: int) -> bool:
        """Whether the number of a container's cards is plausible; more are rejected."""
        if count > MAX_CARDS:
            self.reject(Reason.TOO_MANY_DEVICES, f"{container.name or 'pod'}: {count}")
        return count <= MAX_CARDS

    def core(self, percent: int | None, cards: int = 1) -> float | None:
        """Return a share of one card, from per cent that are divided over some cards."""
        if percent is None:
            return None
        if not 0 < percent <= cards * _WHOLE_CARD:
            self.reject(Reason.CORE_OUT_OF_RANGE, f"{percent} % of {cards} cards")
            return None
        return percent / (cards * _WHOLE_CARD)

    def memory(self, amount: int | None, unit: int, cards: int = 1) -> int | None:
        """Return device memory of one card in bytes, from units that are divided over some."""
        if amount is None:
            return None
        # Less than a byte of each card would be rounded down to a limit of 0.
        if not cards <= amount * unit <= cards * MAX_MEMORY_BYTES:
            detail = f"{amount} times {unit} bytes, {cards} cards"
            if amount >= 1 << 30:  # "8Gi", where MiB are counted
                detail += f": a number of units of {unit} bytes is expected, not an amount as 8Gi"
            self.reject(Reason.MEMORY_OUT_OF_RANGE, detail)
            return None
        return amount * unit // cards

    def card_memory(self, card: Device | None) -> int | None:
        """Return the memory of a card in bytes.

        The card is None if the placement is unknown. Then it is the memory that all of the node's
        cards have, None if they differ.
        """
        return common_memory(cards(self.node)) if card is None else card.memory_bytes

    def part_of_memory(self, card: Device | None, percent: int | None) -> int | None:
        """Return a percentage of a card's memory, in bytes, rounded down."""
        if percent is None:
            return None
        if not 0 < percent <= _WHOLE_CARD:
            self.reject(Reason.MEMORY_OUT_OF_RANGE, f"{percent} % of one card")
            return None
        memory = self.card_memory(card)
        return None if memory is None else memory * percent // _WHOLE_CARD


def each_container(
    read: Callable[[PodReader, Container], Iterable[Allocation]],
) -> Callable[[PodReader], Iterable[Allocation]]:
    """Return what reads a pod by reading each of its lasting containers."""

    @wraps(read)
    def read_all(reader: PodReader) -> Iterable[Allocation]:
        for container in reader.lasting:
            yield from read(reader, container)

    return read_all
