"""What the kernel charges to a container or group is shown, whether or not a process is listed."""

from dataclasses import replace

import pytest

from exporter.model import (
    CgroupCharge,
    CgroupIdentity,
    CgroupMemory,
    DeviceMemory,
    DeviceReading,
    Engines,
    GroupKey,
    ProcessMemory,
    Unit,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, PLACED, POD, SECOND, Bench, row
from tests.rows import Row, rows_of

MIB = 1 << 20
OWN = CgroupIdentity("uid-1", CID, "containerd")
JOB = CgroupIdentity(unit=Unit("slurm", "211"))
STEP = CgroupIdentity(unit=Unit("slurm", "211", "0"))
ELSEWHERE = CgroupIdentity(unit=Unit("systemd", "x.service"))
CONTAINER = ("ml", "train", "main", "0", "GPU-0")
GROUP = ("slurm", "211", "0", "GPU-0")


def charge(identity: CgroupIdentity, amount: int, limit: int | None = None) -> CgroupCharge:
    return CgroupCharge(identity, CgroupMemory(amount * MIB, None, limit, "kernel"))


def read(
    bench: Bench,
    *charges: CgroupCharge,
    used: int | None = 900,
    listed: dict[int, int] | None = None,
    total: int = 1000,
) -> None:
    """Let the card have these charges, and the driver list these processes (None: nobody)."""
    processes = (
        None
        if listed is None
        else tuple(ProcessMemory(p, n * MIB, frozenset({"compute"})) for p, n in listed.items())
    )
    memory = DeviceMemory(
        total * MIB, None if used is None else used * MIB, None, processes, charges=charges
    )
    idle = Window(0, SECOND, SECOND, 0, Engines(core=0))
    bench.gpus.devices = (
        DeviceReading(replace(DEVICE, memory_bytes=total * MIB), window=idle, memory=memory),
    )


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.name_pod(replace(POD, annotations=PLACED))
    return bench


def figures(found: Row) -> dict[str, object]:
    names = ("memory_used_bytes", "memory_charged_bytes", "processes", "memory_limit_bytes")
    return {name: found.values[name] for name in names if name in found.values}


def nobodys(bench: Bench) -> dict[str, int]:
    found = row(bench.collector.snapshot, "device", "0", "GPU-0")
    by_reason = found.values["unattributed_memory_bytes"]
    assert not isinstance(by_reason, int | float)
    return {reason: int(n) // MIB for (reason,), n in by_reason.items() if n}


@pytest.mark.parametrize("listed", [{}, {9: 100}, None], ids=["none", "another's", "no list"])
def test_a_charge_is_the_figure_of_who_has_no_process_in_the_list(
    bench: Bench, listed: dict[int, int] | None
) -> None:
    bench.processes.identities[9] = ELSEWHERE
    read(bench, charge(OWN, 300, 512 * MIB), charge(JOB, 100), charge(STEP, 200), listed=listed)
    bench.cycle()
    snapshot = bench.cycle()
    assert figures(row(snapshot, "container", *CONTAINER)) == {
        "memory_used_bytes": 300 * MIB,
        "memory_charged_bytes": {("kernel", "figure"): 300 * MIB},
        "processes": 0,
        "memory_limit_bytes": 512 * MIB,
    }
    job = row(snapshot, "group", *GROUP)
    assert job.values["memory_charged_bytes"] == {("kernel", "figure"): 300 * MIB}
    assert job.values["info"] == {("211", "", "", "211", ""): 1}
    assert nobodys(bench) == {"no_pid": 900 - 600 - sum((listed or {}).values())}


def test_a_charge_is_a_second_opinion_of_who_has_a_figure(bench: Bench) -> None:
    bench.processes.identities[7] = OWN
    read(bench, charge(OWN, 300), listed={7: 250})
    assert figures(row(bench.cycle(), "container", *CONTAINER)) | {"memory_limit_bytes": 0} == {
        "memory_used_bytes": 250 * MIB,
        "memory_charged_bytes": {("kernel", "second_opinion"): 300 * MIB},
        "processes": 1,
        "memory_limit_bytes": 0,
    }


@pytest.mark.parametrize("place", [ELSEWHERE, None], ids=["moved", "of unknown place"])
def test_what_may_be_a_listed_process_is_not_counted_twice(
    bench: Bench, place: CgroupIdentity | None
) -> None:
    """A process that moved is charged where it was; one of unknown place may be anybody's."""
    if place is not None:
        bench.processes.identities[7] = place
    read(bench, charge(OWN, 800), listed={7: 800})
    found = row(bench.cycle(), "container", *CONTAINER)
    if place is not None:
        assert "memory_used_bytes" not in found.values
        assert found.values["memory_charged_bytes"] == {("kernel", "second_opinion"): 800 * MIB}
    assert nobodys(bench).get("overlap") is None


def test_where_nobody_is_listed_the_memory_of_the_others_is_not_known(bench: Bench) -> None:
    read(bench, charge(JOB, 200), listed=None)
    bench.cycle()
    snapshot = bench.cycle()
    found = row(snapshot, "container", *CONTAINER)
    assert "memory_used_bytes" not in found.values
    assert found.values["unmeasured"] == {("memory", "read_failed"): 1}


def test_who_is_charged_no_more_has_ended(bench: Bench) -> None:
    read(bench, charge(JOB, 200), listed=None)
    bench.cycle()
    read(bench, listed=None)
    bench.cycle()
    (job,) = [r for r in rows_of(bench.cycle())["group"] if r.labels == GROUP]
    assert figures(job) == {}
    assert GroupKey("slurm", "211") in bench.ledger.groups()


@pytest.mark.parametrize("evidence", ["kernel", "driver"])
@pytest.mark.parametrize(
    ("reported", "kept"),
    [
        ((300, 0, 1000), (300, 0, 1000)),
        ((300, 0, 1100), (300, None, None)),
        ((300, 5000, 5000), (300, None, None)),
        ((300, 200, 5000), (300, 200, None)),
        ((5000, None, 500), (None, None, 500)),
    ],
)
def test_a_limit_beyond_what_the_card_has_is_none(
    bench: Bench,
    evidence: str,
    reported: tuple[int | None, ...],
    kept: tuple[int | None, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    def of(amounts: tuple[int | None, ...]) -> CgroupMemory:
        charged, least, limit = (None if n is None else n * MIB for n in amounts)
        return CgroupMemory(charged, least, limit, evidence)

    read(bench, CgroupCharge(OWN, of(reported)), listed={})
    for _ in range(3):
        bench.cycle()
    (memory,) = bench.collector._plausible._memories.values()
    assert [each.memory for each in memory.kept.charges] == [of(kept)]
    exporter = row(bench.collector.snapshot, "exporter")
    rejected = exporter.values["rejected_samples_total"]
    assert not isinstance(rejected, int | float)
    assert bool(rejected.get(("cgroup_memory",))) == (reported != kept)
    assert caplog.text.count("cgroup_memory") == (reported != kept)
