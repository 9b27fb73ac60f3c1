"""Used, idle, borrowed and allocated are counted over one span: used + idle - borrowed = allocated.

Of each container, pod and namespace, on the counters of the page, to the nanosecond, at any moment.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from exporter.agent.ledger import Allocated
from exporter.model import (
    Allocation,
    ContainerKey,
    Device,
    DeviceState,
    Engines,
    Owner,
    ProcessActivity,
    Unmeasured,
    Window,
)
from tests.agent.ledger.node import GPU, SECOND, A, Node, at
from tests.rows import Row, Value

OTHER = Device("GPU-1", 1, "nvidia", memory_bytes=1000)
SIDE = A._replace(container="side")
PIDS = {1: A, 2: SIDE}
SAMPLE_NS = SECOND // 5  # how old the newest sample is that a read gets, at most
ROUNDING_NS = 50  # each part is cut to whole ns at each change
START_NS = 1000 * SECOND  # of the monotonic clock
RING_NS = 7 * SECOND  # what the ring's clock says beside it

Rows = Mapping[str, Mapping[tuple[str, ...], Row]]


class Step(NamedTuple):
    """A cycle: how long after the one before, which shares it sees, and what its window has.

    ``lag`` and ``use`` are parts, of a sample and of the window; ``use`` is of A, of SIDE, and of A
    on the other device. ``is_read``: whether there is a window. ``is_pending``: A's use is under
    its pod.
    """

    passed_ns: int
    shares: tuple[float | None, float | None]
    lag: float
    use: tuple[float, float, float]
    is_read: bool = True
    is_pending: bool = False
    blind: str = ""


SHARES = st.sampled_from([None, 0.1, 1 / 3, 0.5, 1.0])
PART = st.floats(0, 1)
STEPS = st.builds(
    Step,
    st.sampled_from(
        [SECOND, SECOND, 3 * SECOND // 10, SECOND // 10, 1_170_000_001, 5 * SECOND // 2]
    ),
    st.tuples(SHARES, SHARES),
    PART,
    st.tuples(PART, PART, PART),
    st.sampled_from([True, True, True, False]),
    st.booleans(),
)
BLIND = ("all", "A", "unidentified", "unobserved", "failed", "restarted", "away")
BLIND_STEPS = st.builds(
    lambda step, blind: step._replace(blind=blind),
    STEPS,
    st.sampled_from(["", "", "", *BLIND]),
)
END = Step(SECOND, (None, None), 0.0, (0.0, 0.0, 0.0))


class Run:
    """A node that lives through some steps.

    ``early`` is what each container used of a device while it had no share yet, or while its use
    was unknown: it is not held against any. ``under_pod``: whether use was under the pod, so that
    it is not known which of its containers it is of.
    """

    def __init__(self) -> None:
        self.node = Node((GPU, OTHER))
        self.early = Counter[tuple[ContainerKey, str]]()
        self.under_pod = False
        self.now_ns = self.read_to_ns = START_NS
        self._limited: set[ContainerKey] = set()
        self._is_nowhere = False
        self.began_ns = START_NS + END.passed_ns
        for _ in range(2):  # the first window is before anything is allocated
            self.live(END)

    def live(self, step: Step) -> None:
        """One more cycle."""
        self.now_ns = at((self.now_ns + step.passed_ns) / SECOND).mono_ns
        windows = self._windows(step)
        told: Mapping[str, Mapping[Owner, Unmeasured] | None] = {
            "all": None,
            "A": {A: Unmeasured.NOT_NAMED, A.whole: Unmeasured.NOT_NAMED},
        }
        node, is_blind = self.node, step.blind == "unidentified"
        node.untold = told.get(step.blind, {})
        node.ledger.unidentified = Unmeasured.NO_HOSTPID if is_blind else None
        node.owners = {1: A.whole if step.is_pending else A, 2: SIDE}
        node.devices = (OTHER,) if step.blind == "away" else (GPU, OTHER)
        grants = tuple(
            Allocated(key, Allocation("u", key.container, "GPU-0", share, 9, "s", gpus=share))
            for key, share in zip(PIDS.values(), step.shares, strict=True)
            if share is not None
        )
        self.rows = node.cycle(
            self.now_ns / SECOND,
            windows,
            allocated=grants,
            states={"GPU-0": DeviceState.FAILED} if step.blind == "failed" else {},
        )
        self._limited |= {key for key, _ in grants}
        # While its share is on no device, a pod's use of another one is not compared.
        self._is_nowhere = step.blind == "away" and bool(grants)

    def _windows(self, step: Step) -> dict[str, Window]:
        end_ns = self.now_ns - int(SAMPLE_NS * step.lag)
        length_ns, begin_ns = end_ns - self.read_to_ns, self.read_to_ns
        if step.blind == "restarted":  # the cursor of another driver begins with its first sample
            self.read_to_ns = end_ns + 1
        if not step.is_read or length_ns <= 0 or step.blind in {"restarted", "failed", "away"}:
            return {}
        self.read_to_ns = end_ns
        first, second, far = (int(part * length_ns) // 3 for part in step.use)
        observed_ns = length_ns // 3 if step.blind == "unobserved" else length_ns
        near = {1: first // 3, 2: second // 3}
        self._enter(step, "GPU-0", near, known=step.blind not in {"all", "A", "unidentified"})
        self._enter(step, "GPU-1", {1: far}, known=step.blind not in {"all", "A", "unidentified"})
        return {
            "GPU-0": _window(begin_ns, end_ns, observed_ns, near),
            "GPU-1": _window(begin_ns, end_ns, length_ns, {1: far}),
        }

    def _enter(self, step: Step, uuid: str, use: Mapping[int, int], *, known: bool) -> None:
        """Enters the use that no share is held against."""
        self.under_pod |= step.is_pending and bool(use[1])
        for pid, used_ns in use.items():
            is_of_pod = pid == 1 and step.is_pending
            limited = bool(self._limited) if is_of_pod else PIDS[pid] in self._limited
            is_told = known or (step.blind == "A" and pid == 2)
            if not limited or not is_told or self._is_nowhere:
                self.early[PIDS[pid], uuid] += used_ns

    def held(self, level: str, *labels: str, key: ContainerKey | None = None) -> int | None:
        """Used + idle - borrowed of rows of the page, of what is held against shares; None: hidden.

        ``key``: of this container alone.
        """
        found = [
            row.values for own, row in self.rows[level].items() if own[: len(labels)] == labels
        ]
        used, idle, borrowed = (sum(map(partial(_value, n), found)) for n in NAMES)
        if not any("allocated_idle_core_seconds_total" in values for values in found):
            return None
        return used + idle - borrowed - (self.early[key, "GPU-0"] if key else self.early.total())

    def allocated(self, level: str, *labels: str) -> int:
        """The core time allocated by rows of the page."""
        found = [
            row.values for own, row in self.rows[level].items() if own[: len(labels)] == labels
        ]
        return sum(map(partial(_value, "allocated_core_seconds_total"), found))

    def of_card(self) -> int:
        """The parts of the first card that are allocated, unallocated, and less what is beyond."""
        card = self.rows["device"]["0", "GPU-0"].values
        found = [
            row.values for own, row in self.rows["container"].items() if own[-1:] == ("GPU-0",)
        ]
        allocated = sum(map(partial(_value, "allocated_gpu_seconds_total"), found))
        free, beyond = "unallocated_gpu_seconds_total", "overcommitted_gpu_seconds_total"
        return allocated + _value(free, card) - _value(beyond, card)

    def seen_ns(self) -> int:
        """For how long it was observed."""
        window_ns = self.node.ledger.devices["GPU-0"].span.end_mono_ns
        return window_ns - self.began_ns


NAMES = (
    "core_seconds_total",
    "allocated_idle_core_seconds_total",
    "borrowed_core_seconds_total",
)


def _value(name: str, values: Mapping[str, Value]) -> int:
    value = values.get(name, 0)
    assert isinstance(value, int)
    return value


def _window(begin_ns: int, end_ns: int, observed_ns: int, use: Mapping[int, int]) -> Window:
    """A window of the ring, whose clock is another."""
    return Window(
        start_unix_ns=begin_ns + RING_NS,
        end_unix_ns=end_ns + RING_NS,
        observed_ns=observed_ns,
        unobserved_ns=end_ns - begin_ns - observed_ns,
        busy=Engines(core=sum(use.values())),
        processes=tuple(ProcessActivity(pid, Engines(core=ns)) for pid, ns in use.items()),
    )


def lost(run: Run) -> Iterator[tuple[str, int]]:
    """What was allocated, less what was held against it: of pod, namespace and containers."""
    levels = {"pod": ("n", "a"), "namespace": ("n",)}
    for level, labels in levels.items():
        held = run.held(level, *labels)
        if held is not None:
            yield level, run.allocated(level, *labels) - held
    for key in PIDS.values():
        labels = (*key, "0", "GPU-0")
        held = run.held("container", *labels, key=key)
        if held is not None and not run.under_pod:
            yield key.container, run.allocated("container", *labels) - held


@given(st.lists(STEPS, max_size=9))
def test_what_was_allocated_was_used_or_idle_at_any_moment(steps: list[Step]) -> None:
    """Pods come and go inside of windows, shares change in place, use is under the pod or afar."""
    run = Run()
    for step in (*steps, *[END] * 20):
        run.live(step)
        assert [(whose, ns) for whose, ns in lost(run) if ns] == []
        assert abs(run.of_card() - run.seen_ns()) <= ROUNDING_NS


@given(st.lists(BLIND_STEPS, max_size=9), st.lists(STEPS, max_size=4))
def test_blindness_costs_what_was_not_seen_and_nothing_after_it(
    blind: list[Step], seeing: list[Step]
) -> None:
    """Processes or use unknown, unobserved time, a driver that starts again, a device that is away.

    What was allocated meanwhile is more than what was used or idle, never less.
    """
    run = Run()
    for step in blind:
        run.live(step)
        assert all(ns >= -ROUNDING_NS for whose, ns in lost(run) if whose == "pod")
    for _ in range(20):
        run.live(END)
    [before_ns] = [ns for whose, ns in lost(run) if whose == "pod"] or [0]
    for step in (*seeing, *[END] * 20):
        run.live(step)
    [after_ns] = [ns for whose, ns in lost(run) if whose == "pod"] or [0]
    assert abs(after_ns - before_ns) <= ROUNDING_NS
