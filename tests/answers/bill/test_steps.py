"""A bill by hours, days and weeks: it adds up to that of the range, to the last unit."""

import csv
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.answers.bill.bill import STEPS, Bill, bill_of
from exporter.answers.bill.books import CardBook
from exporter.answers.bill.money import Prices
from exporter.answers.bill.parts import BY, METHODS, NOBODY, CardStep, Had, Part, Payer
from exporter.answers.reading.ranges import Span, written
from exporter.answers.reading.who import CardFacts
from exporter.cli import main
from tests.store import Store, Target

HOUR, DAY = 3600, 86_400
MIDNIGHT = 1_780_012_800  # 2026-05-29, a Friday
CARD = CardFacts("GPU-1", "node-1", "L4", {})
PRICES = Prices(flat=Decimal("0.333333"))
SECONDS = st.floats(0, HOUR, allow_subnormal=False)
POD = Payer("b", "Job", "x", "x-1", uid="u", labels=(("team", "red"),))
PAYERS = st.sampled_from(
    [Payer("a"), POD, POD._replace(pod="x-2", labels=()), Payer("", "slurm", "", "1"), NOBODY]
)
HAD = st.builds(Had, SECONDS, st.none() | SECONDS, SECONDS)
COUNTED = st.builds(CardStep, st.dictionaries(PAYERS, HAD), *[SECONDS] * 4)


@st.composite
def books(draw: st.DrawFn) -> tuple[CardBook, Span]:
    """A card of some days, there for a part of them, with anything counted in some hours."""
    since_s = MIDNIGHT + draw(st.integers(-DAY, DAY))
    span = Span(since_s, since_s + draw(st.integers(HOUR, 3 * DAY)), HOUR)
    begin_s = draw(st.floats(span.since_s, span.until_s))
    end_s = draw(st.floats(begin_s, span.until_s))
    first, last = span.step_of(begin_s + 0.001), span.step_of(end_s)
    steps = draw(st.dictionaries(st.integers(first, max(first, last)), COUNTED, max_size=6))
    return CardBook(CARD, steps, begin_s, end_s), span


def totals(bill: Bill) -> dict[tuple[Payer, Part], tuple[int, Decimal]]:
    found: dict[tuple[Payer, Part], tuple[int, Decimal]] = {}
    for row in bill.rows:
        ms, cost = found.get((row.payer, row.part), (0, Decimal(0)))
        found[row.payer, row.part] = ms + row.milliseconds, cost + row.cost
    return found


@given(books(), st.sampled_from(METHODS), st.sampled_from([*STEPS]))
def test_the_periods_add_up_to_the_range(
    made: tuple[CardBook, Span], method: str, step: str
) -> None:
    book, span = made
    whole = bill_of([book], PRICES, method, "owner", span)
    parts = bill_of([book], PRICES, method, "owner", span, STEPS[step])
    assert totals(parts) == totals(whole)
    assert whole.milliseconds == round(book.end_s * 1000) - round(book.begin_s * 1000)
    for period in parts.periods:
        assert parts.since_s <= period.since_s < period.until_s <= parts.until_s
    for one, after in zip(parts.periods, parts.periods[1:], strict=False):
        assert one.until_s <= after.since_s


@pytest.mark.slow
@given(st.lists(COUNTED, min_size=72, max_size=72), st.sampled_from(METHODS))
def test_a_day_costs_the_same_in_a_bill_of_its_own(counted: list[CardStep], method: str) -> None:
    span = Span(MIDNIGHT, MIDNIGHT + 3 * DAY, HOUR)
    book = CardBook(CARD, dict(enumerate(counted)), span.since_s, span.until_s)
    by_day = bill_of([book], PRICES, method, "owner", span, DAY)
    for number, period in enumerate(by_day.periods):
        steps = dict(enumerate(counted[24 * number : 24 * (number + 1)]))
        alone = bill_of(
            [CardBook(CARD, steps, *period)], PRICES, method, "owner", Span(*period, HOUR)
        )
        assert alone.rows == tuple(row for row in by_day.rows if row.period == period)
        assert alone.milliseconds == DAY * 1000


@given(books(), st.sampled_from(METHODS), st.sampled_from([by for by in BY if by != "label"]))
def test_each_payer_has_the_sum_of_its_pods(
    made: tuple[CardBook, Span], method: str, by: str
) -> None:
    book, span = made
    expected: dict[tuple[Payer, Part], tuple[int, Decimal]] = {}
    for (payer, part), (ms, cost) in totals(bill_of([book], PRICES, method, "", span)).items():
        before_ms, before = expected.get((payer.of(by), part), (0, Decimal(0)))
        expected[payer.of(by), part] = before_ms + ms, before + cost
    assert totals(bill_of([book], PRICES, method, by, span)) == expected


