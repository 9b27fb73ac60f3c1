"""What ``bill`` makes of histories that others' stores and collectors have kept of an exporter.

A card costs 1.00 an hour and the range is 4 h, where nothing else is said. ``new`` has the card in
it, with three quarters of it in use.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from tests.answers.bill.test_bill import Exporter
from tests.field.histories import DAY, HOUR, Histories, Served
from tests.field.report import report
from tests.history import Scrape

pytestmark = pytest.mark.program("prometheus")
HISTORIES = Histories()
RANGE_S = 4 * HOUR
MGPU = {"job": "mgpu", "instance": "10.0.0.1:10045", "node": "a"}
NEW = {"new/job-1": (1.0, 0.75)}
Had = Mapping[str, tuple[float, float]]
Page = Callable[[Exporter, int], str | None]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with HISTORIES.served(tmp_path_factory.mktemp("bills")) as found:
        yield found


def grow(one: Exporter, had: Had, seconds: int) -> None:
    """Lets some seconds pass at once."""
    before = dict(one.counted)
    one.second(dict(had))
    for name, value in one.counted.items():
        was = before.get(name, 0.0)
        one.counted[name] = was + (value - was) * seconds


def scrapes(  # noqa: PLR0913 - each is a way in which histories differ
    begin_s: int,
    had: Callable[[int], Had] = lambda _: NEW,
    *,
    started_s: int = -3 * HOUR,
    before: Had | None = None,
    first_s: int = -HOUR,
    every_s: int = 60,
    length_s: int = RANGE_S,
    uuid: str = "GPU-a",
    ahead_s: int = 0,
    labels: Mapping[str, str] = MGPU,
    page: Page = lambda exporter, _: exporter.page(),
) -> Iterator[Scrape]:
    """The scrapes of an exporter. Times are in seconds since the range began.

    ``before`` is what it counted from its start until the first scrape, where that is long.
    ``ahead_s`` is how far its node's clock is ahead.
    """
    one = Exporter(uuid, begin_s + started_s + ahead_s)
    if before is not None:
        grow(one, before, first_s - started_s)
        started_s = first_s
    for second in range(started_s, length_s + every_s, every_s):
        grow(one, had(second), every_s)
        if second >= first_s:
            shown = page(one, second)
            if shown is not None:
                yield Scrape(labels, begin_s + second, shown)


def billed(
    served: Served,
    capsys: pytest.CaptureFixture[str],
    name: str,
    *flags: str,
    hours: float = 4,
    key: str = "namespace",
) -> tuple[dict[tuple[str, str], float], str]:
    """Hours by payer and part, and what was said."""
    command = ("bill", "--price=1", "--format=json", *flags)
    said = served.command(capsys, name, *command, hours=hours)
    assert said.status == 0, said.err
    found: dict[tuple[str, str], float] = defaultdict(float)
    rows: list[dict[str, Any]] = json.loads(said.out)["rows"]
    for row in rows:
        found[row[key], row["part"]] += row["gpu_seconds"] / HOUR
    assert sum(found.values()) == pytest.approx(sum(float(row["cost"]) for row in rows), abs=0.01)
    return dict(found), said.err


WHOLE = {("new", "used"): 3.0, ("new", "allocated_idle"): 1.0}


def _zigzag(begin_s: int, length_s: int, had: Callable[[int], Had]) -> Iterator[Scrape]:
    """Two agents write one series. The second scrapes 10 s early, and its clock is 15 s ahead."""
    one = Exporter("GPU-a", begin_s - 30 * DAY)
    for second in range(-600, length_s + 61, 5):
        grow(one, had(second), 5)
        if second % 60 == 0:
            yield Scrape(MGPU, begin_s + second, one.page())
        if (second + 10) % 60 == 0:
            yield Scrape(MGPU, begin_s + second + 15, one.page())


@HISTORIES.add
def zigzag(begin_s: int) -> Iterable[Scrape]:
    def had(second: int) -> Had:
        """A pod of days has a half; in the other half a pod comes each 12 hours."""
        young = f"young/p-{(second + DAY) // (12 * HOUR)}"
        return {"old/web-0": (0.5, 0.3), young: (0.5, 0.3)}

    return _zigzag(begin_s, 49 * HOUR, had)


@report(
    source="VictoriaMetrics#8734",
    seen="Three agents write the same series without deduplication, so each has three samples a "
    "minute, by three clocks.",
    first="right",
    group="series",
)
def test_two_agents_of_one_series_have_two_clocks(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "zigzag", hours=49)
    assert found["old", "used"] == pytest.approx(49 * 0.3, rel=0.01)
    assert found["young", "used"] == pytest.approx(49 * 0.3, rel=0.01)
    assert found["old", "allocated_idle"] == pytest.approx(49 * 0.2, rel=0.01)
    assert found["young", "allocated_idle"] == pytest.approx(49 * 0.2, rel=0.01)


@HISTORIES.add
def dips(begin_s: int) -> Iterable[Scrape]:
    """Each second sample is a little older than its time: the other replica's."""

    def had(second: int) -> Had:
        return {"old/web-0": (0.5, 0.3), f"young/p-{(second + DAY) // 900}": (0.5, 0.3)}

    one = Exporter("GPU-a", begin_s - 30 * DAY)
    for second in range(-600, RANGE_S + 61):
        late = one.page() if second % 15 == 1 else ""
        one.second(dict(had(second)))
        if second % 15 == 0:
            kept = one.page()
            yield Scrape(MGPU, begin_s + second, kept)
        elif late and second > -500:
            fell = kept if second % 30 == 1 else late
            yield Scrape(MGPU, begin_s + second, fell)


