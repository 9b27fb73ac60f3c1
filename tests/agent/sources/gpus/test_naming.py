"""Whether busy samples name processes is found out from the device's own windows."""

from collections import Counter

import pytest

from exporter.agent.simulation.description import SampleRule
from exporter.agent.sources.gpus.sample_attribution import REMEMBERED_NS, NamingEvidence
from exporter.agent.sources.gpus.simulated import SimulatedGpus
from exporter.model import Engines, Naming, ProcessActivity, Sample
from tests.agent.simulation.clock import ManualClock
from tests.agent.simulation.nodes import node, process
from tests.agent.sources.gpus.cursor import Cursor
from tests.agent.sources.gpus.known import known
from tests.agent.sources.gpus.test_window import PERIOD, Ring, begun, row, taken

SECOND = 10**9


def observed(evidence: NamingEvidence, busy_ns: int, *named_ns: int) -> Naming:
    """What is known of the core after a second of which samples name so much."""
    processes = [ProcessActivity(pid, Engines(core=ns)) for pid, ns in enumerate(named_ns, 1)]
    evidence.observe(Engines(core=busy_ns), processes, SECOND, per_sample=True)
    return evidence.naming[0]


@pytest.mark.parametrize(
    ("busy", "named", "naming"),
    [
        (0, (), Naming.UNKNOWN),
        (SECOND // 10, (SECOND // 10,), Naming.UNKNOWN),  # too little to say
        (SECOND // 2, (SECOND // 4, SECOND // 4), Naming.ALWAYS),
        (SECOND // 2, (SECOND // 4,), Naming.PARTLY),
        (SECOND // 2, (), Naming.NEVER),
        (SECOND, (SECOND,), Naming.UNKNOWN),  # never idle: named under any rule
    ],
)
def test_naming_is_said_as_far_as_there_is_evidence(
    busy: int, named: tuple[int, ...], naming: Naming
) -> None:
    assert observed(NamingEvidence(), busy, *named) is naming


def test_engines_are_learnt_of_one_by_one() -> None:
    evidence = NamingEvidence()
    own = ProcessActivity(1, Engines(core=SECOND // 2, encoder=0))
    evidence.observe(Engines(core=SECOND // 2, encoder=SECOND // 2), [own], SECOND, per_sample=True)
    assert evidence.naming == (Naming.ALWAYS, Naming.UNKNOWN, Naming.NEVER, Naming.UNKNOWN)


def test_what_a_board_did_long_ago_is_forgotten() -> None:
    evidence = NamingEvidence()
    long = range(10 * REMEMBERED_NS // SECOND)
    before = [observed(evidence, SECOND // 2) for _ in long]
    after = [observed(evidence, SECOND // 2, SECOND // 2) for _ in long]
    assert (before[-1], after[-1]) == (Naming.NEVER, Naming.ALWAYS)


@pytest.mark.parametrize(
    ("rule", "naming"),
    [
        (SampleRule.LAST, Naming.ALWAYS),
        (SampleRule.RANDOM, Naming.ALWAYS),
        (SampleRule.LONGEST, Naming.ALWAYS),
        (SampleRule.END, Naming.PARTLY),
    ],
)
@pytest.mark.parametrize(("written", "us"), [("500ms", 500_000), ("200ms", 200_000)])
def test_rule_and_period_of_a_board_are_learnt_from_its_ring(
    rule: SampleRule, naming: Naming, written: str, us: int
) -> None:
    clock = ManualClock()
    works = [process(duty=0.3, period="230ms"), process(duty=0.1, period="710ms")]
    asked = node(clock, processes=works, sample_rule=rule.value, sample_period=written)
    source = SimulatedGpus(asked, clock)
    windows = []
    for _ in range(20):
        clock.move(1)
        windows += [device.window for device in source.read().devices if device.window]
    [(found, _)] = Counter(window.sampling.naming[0] for window in windows).most_common(1)
    assert found is naming
    assert windows[-1].sampling.period_us == us


def test_a_ring_that_wanders_keeps_its_period() -> None:
    ring = Ring()
    cursor, now = begun(ring)
    shown = set()
    for extra in (0, 2_400, -2_400, 2_400):
        core = known(ring.samples["core"])
        for _ in range(12):
            now += PERIOD + extra
            core.append(core[-1]._replace(timestamp_us=now, percent=0))
        shown.add(taken(cursor, now).sampling.labels)
    assert shown == {("unknown", "0.17")}


def test_long_samples_are_whole_before_the_period_is_known() -> None:
    ring = Ring(samples={"core": []})
    start = 1_700_000_000_000_000
    cursor = Cursor(ring)
    assert cursor.next(start, start) is None
    core = ring.samples["core"]
    assert core is not None
    core += [Sample(start + n * 500_000, 50) for n in (1, 2)]
    window = taken(cursor, start + 1_000_000)
    assert (window.observed_ns, window.unobserved_ns) == (SECOND, 0)


def test_a_board_that_names_nobody_and_then_somebody_gives_no_time_twice() -> None:
    ring = Ring()
    cursor, _ = begun(ring)
    namings, busy_ns, named_ns = [], 0, 0
    for second in range(20):
        end = ring.run([50] * 6)
        if second >= 10:
            ring.rows = [row(7, end, core=50)]
        window = taken(cursor, end)
        own_ns = sum(p.busy.core or 0 for p in window.processes)
        assert own_ns == (window.busy.core if second >= 10 else 0)
        busy_ns, named_ns = busy_ns + (window.busy.core or 0), named_ns + own_ns
        namings.append(window.sampling.naming[0])
    assert busy_ns == 2 * named_ns
    assert namings[9] is Naming.NEVER
    assert namings[-1] is Naming.PARTLY
