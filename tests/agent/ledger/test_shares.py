"""What allocations left idle, what was borrowed, and the card that nobody has: the books close."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.attribution.join import account
from exporter.agent.ledger import Allocated
from exporter.agent.ledger.device_ledger import DeviceLedger
from exporter.model import Allocation, ContainerKey, Device, Unmeasured, Window
from tests.agent.ledger.node import GPU, GROUP, SECOND, A, B, Node, at, window

SHARES = st.sampled_from([None, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0])
USE = st.integers(0, SECOND)


def allocated(key: ContainerKey, core: float | None, gpus: float) -> Allocated:
    return Allocated(key, Allocation("u", key.container, "GPU-0", core, 500, "test", gpus=gpus))


def card(node: Node) -> DeviceLedger:
    return node.ledger.devices["GPU-0"]


def test_idle_and_borrowed_are_counted_at_each_window_and_never_netted() -> None:
    node = Node()
    half = (allocated(A, 0.5, 0.5),)
    node.cycle(0, allocated=half)
    node.cycle(1, {"GPU-0": window({1: SECOND})}, allocated=half)
    node.cycle(2, {"GPU-0": window({})}, allocated=half)
    counters = card(node).owners[A].counters
    assert (counters.allocated_idle, counters.borrowed) == (SECOND // 2, SECOND // 2)
    assert node.ledger.devices["GPU-0"].owners[A].cores.at(at(2).mono_ns) == SECOND


def test_time_whose_use_is_not_known_is_neither_idle_nor_borrowed() -> None:
    node = Node()
    node.untold = {A: Unmeasured.NOT_NAMED}
    half = (allocated(A, 0.5, 0.5),)
    node.cycle(0, allocated=half)
    node.cycle(1, {"GPU-0": window({1: SECOND // 4, 2: SECOND // 4})}, allocated=half)
    node.cycle(2, {"GPU-0": window({1: SECOND})}, allocated=half)
    counters = card(node).owners[A].counters
    assert (counters.allocated_idle, counters.borrowed) == (0, 0)


def test_windows_that_are_read_late_are_held_against_what_was_allocated_in_their_time() -> None:
    """A job of two seconds between two reads: half a second of each was idle, none borrowed."""
    node = Node()
    half, none = (allocated(A, 0.5, 0.5),), ()
    for second in range(6):
        node.cycle(second, allocated=half if second in {1, 2} else none)
    for second, used in enumerate((0, SECOND // 4, SECOND // 4, 0, 0), 1):
        usage = account(GPU, window({1: used} if used else {}), node.owners)
        node.ledger.record(usage, at(second))
    counters = card(node).owners[A].counters
    assert (counters.allocated_idle, counters.borrowed) == (SECOND // 2, 0)


def test_who_has_no_share_has_nothing_idle_and_borrows_nothing() -> None:
    node = Node()
    sliced = (allocated(A, None, 0.25),)
    node.cycle(0, allocated=sliced)
    node.cycle(1, {"GPU-0": window({1: SECOND // 2})}, allocated=sliced)
    counters = card(node).owners[A].counters
    assert (counters.allocated_idle, counters.borrowed) == (0, 0)


def test_an_owner_waits_while_it_is_active_and_says_who_ran_instead() -> None:
    node = Node()
    node.cycle(0, {"GPU-0": window({1: SECOND // 10, 2: SECOND // 2, 3: SECOND // 4})})
    node.cycle(1, {"GPU-0": window({2: SECOND})})
    assert card(node).owners[A].counters.waiting == (SECOND * 3) // 4 + SECOND
    assert card(node).waited[A] == {B: SECOND // 2 + SECOND, GROUP: SECOND // 4}
    node.cycle(12, {"GPU-0": window({2: SECOND})})
    assert card(node).owners[A].counters.waiting == (SECOND * 3) // 4 + SECOND


def test_a_closed_account_is_nobody_to_have_waited_for() -> None:
    node = Node()
    node.ledger.retention_ns = SECOND
    node.cycle(0, {"GPU-0": window({1: SECOND // 2, 2: SECOND // 2})}, held={})
    for second in range(1, 5):
        node.cycle(second, {"GPU-0": window({2: SECOND})}, held={})
    assert A not in card(node).waited
    assert A not in card(node).waited.get(B, {})


class Second(NamedTuple):
    """One window: the shares and use of A and B, use without an owner, what was not observed."""

    shares: tuple[float | None, float | None]
    use: tuple[int, int, int]
    unobserved: int
    is_told: bool

    @property
    def window(self) -> Window:
        """It, with no more use than was observed."""
        left, core = SECOND - self.unobserved, {}
        for pid, ns in zip((1, 2, 4), self.use, strict=True):
            core[pid] = min(ns, left)
            left -= core[pid]
        return window(core)._replace(
            observed_ns=SECOND - self.unobserved, unobserved_ns=self.unobserved
        )


SECONDS = st.lists(
    st.builds(Second, st.tuples(SHARES, SHARES), st.tuples(USE, USE, USE), USE, st.booleans()),
    min_size=1,
    max_size=6,
)


@given(SECONDS)
def test_the_books_close(seconds: list[Second]) -> None:
    """Of each owner used + idle - borrowed = allocated, while its use is known; of the device.

    By allocation: allocated + unallocated - overcommitted = time. By use: used + unattributed =
    busy, and what was not observed is known.
    """
    node = Node()
    promised: dict[ContainerKey, int] = {A: 0, B: 0}
    within: dict[ContainerKey, int] = {A: 0, B: 0}
    last: tuple[float | None, float | None] = (None, None)
    for number, second in enumerate(seconds):
        seen = second.window
        use = {one.pid: one.busy.core or 0 for one in seen.processes}
        for key, pid, share in zip((A, B), (1, 2), last, strict=True):
            if share and second.is_told:
                promised[key] += int(share * SECOND) * seen.observed_ns // SECOND
                within[key] += use[pid]
        now = [allocated(key, s, s or 0.3) for key, s in zip((A, B), second.shares, strict=True)]
        node.untold = {} if second.is_told else None
        node.cycle(number, {"GPU-0": seen}, allocated=tuple(now))
        last = second.shares
    device = card(node)
    for key in (A, B):
        counters = device.owners[key].counters
        held = within[key] + counters.allocated_idle - counters.borrowed
        assert abs(held - promised[key]) <= len(seconds)  # of rounding
    end_ns = at(len(seconds) - 1).mono_ns
    kept_ns = sum(account.gpus.at(end_ns) for account in device.owners.values())
    assert_closed(device, kept_ns, len(seconds))
    assert sum(account.gpus.at(end_ns) for account in node.ledger.namespaces.values()) == kept_ns
    of_pods, of_parts = (
        sum(each.allocated.gpu_ns or 0 for each in facts)
        for facts in (node.facts.pods, node.facts.containers)
    )
    assert of_pods == of_parts
    used = [*device.owners.values(), *device.unattributed.values()]
    assert sum(account.counters.core for account in used) == device.total.counters.core
    assert device.unobserved_ns == sum(second.unobserved for second in seconds)
    assert device.total.counters.core + device.unobserved_ns <= len(seconds) * SECOND


def assert_closed(device: DeviceLedger, kept_ns: int, seconds: int) -> None:
    """By allocation, a device's time is the sum of its parts, but for a few ns of rounding."""
    end_ns = at(seconds - 1).mono_ns
    whole_ns = kept_ns + device.unallocated.at(end_ns) - device.overcommitted.at(end_ns)
    assert abs(whole_ns - (end_ns - at(0).mono_ns)) <= 4 * seconds