@report(
    source="thanos#7623",
    seen="Deduplication mixes three replicas' samples, and a counter that falls by one between "
    "them is taken for a restart: a rate of 790 in place of 0.3.",
    first="right",
    group="series",
)
def test_replicas_that_take_turns_are_no_restarts(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "dips")
    assert found["old", "used"] == pytest.approx(1.2, rel=0.01)
    assert found["young", "used"] == pytest.approx(1.2, rel=0.01)


@HISTORIES.add
def failovers(begin_s: int) -> Iterable[Scrape]:
    """Each 20 minutes the other replica is chosen, whose samples are 45 s late."""

    def had(second: int) -> Had:
        return {"old/web-0": (0.5, 0.3), f"young/p-{(second + DAY) // 1000}": (0.5, 0.3)}

    one = Exporter("GPU-a", begin_s - 30 * DAY)
    pages: dict[int, str] = {}
    for second in range(-600, RANGE_S + 61):
        one.second(dict(had(second)))
        if second % 15 == 0:
            pages[second] = one.page()
            late = (second + DAY) // 1200 % 2
            yield Scrape(MGPU, begin_s + second, pages.get(second - 45 * late, pages[second]))


@report(
    source="mimir#12331",
    seen="After a change of the elected replica, whose samples are late, counters fall without a "
    "restart, and queries count them again.",
    first="right",
    group="series",
)
def test_a_late_replica_that_is_elected_is_no_restart(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "failovers")
    assert found["old", "used"] == pytest.approx(1.2, rel=0.02)
    assert found["young", "used"] == pytest.approx(1.2, rel=0.02)


@HISTORIES.add
def created_zero(begin_s: int) -> Iterable[Scrape]:
    found = list(
        scrapes(begin_s, started_s=-30 * DAY, before={"old/web-0": (1.0, 0.5)}, first_s=2 * HOUR)
    )
    zeros = (
        f"{line.rpartition(' ')[0]} 0" for line in found[0].page.splitlines() if "_total" in line
    )
    return [Scrape(MGPU, begin_s - 30 * DAY, "\n".join(zeros)), *found]


