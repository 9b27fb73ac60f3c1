"""Whose the processes are is worked out anew only where something changed."""

from contextlib import suppress
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from exporter.collector.owners import ProcessOwners
from exporter.model import (
    CgroupIdentity,
    Container,
    DeviceMemory,
    GroupKey,
    MemoryHeld,
    Pod,
    PodSlot,
    PodTable,
)
from exporter.model import ProcessMemory as Holder
from exporter.sources.pods.table import indexed

COMPUTE = frozenset({"compute"})
MEMORY = DeviceMemory(100, 30, None, (Holder(1, 10, COMPUTE), Holder(2, 20, COMPUTE)))
A, B = GroupKey("docker", "a"), GroupKey("docker", "b")


def membership() -> ProcessOwners:
    made = ProcessOwners()
    made.update(identities("b"), PodTable())
    return made


def identities(second: str) -> dict[int, CgroupIdentity]:
    ids = {1: "a", 2: second}
    return {pid: CgroupIdentity(None, container, "docker") for pid, container in ids.items()}


def test_holders_stay_the_same_value_while_the_driver_gives_the_same_answer() -> None:
    known = membership()
    first = known.holders("GPU-0", MEMORY)

    assert known.holders("GPU-0", MEMORY) is first
    assert first.held == {A: MemoryHeld(10, 1), B: MemoryHeld(20, 1)}


def test_holders_are_new_when_the_driver_says_something_else() -> None:
    known = membership()
    known.holders("GPU-0", MEMORY)

    assert known.holders("GPU-0", replace(MEMORY, used_bytes=35)).held.keys() > {A, B}


def test_holders_are_new_when_a_process_has_another_owner() -> None:
    known = membership()
    known.holders("GPU-0", MEMORY)
    known.update(identities("a"), PodTable())

    assert known.holders("GPU-0", MEMORY).held == {A: MemoryHeld(30, 2)}


def test_who_holds_a_device_without_a_process_list_is_not_known() -> None:
    assert membership().holders("GPU-0", replace(MEMORY, processes=None)).residents is None
    assert membership().holders("GPU-0", None).residents is None


def pod(uid: str, static: str, *ids: str, deleted: bool = False) -> Pod:
    containers = tuple(Container(f"c{n}", container_ids=(i,) * bool(i)) for n, i in enumerate(ids))
    return Pod(uid, "ns", f"pod-{uid}", "", "", static, deleted=deleted, containers=containers)


IDS = st.sampled_from(["", "a", "b", "c", "d"])  # of pods, static pods and containers alike
SLOTS = st.tuples(IDS, IDS).map(lambda ids: PodSlot(ids[0], ids[1] or None))
IDENTITIES = st.builds(
    CgroupIdentity,
    IDS,
    IDS.map(lambda i: i or None),
    enclosing=st.lists(SLOTS, max_size=1).map(tuple),
)
TABLES = st.lists(
    st.builds(pod, IDS.filter(bool), IDS, IDS, IDS, deleted=st.booleans()),
    unique_by=lambda pod: pod.uid,
).map(lambda pods: indexed({pod.uid: pod for pod in pods}))


@given(st.dictionaries(st.integers(1, 3), IDENTITIES), st.lists(TABLES, max_size=8))
def test_after_any_news_of_pods_all_is_as_if_told_at_once(
    identities: dict[int, CgroupIdentity], tables: list[PodTable]
) -> None:
    known = ProcessOwners()
    for table in tables:
        known.update(identities, table)
        anew = ProcessOwners()
        anew.update(identities, table)
        assert (known.owners, known.members) == (anew.owners, anew.members)


def test_news_of_a_pod_without_these_processes_leave_everything_as_it_is() -> None:
    known = membership()
    before = known.owners
    known.update(identities("b"), indexed({"u": pod("u", "", "elsewhere")}))

    assert known.owners is before


def test_what_could_not_be_told_once_is_told_the_next_time() -> None:
    known = membership()
    broken = PodTable(1, {"u": pod("u", "", "a")}, {}, {"a": ("gone", "main")})
    with suppress(KeyError):
        known.update(identities("c"), broken)
    known.update(identities("c"), PodTable(2))

    assert known.owners == {1: A, 2: GroupKey("docker", "c")}