def test_an_hour_has_what_was_counted_in_it() -> None:
    """A job of the second hour is not in the first."""
    steps = {0: CardStep(unallocated=HOUR), 1: CardStep({Payer("a"): Had(HOUR, HOUR)})}
    book = CardBook(CARD, steps, MIDNIGHT, MIDNIGHT + 3 * HOUR)
    made = bill_of([book], PRICES, "use", "owner", Span(MIDNIGHT, MIDNIGHT + 3 * HOUR, HOUR), HOUR)
    assert [(row.payer, row.part, row.milliseconds, row.cost) for row in made.rows] == [
        (NOBODY, Part.UNALLOCATED, HOUR * 1000, Decimal("0.333333")),
        (Payer("a"), Part.USED, HOUR * 1000, Decimal("0.333333")),
        (NOBODY, Part.UNOBSERVED, HOUR * 1000, Decimal("0.333333")),
    ]


def test_weeks_begin_on_monday_and_days_at_midnight_utc() -> None:
    span = Span(MIDNIGHT + 8 * HOUR, MIDNIGHT + 11 * DAY, HOUR)
    book = CardBook(CARD, {}, span.since_s, span.until_s)
    begins = {
        step: [
            written(period.since_s)[:13]
            for period in bill_of([book], PRICES, "use", "owner", span, STEPS[step]).periods
        ]
        for step in ("1d", "1w")
    }
    assert begins["1w"] == ["2026-05-29T08", "2026-06-01T00", "2026-06-08T00"]
    assert begins["1d"][:3] == ["2026-05-29T08", "2026-05-30T00", "2026-05-31T00"]


def test_what_was_borrowed_is_noted_in_the_period_in_which_it_was() -> None:
    busy = CardStep({Payer("a"): Had(1800, 2700, 900)}, 1800)
    book = CardBook(CARD, {3: busy, 30: busy}, MIDNIGHT, MIDNIGHT + 2 * DAY)
    made = bill_of([book], PRICES, "use", "owner", Span(MIDNIGHT, MIDNIGHT + 2 * DAY, HOUR), DAY)
    noted: dict[int, int] = defaultdict(int)
    for row in made.rows:
        noted[row.period.since_s] += row.borrowed_ms
    assert noted == {MIDNIGHT: 900_000, MIDNIGHT + DAY: 900_000}


@given(SECONDS.map(lambda s: s * 30), st.floats(0.01, 40 * HOUR), st.sampled_from([60, 300, HOUR]))
def test_a_gap_is_divided_among_its_steps(begin: float, length: float, step_s: int) -> None:
    span = Span(MIDNIGHT + 100, MIDNIGHT + 100 + 4 * DAY, step_s)
    begin_s = span.since_s + begin
    parts = dict(span.divided(begin_s, begin_s + length))
    assert sum(parts.values()) == pytest.approx(1)
    assert min(parts.values()) >= 0
    assert max(parts) == span.step_of(begin_s + length)
    if len(parts) > 2:
        inner = sorted(parts)[1:-1]
        assert [parts[step] for step in inner] == pytest.approx([step_s / length] * len(inner))


@pytest.mark.parametrize(
    ("by", "named"),
    [
        ("namespace", {"team", "slurm"}),
        ("kind", {"pods", "slurm"}),
        ("user", {"team", "user/alice", "slurm"}),
        ("account", {"team", "account/climate", "slurm"}),
        ("owner", {"team", "slurm/1", "slurm/2"}),
    ],
)
def test_groups_are_billed_by_user_account_and_kind(by: str, named: set[str]) -> None:
    job = Payer("", "slurm", "", "1", "alice", "climate")
    had = {
        job: Had(0, 900, allocatable=False),
        job._replace(pod="2", user="", account=""): Had(0, 900, allocatable=False),
        Payer("team", pod="x"): Had(900, 900),
    }
    book = CardBook(CARD, {0: CardStep(had, 2700)}, MIDNIGHT, MIDNIGHT + HOUR)
    made = bill_of([book], PRICES, "use", by, Span(MIDNIGHT, MIDNIGHT + HOUR, HOUR))
    assert {row.payer.name for row in made.rows if row.payer != NOBODY} == named


