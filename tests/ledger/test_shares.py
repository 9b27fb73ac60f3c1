"""What allocations left idle, what was borrowed, and the card that nobody has: the books close."""

from hypothesis import given
from hypothesis import strategies as st

from exporter.ledger import Allocated
from exporter.ledger.device_ledger import DeviceLedger
from exporter.model import Allocation, ContainerKey, Unmeasured
from tests.ledger.node import GROUP, SECOND, A, B, Node, at, window

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
    node.cycle(1, {"GPU-0": window({2: SECOND})}, allocated=half)
    assert card(node).owners[A].counters.allocated_idle == 0


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


STEPS = st.lists(
    st.tuples(SHARES, SHARES, USE, USE), min_size=1, max_size=6
)  # of A and B: share of the core, use of a window


@given(STEPS)
def test_the_books_of_allocation_close(
    steps: list[tuple[float | None, float | None, int, int]],
) -> None:
    """Used + idle - borrowed = allocated; and allocated + unallocated - overcommitted = time."""
    node = Node()
    promised: dict[ContainerKey, int] = {A: 0, B: 0}
    within: dict[ContainerKey, int] = {A: 0, B: 0}
    last: dict[ContainerKey, float | None] = {A: None, B: None}
    for second, (share_a, share_b, use_a, use_b) in enumerate(steps):
        use = {1: use_a, 2: min(use_b, SECOND - use_a)}
        for key, pid in ((A, 1), (B, 2)):
            if share := last[key]:
                promised[key] += int(share * SECOND)
                within[key] += use[pid]
        now = tuple(
            allocated(key, share, share or 0.3) for key, share in ((A, share_a), (B, share_b))
        )
        node.cycle(second, {"GPU-0": window(use)}, allocated=now)
        last = {A: share_a, B: share_b}
    seen = card(node)
    for key in (A, B):
        counters = seen.owners[key].counters
        assert within[key] + counters.allocated_idle - counters.borrowed == promised[key]
    end_ns = at(len(steps) - 1).mono_ns
    kept_ns = sum(account.gpus.at(end_ns) for account in seen.owners.values())
    whole_ns = kept_ns + seen.unallocated.at(end_ns) - seen.overcommitted.at(end_ns)
    assert abs(whole_ns - (end_ns - at(0).mono_ns)) <= 4 * len(steps)
    for accounts in (node.ledger.pods, node.ledger.namespaces):
        assert sum(account.gpus.at(end_ns) for account in accounts.values()) == kept_ns
