"""On every page a device's memory in use is its containers', its groups' and nobody's."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.model import (
    CgroupCharge,
    CgroupIdentity,
    CgroupMemory,
    DeviceMemory,
    DeviceReading,
    Engines,
    Number,
    ProcessMemory,
    Snapshot,
    SourceStatus,
    Unmeasured,
    Window,
)
from tests.agent.collector.bench import CID, DEVICE, SECOND, Bench
from tests.agent.collector.test_blindness import PLACED_POD, SIDE
from tests.rows import rows_of

IDENTITIES = {
    1: CgroupIdentity("uid-1", CID, "containerd"),  # the container that is allocated
    2: CgroupIdentity("uid-1", "c" * 64, "containerd"),  # of the same pod, not known yet
    3: CgroupIdentity("uid-2", "d" * 64, "containerd"),  # a pod without a name
    4: CgroupIdentity(None, "e" * 64, "docker"),
    5: CgroupIdentity(),  # of the host; 6 has ended
}
IDLE = Window(0, SECOND, SECOND, 0, Engines(core=0))
PROCESSES = SourceStatus("cgroups", up=True)
BLIND = PROCESSES._replace(up=False, reason=Unmeasured.NO_HOSTPID)

sizes = st.one_of(st.none(), st.integers(0, 100))
lists = st.dictionaries(st.integers(1, 6), sizes).map(
    lambda sized: tuple(
        ProcessMemory(pid, size, frozenset({"compute"})) for pid, size in sized.items()
    )
)
charges = st.dictionaries(st.integers(1, 4), st.integers(0, 100)).map(
    lambda charged: tuple(
        CgroupCharge(IDENTITIES[number], CgroupMemory(size, None, None, "kernel"))
        for number, size in charged.items()
    )
)
memories = st.builds(
    DeviceMemory,
    st.just(1000),
    st.integers(0, 300),
    st.none(),
    st.one_of(st.none(), lists),
    charges=charges,
)
moments = st.tuples(st.one_of(st.none(), memories), st.sampled_from([PROCESSES, BLIND]))


def balance(snapshot: Snapshot) -> tuple[Number, Number] | None:
    """Memory in use on the page, and the sum of its parts; None where the first is not there."""
    (device,) = (row.values for row in rows_of(snapshot)["device"])
    used = device.get("memory_used_bytes")
    if used is None:
        return None
    nobodys = device["unattributed_memory_bytes"]
    assert isinstance(used, int)
    assert not isinstance(nobodys, int | float)
    parts = list(nobodys.values())
    for level in ("container", "group"):
        for row in rows_of(snapshot)[level]:
            held = row.values.get("memory_used_bytes", 0)
            assert isinstance(held, int)
            parts.append(held)
    return used, sum(parts)


@settings(deadline=None)
@given(st.lists(moments, min_size=1, max_size=8))
def test_memory_balances_on_every_page(
    history: list[tuple[DeviceMemory | None, SourceStatus]],
) -> None:
    bench = Bench()
    bench.processes.identities = dict(IDENTITIES)
    bench.name_pod(replace(PLACED_POD, containers=(*PLACED_POD.containers, SIDE)))
    for memory, bench.processes.now in history:
        bench.gpus.devices = (DeviceReading(DEVICE, window=IDLE, memory=memory),)

        books = balance(bench.cycle())

        assert (books is None) == (memory is None)
        if books is not None:
            assert books[0] == books[1]
