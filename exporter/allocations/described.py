"""Sharing systems that a user describes in the settings (``allocations.schemes``).

They are read by a description (``model.SchemeDescription``) in the same way as the shipped modules
read theirs. What the description leaves open is not guessed. A container whose cards no key names
is unplaced. A container that asks for a number of cards only is promised nothing, unless the
description says that these are whole cards. A placement that is written once for the pod applies to
each of its containers with the same number of cards.
"""

from functools import partial

from exporter.allocations.reader import PodReader, Share, app_containers, lasting_containers
from exporter.allocations.scheme import Decoded, IndexBasis, Reason, Scheme
from exporter.model import Allocation, Container, Device, NodeFacts, Pod, SchemeDescription

_CONTAINER, _INDEX = "{container}", "{index}"
_MAX_POLICY_LENGTH = 63  # of a Kubernetes label's value


def scheme_of(about: SchemeDescription) -> Scheme:
    """Return the scheme of a description."""
    placement = about.placement_annotation.partition("{")[0]
    annotations = (placement, about.policy_annotation)
    return Scheme(
        name=about.name,
        resources=about.resources,
        annotations=tuple(key for key in annotations if key),
        index_basis=IndexBasis(about.index_basis),
        decode=partial(decode, about),
    )


def decode(about: SchemeDescription, pod: Pod, node: NodeFacts) -> Decoded:
    """Return the allocations of each container, one per card."""
    users = [
        container
        for container in lasting_containers(pod)
        if not container.limits.keys().isdisjoint(about.resources)
    ]
    if not users:
        return Decoded()
    reader = PodReader(about.name, pod, node)
    policy = _policy(reader, about)
    return reader.decoded(
        allocation
        for container in users
        for allocation in _allocations(reader, about, container, policy)
    )


def _policy(reader: PodReader, about: SchemeDescription) -> str:
    """Return the policy that the pod, else the node states. It becomes a label's value."""
    stated = reader.annotation(about.policy_annotation) if about.policy_annotation else ""
    policy = stated or reader.node.labels.get(about.policy_node_label, "")
    if not policy.isprintable() or len(policy) > _MAX_POLICY_LENGTH:
        reader.reject(Reason.UNKNOWN_POLICY, repr(policy[:_MAX_POLICY_LENGTH]))
        return ""
    return policy


def _allocations(
    reader: PodReader, about: SchemeDescription, container: Container, policy: str
) -> list[Allocation]:
    core, memory = (
        reader.quantity(container, key) for key in (about.core_resource, about.memory_resource)
    )
    stated = reader.quantity(container, about.count_resource)
    if core is None and memory is None and stated is None:
        return []
    divided = about.amounts == "total"
    count = stated or (-(-core // about.core_units) if core and divided else 1)
    if not reader.allows(container, count):
        return []
    parts = count if divided else 1
    whole = core is None and memory is None and about.count_alone == "whole-cards"
    share = 1.0 if whole else _share(reader, core, parts, about.core_units)
    part = reader.memory(None if memory is None else memory // parts, about.memory_unit)
    cards = _cards(reader, about, container, count)
    whole_card = share == 1 and memory is None
    return reader.allocate(container, cards, Share(share, part, policy), whole=whole_card)


def _share(reader: PodReader, core: int | None, parts: int, whole: int) -> float | None:
    """Return the share of one card that has ``whole`` units."""
    if core is None:
        return None
    if not 0 < core // parts <= whole:
        reader.reject(Reason.CORE_OUT_OF_RANGE, f"{core // parts} of {whole} units of one card")
        return None
    return core // parts / whole


def _cards(
    reader: PodReader, about: SchemeDescription, container: Container, count: int
) -> tuple[Device | None, ...]:
    """Return the container's cards, None for each that is unknown."""
    key = _placement_key(reader.pod, about.placement_annotation, container)
    if not key:
        return (None,) * count
    if about.index_basis == IndexBasis.UUID:
        return _cards_by_uuid(reader, key, count)
    return reader.placement(key, count, IndexBasis(about.index_basis))


def _placement_key(pod: Pod, template: str, container: Container) -> str:
    if _INDEX not in template:
        return template.replace(_CONTAINER, container.name)
    apps = [app.name for app in app_containers(pod)]
    if container.name not in apps:
        return ""
    return template.replace(_INDEX, str(apps.index(container.name)))


def _cards_by_uuid(reader: PodReader, key: str, count: int) -> tuple[Device | None, ...]:
    text = reader.annotation(key)
    uuids = [uuid.strip() for uuid in text.split(",")] if text else []
    if not uuids:
        return (None,) * count
    if len(uuids) != count or len(set(uuids)) != count:
        reader.reject(Reason.PLACEMENT_MISMATCH, f"{key}={text} for {count} cards")
        return (None,) * count
    return tuple(map(reader.device, uuids))