GROUPS = """\
process_start_time_seconds {started}
mgpu_exporter_cycles_total {cycles}
mgpu_device_info{{uuid="GPU-1",model="L4",parent_uuid=""}} 1
mgpu_device_unallocated_gpu_seconds_total{{uuid="GPU-1"}} {cycles}
mgpu_group_kind_core_seconds_total{{kind="docker",uuid="GPU-1"}} {web}
mgpu_group_kind_core_seconds_total{{kind="slurm",uuid="GPU-1"}} {jobs}
mgpu_group_core_seconds_total{{kind="docker",group="{id}",uuid="GPU-1"}} {web}
mgpu_group_core_seconds_total{{kind="slurm",group="4711",uuid="GPU-1"}} {job}
mgpu_group_info{{kind="docker",group="{id}",uuid="GPU-1",name="web",user="",account=""}} 1
mgpu_group_info{{kind="slurm",group="4711",uuid="GPU-1",name="4711",{whose}}} 1
"""


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Two hours of a card: a container and a job use a quarter each, short jobs an eighth."""
    target = Target({"job": "mgpu", "instance": "a:10045", "node": "a"})
    begin = MIDNIGHT - HOUR
    with Store(tmp_path_factory.mktemp("groups")) as store:
        for second in range(-60, 2 * HOUR + 61, 60):
            seen = second + 60
            page = GROUPS.format(
                started=begin - 60,
                cycles=seen,
                web=seen / 4,
                job=seen / 4,
                jobs=seen * 3 / 8,
                id="4f1c6f3f0e3b" + "0" * 52,
                whose='user="alice",account="climate"',
            )
            store.scrape(target, page, begin + second)
        yield store


def billed(store: Store, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[str, str]:
    times = [f"--since={written(MIDNIGHT - HOUR)}", f"--until={written(MIDNIGHT + HOUR)}"]
    assert main(["bill", f"--prometheus=http://{store.address}", "--price=1", *times, *flags]) == 0
    said = capsys.readouterr()
    return said.out, said.err


def hours_of(text: str) -> dict[tuple[str, str], float]:
    """GPU hours by the beginning of the period and payer, of a bill as CSV."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for row in csv.DictReader(io.StringIO(text)):
        found[row["from"][11:16], row["payer"]] += float(row["gpu_seconds"]) / HOUR
    return dict(found)


@pytest.mark.program("prometheus")
@pytest.mark.parametrize(
    ("by", "jobs"),
    [
        ("namespace", {"docker": 0.5, "slurm": 0.75}),
        ("pod", {"docker/web": 0.5, "slurm/4711": 0.5, "slurm": 0.25}),
        ("user", {"docker": 0.5, "user/alice": 0.5, "slurm": 0.25}),
        ("account", {"docker": 0.5, "account/climate": 0.5, "slurm": 0.25}),
    ],
)
def test_groups_have_the_names_that_the_page_shows(
    groups: Store, capsys: pytest.CaptureFixture[str], by: str, jobs: dict[str, float]
) -> None:
    text, said = billed(groups, capsys, f"--by={by}", "--format=csv")
    truth = {("23:00", name): hours for name, hours in jobs.items()}
    assert hours_of(text) == pytest.approx(truth | {("23:00", "(nobody)"): 0.75}, abs=0.001)
    unnamed = {"pod": "0.25", "user": "0.75", "account": "0.75"}.get(by)
    assert ("GPU hours have no" in said) is (unnamed is not None)
    assert unnamed is None or f"{unnamed} GPU hours have no {by}" in said


@pytest.mark.program("prometheus")
@pytest.mark.parametrize("step", ["1h", "1d"])
def test_a_step_has_its_part_in_each_format(
    groups: Store, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    text, _ = billed(groups, capsys, f"--step={step}", "--format=csv")
    hour = {"docker": 0.25, "slurm": 0.375, "(nobody)": 0.375}
    truth = {(at, name): hours for at in ("23:00", "00:00") for name, hours in hour.items()}
    assert hours_of(text) == pytest.approx(truth, abs=0.001)
    table, _ = billed(groups, capsys, f"--step={step}")
    assert table.count("  slurm ") == 3  # each period, and the range
    document = json.loads(billed(groups, capsys, f"--step={step}", "--format=json")[0])
    assert sum(Decimal(row["cost"]) for row in document["rows"]) == 2
    focus = csv.DictReader(
        io.StringIO(billed(groups, capsys, f"--step={step}", "--format=focus")[0])
    )
    periods = {(row["ChargePeriodStart"], row["BillingPeriodStart"]) for row in focus}
    assert {start[11:16] for start, _ in periods} == {"23:00", "00:00"}
