"""The books of each Snapshot add up, whatever its second did and however late it was.

Used + idle - borrowed = allocated, and allocated + unallocated - overcommitted = the card's time:
of containers, pods, namespaces and cards, in the metrics and in the document that page and terminal
show.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.agent import api
from exporter.agent.api import About
from exporter.metrics.text import Format, Renderer
from exporter.model import (
    CgroupIdentity,
    Container,
    DeviceMemory,
    DeviceReading,
    Engines,
    Pod,
    PodTable,
    ProcessActivity,
    ProcessMemory,
    Snapshot,
    Window,
)
from tests.agent.collector.bench import DEVICE, POD, SECOND, Bench
from tests.store import parsed

CARDS = (DEVICE, replace(DEVICE, uuid="GPU-1", index=1))
CORE, MEMORY = "vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"
PLACE = "vke.volcengine.com/gpu-index-container-main"
PERIOD_NS = SECOND // 5
ABOUT = About("node", 15 * SECOND)
ROUNDING_NS = 50  # of a card, whose parts are cut to whole ns at each change


class Step(NamedTuple):
    """A cycle: when it comes, what it reads of each card, and who is there with which share.

    ``cards`` are in cores in percent by pod, on the first card and on the second.
    """

    passed_ns: int
    reads: tuple[bool, bool]
    lag: float  # of the newest sample, in periods
    use: float
    shares: tuple[tuple[int, int], ...]  # of each pod: percents of a card, and which


SHARES = st.tuples(st.sampled_from([10, 33, 50, 100]), st.sampled_from([0, 1]))
LATE = [3 * SECOND // 10, SECOND, SECOND, SECOND + 170_000_001, 5 * SECOND // 2]
STEPS = st.builds(
    Step,
    st.sampled_from(LATE),
    st.tuples(*[st.sampled_from([True, False, False])] * 2),
    st.floats(0, 1),
    st.floats(0, 1),
    st.lists(SHARES, max_size=3).map(tuple),
)
BEGUN = Step(SECOND, (True, True), 0.5, 0.0, ())


class Run:
    """A node whose cards are read in some cycles, and looked at in all others."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.began_ns = self.bench.clock.monotonic_ns()
        self.read_to_ns = [self.began_ns] * len(CARDS)
        self.version = 1
        self.seen = set[int]()
        self.memories = [DeviceMemory(1000, 0, None, ())] * len(CARDS)
        self.bench.processes.identities = {
            pid: CgroupIdentity(f"uid-{pid}", f"{pid}" * 64) for pid in range(1, 4)
        }
        self.live(BEGUN)

    def live(self, step: Step) -> Snapshot:
        """One more cycle."""
        self.bench.clock.move(step.passed_ns / SECOND)
        now_ns = self.bench.clock.monotonic_ns()
        self._name(step.shares)
        readings = []
        for place, card in enumerate(CARDS):
            pids = [pid + 1 for pid, (_, on) in enumerate(step.shares) if on == place]
            held = tuple(ProcessMemory(pid, 100, frozenset({"compute"})) for pid in pids)
            if held != self.memories[place].processes:
                self.memories[place] = DeviceMemory(1000, 100 * len(held), None, held)
            # What was used before its share was seen is held against none, so there is none.
            pids = [pid for pid in pids if pid in self.seen]
            window = None
            if step.reads[place]:
                window = self._window(place, now_ns - int(PERIOD_NS * step.lag), pids, step.use)
            readings.append(DeviceReading(card, window=window, memory=self.memories[place]))
        self.seen.update(range(1, len(step.shares) + 1))
        self.bench.gpus.devices = tuple(readings)
        return self.bench.collector.cycle()

    def _window(self, place: int, end_ns: int, pids: list[int], use: float) -> Window | None:
        begin_ns = self.read_to_ns[place]
        if end_ns <= begin_ns:
            return None
        self.read_to_ns[place] = end_ns
        each_ns = int((end_ns - begin_ns) * use) // max(len(pids), 1)
        return Window(
            *(begin_ns, end_ns, end_ns - begin_ns, 0),
            Engines(core=each_ns * len(pids)),
            tuple(ProcessActivity(pid, Engines(core=each_ns)) for pid in pids),
        )

    def _name(self, shares: tuple[tuple[int, int], ...]) -> None:
        pods = {}
        for number, (percent, card) in enumerate(shares, 1):
            own = Container(
                "main", container_ids=(f"{number}" * 64,), limits={CORE: str(percent), MEMORY: "1"}
            )
            pods[f"uid-{number}"] = replace(
                POD,
                uid=f"uid-{number}",
                name=f"p{number}",
                containers=(own,),
                annotations={PLACE: str(card)},
            )
        if pods != self.bench.pods.current.pods:
            self.version += 1
            self.bench.pods.current = table(self.version, pods)


