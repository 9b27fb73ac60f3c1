"""One name has several bearers in a range: cards of a node, pods of a name, machines, targets.

A card costs 1.00 an hour where nothing else is said. ``new`` has the card in it, with three
quarters of it in use.
"""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from exporter.answers.bill.parts import METHODS
from exporter.answers.reading.ranges import written
from exporter.cli import main
from tests.answers.bill.test_bill import Exporter
from tests.field.histories import DAY, HOUR, Histories, Served
from tests.field.report import report
from tests.field.series.test_bills import MGPU, NEW, RANGE_S, Had, billed, grow, scrapes
from tests.history import Labels, Scrape

pytestmark = pytest.mark.program("prometheus")
HISTORIES = Histories()
KUBE_STATE = {"job": "kube-state-metrics", "instance": "10.0.0.9:8080"}
GONE_S = 300


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with HISTORIES.served(tmp_path_factory.mktemp("bearers")) as found:
        yield found


def from_to(
    begin_s: int, from_s: int, until_s: int, uuid: str, labels: Labels = MGPU, every_s: int = 60
) -> Iterator[Scrape]:
    """The scrapes of an exporter that started and ended then, in seconds of the range."""
    one = Exporter(uuid, begin_s + from_s)
    for second in range(from_s + every_s, until_s + 1, every_s):
        grow(one, NEW, every_s)
        yield Scrape(labels, begin_s + second, one.page())


def hours(found: dict[tuple[str, str], float]) -> float:
    return sum(found.values())


@HISTORIES.add
def machine_made_anew(begin_s: int) -> Iterable[Scrape]:
    for day in range(7):
        end_s = (day + 1) * DAY - (GONE_S if day < 6 else 0)
        yield from from_to(begin_s, day * DAY, end_s, f"GPU-{day}", every_s=300)


@report(
    source="cloud-provider-gcp#368",
    seen="A preempted machine comes back each day under its name, with another card.",
    first="wrong",
    kind="One name is not one thing for ever",
    group="series",
)
def test_a_card_ends_with_the_machine_that_had_it(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "machine_made_anew", hours=168)
    assert hours(found) == pytest.approx(167.5, abs=0.05)
    assert found["new", "used"] == pytest.approx(167.5 * 0.75, abs=0.5)


@HISTORIES.add
def card_exchanged(begin_s: int) -> Iterable[Scrape]:
    yield from from_to(begin_s, -HOUR, 3 * DAY, "GPU-a", every_s=300)
    yield from from_to(begin_s, 3 * DAY + 1080, 10 * DAY, "GPU-b", every_s=300)


