"""What others' Prometheus servers kept of an exporter: the bill is of what was seen to grow.

The histories are those of public reports (VictoriaMetrics#286, prometheus#1673 and #12967,
kubecost#358, opencost#268, krr#18), with small inputs of our own. ``old`` left before the range,
``new`` has had the card since. Back-filled blocks are read by real servers, of both major versions.
"""

import csv
import io
import json
import re
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.answers.bill.parts import METHODS
from exporter.answers.reading.growth import cards_of
from exporter.answers.reading.lives import CYCLES, START, Scrapes, Target
from exporter.answers.reading.nodelabels import NodeLabels
from exporter.answers.reading.ranges import Span, written
from exporter.answers.reading.storedcounters import Stored, StoredCounter
from exporter.answers.reading.who import Who
from exporter.cli import main
from tests.answers.bill.test_bill import Exporter
from tests.answers.reading.test_remote import Server
from tests.e2e.programs import Prometheus, eventually
from tests.history import Labels, Scrape, backfilled

HOUR, DAY = 3600, 86_400
RANGE_S = 4 * HOUR
BEGIN = 1_780_005_600
SCRAPE_S = 60

pytestmark = pytest.mark.program("prometheus")
PROGRAMS = [
    "prometheus",
    pytest.param("prometheus3", marks=[pytest.mark.slow, pytest.mark.program("prometheus3")]),
]
MGPU = {"job": "mgpu", "instance": "10.0.0.1:10045", "node": "a"}


def life(
    labels: Callable[[int], Sequence[Labels]],
    scraped: Callable[[int], bool] = lambda _: True,
    *,
    uuid: str = "GPU-a",
    from_s: int = -2 * HOUR,
    length_s: int = RANGE_S,
    left_s: int = -2 * HOUR,
    restart_s: int | None = None,
) -> list[Scrape]:
    """The scrapes of an exporter that began 30 days ago, where and under which labels it had some.

    ``old`` had the card until ``left_s``.
    """
    every_s = SCRAPE_S if length_s == RANGE_S else 240
    one = Exporter(uuid, BEGIN - 30 * DAY)
    had = {"old/web-0": (1.0, 0.75)}
    for _ in range(28):
        one.second(had)
    for name in one.counted:  # 28 days of it
        one.counted[name] *= DAY
    found = []
    for second in range(min(from_s, left_s), length_s + every_s, every_s):
        if second == restart_s:
            one.restart(second)
        if second >= left_s:
            had = {"new/job-1": (1.0, 0.75)}
        before = dict(one.counted)
        one.second(had)
        for name, value in one.counted.items():
            one.counted[name] = before.get(name, 0.0) + (value - before.get(name, 0.0)) * every_s
        if second >= from_s and scraped(second):
            found += [Scrape(each, BEGIN + second, one.page()) for each in labels(second)]
    return found


