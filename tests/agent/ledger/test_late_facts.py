"""Facts are built for their first reader, and show the state when their cycle ended."""

from hypothesis import given

from exporter.model import MemoryHeld, Owner, Unmeasured
from tests.agent.ledger.node import GPU, GROUP, A, B, Node, window
from tests.agent.ledger.test_allocations import OTHER, SIDE, WHOLE_POD, Histories, histories


@given(histories)
def test_facts_read_late_are_those_of_their_cycle(history: Histories) -> None:
    node = Node((GPU, OTHER))
    node.owners = {1: A, 2: SIDE, 3: WHOLE_POD, 4: GROUP}
    clock, cycles = 0.0, []
    for number, (wait, use, states, allocations) in enumerate(history):
        clock += wait
        node.untold = {A: Unmeasured.MPS} if number % 3 == 0 else {}
        held: dict[Owner, MemoryHeld] = {A: MemoryHeld(number, 1), B: MemoryHeld(None, 1)}
        on = {"GPU-0": window(use, energy=10), "GPU-1": window(use)}
        node.cycle(
            *(clock, on),
            states=states,
            allocated=tuple(allocations),
            held=held if number % 2 else None,
            listed=bool(number % 5),
        )
        cycles.append((node.facts, node.unread))

    for at_once, late in cycles:
        assert late() == at_once