@report(
    source="kubernetes#64067",
    seen="A machine is repaired and comes back under its name with another card.",
    first="wrong",
    kind="One name is not one thing for ever",
    group="series",
)
def test_a_card_that_is_exchanged_ends(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = billed(served, capsys, "card_exchanged", hours=240)
    assert hours(found) == pytest.approx(239.70, abs=0.05)


@HISTORIES.add
def lost_before_a_restart(begin_s: int) -> Iterable[Scrape]:
    """The driver loses the second card after an hour; after two, the exporter starts again."""
    for scrape in [
        *from_to(begin_s, -HOUR, 2 * HOUR, "GPU-a"),
        *from_to(begin_s, 2 * HOUR, RANGE_S, "GPU-a"),
    ]:
        second = scrape.at_s - begin_s
        other = re.sub("GPU-a", "GPU-b", scrape.page)
        other = "\n".join(line for line in other.splitlines() if "uuid" in line)
        up = f'mgpu_device_up{{gpu="1",uuid="GPU-b"}} {int(second <= HOUR)}'
        if second > HOUR:
            other = other.splitlines()[0]  # what it is; nothing is counted
        pages = [scrape.page] if second > 2 * HOUR else [scrape.page, other, up]
        yield scrape._replace(page="\n".join(pages))


def test_a_card_that_was_lost_before_a_restart_is_there_and_unobserved(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, "lost_before_a_restart", key="uuid")
    of_b = {part: seconds for (uuid, part), seconds in found.items() if uuid == "GPU-b"}
    assert sum(of_b.values()) == pytest.approx(4, abs=0.02)
    assert of_b["unobserved"] == pytest.approx(3, abs=0.04)


def trainer(begin_s: int, *, anew: bool) -> Iterator[Scrape]:
    """``ml/trainer-0`` is made anew after two hours, for another team and by another owner."""
    had: Had = {"ml/trainer-0": (1.0, 0.75)}
    one = Exporter("GPU-a", begin_s - 3 * HOUR)
    for second in range(-HOUR, RANGE_S + 61, 60):
        is_first = second <= 2 * HOUR
        if anew and 2 * HOUR < second <= 2 * HOUR + GONE_S:
            for name in [name for name in one.counted if "trainer" in name]:
                del one.counted[name]
            grow(one, {}, 60)
            yield Scrape(MGPU, begin_s + second, one.page())
            continue
        grow(one, had, 60)
        team, uid = ("a", "1") if is_first else ("b", "2")
        info = (
            f'mgpu_pod_info{{namespace="ml",pod="trainer-0",uid="{uid}",qos="",owner_kind="Job",'
            f'owner_name="of-{team}",label_team="{team}"}} 1'
        )
        yield Scrape(MGPU, begin_s + second, f"{one.page()}\n{info}")


@HISTORIES.add
def name_used_again(begin_s: int) -> Iterable[Scrape]:
    return trainer(begin_s, anew=False)


@HISTORIES.add
def name_used_again_anew(begin_s: int) -> Iterable[Scrape]:
    return trainer(begin_s, anew=True)


@pytest.mark.parametrize(
    ("name", "gone_h"),
    [
        pytest.param(
            "name_used_again",
            0.0,
            marks=report(
                source="opencost#1412",
                seen="A pod of a name that was used before takes over the labels and the costs.",
                first="wrong",
                kind="One name is not one thing for ever",
                group="series",
            ),
        ),
        pytest.param(
            "name_used_again_anew",
            GONE_S / HOUR,
            marks=report(
                source="opencost#152",
                seen="Pods of a StatefulSet have one name after each other, with other labels.",
                first="wrong",
                kind="One name is not one thing for ever",
                group="series",
            ),
        ),
    ],
)
@pytest.mark.parametrize("by", ["owner", "label:team"])
def test_each_bearer_of_a_pods_name_pays_for_its_time(
    name: str, gone_h: float, by: str, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = billed(served, capsys, name, f"--by={by}", key="owner")
    each: dict[str, float] = defaultdict(float)
    for (owner, _), seconds in found.items():
        each[owner[-1:]] += seconds
    assert each["a"] == pytest.approx(2, abs=0.02)
    assert each["b"] == pytest.approx(2 - gone_h, abs=0.02)


@HISTORIES.add
def node_name_used_again(begin_s: int) -> Iterable[Scrape]:
    yield from from_to(begin_s, -HOUR, 2 * HOUR, "GPU-small")
    yield from from_to(begin_s, 2 * HOUR + 360, RANGE_S, "GPU-big")
    for second in range(-HOUR, RANGE_S + 1, 60):
        kind = "small" if second <= 2 * HOUR + 60 else "big"
        if not 2 * HOUR + 60 < second < 2 * HOUR + 480:  # kube-state-metrics comes late
            page = f'kube_node_labels{{node="a",label_type="{kind}"}} 1'
            yield Scrape(KUBE_STATE, begin_s + second, page)


@report(
    source="kubernetes#11883",
    seen="A node of another kind comes under the name of one that is gone.",
    first="wrong",
    kind="One name is not one thing for ever",
    group="series",
)
def test_a_card_has_the_price_of_the_machine_that_it_is_in(
    served: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("node_labels: {type: {small: 1, big: 10}}")
    said = served.command(
        capsys, "node_name_used_again", "bill", f"--prices={prices}", "--format=csv"
    )
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert sum(float(row["cost"]) for row in rows) == pytest.approx(2 + 19, abs=0.05)


@HISTORIES.add
def price_changes(begin_s: int) -> Iterable[Scrape]:
    """A node's label changes while a pod runs on its card."""
    yield from scrapes(begin_s)
    for second in range(-HOUR, RANGE_S + 1, 60):
        kind = "spot" if second <= HOUR else "reserved"
        page = f'kube_node_labels{{node="a",label_type="{kind}"}} 1'
        yield Scrape(KUBE_STATE, begin_s + second, page)


def test_a_price_is_the_nodes_at_that_time(
    served: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("node_labels: {type: {spot: 1, reserved: 10}}")
    said = served.command(capsys, "price_changes", "bill", f"--prices={prices}", "--format=csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert sum(float(row["cost"]) for row in rows) == pytest.approx(1 + 30, abs=0.2)
    assert sum(float(row["gpu_seconds"]) for row in rows) == pytest.approx(RANGE_S)


@HISTORIES.add
def label_of_one_node(begin_s: int) -> Iterable[Scrape]:
    for node in "ab":
        labels = MGPU | {"node": node, "instance": f"{node}:10045"}
        yield from scrapes(begin_s, uuid=f"GPU-{node}", labels=labels)
    for second in range(-HOUR, RANGE_S + 1, 60):
        page = (
            'kube_node_labels{node="a",label_type="big",label_zone_conflict1="x"} 1\n'
            'kube_node_labels{node="other",label_type="none"} 1'
        )
        yield Scrape(KUBE_STATE, begin_s + second, page)


@report(
    source="opencost#3146",
    seen="Some nodes have no label of their kind, and get the price of all others.",
    first="wrong",
    kind="A part is taken for the whole",
    group="series",
)
def test_a_node_without_the_label_of_its_price_is_named(
    served: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text(
        "default: 1\nnode_labels: {type: {big: 10, huge: 20}, zone: {x: 3}}\n"
        "models: {L4 never seen: 2}"
    )
    name = "label_of_one_node"
    said = served.command(capsys, name, "bill", f"--prices={prices}", "--format=csv").err
    assert "4.00 GPU hours of the node b are at the default price 1" in said
    assert "type=huge" in said
    assert "L4 never seen" in said
    assert "label_zone_conflict1" in said


def test_a_model_that_is_written_shorter_than_the_drivers_is_said(
    served: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {NVIDIA H100: 3.50}")
    said = served.command(capsys, "long_model", "bill", f"--prices={prices}", "--format=csv")
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert sum(float(row["cost"]) for row in rows) == pytest.approx(4 * 3.50)
    assert "NVIDIA H100 is taken for NVIDIA H100 80GB HBM3" in said.err


@HISTORIES.add
def long_model(begin_s: int) -> Iterable[Scrape]:
    for scrape in scrapes(begin_s):
        yield scrape._replace(page=scrape.page.replace('"L4"', '"NVIDIA H100 80GB HBM3"'))


def averaged(many: Iterable[Scrape], every_s: int = 300) -> Iterator[Scrape]:
    """What is left of these after downsampling: of each five minutes the averages."""
    by_time: dict[int, list[Scrape]] = defaultdict(list)
    for one in many:
        by_time[-(-one.at_s // every_s) * every_s].append(one)
    for at_s, some in sorted(by_time.items()):
        values: dict[str, list[float]] = defaultdict(list)
        for line in (line for one in some for line in one.page.splitlines()):
            series, _, value = line.rpartition(" ")
            values[series].append(float(value))
        page = (f"{series} {sum(each) / len(each)!r}" for series, each in values.items())
        yield Scrape(some[0].labels, at_s, "\n".join(page))


@HISTORIES.add
def averages(begin_s: int) -> Iterable[Scrape]:
    def life(from_s: int, until_s: int, had: Had) -> Iterator[Scrape]:
        one = Exporter("GPU-a", begin_s + from_s)
        for second in range(from_s + 60, until_s + 1, 60):
            grow(one, had, 60)
            yield Scrape(MGPU, begin_s + second, one.page())

    return averaged(
        [
            *life(-5 * DAY, 5160, {"early/a-0": (1.0, 0.5)}),
            *life(5160, RANGE_S, {"late/b-0": (1.0, 0.5)}),
        ]
    )


@report(
    source="thanos#6573",
    seen="Instant queries are answered by averages of five minutes, unless raw data is asked for.",
    first="wrong",
    kind="A store averages",
    group="series",
)
def test_a_store_that_averages_gives_no_bill(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    said = served.command(capsys, "averages", "bill", "--price=1")
    assert said.status == 2, said.out
    assert "averages" in said.err
    assert "raw" in said.err


def copied(begin_s: int, height_s: int, length_s: int, late_s: int = 20) -> Iterator[Scrape]:
    """A tenant's target copies the page, and gives its own use to the victim, 1.5 times."""
    one = Exporter("GPU-a", begin_s - height_s - HOUR)
    had = {"tenant/t-0": (0.5, 0.5), "victim/v-0": (0.125, 0.125)}
    grow(one, had, height_s or 1)
    for second in range(-HOUR, length_s + 61, 60):
        grow(one, had, 60)
        yield Scrape(MGPU, begin_s + second, one.page())
        forged = []
        for line in one.page().splitlines():
            series, _, value = line.rpartition(" ")
            if 'namespace="victim"' not in line:
                mine = series.replace('"tenant"', '"victim"').replace("t-0", "v-0")
                forged.append(f"{mine} {float(value) * 1.5 if mine != series else value}")
        labels = {"job": "kubernetes-pods", "instance": "10.9.9.9:80"}
        yield Scrape(labels, begin_s + second + late_s, "\n".join(forged))


@HISTORIES.add
def copied_low(begin_s: int) -> Iterable[Scrape]:
    return copied(begin_s, 0, 36 * HOUR)


@HISTORIES.add
def copied_high(begin_s: int) -> Iterable[Scrape]:
    return copied(begin_s, 30 * DAY, 36 * HOUR)


@HISTORIES.add
def copied_shortly(begin_s: int) -> Iterable[Scrape]:
    return copied(begin_s, DAY, RANGE_S)


@pytest.mark.parametrize(
    ("name", "length_h"), [("copied_low", 36), ("copied_high", 36), ("copied_shortly", 4)]
)
@pytest.mark.parametrize("by", ["namespace", pytest.param("pod", marks=pytest.mark.slow)])
def test_a_page_that_is_copied_and_changed_is_refused_by_both_names(
    name: str, length_h: int, by: str, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    said = served.command(capsys, name, "bill", "--price=1", f"--by={by}", hours=length_h)
    assert said.status == 2, said.out
    assert "mgpu/10.0.0.1:10045" in said.err
    assert "kubernetes-pods/10.9.9.9:80" in said.err
    found, _ = billed(served, capsys, name, "--job=mgpu", hours=length_h)
    assert found["tenant", "used"] == pytest.approx(length_h / 2, rel=0.01)
    assert found["victim", "used"] == pytest.approx(length_h / 8, rel=0.01)


@HISTORIES.add
def additive(begin_s: int) -> Iterable[Scrape]:
    """Ten days of an account that is used now and then, with a gap about a midnight."""
    one = Exporter("GPU-a", begin_s - DAY)
    for second in range(-HOUR, 10 * DAY + 1, 97):
        pod = f"new/job-{second // 5000}"
        for name in [name for name in one.counted if "job-" in name and pod[4:] not in name]:
            del one.counted[name]
        grow(one, {pod: (1.0, (second // 97 % 7) / 7), "old/web": (0.3, 0.1)}, 97)
        if not 3 * DAY + 7 * HOUR < second < 3 * DAY + 10 * HOUR:
            yield Scrape(MGPU, begin_s + second, one.page())


@pytest.mark.slow
def test_a_week_is_the_sum_of_its_days_to_the_last_unit(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_s = -(-served.begins["additive"] // DAY) * DAY

    def of(since: int, until: int, method: str) -> Counter[tuple[str, ...]]:
        times = [f"--since={written(begin_s + since * DAY)}"]
        times.append(f"--until={written(begin_s + until * DAY)}")
        where = [f"--prometheus=http://{served.address}", f"--method={method}", *times]
        assert main(["bill", *where, "--price=0.333", "--format=csv"]) == 0
        found: Counter[tuple[str, ...]] = Counter()
        for row in csv.DictReader(io.StringIO(capsys.readouterr().out)):
            whose = row["payer"], row["part"]
            found[*whose, "ms"] += round(float(row["gpu_seconds"]) * 1000)
            found[*whose, "cost"] += int(Decimal(row["cost"]) * 10**6)
        return found

    for method in METHODS:
        days: Counter[tuple[str, ...]] = Counter()
        for day in range(7):
            days.update(of(day, day + 1, method))
        assert of(0, 7, method) == days
