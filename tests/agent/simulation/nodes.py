"""Small nodes for tests, written as a scenario file would."""

from typing import Any

from hypothesis import strategies as st

from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.node import Node
from tests.agent.simulation.clock import START, ManualClock

A10 = {"model": "NVIDIA A10", "memory": "24GiB", "idle_power": 20, "max_power": 150}


def node(
    clock: ManualClock | None = None,
    devices: int = 1,
    model: str = "NVIDIA A10",
    **scenario: Any,
) -> Node:
    """A node of boards like A10s with these keys in its file, started at START."""
    data = {"devices": [{**A10, "model": model} for _ in range(devices)], **scenario}
    return Node(describe(data, "test"), clock or ManualClock(), START)


def pod(name: str = "p", *processes: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A pod of one container, "c", in the namespace "n"."""
    container = {"name": "c", "processes": list(processes)}
    return {"name": name, "namespace": "n", "containers": [container], **keys}


def process(**keys: Any) -> dict[str, Any]:
    """A process on device 0, busy all the time if nothing else is said."""
    return {"device": 0, "duty": 1, "phase": 0, **keys}


PROCESSES = st.fixed_dictionaries(
    {
        "device": st.sampled_from([0, 1, [0, 1]]),
        "duty": st.floats(0, 1),
        "period": st.sampled_from(["20ms", "73ms", "200ms", "1100ms"]),
        "jitter": st.sampled_from([0, 0.3, 1]),
        "start": st.floats(0, 6),
    },
    optional={"for": st.floats(0.1, 3), "memory_active": st.floats(0, 1)},
)
RECURRING = PROCESSES.map(lambda keys: {**keys, "for": ["300ms", "2s"], "every": "1700ms"})
PODS = st.lists(st.lists(PROCESSES | RECURRING, max_size=3), max_size=3).map(
    lambda pods: [pod(f"p{i}", *processes) for i, processes in enumerate(pods)]
)
SCENARIOS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "pods": PODS,
        "processes": st.lists(PROCESSES, max_size=1),
        "seed": st.integers(0, 9),
        "sample_rule": st.sampled_from(["last", "end", "longest", "random"]),
    }
)
