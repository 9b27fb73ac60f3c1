"""The names of groups, joined from what all sources know of them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace

from exporter.agent.collector.processowners import ProcessOwners
from exporter.model import (
    SEVERAL,
    CgroupIdentity,
    GroupFacts,
    GroupKey,
    GroupMembers,
    Unattributed,
)

_ID = re.compile(r"[0-9a-f]{64}")
SHORT_ID = 12  # digits of a container's id, as engines print it
_TEXTS = tuple(field.name for field in fields(GroupFacts) if field.name != "uid")

Ask = Callable[[Mapping[GroupKey, GroupMembers]], Sequence[Mapping[GroupKey, GroupFacts]]]


class GroupNames:
    """The names of groups, for as long as the ledger shows any of their series.

    They are kept, because an engine forgets a container that ends, and a job's processes go. So is
    that a group had several users: its counters hold the use of all of them.
    """

    def __init__(self) -> None:
        self._known: dict[GroupKey, GroupFacts] = {}

    def of(
        self,
        found: ProcessOwners,
        identities: Mapping[int, CgroupIdentity | Unattributed],
        kept: Callable[[], Collection[GroupKey]],
        ask: Ask,
    ) -> Mapping[GroupKey, GroupFacts]:
        """Facts of the groups that have processes or a charge now, and of the ``kept``."""
        members = _members(found, identities)
        if not (members or self._known):
            return {}
        answers, staying = ask(members), kept()
        known = {k: facts for k, facts in self._known.items() if k in members or k in staying}
        for key, member in members.items():
            reported = [answer[key] for answer in answers if key in answer]
            before = known.get(key, GroupFacts())
            known[key] = _joined(before, by_path(key, member.identity), *reported)
        self._known = known
        return {key: _named(key, facts) for key, facts in known.items()}


def _members(
    found: ProcessOwners, identities: Mapping[int, CgroupIdentity | Unattributed]
) -> dict[GroupKey, GroupMembers]:
    pids: dict[GroupKey, list[int]] = {}
    known = {owner: at for at, owner in found.charged.items() if isinstance(owner, GroupKey)}
    for pid, owner in found.owners.items():
        identity = identities[pid]
        if isinstance(owner, GroupKey) and isinstance(identity, CgroupIdentity):
            pids.setdefault(owner, []).append(pid)
            known[owner] = identity
    return {key: GroupMembers(tuple(pids.get(key, ())), at) for key, at in known.items()}


def by_path(key: GroupKey, identity: CgroupIdentity) -> GroupFacts:
    """The facts in a group's path. Pure."""
    unit = identity.unit
    if unit is None or unit.kind != "slurm":
        return GroupFacts()
    step = key.group.removeprefix(unit.name).removeprefix(".")
    return GroupFacts(slurm_job=unit.name, slurm_step=step)


def _joined(*facts: GroupFacts) -> GroupFacts:
    """All facts together; the later ones win, as far as they are known. Two users are none."""
    first, *others = facts
    for other in others:
        known = {name: text for name in _TEXTS if (text := getattr(other, name))}
        uid = other.uid if first.uid is None else first.uid
        is_one = other.uid in {None, uid}
        first = replace(first, **known, uid=uid if is_one else SEVERAL)
    return replace(first, user="") if first.uid == SEVERAL else first


def _named(key: GroupKey, facts: GroupFacts) -> GroupFacts:
    """The facts with a name in any case: of users their own, of containers the short id."""
    if facts.name or key.kind == "pod":
        return facts
    if key.kind in {"user", "host"}:
        return replace(facts, name=facts.user or key.group)
    # A container of a user's or a machine's is called after both: ``101/8f3e…``.
    within, slash, own = key.group.rpartition("/")
    return replace(facts, name=within + slash + (own[:SHORT_ID] if _ID.fullmatch(own) else own))
