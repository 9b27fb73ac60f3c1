"""What groups are called, beside their counters and for as long as those are there."""

from collections.abc import Mapping

import pytest

from exporter.agent.collector import Collector, CycleRules, Sources
from exporter.agent.ledger import Ledger
from exporter.model import (
    CgroupIdentity,
    GroupFacts,
    GroupKey,
    GroupMembers,
    SourceStatus,
    Unit,
)
from tests.agent.collector.bench import SECOND, Bench
from tests.rows import Row, rows_of

ID = "c" * 64
JOB = CgroupIdentity(unit=Unit("slurm", "211", "batch", 1000))
DOCKER = CgroupIdentity(None, ID, "docker")


class SetGroups:
    """A ``GroupSource`` that says what the test sets, of every group."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told = GroupFacts()
        self.error: Exception | None = None
        self.asked: list[Mapping[GroupKey, GroupMembers]] = []

    def start(self) -> None:
        """Nothing to begin."""

    def facts(self, members: Mapping[GroupKey, GroupMembers]) -> Mapping[GroupKey, GroupFacts]:
        """The same of each."""
        self.asked.append(members)
        if self.error is not None:
            raise self.error
        return dict.fromkeys(members, self.told)

    def status(self) -> SourceStatus:
        """Up."""
        return SourceStatus(self.name, up=True)

    def rejected(self) -> Mapping[str, int]:
        """Something."""
        return {"odd": 1}

    def close(self) -> None:
        """Nothing is held."""


class Named(Bench):
    """A bench with sources of names."""

    def __init__(self, *, by_step: bool = False, retention_s: int = 300) -> None:
        super().__init__()
        self.users, self.containers = SetGroups("users"), SetGroups("containers")
        sources = Sources(
            *((self.gpus,), self.processes, self.pods), groups=(self.users, self.containers)
        )
        rules = CycleRules(by_step=by_step, retention_ns=retention_s * SECOND)
        self.ledger = Ledger(retention_s * SECOND, 15 * SECOND)
        self.collector = Collector(sources, self.ledger, self.clock, rules)

    def group(self, identity: CgroupIdentity, pid: int = 7) -> Row:
        """The row of the group of a process, after a cycle in which it worked."""
        self.processes.identities = {pid: identity}
        self.use(pid, SECOND // 2)
        (row,) = rows_of(self.cycle())["group"]
        return row


def info(row: Row) -> GroupFacts:
    """What a row says of names."""
    labelled = row.values["info"]
    assert isinstance(labelled, Mapping)
    ((labels, one),) = labelled.items()
    assert one == 1
    return GroupFacts(*labels)


def test_each_source_says_what_it_knows_and_the_later_one_counts() -> None:
    named = Named()
    named.users.told = GroupFacts(name="from users", user="alice")
    named.containers.told = GroupFacts(name="web")
    assert info(named.group(DOCKER)) == GroupFacts("web", "alice")


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (DOCKER, ID[:12]),
        (JOB, "211"),
        (CgroupIdentity(unit=Unit("systemd", "ollama.service")), "ollama.service"),
        (CgroupIdentity(unit=Unit("user", "1000", uid=1000)), "1000"),
        (CgroupIdentity("4a163a05-439d-484b-8e53-2968bc15824f", ID), ""),
    ],
)
def test_without_a_source_a_group_is_called_by_its_id(identity: CgroupIdentity, name: str) -> None:
    assert info(Named().group(identity)).name == name


def test_a_users_group_is_called_as_the_user_is() -> None:
    named = Named()
    named.users.told = GroupFacts(user="alice")
    row = named.group(CgroupIdentity(unit=Unit("user", "1000", uid=1000)))
    assert info(row) == GroupFacts("alice", "alice")


def test_a_job_says_its_number_and_a_step_only_where_it_is_a_group_of_its_own() -> None:
    whole, by_step = Named().group(JOB), Named(by_step=True).group(JOB)
    assert whole.labels[:2] == ("slurm", "211")
    assert info(whole) == GroupFacts("211", slurm_job="211")
    assert by_step.labels[:2] == ("slurm", "211.batch")
    assert info(by_step) == GroupFacts("211.batch", slurm_job="211", slurm_step="batch")


def test_a_name_that_comes_later_or_changes_is_taken_and_none_is_forgotten() -> None:
    named = Named()
    assert info(named.group(DOCKER)).name == ID[:12]
    for name in ("web", "renamed"):
        named.containers.told = GroupFacts(name=name)
        assert info(named.group(DOCKER)).name == name
    named.containers.told = GroupFacts()
    assert info(named.group(DOCKER)).name == "renamed"


def test_a_job_that_has_ended_keeps_counters_and_names_for_the_retention_and_no_longer() -> None:
    named = Named(retention_s=10)
    named.users.told = GroupFacts(user="alice", account="climate")
    worked = named.group(JOB)
    named.gpus.devices = (named.gpus.devices[0],)
    named.use(8, 0, memory=0)
    named.processes.identities = {8: CgroupIdentity()}
    rows = [next(iter(rows_of(named.cycle())["group"]), None) for _ in range(15)]
    ended = [row for row in rows if row is not None]
    assert 8 <= len(ended) <= 11
    for row in ended[2:]:
        assert info(row) == GroupFacts("211", "alice", "climate", "211")
        assert row.values["core_seconds_total"] == worked.values["core_seconds_total"]
        assert "memory_used_bytes" not in row.values
    assert named.users.asked[-1] == {}


def test_a_source_that_fails_costs_its_names_only() -> None:
    named = Named()
    named.users.told = GroupFacts(user="alice")
    named.containers.error = OSError("engine on fire")
    row = named.group(DOCKER)
    assert info(row) == GroupFacts(ID[:12], "alice")
    assert row.values["core_seconds_total"] == SECOND // 2
    up = rows_of(named.collector.snapshot)["exporter"][0].values["source_up"]
    assert isinstance(up, Mapping)
    assert [name for (name,), is_up in up.items() if not is_up] == ["containers"]


def test_sources_are_asked_about_the_living_by_their_processes() -> None:
    named = Named()
    named.group(DOCKER)
    assert named.users.asked == [{GroupKey("docker", ID): GroupMembers((7,), DOCKER)}]