def table(version: int, pods: dict[str, Pod]) -> PodTable:
    cids = {c.container_ids[0]: (uid, c.name) for uid, pod in pods.items() for c in pod.containers}
    return PodTable(version, pods, {uid: uid for uid in pods}, cids)


Row = dict[str, float]
Face = Callable[[Snapshot], dict[tuple[str, ...], Row]]


def in_text(snapshot: Snapshot) -> dict[tuple[str, ...], Row]:
    """The counters of the metrics' page by level and labels."""
    found: dict[tuple[str, ...], Row] = {}
    for name, labels, value in parsed(Renderer().render(snapshot, Format.TEXT).decode()):
        level, _, rest = name.removeprefix("mgpu_").partition("_")
        key = {k: v for k, v in labels if k in {"namespace", "pod", "container", "uuid"}}
        found.setdefault((level, *key.values()), {})[rest] = value
    return found


def in_document(snapshot: Snapshot) -> dict[tuple[str, ...], Row]:
    """The same of the document that page and terminal show."""
    read: dict[str, Any] = json.loads(json.dumps(api.snapshot(snapshot, ABOUT, 0)))
    found: dict[tuple[str, ...], Row] = {}
    for card in read["devices"]:
        found["device", card["uuid"]] = card
    for pod in read["pods"]:
        found["pod", *pod_labels(pod)] = pod
        for own in pod["containers"]:
            for there in own["devices"]:
                place = *pod_labels(pod), own["container"], there["uuid"]
                found["container", *place] = there
    for own in read["namespaces"]:
        found["namespace", own["namespace"], own["uuid"]] = own
    return found


def pod_labels(pod: dict[str, str]) -> tuple[str, str]:
    return pod["namespace"], pod["pod"]


def ns(row: Row, name: str) -> int:
    return round(row.get(name, 0.0) * SECOND)


def unbalanced(rows: dict[tuple[str, ...], Row]) -> list[tuple[str, ...]]:
    """Whose used, idle and borrowed time is not what was allocated."""
    return [
        key
        for key, row in rows.items()
        if "allocated_core_seconds_total" in row
        and ns(row, "core_seconds_total")
        + ns(row, "allocated_idle_core_seconds_total")
        - ns(row, "borrowed_core_seconds_total")
        != ns(row, "allocated_core_seconds_total")
    ]


def of_card(rows: dict[tuple[str, ...], Row], uuid: str) -> int:
    """The time of a card: what was allocated of it and what was not, less what was twice."""
    card = rows["device", uuid]
    allocated = [
        ns(row, "allocated_gpu_seconds_total")
        for key, row in rows.items()
        if key[0] == "container" and key[-1] == uuid
    ]
    return (
        sum(allocated)
        + ns(card, "unallocated_gpu_seconds_total")
        - ns(card, "overcommitted_gpu_seconds_total")
    )


@pytest.mark.parametrize("face", [in_text, in_document])
@settings(max_examples=settings().max_examples // 4)
@given(st.lists(STEPS, max_size=12))
def test_the_parts_add_up_in_each_snapshot(face: Face, steps: list[Step]) -> None:
    run = Run()
    for step in steps:
        rows = face(run.live(step))
        assert unbalanced(rows) == []
        for card in CARDS:
            seen = run.bench.ledger.devices[card.uuid].span.end_mono_ns
            assert abs(of_card(rows, card.uuid) - (seen - run.began_ns - SECOND)) <= ROUNDING_NS


@settings(max_examples=settings().max_examples // 4)
@given(st.lists(STEPS, max_size=12))
def test_no_counter_of_them_falls(steps: list[Step]) -> None:
    run, before = Run(), dict[tuple[tuple[str, ...], str], float]()
    for step in steps:
        counters = {
            (key, name): value
            for key, row in in_text(run.live(step)).items()
            for name, value in row.items()
            if name.endswith(("core_seconds_total", "gpu_seconds_total"))
        }
        assert [key for key in before if counters.get(key, before[key]) < before[key]] == []
        before = counters
