"""What groups are called, kept for as long as the ledger shows anything of them."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace

from exporter.collector.pids import all_same
from exporter.model import (
    CgroupIdentity,
    GroupFacts,
    GroupKey,
    GroupMember,
    Owner,
    Unattributed,
)

_ID = re.compile(r"[0-9a-f]{64}")
SHORT_ID = 12  # digits of a container's id, as engines print it
_FIELDS = tuple(field.name for field in fields(GroupFacts))

Ask = Callable[[Mapping[GroupKey, GroupMember]], Sequence[Mapping[GroupKey, GroupFacts]]]


class Naming:
    """Remembers: an engine forgets a container that ends, and a job's processes are gone."""

    def __init__(self) -> None:
        self._known: dict[GroupKey, GroupFacts] = {}
        self._owners: Mapping[int, Owner] = {}
        self._members: dict[GroupKey, GroupMember] = {}  # of these owners
        self._told: Sequence[Mapping[GroupKey, GroupFacts]] = ()
        self._staying: Collection[GroupKey] = ()
        self._named: Mapping[GroupKey, GroupFacts] = {}

    def of(
        self,
        owners: Mapping[int, Owner],
        identities: Mapping[int, CgroupIdentity | Unattributed],
        kept: Callable[[], Collection[GroupKey]],
        ask: Ask,
    ) -> Mapping[GroupKey, GroupFacts]:
        """Facts of the groups that have processes now, and of those that are ``kept``.

        The same mapping of owners has the same members, and the same answers of all that are
        asked the same facts.
        """
        anew = owners is not self._owners
        if anew:
            self._owners, self._members = owners, _members(owners, identities)
        members = self._members
        if not (members or self._known):
            return self._known
        told, staying = ask(members), kept()
        if anew or staying != self._staying or not all_same(told, self._told):
            self._told, self._staying = told, staying
            self._learn(told, staying)
            self._named = {key: _named(key, facts) for key, facts in self._known.items()}
        return self._named

    def _learn(
        self, told: Sequence[Mapping[GroupKey, GroupFacts]], staying: Collection[GroupKey]
    ) -> None:
        now = {
            key: _joined(by_path(key, member.identity), *(t[key] for t in told if key in t))
            for key, member in self._members.items()
        }
        before = {k: facts for k, facts in self._known.items() if k in now or k in staying}
        self._known = before | {
            key: _joined(before.get(key, GroupFacts()), facts) for key, facts in now.items()
        }


def _members(
    owners: Mapping[int, Owner], identities: Mapping[int, CgroupIdentity | Unattributed]
) -> dict[GroupKey, GroupMember]:
    return {
        owner: GroupMember(pid, identity)
        for pid, owner in owners.items()
        if isinstance(owner, GroupKey) and isinstance(identity := identities[pid], CgroupIdentity)
    }


def by_path(key: GroupKey, identity: CgroupIdentity) -> GroupFacts:
    """What the path says. Pure."""
    unit = identity.unit
    if unit is None or unit.kind != "slurm":
        return GroupFacts()
    step = key.group.removeprefix(unit.name).removeprefix(".")
    return GroupFacts(slurm_job=unit.name, slurm_step=step)


def _joined(*facts: GroupFacts) -> GroupFacts:
    """The later ones count, as far as they know."""
    first, *others = facts
    for other in others:
        known = {name: text for name in _FIELDS if (text := getattr(other, name))}
        first = replace(first, **known)
    return first


def _named(key: GroupKey, facts: GroupFacts) -> GroupFacts:
    """With a name in any case: of users their own, of containers the short id."""
    if facts.name or key.kind == "pod":
        return facts
    if key.kind in {"user", "host"}:
        return replace(facts, name=facts.user or key.group)
    own = key.group.rpartition("/")[2]
    return replace(facts, name=own[:SHORT_ID] if _ID.fullmatch(own) else key.group)