PARTS = st.sampled_from([0.0, 1 / 7, 0.25, 0.5, 4 / 7])


@given(st.lists(st.tuples(PARTS, PARTS, PARTS), min_size=2, max_size=6))
def test_a_board_with_instances_is_one_card(steps: list[tuple[float, float, float]]) -> None:
    instances = tuple(
        Device(f"MIG-{n}", 0, "nvidia", parent_uuid="GPU-0", memory_bytes=100) for n in range(3)
    )
    node = Node((GPU, *instances))
    for number, parts in enumerate(steps):
        now = tuple(
            Allocated(A, Allocation("u", A.container, one.uuid, part, 100, "test", gpus=part))
            for one, part in zip(instances, parts, strict=True)
        )
        node.cycle(number, allocated=now)
    end_ns = at(len(steps) - 1).mono_ns
    kept_ns = sum(node.ledger.devices[one.uuid].owners[A].gpus.at(end_ns) for one in instances)
    assert_closed(card(node), kept_ns, len(steps))
    free = {one.device.uuid: one.allocated.free_ns for one in node.facts.devices}
    assert {uuid for uuid, ns in free.items() if ns is not None} == {"GPU-0"}


def test_what_ran_while_nobody_could_be_named_is_neither_idle_nor_waited_for() -> None:
    node = Node()
    half = (allocated(A, 0.5, 0.5),)
    node.cycle(0, {"GPU-0": window({1: SECOND // 2})}, allocated=half)
    before = card(node).owners[A].counters
    node.ledger.unidentified, node.owners = Unmeasured.NO_HOSTPID, {}
    node.cycle(1, {"GPU-0": window({1: SECOND})}, allocated=half)
    assert card(node).owners[A].counters == before


def test_what_stands_under_no_container_yet_is_not_idle() -> None:
    node = Node()
    half = (allocated(A, 0.5, 0.5), allocated(B, 0.25, 0.25))
    node.cycle(0, allocated=half)
    node.owners = {1: A._replace(container="")}
    node.cycle(1, {"GPU-0": window({1: SECOND // 4})}, allocated=half)
    idle = {key: account.counters.allocated_idle for key, account in card(node).owners.items()}
    assert (idle[A], idle[B]) == (0, SECOND // 4)


def test_a_container_does_not_wait_for_what_may_be_its_own_use() -> None:
    """It has restarted: its process list is old, and the id of its new container is not known."""
    node = Node()
    node.cycle(0, {"GPU-0": window({1: SECOND // 2, 2: SECOND // 4})})
    node.owners = {1: A._replace(container=""), 2: B}
    node.cycle(1, {"GPU-0": window({1: SECOND // 2, 2: SECOND // 4})})
    waited = card(node).waited
    assert set(waited[A]) == {B}
    assert waited[A][B] == SECOND // 4
    assert waited[B][A._replace(container="")] == SECOND // 2


OTHER = Device("GPU-1", 1, "nvidia", memory_bytes=1000)


def somewhere(gpus: float | None, *among: str) -> Allocated:
    """An allocation of unknown place: on one of these devices."""
    return Allocated(B, Allocation("v", B.container, None, None, None, "x", gpus=gpus, among=among))


UNKNOWN_PART = Allocated(A, Allocation("u", A.container, "GPU-0", None, 500, "x"))


@pytest.mark.parametrize(
    ("placed", "unplaced", "free"),
    [
        # what it may be is free of nobody: the cards together have so much less that is
        ([], [somewhere(1.0, "GPU-0", "GPU-1")], (0.5, 0.5)),
        ([], [somewhere(0.5, "GPU-1")], (1, 0.5)),
        ([allocated(A, 0.5, 0.5)], [somewhere(0.3, "GPU-0", "GPU-1")], (0.4, 0.8)),
        ([allocated(A, 0.5, 0.5)], [somewhere(0.5, "GPU-0")], (0, 1)),
        ([], [somewhere(0.5, "GPU-0"), somewhere(0.75, "GPU-0", "GPU-1")], (0.25, 0.5)),
        # more than is free
        ([allocated(A, 1.0, 1.0)], [somewhere(1.0, "GPU-0")], (0, 1)),
        ([], [somewhere(2.5, "GPU-0", "GPU-1")], (0, 0)),
        # how much it is is not known
        ([allocated(A, 0.5, 0.5)], [somewhere(None, "GPU-0")], (0, 1)),
        ([UNKNOWN_PART], [], (0, 1)),
        # on a device that is not known
        ([], [somewhere(1.0), somewhere(1.0, "GPU-9")], (1, 1)),
    ],
)
def test_what_an_allocation_of_unknown_place_may_be_is_not_unallocated(
    placed: list[Allocated], unplaced: list[Allocated], free: tuple[float, float]
) -> None:
    node = Node((GPU, OTHER))
    node.cycle(0, allocated=(*placed, *unplaced))
    node.cycle(1, allocated=(*placed, *unplaced))
    devices = [node.ledger.devices[uuid] for uuid in ("GPU-0", "GPU-1")]
    now_ns = at(1).mono_ns
    assert [device.unallocated.at(now_ns) / SECOND for device in devices] == pytest.approx(free)
    assert not any(device.overcommitted.at(now_ns) for device in devices)


def test_an_instance_of_unknown_place_is_a_part_of_its_board() -> None:
    instance = Device("MIG-0", 0, "nvidia", parent_uuid="GPU-0", memory_bytes=100)
    node = Node((GPU, instance, OTHER))
    node.cycle(0, allocated=(somewhere(0.5, "MIG-0"),))
    node.cycle(1, allocated=(somewhere(0.5, "MIG-0"),))
    assert card(node).unallocated.at(at(1).mono_ns) == SECOND // 2


@pytest.mark.parametrize("devices", [(GPU,), (GPU, OTHER), (OTHER, GPU)])
@pytest.mark.parametrize("away", [1, 2, 5])
def test_a_device_that_was_away_goes_on_with_its_allocations(
    devices: tuple[Device, ...], away: int
) -> None:
    """From the cycle that misses it to that of its return it is neither kept nor free."""
    node = Node(devices)
    half = (allocated(A, 0.5, 0.5),)
    node.cycle(0, allocated=half)
    node.cycle(1, allocated=half)
    left = node.devices = tuple(one for one in devices if one is not GPU)
    for second in range(2, 2 + away):
        node.cycle(second, allocated=half)
    assert GPU.uuid not in node.ledger.devices
    node.devices = (*left, GPU)
    for second in range(2 + away, 4 + away):
        node.cycle(second, {"GPU-0": window({})}, allocated=half)
    device, end_ns = card(node), at(3 + away).mono_ns
    assert device.owners[A].cores.shares == (0.5,)
    there_ns = 3 * SECOND  # until 2, and from its return on
    assert device.unallocated.at(end_ns) == there_ns // 2
    assert node.ledger.namespaces["n", "GPU-0"].gpus.at(end_ns) == there_ns // 2


def test_the_last_device_and_the_last_allocation_may_go_together() -> None:
    node = Node()
    node.cycle(0, allocated=(allocated(A, 0.5, 0.5),))
    node.devices = ()
    node.cycle(1, allocated=(allocated(A, 0.5, 0.5),))
    node.cycle(2)
    assert not node.ledger.pods["n", "a"].has_allocation


def test_the_bound_of_series_holds_where_each_of_many_waits_for_each_other() -> None:
    """As a node's own test asserts each cycle: the limit of series is not looked at below it."""
    node = Node()
    keys = [ContainerKey("n", f"p{number}", "c") for number in range(20)]
    node.owners = dict(enumerate(keys, 1))
    node.cycle(0, {"GPU-0": window(dict.fromkeys(node.owners, SECOND // 20))})
    assert sum(len(others) for others in card(node).waited.values()) == 20 * 19


POD, SIDE = A._replace(container=""), A._replace(container="side")


@given(st.lists(st.tuples(USE, USE, USE, st.booleans()), min_size=1, max_size=5), SHARES)
def test_the_books_of_a_pod_that_has_a_share_as_a_whole_close(
    seconds: list[tuple[int, int, int, bool]], share: float | None
) -> None:
    """Its containers use it together, but for one that has a share of its own; also when it ends.

    Of the pod, and of its namespace on the device: used + idle - borrowed = allocated.
    """
    node = Node()
    node.owners = {1: A, 2: SIDE, 5: A._replace(container="own")}
    own = A._replace(container="own")
    grants = (allocated(POD, share, share or 0.3), allocated(own, 0.25, 0.25))
    node.cycle(0, {"GPU-0": window({})}, allocated=grants)
    promised = used = 0
    for number, (first, side, third, is_told) in enumerate(seconds, 1):
        use = {1: first // 3, 2: side // 3, 5: third // 3}
        node.untold = {} if is_told else {SIDE: Unmeasured.NOT_NAMED}
        node.cycle(number, {"GPU-0": window(use)}, allocated=grants)
        if share and is_told:
            promised += int(share * SECOND)
            used += use[1] + use[2]
        promised += SECOND // 4
        used += use[5]
    node.untold = {}
    node.cycle(30, {"GPU-0": window({})}, allocated=())
    accounts = [node.ledger.pods["n", "a"], *card(node).owners.values()]
    accounts += node.ledger.unplaced.values()
    idle, borrowed = (sum(getattr(a.counters, n) for a in accounts) for n in NAMES)
    first_promised = int((share or 0) * SECOND) + SECOND // 4  # of the last window
    held = used + idle - borrowed
    assert abs(held - promised - first_promised) <= 2 * len(seconds)  # of rounding
    node.cycle(400, {"GPU-0": window({})})  # all have ended
    [of_namespace] = [one for one in node.facts.namespaces if one.uuid]
    assert (of_namespace.allocated.idle_ns, of_namespace.allocated.borrowed_ns) == (idle, borrowed)


NAMES = ("allocated_idle", "borrowed")


def test_a_pod_with_a_share_as_a_whole_has_idle_time() -> None:
    node = Node()
    half = (allocated(POD, 0.5, 0.5),)
    node.cycle(0, {"GPU-0": window({})}, allocated=half)
    node.cycle(1, {"GPU-0": window({1: SECOND // 4})}, allocated=half)
    [pod], [of_namespace] = node.facts.pods, node.facts.namespaces
    for one in (pod, of_namespace):
        assert (one.allocated.core_ns, one.allocated.idle_ns) == (SECOND // 2, SECOND // 4)
        assert one.allocated.borrowed_ns == 0
