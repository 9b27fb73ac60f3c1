"""Waiting, measured and true, by kind of work: ``python -m benchmarks.accuracy.waiting [--write]``.

The simulated node knows when a process wanted the device and did not have it. What is measured is
an upper bound, because the driver does not tell who is ready to run.
"""

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.accuracy.readers import SECOND, BenchNode, Ours, SetClock, label
from exporter.agent.simulation.load_scenario import describe
from exporter.agent.simulation.population import segments
from exporter.model import Owner
from tests.agent.simulation.truth import owner_of

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
BEGIN = "<!-- waiting: made by python -m benchmarks.accuracy.waiting --write -->\n"
END = "<!-- end of waiting -->\n"
BEGIN_S, LENGTH_S = 30, 300
SAMPLES_S = 6
FLOORS = 2.5  # standard errors of a share that is found by samples


class Kind(NamedTuple):
    """A kind of work: what each container wants of the card, the one that is looked at first."""

    name: str
    processes: Sequence[Mapping[str, Any]]


class Waited(NamedTuple):
    """The share of time for which a container waited: what is measured, and the truth."""

    measured: float
    true: float


def _wants(duty: float, period: str = "1s") -> dict[str, Any]:
    return {"device": 0, "duty": duty, "period": period, "jitter": 0.8}


HOG = {"device": 0, "duty": 1}
KINDS = (
    Kind("steady work, three in time slices", (HOG, HOG, HOG)),
    Kind("bursts of 5 s beside steady work", (_wants(0.25, "20s"), HOG)),
    Kind("requests of 20 ms beside steady work", (_wants(0.2, "100ms"), HOG)),
    Kind("small and many beside one hog", (*[_wants(0.03, "600ms")] * 8, HOG)),
    Kind("four in turns of milliseconds, as under MPS", (_wants(0.5, "7ms"),) * 4),
    Kind("two that pause by themselves, on a card with room", (_wants(0.3), _wants(0.3))),
)


def run(kind: Kind, rule: str = "random", length_s: int = LENGTH_S) -> Waited:
    """The first container's waiting over some minutes."""
    pods = [
        {
            "name": f"p-{number}",
            "namespace": "work",
            "containers": [{"name": "main", "processes": [dict(process)]}],
        }
        for number, process in enumerate(kind.processes)
    ]
    device = {"model": "NVIDIA A10", "memory": "24GiB"}
    file = {"devices": [device], "sample_rule": rule, "seed": 1, "pods": pods}
    clock = SetClock()
    node = BenchNode(describe(file, kind.name), clock)
    ours = Ours(node, clock)
    before = 0.0
    for second in range(BEGIN_S + length_s):
        if second == BEGIN_S:
            before = ours.waiting().get("p-0", 0)
        clock.now_ns += SECOND
        ours.look(second)
    begin_ns = BEGIN_S * SECOND
    true = waited_ns(node, begin_ns, begin_ns + length_s * SECOND)
    whole = length_s * SECOND
    return Waited((ours.waiting().get("p-0", 0) - before) / whole, true["p-0"] / whole)


def waited_ns(node: BenchNode, begin_ns: int, end_ns: int) -> Counter[str]:
    """For how long each container wanted the device and others had it, since the node's start."""
    found: Counter[str] = Counter()
    for segment in segments(node.population.bursts(0, begin_ns, end_ns)):
        ran: Counter[Owner] = Counter()
        for life, ns in segment.parts():
            ran[owner_of(node.population, life)] += ns
        for owner, ns in ran.items():
            found[label(owner)] += segment.end_ns - segment.start_ns - ns
    return found


def floor(length_s: int) -> float:
    """By how much a share of time may be measured too low, because it is found by samples."""
    return FLOORS * math.sqrt(0.25 / (SAMPLES_S * length_s))


def table(found: Mapping[str, Waited]) -> str:
    """The table in Markdown."""
    rows = [
        f"| {name} | {waited.true:.0%} | {waited.measured:.0%} |\n"
        for name, waited in found.items()
    ]
    return f"| kind of work | true | measured |\n| --- | --- | --- |\n{''.join(rows)}"


def main(arguments: Sequence[str]) -> int:
    """Print the table, or write it into docs/accuracy.md."""
    text = table({kind.name: run(kind) for kind in KINDS})
    print(text)
    if "--write" in arguments:
        page = PAGE.read_text(encoding="utf-8")
        head, rest = page.split(BEGIN)
        PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
