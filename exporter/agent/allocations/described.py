"""Sharing systems that a user describes in the settings (``allocations.schemes``).

They are read by a description (``model.SchemeDescription``) in the same way as the shipped modules
read theirs. What the description leaves open is not guessed. A container whose cards no key names
is unplaced. A container that asks for a number of cards only is promised nothing, unless the
description says that these are whole cards. A placement that is written once for the pod applies to
each of its containers with the same number of cards.

Amounts may also stand in annotations or labels of the pod. They have the units of the resources,
may be decimal, and an amount of memory with a suffix (``4Gi``) is bytes. They are those of each
container that the pod names, or that asks for the evidence resource; without either, of its only
container, else of the pod as a whole. Where a resource states the same amount, it counts. Who may
change a pod may change them, so a description without a resource trusts the pods' owners.
"""

import math
import re
from fractions import Fraction
from functools import partial

from exporter.agent.allocations.quantities import parse_quantity
from exporter.agent.allocations.reader import PodReader, Share
from exporter.agent.allocations.scheme import Scheme
from exporter.agent.allocations.terms import IndexBasis, Reason
from exporter.agent.allocations.trust import asks_for
from exporter.model import Allocation, Container, Device, SchemeDescription

_DECIMAL = re.compile(r"\d{1,18}(\.\d{1,9})?", re.ASCII)
_CONTAINER, _INDEX = "{container}", "{index}"
_MAX_POLICY_LENGTH = 63  # of a Kubernetes label's value


def scheme_of(about: SchemeDescription) -> Scheme:
    """Return the scheme of a description."""
    placement = about.placement_annotation.partition("{")[0]
    keys = (*about.amount_keys, *filter(None, (about.container_key,)))
    annotations = (placement, about.policy_annotation, *keys)
    resources = (*about.resources, about.evidence_resource)
    return Scheme(
        name=about.name,
        resources=tuple(filter(None, resources)),
        annotations=tuple(key for key in annotations if key),
        labels=keys,
        index_basis=IndexBasis(about.index_basis),
        read=partial(read, about),
        enforcement="",
    )


def read(about: SchemeDescription, reader: PodReader) -> list[Allocation]:
    """Return the allocations of each container, one per card."""
    users = _users(reader, about)
    policy = ""
    if users:
        stated = reader.annotation(about.policy_annotation) if about.policy_annotation else ""
        policy = stated or reader.node.labels.get(about.policy_node_label, "")
        # It becomes a label's value as it stands, so it is bounded like one of Kubernetes' own.
        if not policy.isprintable() or len(policy) > _MAX_POLICY_LENGTH:
            reader.reject(Reason.UNKNOWN_POLICY, repr(policy[:_MAX_POLICY_LENGTH]))
            policy = ""
    return [
        allocation
        for container in users
        for allocation in _allocations(reader, about, container, policy)
    ]


def _users(reader: PodReader, about: SchemeDescription) -> list[Container]:
    """Return the containers that have something by resources, or by the pod's annotations."""
    lasting = reader.lasting
    asking = [c for c in lasting if asks_for(c, about.resources)]
    if not any(_text(reader, key) for key in about.amount_keys):
        return asking
    named = {part.strip() for part in _text(reader, about.container_key).split(",")} - {""}
    if strangers := named - {container.name for container in lasting}:
        reader.reject(Reason.CONTAINER_MISMATCH, ", ".join(sorted(strangers)))
    candidates = [c for c in lasting if c.name in named] if named else list(lasting)
    # Whoever may write annotations could give a pod any amount. A resource in the limits goes
    # through the scheduler and quotas: where the system has one, amounts need it beside them.
    if about.evidence_resource or about.resources:
        evidence = about.evidence_resource or about.resources[0]
        found = []
        for one in candidates:
            # The setting may be the beginning of the resource's name.
            stated = [name for name in one.limits if name.startswith(about.evidence_resource)]
            if about.evidence_resource and asks_for(one, stated):
                found.append(one.name)
        if not found and not asking:
            reader.reject(Reason.NOT_REQUESTED, f"{about.amount_keys[0]} without {evidence}")
        users = {*found, *(c.name for c in asking)}
        return [c for c in lasting if c.name in users]
    return candidates if named else [reader.owner(candidates)]