def renamed(**changed: str) -> Callable[[int], list[Labels]]:
    """The labels, which change in the middle of the range."""
    return lambda second: [MGPU | changed if second >= RANGE_S // 2 + 17 else MGPU]


HISTORIES: dict[str, Callable[[], list[Scrape]]] = {
    "S1 a label is added": lambda: life(renamed(cluster="west")),
    "S1 the instance changes": lambda: life(renamed(instance="node-a")),
    "S1 the job changes": lambda: life(renamed(job="serviceScrape/mgpu")),
    "S2 it is scraped from mid-range on": lambda: life(
        lambda _: [MGPU], lambda second: second >= RANGE_S // 2
    ),
    "S3 a gap of 20 hours, in which the tenant changed": lambda: life(
        lambda _: [MGPU], lambda s: not -18 * HOUR < s < 2 * HOUR, from_s=-20 * HOUR
    ),
    "S3 a gap of 3 days": lambda: life(
        lambda _: [MGPU], lambda s: not -71 * HOUR < s < HOUR, from_s=-74 * HOUR, left_s=-72 * HOUR
    ),
    "S4 a second job, the same instance": lambda: life(
        lambda s: [MGPU, MGPU | {"job": "second"}] if s >= HOUR else [MGPU]
    ),
    "S4 a second job, another instance": lambda: life(
        lambda s: [MGPU, {"job": "pods", "instance": "a"}] if s >= HOUR else [MGPU]
    ),
    "S5 two clusters, one restart": lambda: [
        *life(lambda _: [MGPU | {"k8s_cluster": "west"}]),
        *life(lambda _: [MGPU | {"k8s_cluster": "east"}], uuid="GPU-b", restart_s=2 * HOUR),
    ],
}
QUICK = {  # one of three kinds; the others are slow
    "S1 a label is added",
    "S3 a gap of 20 hours, in which the tenant changed",
    "S5 two clusters, one restart",
}
UNREAD_H = {
    "S2 it is scraped from mid-range on": 2.0,
    "S3 a gap of 20 hours, in which the tenant changed": 2.0,
}
"""What nobody read of a card, and no counter tells: in hours of the range."""


class Billed(NamedTuple):
    """Hours by payer's namespace; what was said."""

    hours: Mapping[str, float]
    said: str


def billed(
    address: str, capsys: pytest.CaptureFixture[str], *flags: str, length_s: int = RANGE_S
) -> Billed:
    where = f"--prometheus=http://{address}"
    times = [f"--since={written(BEGIN)}", f"--until={written(BEGIN + length_s)}"]
    assert main(["bill", where, *times, "--price=1", "--format=json", *flags]) == 0
    said = capsys.readouterr()
    hours: dict[str, float] = defaultdict(float)
    for row in json.loads(said.out)["rows"]:
        hours[row["namespace"] or row["part"]] += row["gpu_seconds"] / HOUR
    return Billed(hours, said.err)


@pytest.mark.parametrize(
    "history",
    [pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in HISTORIES],
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_only_what_was_seen_to_grow_is_billed(
    history: str, program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scrapes = HISTORIES[history]()
    cards = len({uuid for one in scrapes for uuid in re.findall(r"GPU-\w", one.page)})
    unread = UNREAD_H.get(history, 0.0)
    with backfilled(tmp_path, program, scrapes) as address:
        for by in ("namespace", "pod", "owner"):
            for method in METHODS:
                hours, said = billed(address, capsys, f"--by={by}", f"--method={method}")
                assert hours.get("old", 0.0) == 0
                assert sum(hours.values()) == pytest.approx(4 * cards, abs=1e-6)
                assert hours["new"] == pytest.approx(4 * cards - unread, abs=0.04)
                assert ("counting of mgpu/10.0.0.1:10045 begins at" in said) == (
                    history.startswith(("S2", "S3"))
                )


def test_every_format_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with backfilled(tmp_path, "prometheus", HISTORIES["S1 a label is added"]()) as address:
        times = [f"--since={written(BEGIN)}", f"--until={written(BEGIN + RANGE_S)}"]
        command = ["bill", f"--prometheus=http://{address}", *times, "--price=1", "--by=pod"]
        said: dict[str, str] = {}
        for form in ("csv", "focus", "table"):
            assert main([*command, f"--format={form}"]) == 0
            said[form] = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(said["csv"])))
    focus = list(csv.DictReader(io.StringIO(said["focus"])))
    assert sum(Decimal(row["cost"]) for row in rows) == 4
    assert sum(Decimal(row["BilledCost"]) for row in focus) == 4
    assert "new/job-1" in said["table"]
    assert "old" not in "".join(said.values())


@pytest.mark.parametrize("dropped", ["mgpu_exporter", "mgpu_exporter|process"])
def test_where_what_exporters_say_of_themselves_is_dropped_there_is_a_bill(
    dropped: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its start a renamed target is another life, so less is known; nobody pays for it."""
    scrapes = [
        one._replace(page=re.sub(f"(?m)^(?:{dropped}).*\n", "", one.page))
        for one in HISTORIES["S1 a label is added"]()
    ]
    with backfilled(tmp_path, "prometheus", scrapes) as address:
        hours, _ = billed(address, capsys, "--by=pod")
    assert sum(hours.values()) == pytest.approx(4, abs=1e-6)
    assert hours["new"] == pytest.approx(4, abs=0.05)
    assert "old" not in hours


@pytest.mark.slow
def test_a_month_with_a_relabelling_on_its_fifteenth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    month_s = 30 * DAY
    scrapes = life(
        lambda s: [MGPU | {"cluster": "west"} if s > month_s // 2 else MGPU],
        length_s=month_s,
    )
    with backfilled(tmp_path, "prometheus", scrapes) as address:
        hours, _ = billed(address, capsys, length_s=month_s)
    assert hours == pytest.approx({"new": 720}, abs=0.2)


def test_two_exporters_of_one_card_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenant's own pod, which is scraped as pods with an annotation are, has a true UUID."""
    forged = Exporter("GPU-a", BEGIN - HOUR)
    scrapes = life(lambda _: [MGPU])
    for second in range(0, RANGE_S, SCRAPE_S):
        for _ in range(SCRAPE_S):
            forged.second({"new/job-1": (1.0, 0.0), "rich/other": (1.0, 1.0)})
        labels = {"job": "kubernetes-pods", "instance": "10.9.9.9:80"}
        scrapes.append(Scrape(labels, BEGIN + second, forged.page()))
    with backfilled(tmp_path, "prometheus", scrapes) as address:
        times = [f"--since={written(BEGIN)}", f"--until={written(BEGIN + RANGE_S)}"]
        assert main(["bill", f"--prometheus=http://{address}", *times, "--price=1"]) == 2
        said = capsys.readouterr().err
        for each in ("GPU-a", "mgpu/10.0.0.1:10045", "kubernetes-pods/10.9.9.9:80", "--job"):
            assert each in said
        hours, _ = billed(address, capsys, "--job=mgpu")
    assert hours == pytest.approx({"new": 4.0}, abs=0.03)


def test_a_page_that_copies_an_exporters_start_is_refused_for_what_it_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that it counts may be the true ones: then somebody else has them."""
    forged = Exporter("GPU-a", BEGIN - 30 * DAY)
    scrapes = life(lambda _: [MGPU])
    for second in range(0, RANGE_S, SCRAPE_S):
        for _ in range(SCRAPE_S):
            forged.second({"rich/other": (1.0, 1.0)})
        labels = {"job": "a-job", "instance": "b"}
        scrapes.append(Scrape(labels, BEGIN + second, forged.page()))
    with backfilled(tmp_path, "prometheus", scrapes) as address:
        times = [f"--since={written(BEGIN)}", f"--until={written(BEGIN + RANGE_S)}"]
        status = main(["bill", f"--prometheus=http://{address}", *times, "--price=1"])
        said = capsys.readouterr()
        assert status == 2, said.out
        assert "say that they are one exporter of the card GPU-a, but count differently" in said.err


def test_two_exporters_under_one_set_of_labels_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two nodes whose targets were given one instance."""
    a, b = Exporter("GPU-a", BEGIN - DAY), Exporter("GPU-b", BEGIN - 2 * DAY)
    scrapes = []
    for second in range(-600, RANGE_S, SCRAPE_S):
        for one, late in ((a, 0), (b, 30)):
            for _ in range(SCRAPE_S):
                one.second({"new": (1.0, 1.0)})
            scrapes.append(
                Scrape({"job": "mgpu", "instance": "x"}, BEGIN + second + late, one.page())
            )
    with backfilled(tmp_path, "prometheus", scrapes) as address:
        times = [f"--since={written(BEGIN)}", f"--until={written(BEGIN + RANGE_S)}"]
        assert main(["bill", f"--prometheus=http://{address}", *times, "--price=1"]) == 2
    said = capsys.readouterr().err
    assert "two exporters under one set of labels" in said
    assert f"started {written(BEGIN - DAY)}" in said
    assert f"started {written(BEGIN - 2 * DAY)}" in said
    assert "a label of its own, such as instance" in said


@pytest.mark.slow
def test_a_reload_that_adds_a_label_bills_nobody_for_what_was_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Live: an exporter that runs for a month, and a configuration that is loaded again."""
    one, began_s = Exporter("GPU-a", time.time() - 30 * DAY), time.time()
    one.second({"old/web-0": (1.0, 0.75)})
    for name in one.counted:
        one.counted[name] *= 28 * DAY

    def page(*_: str) -> tuple[int, dict[str, str], bytes]:
        while one.counted["mgpu_exporter_cycles_total"] < 28 * DAY + time.time() - began_s:
            one.second({"new/job-1": (1.0, 0.75)})
        return 200, {"Content-Type": "text/plain; version=0.0.4"}, f"{one.page()}\n".encode()

    server = Server()
    server.answer = page
    config = tmp_path / "prometheus.yml"
    try:
        with Prometheus(server.url, tmp_path, "1s") as prometheus:
            since_s = int(time.time()) + 2
            labels = "    relabel_configs: [{target_label: cluster, replacement: west}]\n"
            eventually(lambda: time.time() > since_s + 30, "the middle of the range")
            config.write_text(config.read_text() + labels)
            prometheus.process.send_signal(signal.SIGHUP)
            eventually(lambda: prometheus.query('up{cluster="west"}'), "the label")
            until_s = since_s + 62
            eventually(lambda: time.time() > until_s, "the end of the range")
            where = f"--prometheus=http://{prometheus.address}"
            times = [f"--since={written(since_s)}", f"--until={written(until_s)}"]
            command = ["bill", where, *times, "--price=1", "--format=json"]
            for by in ("namespace", "pod", "owner"):
                assert main([*command, f"--by={by}"]) == 0
                said = capsys.readouterr()
                seconds: dict[str, float] = defaultdict(float)
                for row in json.loads(said.out)["rows"]:
                    seconds[row["namespace"] or row["part"]] += row["gpu_seconds"]
                assert sum(seconds.values()) == pytest.approx(62)
                assert seconds["new"] == pytest.approx(62, abs=5), said
                assert "old" not in seconds
    finally:
        server.stop()


@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=4),
    st.integers(0, 60),
)
def test_of_several_targets_the_one_that_was_scraped_then_is_meant(
    times: list[list[int]], at_s: int
) -> None:
    scrapes = Scrapes()
    targets: list[Target] = [frozenset({("pod", str(number))}) for number in range(len(times))]
    for target, scraped in zip(targets, times, strict=True):
        scrapes.take({**dict(target), "__name__": CYCLES}, [(at, 1.0) for at in scraped])

    found = scrapes.which(targets, at_s)
    every = [(abs(at_s - at), at) for each in times for at in each]
    before = [each for each in every if each[1] <= at_s]
    # A life without a known start is there from its first scrape on.
    nearest = min(before, default=None) if min(every)[1] > at_s else min(every)
    if found is None or nearest is None:
        assert found is None
        assert nearest is None
    else:
        assert nearest[1] in times[targets.index(found[1])]


@pytest.mark.parametrize(("cycles", "lives"), [((100.0, 160.0), 1), ((100.0, 2.0), 2)])
def test_a_start_that_drifts_is_one_life_unless_its_cycles_begin_again(
    cycles: tuple[float, float], lives: int
) -> None:
    """A clock that is corrected moves a start by a part of a second; so may a quick restart."""
    scrapes = Scrapes()
    for name, values in ((START, (BEGIN, BEGIN + 0.5)), (CYCLES, cycles)):
        scrapes.take({"__name__": name}, zip((BEGIN + 60.0, BEGIN + 120.0), values, strict=True))
    assert len(set(scrapes.of(frozenset())[1])) == lives


def test_two_servers_of_an_overcommitted_card_may_be_a_step_apart() -> None:
    """One of them was away when the last hour ended; three pods keep the whole card each."""
    span = Span(BEGIN, BEGIN + 6 * HOUR, HOUR)
    scrapes = Scrapes()
    targets = {late_s: frozenset({("replica", str(late_s))}) for late_s in (0, HOUR - 10)}
    pods = [{"namespace": "team", "pod": f"p-{n}", "container": "main"} for n in range(3)]
    unallocated = "mgpu_device_unallocated_gpu_seconds_total"
    allocated = "mgpu_container_allocated_gpu_seconds_total"
    owned = [(unallocated, {}), *((allocated, pod) for pod in pods)]
    series = []
    for late_s, target in targets.items():
        ends = range(BEGIN, BEGIN + 6 * HOUR + 1, HOUR)
        for name in (START, CYCLES):
            value = float(BEGIN - DAY)
            scrapes.take({**dict(target), "__name__": name}, [(at, value) for at in ends])
        for name, own in owned:
            counted = {
                float(at): 0.0 if not own else float(at - BEGIN - (late_s if at == ends[-1] else 0))
                for at in ends
            }
            labels = {**own, "uuid": "GPU-a", **dict(target), "__name__": name}
            series.append(StoredCounter(labels, [target], (*counted,), (*counted.values(),)))

    stored = Stored(series, scrapes, {}, {})
    [card] = cards_of(stored, span, {}, Who(series, NodeLabels()))

    assert {sum(one.counts[0].values()) for one in card.grown if "pod" in one.labels} == {6 * HOUR}