@report(
    source="prometheus#17642",
    seen="With zeros at the time of creation, a counter that was first scraped late has a sample "
    "of long ago.",
    first="right",
    group="series",
)
def test_a_zero_at_the_time_of_creation_bills_nobody_for_what_was_before(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = billed(served, capsys, "created_zero", "--by=pod")
    assert "old" not in {namespace for namespace, _ in found}
    assert found["", "unobserved"] == pytest.approx(2, abs=0.01)
    assert "counting of mgpu/10.0.0.1:10045 begins" in said


@HISTORIES.add
def subtracted(begin_s: int) -> Iterable[Scrape]:
    """A collector takes the first value for zero; it restarts after two hours."""
    base: dict[str, float] = {}

    def page(one: Exporter, second: int) -> str:
        if second == 2 * HOUR:
            base.clear()
            base.update(one.counted)
        shown = Exporter("GPU-a", one.started)
        for name, value in one.counted.items():
            shown.counted[name] = value - base.setdefault(name, value)
        return shown.page()

    return scrapes(begin_s, started_s=-30 * DAY, before={"old/web-0": (1.0, 0.5)}, page=page)


@report(
    source="opentelemetry-collector-contrib#37186",
    seen="Where a start is not known, a processor subtracts the first value, so that counters "
    "begin at 0 when the collector does.",
    first="right",
    group="series",
)
def test_counters_that_begin_again_in_a_life_are_counted_on(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "subtracted")
    assert {key: pytest.approx(hours, abs=0.02) for key, hours in WHOLE.items()} == {
        key: hours for key, hours in found.items() if key[0]
    }


@HISTORIES.add
def repeated(begin_s: int) -> Iterable[Scrape]:
    """The exporter ends after two hours; what is between goes on to show its last page."""
    last = ""

    def page(one: Exporter, second: int) -> str:
        nonlocal last
        if second <= 2 * HOUR:
            last = one.page()
        return last

    return scrapes(begin_s, page=page)


@report(
    source="telegraf#4397",
    seen="The source is down, and its last values are shown again at each scrape.",
    first="right",
    group="series",
)
def test_a_page_that_is_shown_again_and_again_is_not_observed(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "repeated")
    assert found["", "unobserved"] == pytest.approx(2, abs=0.02)
    assert found["new", "used"] == pytest.approx(1.5, abs=0.02)
    assert found["new", "allocated_idle"] == pytest.approx(0.5, abs=0.02)


@HISTORIES.add
def one_collector(begin_s: int) -> Iterable[Scrape]:
    """Two nodes by the page of one collector: job and instance are the collector's."""
    for number, node in enumerate("ab"):
        labels = {
            "job": "otel",
            "instance": "collector:8889",
            "exported_job": "mgpu",
            "exported_instance": f"{node}:10045",
            "server_address": node,
        }
        yield from scrapes(
            begin_s, uuid=f"GPU-{node}", started_s=-3 * HOUR - 60 * number, labels=labels
        )


@report(
    source="opentelemetry-collector-contrib#39240",
    seen="Behind a collector's page, job and instance are the collector's own.",
    first="right",
    group="series",
)
def test_nodes_behind_one_collector_are_two(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "one_collector")
    assert found == {key: pytest.approx(2 * hours, abs=0.02) for key, hours in WHOLE.items()}


@HISTORIES.add
def seldom(begin_s: int) -> Iterable[Scrape]:
    return scrapes(begin_s, every_s=301, started_s=-3 * HOUR, first_s=-HOUR)


@report(
    source="multicluster-observability-operator#772",
    seen="Clusters are scraped each five minutes only, and panels of rates are empty.",
    first="right",
    group="series",
)
def test_a_scrape_each_five_minutes_is_enough_for_a_bill(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "seldom")
    assert found == {key: pytest.approx(hours, abs=0.03) for key, hours in WHOLE.items()}


@HISTORIES.add
def clock_ahead(begin_s: int) -> Iterable[Scrape]:
    """The node's clock is three hours ahead; the exporter began two hours before the range."""
    return scrapes(
        begin_s,
        lambda second: {"old/web-0": (1.0, 0.75)} if second < 0 else NEW,
        started_s=-2 * HOUR,
        first_s=2 * HOUR,
        ahead_s=3 * HOUR,
    )


@report(
    source="node_exporter#1480",
    seen="A node's clock is off by hours, and nothing that is dated by it can be believed.",
    first="wrong",
    kind="The node's clock is believed against the store's",
    group="series",
)
def test_a_start_by_a_clock_that_is_ahead_bills_nobody_for_what_was_before(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = billed(served, capsys, "clock_ahead", "--by=pod")
    assert "old" not in {namespace for namespace, _ in found}
    assert found["", "unobserved"] == pytest.approx(2, abs=0.02)
    assert "the first data is of" not in said


@HISTORIES.add
def clock_ahead_young(begin_s: int) -> Iterable[Scrape]:
    return scrapes(begin_s, started_s=60, first_s=60, ahead_s=3 * HOUR)


@report(
    source="prometheus#10028",
    seen="A machine starts with a clock that is ahead, and time synchronisation sets it back "
    "later.",
    first="wrong",
    kind="The node's clock is believed against the store's",
    group="series",
)
def test_a_card_is_billed_from_its_first_scrape_on_whatever_its_clock_says(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "clock_ahead_young")
    assert found["new", "used"] == pytest.approx(2.98, abs=0.03)


@HISTORIES.add
def start_drifts(begin_s: int) -> Iterable[Scrape]:
    def page(one: Exporter, second: int) -> str:
        one.started = begin_s - 3 * HOUR + (0.01 if second // 60 % 2 else 0)
        return one.page()

    return scrapes(begin_s, page=page)


@report(
    source="client_golang#289",
    seen="The start time of a process varies slightly from scrape to scrape, without a restart.",
    first="wrong",
    kind="Nearly the same is taken for different",
    group="series",
)
def test_a_start_that_varies_slightly_is_one_life(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "start_drifts")
    assert found == {key: pytest.approx(hours, abs=0.02) for key, hours in WHOLE.items()}


@HISTORIES.add
def failover_gap(begin_s: int) -> Iterable[Scrape]:
    """Each hour 90 s are missing."""
    return scrapes(
        begin_s,
        lambda second: {f"new/job-{second // HOUR}": (1.0, 0.75)},
        every_s=30,
        page=lambda one, second: None if second % HOUR < 90 else one.page(),
    )


@report(
    source="mimir#7495",
    seen="Whenever another replica is elected, half a minute of samples is missing.",
    first="right",
    group="series",
)
def test_what_grew_while_nobody_was_elected_is_billed(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "failover_gap", "--by=pod")
    assert found["new", "used"] == pytest.approx(3, abs=0.03)
    assert found["new", "allocated_idle"] == pytest.approx(1, abs=0.02)