def _text(reader: PodReader, key: str) -> str:
    """Return what an annotation, else a label of the pod says."""
    return (reader.annotation(key) or reader.pod.labels.get(key, "")) if key else ""


def _stated(reader: PodReader, key: str) -> Fraction | None:
    """Return the amount in an annotation or a label; None if there is none."""
    text = _text(reader, key).strip()
    if not text:
        return None
    amount = Fraction(text) if _DECIMAL.fullmatch(text) else None
    if amount is None:
        reader.reject(Reason.BAD_QUANTITY, f"{key}={text[:50]}")
    return amount or None


def _allocations(
    reader: PodReader, about: SchemeDescription, container: Container, policy: str
) -> list[Allocation]:
    core: int | Fraction | None = reader.quantity(container, about.core_resource)
    core = core or _stated(reader, about.core_key)
    amount = reader.quantity(container, about.memory_resource)
    memory = None if amount is None else Fraction(amount)
    if memory is None:
        # With a suffix (``4Gi``) it is bytes, else it has the units of the resource.
        text = _text(reader, about.memory_key).strip()
        size = parse_quantity(text) if text[-1:].isalpha() else None
        memory = Fraction(size, about.memory_unit) if size else _stated(reader, about.memory_key)
    stated = reader.quantity(container, about.count_resource) or None
    if not stated and (number := _stated(reader, about.count_key)) is not None:
        if number.denominator > 1:
            reader.reject(Reason.BAD_QUANTITY, f"{about.count_key}={number}")
        elif reader.allows(container, int(number)):
            stated = int(number)
    if core is None and memory is None and stated is None:
        return []
    # A core above one card's, of a system that states totals, is over as many cards as it needs.
    divided = about.amounts == "total"
    count = stated or (math.ceil(core / Fraction(about.core_units)) if core and divided else 1)
    if not reader.allows(container, count):
        return []
    parts = count if divided else 1
    whole = core is None and memory is None and about.count_alone == "whole-cards"
    share = 1.0 if whole else _share(reader, core, parts, about.core_units)
    bytes_ = None if memory is None else int(memory * about.memory_unit)
    part = reader.memory(bytes_, 1, parts)
    cards: tuple[Device | None, ...] = (None,) * count
    key, place = about.placement_annotation, reader.positions.get(container.name)
    if _INDEX not in key:
        key = key.replace(_CONTAINER, container.name)
    else:
        key = "" if place is None else key.replace(_INDEX, str(place))
    if key and about.index_basis == IndexBasis.UUID:
        cards = _cards_by_uuid(reader, key, count)
    elif key:
        cards = reader.placement(key, count)
    whole_card = share == 1 and memory is None
    return reader.allocate(container, cards, Share(share, part, policy), whole=whole_card)


def _share(reader: PodReader, core: int | Fraction | None, parts: int, units: int) -> float | None:
    """Return the share of one card that has so many units."""
    if core is None:
        return None
    part = Fraction(core) / parts
    if not 0 < part <= units:
        reader.reject(Reason.CORE_OUT_OF_RANGE, f"{float(part)} of {units} units of one card")
        return None
    return float(part / units)


def _cards_by_uuid(reader: PodReader, key: str, count: int) -> tuple[Device | None, ...]:
    text = reader.annotation(key)
    uuids = [uuid.strip() for uuid in text.split(",")] if text else []
    if not uuids:
        return (None,) * count
    if len(uuids) != count or len(set(uuids)) != count:
        reader.reject(Reason.PLACEMENT_MISMATCH, f"{key}={text} for {count} cards")
        return (None,) * count
    return tuple(map(reader.device, uuids))
