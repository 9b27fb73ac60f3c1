"""The bill against counters of known truth, under a real Prometheus."""

import json
import re
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.answers.reading import queryapi
from exporter.answers.reading.ranges import Span, written
from exporter.cli import main
from exporter.console.progress import Progress
from tests.answers.reading.test_remote import Server
from tests.store import Store, Target

BEGIN = 1_780_000_000
HOUR = 3600


class Exporter:
    """An exporter of one card, told what happens in each second."""

    def __init__(self, uuid: str, started: float = BEGIN - 40 * 86_400) -> None:
        self.uuid = uuid
        self.started = started
        self.counted: dict[str, float] = defaultdict(float)

    def restart(self, second: int) -> None:
        """Another process takes its place."""
        self.started = BEGIN + second
        self.counted.clear()

    def second(self, had: dict[str, tuple[float, float]], unattributed: float = 0.0) -> None:
        """``had``: of each namespace, or namespace/pod, the part allocated and the part used."""
        self._add("exporter_cycles_total", "", 1)
        for whose, (allocated, used) in had.items():
            namespace, _, pod = whose.partition("/")
            self._owner("namespace", f'namespace="{namespace}",', allocated, used)
            if pod:
                labels = f'namespace="{namespace}",pod="{pod}",container="main",'
                self._owner("container", labels, allocated, used)
        given = sum(allocated for allocated, _ in had.values())
        self._add("device_unallocated_gpu_seconds_total", "", max(0, 1 - given))
        self._add("device_overcommitted_gpu_seconds_total", "", max(0, given - 1))
        self._add("device_unattributed_core_seconds_total", 'reason="host_process",', unattributed)

    def _owner(self, level: str, labels: str, allocated: float, used: float) -> None:
        self._add(f"{level}_allocated_gpu_seconds_total", labels, allocated)
        self._add(f"{level}_core_seconds_total", labels, used)
        self._add(f"{level}_borrowed_core_seconds_total", labels, max(0, used - allocated))

    def _add(self, name: str, labels: str, value: float) -> None:
        own = f'{{{labels}uuid="{self.uuid}"}}' if name != "exporter_cycles_total" else ""
        self.counted[f"mgpu_{name}{own}"] += value

    def page(self, times: int = 1) -> str:
        """Its page now, had each second been so many."""
        info = f'mgpu_device_info{{uuid="{self.uuid}",gpu="0",model="L4",parent_uuid=""}} 1'
        start = f"process_start_time_seconds {self.started}"
        return "\n".join(
            [info, start, *(f"{name} {value * times!r}" for name, value in self.counted.items())]
        )


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An hour of two nodes, scraped each 15 s.

    Node a: ``team`` has a half and uses a quarter; ``batch`` runs a job of 10 s in each 20 s, which
    no scrape sees, and a pod without an owner. Its exporter restarts after 1,800 s. Node b comes
    after 1,200 s and uses the whole card in ``team``; from 3,000 s on it does not answer.
    """
    a, b = Exporter("GPU-a"), Exporter("GPU-b", BEGIN + 1200)
    targets = {
        one.uuid: Target({"job": "mgpu", "instance": f"{one.uuid}:10045", "node": one.uuid[-1]})
        for one in (a, b)
    }
    with Store(tmp_path_factory.mktemp("prometheus")) as store:
        for second in range(-300, HOUR + 301):
            if second == 1800:
                a.restart(second)
            job = (0.25, 0.25) if second % 20 < 10 else (0.0, 0.0)
            a.second({"team": (0.5, 0.25), "batch": job, "batch/bare": (0.1, 0.1)}, 0.1)
            if 1200 <= second < 3000:
                b.second({"team": (1.0, 1.0)})
            if second % 15 == 0:
                store.scrape(targets["GPU-a"], a.page(), BEGIN + second)
                if second >= 1200:
                    page = b.page() if second < 3000 else None
                    store.scrape(targets["GPU-b"], page, BEGIN + second)
        yield store


def bill(store: Store, capsys: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    range_of = [f"--since={BEGIN_TEXT}", f"--until={END_TEXT}", "--format=json"]
    status = main(["bill", f"--prometheus=http://{store.address}", *range_of, *flags])
    said = capsys.readouterr()
    assert status == 0, said.err
    return dict(json.loads(said.out))


BEGIN_TEXT, END_TEXT = "2026-05-28T20:26:40Z", "2026-05-28T21:26:40Z"
DAYS_LATER = "2026-05-31T20:26:40Z"


def parts(document: dict[str, Any], uuid: str) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = defaultdict(float)
    for row in document["rows"]:
        if row["uuid"] == uuid:
            found[row["namespace"], row["part"]] += row["gpu_seconds"]
    return dict(found)


@pytest.mark.parametrize("by", ["namespace", "pod", "owner"])
def test_each_part_is_the_truth(
    prometheus: Store, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    document = bill(prometheus, capsys, "--price=2.00", f"--by={by}")
    of_a = parts(document, "GPU-a")
    truth = {
        ("team", "used"): 900,
        ("team", "allocated_idle"): 900,
        ("batch", "used"): 810,
        ("", "unattributed"): 360,
        ("", "unallocated"): 630,
    }
    lost_s = of_a.pop(("", "unobserved"))  # from the last scrape before the restart until it
    assert 0 < lost_s < 15
    assert of_a == pytest.approx(truth, rel=0.01)
    assert sum(of_a.values()) + lost_s == pytest.approx(HOUR, abs=1e-6)


def test_a_node_that_does_not_answer_is_unobserved_and_one_that_comes_is_new(
    prometheus: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    of_b = parts(bill(prometheus, capsys, "--price=1"), "GPU-b")
    assert of_b["team", "used"] == pytest.approx(1800, abs=15)
    assert of_b["", "unobserved"] == pytest.approx(600, abs=15)


def test_what_was_counted_until_a_card_was_lost_in_a_step_is_billed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, target = Exporter("GPU-a"), Target({"job": "mgpu", "instance": "a:10045", "node": "a"})
    lost = 2145  # a step of five minutes ends 155 s later
    with Store(tmp_path) as store:
        for second in range(-300, HOUR + 1, 15):
            for _ in range(15):
                one.second({"team": (1.0, 1.0)})
            page = one.page().splitlines()
            if second > lost:
                page = [line for line in page if re.search("device_info|start|cycles", line)]
                page.append('mgpu_device_up{uuid="GPU-a",gpu="0"} 0')
            store.scrape(target, "\n".join(page), BEGIN + second)
        document = bill(store, capsys, "--price=2.00")

    assert parts(document, "GPU-a") == pytest.approx(
        {("team", "used"): lost, ("", "unobserved"): HOUR - lost}
    )


@given(st.integers(BEGIN, BEGIN + 7200), st.integers(60, 90_000), st.sampled_from([60, 300, 3600]))
def test_a_range_is_divided_at_multiples_of_the_step(
    since_s: int, length: int, step_s: int
) -> None:
    span = Span(since_s, since_s + length, step_s)
    assert all(end % step_s == 0 for end in span.ends[:-1])
    assert span.ends[-1] == since_s + length
    for step, end in enumerate(span.ends):
        assert span.begin(step) < end
        assert span.step_of(span.begin(step) + 0.5) == span.step_of(end) == step


DAYS, EVERY_S = 3 * 86_400, 240


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Three days of three nodes, of which each second counts for 240 and ends with a scrape.

    On node a, a job of 20 minutes begins each 40 minutes. Node b comes at the 1,830th minute. Node
    c does not answer for the last two hours before the range and the first of it; ``old`` had it
    until then, and ``team`` has it since.
    """
    a, b, c = (Exporter(f"GPU-{name}", BEGIN - 4 * HOUR) for name in "abc")
    b.restart(109_800)
    with Store(tmp_path_factory.mktemp("days")) as store:
        for second in range(-4 * HOUR, DAYS, EVERY_S):
            job = second // 2400
            a.second({f"batch/job-{job}": (0.5, 0.25)} if second % 2400 < 1200 else {})
            for gone in [key for key in a.counted if f'job-{job - 1}"' in key]:
                del a.counted[gone]
            c.second({"old" if second < -2 * HOUR else "team": (1.0, 1.0)})
            if second >= 109_800:
                b.second({"team": (1.0, 1.0)})
            for one in (a, b, c):
                away = one is c and -2 * HOUR <= second < HOUR
                if one.counted:
                    labels = {"job": "mgpu", "instance": one.uuid, "node": one.uuid[-1]}
                    page = f'{one.page(EVERY_S)}\nmgpu_pod_info{{namespace="team",pod="x"}} 1'
                    store.scrape(Target(labels), None if away else page, BEGIN + second)
        yield store


@pytest.mark.slow
def test_of_days_each_pod_is_billed_whole_and_few_questions_are_asked(
    days: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    before = questions(days)
    document = bill(days, capsys, "--price=1", "--by=pod", f"--until={DAYS_LATER}")
    assert questions(days) - before < 4 * 20  # of each day
    used: dict[str, float] = defaultdict(float)
    for row in document["rows"]:
        if row["uuid"] == "GPU-a" and row["part"] == "used":
            used[row["pod"]] += row["gpu_seconds"]
    assert used == pytest.approx({f"job-{job}": 300 for job in range(DAYS // 2400)}, abs=61)


@pytest.mark.slow
def test_of_days_a_card_is_billed_from_when_it_came_and_one_that_was_away_goes_on(
    days: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    document = bill(days, capsys, "--price=1", f"--until={DAYS_LATER}")
    of_b = parts(document, "GPU-b")
    assert of_b.pop(("", "unobserved")) <= EVERY_S  # since the last scrape
    assert of_b == pytest.approx({("team", "used"): DAYS - 109_800}, abs=EVERY_S)
    of_c = parts(document, "GPU-c")
    assert of_c["team", "used"] == pytest.approx(DAYS, abs=EVERY_S)
    assert ("old", "used") not in of_c


@pytest.mark.slow
def test_it_is_said_how_many_nodes_of_each_day_are_read_and_how_long_the_others_take(
    days: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(Progress, "say", lambda _, words: said.append(words))
    bill(days, capsys, "--price=1", f"--until={DAYS_LATER}")
    looks = [re.fullmatch(r"(\S+): (\d) of (\d) nodes(, \d+ s more)? \.\.\.", one) for one in said]
    read = {one[1]: (one[2], one[3]) for one in looks if one}
    assert None not in looks
    assert list(read.values()) == [("2", "2"), ("2", "2"), ("3", "3"), ("3", "3")]
    assert looks[-1]
    assert looks[-1][4] == ", 0 s more"


def questions(store: Store) -> int:
    """How often its API was asked."""
    with urllib.request.urlopen(f"http://{store.address}/metrics", timeout=60) as answer:
        page = answer.read().decode()
    lines = [line for line in page.splitlines() if "requests_total" in line and "/query" in line]
    return sum(int(line.rpartition(" ")[2]) for line in lines)


@pytest.mark.parametrize("method", ["allocation", "use"])
@pytest.mark.parametrize("by", ["namespace", "pod", "owner"])
def test_the_sum_is_the_price_of_the_cards_time_to_the_last_unit(
    prometheus: Store,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    method: str,
    by: str,
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\nmodels: {L4: 0.333333}\n")
    document = bill(prometheus, capsys, f"--prices={prices}", f"--method={method}", f"--by={by}")
    for uuid in ("GPU-a", "GPU-b"):
        rows = [row for row in document["rows"] if row["uuid"] == uuid]
        milliseconds = sum(round(row["gpu_seconds"] * 1000) for row in rows)
        whole = round(Decimal(milliseconds) * Decimal("0.333333") / 3_600_000, 6)
        assert sum(Decimal(row["cost"]) for row in rows) == whole
    costs = [Decimal(row["cost"]) for row in document["rows"]]
    assert Decimal(document["totals"]["cost"]) == sum(costs)


@pytest.mark.slow
def test_a_card_that_two_jobs_scrape_is_billed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in a step of which it has a part: where the range begins, and where the card comes."""
    came = 660
    a, b = Exporter("GPU-a"), Exporter("GPU-b", BEGIN + came)
    with Store(tmp_path) as store:
        for second in range(-60, HOUR + 61):
            a.second({"early" if second < 20 else "late": (1.0, 1.0)})
            if second >= came:
                b.second({"late": (1.0, 1.0)})
            if second % 10 == 0:
                for one in (a, b) if second >= came else (a,):
                    for job in ("mgpu", "again — .*"):
                        labels = {"job": job, "instance": one.uuid, "node": one.uuid[-1]}
                        store.scrape(Target(labels), one.page(), BEGIN + second)
        document = bill(store, capsys, "--price=1")
    truth = {("early", "used"): 20, ("late", "used"): HOUR - 20}
    assert parts(document, "GPU-a") == pytest.approx(truth, abs=2)
    assert parts(document, "GPU-b") == pytest.approx({("late", "used"): HOUR - came}, abs=2)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [("mgpu",), ("mgpu", "again")])
def test_a_card_whose_exporter_is_replaced_in_a_step_is_billed_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], jobs: tuple[str, ...]
) -> None:
    one, replaced = Exporter("GPU-a"), 1230
    with Store(tmp_path) as store:
        for second in range(-60, HOUR + 61):
            if second == replaced + 1:
                one.restart(second)
            one.second({"early" if second <= replaced else "late": (1.0, 1.0)})
            if second % 10 == 0:
                instance = "first" if second <= replaced else "second"
                for job in jobs:
                    labels = {"job": job, "instance": instance, "node": "a"}
                    store.scrape(Target(labels), one.page(), BEGIN + second)
        document = bill(store, capsys, "--price=1")
    truth = {("early", "used"): replaced, ("late", "used"): HOUR - replaced}
    assert parts(document, "GPU-a") == pytest.approx(truth, abs=2)


@pytest.mark.slow
def test_what_was_counted_before_the_range_is_not_billed_when_a_card_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device that is not read has no series; those of its exporter go on, and so do its own."""
    one = Exporter("GPU-a")
    with Store(tmp_path) as store:
        for second in range(-3 * HOUR, HOUR + 61):
            began = second < -2 * HOUR
            one.second({"early/a-0" if began else "late/b-0": (1.0, 1.0), "new/c": (0.0, 0.0)})
            if second % 15 == 0:
                page = one.page()
                if -900 <= second < 30:
                    page = "\n".join(line for line in page.split("\n") if "uuid" not in line)
                labels = {"job": "mgpu", "instance": "a", "node": "a"}
                store.scrape(Target(labels), page, BEGIN + second)
        for by in ("namespace", "pod"):
            document = bill(store, capsys, "--price=1", f"--by={by}")
            assert parts(document, "GPU-a") == pytest.approx({("late", "used"): HOUR}, abs=1)


@pytest.mark.slow
def test_a_restart_in_one_cluster_is_none_in_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clusters behind one Prometheus may give exporters the same address."""
    a, b = Exporter("GPU-a"), Exporter("GPU-b")
    with Store(tmp_path) as store:
        for second in range(-HOUR, HOUR + 61):
            if second == 1800:
                b.restart(second)
            a.second({"early" if second < 0 else "late": (1.0, 1.0)})
            b.second({"late": (1.0, 1.0)})
            if second % 15 == 0:
                for one in (a, b):
                    labels = {"job": "mgpu", "instance": "10.0.0.1:10045", "cluster": one.uuid}
                    store.scrape(Target(labels), one.page(), BEGIN + second)
        document = bill(store, capsys, "--price=1")
    for uuid in ("GPU-a", "GPU-b"):
        assert parts(document, uuid).get(("late", "used")) == pytest.approx(HOUR, abs=15)


@pytest.mark.slow
@pytest.mark.parametrize("by", ["owner", "label:team"])
def test_what_is_called_the_same_in_two_clusters_is_not_mixed_up(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodes and pods, of which one had no label at first."""
    cards = [(Exporter(f"GPU-{one}"), one) for one in "abc"]
    prices = tmp_path / "prices.yaml"
    prices.write_text("node_labels: {type: {of_a: 1, of_b: 2, of_c: 3}}")
    with Store(tmp_path) as store:
        for second in range(0, HOUR + 1, 60):
            for card, one in cards:
                labels = {"job": "mgpu", "cluster": one, "node": "n"}
                for _ in range(60):
                    card.second({"team/web-0": (1.0, 1.0)})
                pod = f'namespace="team",pod="web-0",owner_kind="Job",owner_name="of-{one}"'
                shown = f',label_team="of-{one}"' if second else ""
                page = f"{card.page()}\nmgpu_pod_info{{{pod}{shown}}} 1"
                store.scrape(Target(labels | {"instance": "10.0.0.1"}), page, BEGIN + second)
                page = f'kube_node_labels{{node="n",label_type="of_{one}"}} 1'
                store.scrape(Target({"job": "ksm", "cluster": one}), page, BEGIN + second)
        document = bill(store, capsys, f"--prices={prices}", f"--by={by}")
    kind = "Job" if by == "owner" else "label"
    for card, one in cards:
        rows = [row for row in document["rows"] if row["uuid"] == card.uuid]
        assert {row["owner"] for row in rows if row["pod"] or row["owner"]} == {f"{kind}/of-{one}"}
        cost = sum(Decimal(row["cost"]) for row in rows)
        assert cost == pytest.approx(Decimal("abc".index(one) + 1), abs=Decimal("0.05"))


@pytest.mark.parametrize(("method", "said"), [("allocation", "0.25"), ("use", "0.75")])
def test_hours_without_an_owner_are_hours_of_the_bill(
    method: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By allocation a pod that has none is no row of it."""
    one = Exporter("GPU-a")
    with Store(tmp_path) as store:
        for second in range(HOUR + 1):
            one.second({"team/kept": (0.25, 0.25), "batch/shell": (0.0, 0.5)})
            if second % 60 == 0:
                target = Target({"job": "mgpu", "instance": "a", "node": "n"})
                store.scrape(target, one.page(), BEGIN + second)
        asked = [f"--since={BEGIN_TEXT}", f"--until={END_TEXT}", "--price=1", "--by=owner"]
        main(["bill", f"--prometheus=http://{store.address}", *asked, f"--method={method}"])
    assert f"of {said} GPU hours the owner is not known" in capsys.readouterr().err


@pytest.mark.parametrize("by", ["pod", "owner"])
def test_hours_of_jobs_shorter_than_a_scrape_are_said_to_stand_under_their_namespace(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Exporter("GPU-a")
    owned = 'namespace="team",pod="chat",owner_kind="Job",owner_name="chat"'
    with Store(tmp_path) as store:
        for second in range(HOUR + 1):
            one.second({"team": (0.25, 0.25), "team/chat": (0.5, 0.5)})
            if second % 60 == 0:
                target = Target({"job": "mgpu", "instance": "a", "node": "n"})
                page = f"{one.page()}\nmgpu_pod_info{{{owned}}} 1"
                store.scrape(target, page, BEGIN + second)
        asked = [f"--since={BEGIN_TEXT}", f"--until={END_TEXT}", "--price=1", f"--by={by}"]
        main(["bill", f"--prometheus=http://{store.address}", *asked])
    said = capsys.readouterr().err
    assert f"0.25 GPU hours have no {by} and stand under their namespace or kind" in said


@pytest.mark.parametrize("by", ["namespace", "pod"])
def test_what_is_allocated_of_a_card_that_is_not_known_is_no_card_more(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Exporter("GPU-a")
    pending = 'namespace="team",pod="pending",container="main",'
    with Store(tmp_path) as store:
        for second in range(HOUR + 1):
            one.second({"team": (0.5, 0.5)})
            for level, labels in (("namespace", 'namespace="team",'), ("container", pending)):
                one.counted[f'mgpu_{level}_allocated_gpu_seconds_total{{{labels}uuid=""}}'] += 0.5
            if second % 60 == 0:
                target = Target({"job": "mgpu", "instance": "a", "node": "n"})
                store.scrape(target, one.page(), BEGIN + second)
        document = bill(store, capsys, "--price=1", f"--by={by}")
    assert {row["uuid"] for row in document["rows"]} == {"GPU-a"}
    assert document["totals"]["gpu_seconds"] == pytest.approx(HOUR, abs=1)


@pytest.mark.parametrize("honors", [True, False])
def test_what_a_namespace_had_beside_its_pods_is_no_pod_of_the_exporter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, honors: bool
) -> None:
    """A PodMonitor gives each series the name of the exporter's pod, if it has none of its own."""
    one = Exporter("GPU-a")
    own = {"namespace": "monitoring", "pod": "mgpu-x", "container": "exporter"}
    with Store(tmp_path) as store:
        for second in range(-60, HOUR + 61):
            one.second({"team": (0.25, 0.25), "team/chat": (0.5, 0.5)})
            if second % 15 == 0:
                labels = {"job": "mgpu", "instance": "a", "node": "a", **own}
                store.scrape(Target(labels, honors), one.page(), BEGIN + second)
        document = bill(store, capsys, "--price=1", "--by=pod")
    found = {
        (row["namespace"], row["pod"]): row["gpu_seconds"]
        for row in document["rows"]
        if row["part"] == "used"
    }
    truth = {("team", ""): HOUR / 4, ("team", "chat"): HOUR / 2}
    assert found == pytest.approx(truth, abs=2)


def test_a_board_with_parts_that_give_no_reading_is_unobserved_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance of MIG is its slices of the board, another part is one of equal ones."""
    page = """\
mgpu_device_info{{uuid="GPU-m",model="H100",parent_uuid="",profile=""}} 1
mgpu_device_info{{uuid="MIG-m",model="H100",parent_uuid="GPU-m",profile="4g.40gb"}} 1
mgpu_exporter_cycles_total {cycles}
mgpu_device_unallocated_gpu_seconds_total{{uuid="GPU-m"}} {cycles}
mgpu_device_unobserved_seconds_total{{uuid="GPU-m"}} {lost}
mgpu_device_unobserved_seconds_total{{uuid="MIG-m"}} {lost}
mgpu_device_info{{uuid="GPU-p",model="MI300X",parent_uuid="",profile=""}} 1
mgpu_device_info{{uuid="GPU-p-0",model="MI300X",parent_uuid="GPU-p",profile="dpx_nps1"}} 1
mgpu_device_info{{uuid="GPU-p-1",model="MI300X",parent_uuid="GPU-p",profile="dpx_nps1"}} 1
mgpu_device_unallocated_gpu_seconds_total{{uuid="GPU-p"}} {cycles}
mgpu_device_unobserved_seconds_total{{uuid="GPU-p-1"}} {lost}
"""
    target = Target({"job": "mgpu", "instance": "m:10045", "node": "m"})
    with Store(tmp_path) as store:
        for second in range(-60, HOUR + 61, 60):
            lost = min(max(second, 0) / 2, 600)  # half of the time, for 20 minutes
            store.scrape(target, page.format(cycles=second + 60, lost=lost), BEGIN + second)
        document = bill(store, capsys, "--method=use", "--price=1")
    for uuid, lost in (("GPU-m", 600), ("GPU-p", 300)):
        expected = {("", "unobserved"): lost, ("", "unallocated"): HOUR - lost}
        assert parts(document, uuid) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "no price for L4; give --price, or in --prices a default, or under models its name"),
        (["--price=1", "--since=2026-05-28T20:26:30Z"], "at least a minute before --until"),
        (["--price=1", "--since=yesterday"], "'yesterday' is no time: give now, 7d (7 days ago)"),
        (["--price=1", "--since=9999w"], "'9999w' is no time"),
        (["--prices=/nowhere.yaml"], "/nowhere.yaml: No such file or directory"),
    ],
)
def test_what_cannot_be_billed_is_said(
    prometheus: Store, capsys: pytest.CaptureFixture[str], flags: list[str], said: str
) -> None:
    until = ["--until=2026-05-28T20:27:00Z", "--since=2026-05-28T20:20:00Z"]
    status = main(["bill", f"--prometheus=http://{prometheus.address}", *until, *flags])
    assert status == 2
    assert said in capsys.readouterr().err


def test_a_prometheus_without_the_data_says_what_it_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = 'mgpu_device_info{uuid="GPU-a",model="L4",parent_uuid=""} 1'
    target = Target({"job": "mgpu", "instance": "a:10045"})
    with Store(tmp_path) as store:
        command = ["bill", f"--prometheus=http://{store.address}", "--price=1"]
        hour = [f"--since={BEGIN_TEXT}", f"--until={END_TEXT}"]

        def said() -> str:
            assert main([*command, *hour]) == 2
            return capsys.readouterr().err

        assert "scrapes no exporter: it has no series mgpu_device_info" in said()
        store.scrape(target, page, BEGIN + HOUR)
        assert "they are of an older version" in said()
        store.scrape(target, page, time.time())
        hour = ["--since=2026-06-10", "--until=2026-06-11"]
        assert "no data of them in this range: it is past the retention of raw data" in said()


@pytest.mark.parametrize("command", ["bill", "advise"])
@pytest.mark.parametrize("denies", ["partial_response=false", "deny_partial_response=1"])
def test_stores_that_do_not_all_answer_give_no_bill_and_no_advice(
    command: str, denies: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Thanos and VictoriaMetrics give what they have, with a warning, unless it is refused."""
    server = Server()
    nothing = b'{"status": "success", "data": {"result": []}}'
    server.answer = lambda path, _: (503, {}, b"") if denies in path else (200, {}, nothing)
    try:
        assert main([command, f"--prometheus={server.url}"]) == 2
    finally:
        server.stop()
    assert "503" in capsys.readouterr().err


def test_a_bill_ends_now_and_not_in_the_future(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin, one = int(time.time()) - 600, Exporter("GPU-a")
    flags = ["--price=1", "--format=json", "--since=10m", "--until=2999-01-01"]
    with Store(tmp_path) as store:
        for second in range(0, 600, 15):
            one.second({"team": (1.0, 1.0)})
            store.scrape(Target({"job": "mgpu", "instance": "a"}), one.page(15), begin + second)
        assert main(["bill", f"--prometheus=http://{store.address}", *flags]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["until"] <= written(int(time.time()))
    assert "--until is in the future: the bill ends now" in said.err


def test_a_bill_that_begins_late_and_a_label_that_no_pod_has_are_said(
    days: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["bill", f"--prometheus=http://{days.address}", "--price=1"]
    assert main([*where, "--since=2026-05-20", f"--until={BEGIN_TEXT}"]) == 0
    assert "the first data is of 2026-05-28T16:" in capsys.readouterr().err
    times = [f"--since={BEGIN_TEXT}", f"--until={DAYS_LATER}"]
    assert main([*where, *times, "--by=label:cost-center"]) == 2
    assert "no pod has label_cost_center in mgpu_pod_info" in capsys.readouterr().err


def test_each_life_of_a_pods_name_is_billed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each begins at 0, and has passed the one before when its step ends: before and in a range."""
    lives = [(-7200, -6600), (4800, 6960), (36_480, 43_200)]
    one = Exporter("GPU-a")
    with Store(tmp_path) as store:
        for second in range(-2 * HOUR - EVERY_S, 2 * 86_400 + HOUR + 1, EVERY_S):
            alive = any(begin < second <= end for begin, end in lives)
            if not alive:
                for gone in [name for name in one.counted if 'pod="web-0"' in name]:
                    del one.counted[gone]
            one.second({"team/web-0": (1.0, 1.0)} if alive else {"team": (1.0, 1.0)})
            labels = {"job": "mgpu", "instance": "a", "node": "a"}
            store.scrape(Target(labels), one.page(EVERY_S), BEGIN + second)
        until = f"--until={written(BEGIN + 2 * 86_400 + HOUR)}"
        document = bill(store, capsys, "--price=1", "--by=pod", until)
    used = {row["pod"]: row["gpu_seconds"] for row in document["rows"] if row["part"] == "used"}
    assert used["web-0"] == 2160 + 6720


@pytest.mark.parametrize("by", ["namespace", "pod"])
def test_two_servers_that_scrape_one_exporter_are_one(
    by: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replicas of a Prometheus behind a Thanos that does not know them as such; one is away."""
    one = Exporter("GPU-a")
    with Store(tmp_path) as store:
        for second in range(-60, HOUR + 61):
            if second == 1234:
                one.restart(second)
            one.second({"early/a" if second < 1800 else "late/b": (0.5, 0.25)})
            for replica in range(2):
                away = replica == 0 and 2000 < second < 2500
                if (second + 7 * replica) % 15 == 0 and not away:
                    labels = {"job": "mgpu", "instance": "a", "node": "a", "replica": str(replica)}
                    store.scrape(Target(labels), one.page(), BEGIN + second)
        document = bill(store, capsys, "--price=1", f"--by={by}")
    found = parts(document, "GPU-a")
    assert found.pop(("", "unobserved")) < 15  # until the restart was seen
    half = {"early": 450, "late": 450}
    truth = {
        (name, part): time for name, time in half.items() for part in ("used", "allocated_idle")
    }
    assert found == pytest.approx(truth | {("", "unallocated"): 1800}, abs=12)


def test_a_label_that_a_configuration_gives_makes_no_new_counter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor another number that the driver gives a GPU."""
    one = Exporter("GPU-a")
    with Store(tmp_path) as store:
        for second in range(-7200, HOUR + 61):
            one.second({"early/x" if second < 0 else "team/web-0": (1.0, 1.0)})
            if second % 60 == 0:
                labels = {"job": "mgpu", "instance": "a", "node": "a"}
                labels |= {"zone": "z"} if second > 1500 else {}
                page = one.page().replace(',uuid="GPU-a"', f',gpu="{second // 2400}",uuid="GPU-a"')
                store.scrape(Target(labels), page, BEGIN + second)
        for by in ("namespace", "pod"):
            found = parts(bill(store, capsys, "--price=1", f"--by={by}"), "GPU-a")
            assert found == pytest.approx({("team", "used"): HOUR}, abs=1)


@pytest.mark.slow
def test_questions_about_a_restart_of_many_exporters_are_few(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cards = [Exporter(f"GPU-{number:02}") for number in range(30)]
    with Store(tmp_path) as store:
        for second in range(-60, HOUR + 1, 60):
            for card in cards:
                if second == 1800:
                    card.restart(second)
                card.second({"team": (1.0, 1.0)})
                labels = {"job": "mgpu", "instance": f"{card.uuid}:10045"}
                store.scrape(Target(labels), card.page(60), BEGIN + second)
        before = questions(store)
        document = bill(store, capsys, "--price=1")
        assert questions(store) - before < 30
    assert len({row["uuid"] for row in document["rows"]}) == 30
    assert document["totals"]["gpu_seconds"] == 30 * HOUR


@pytest.mark.parametrize(
    ("path", "why"),
    [("nowhere/bill.csv", "No such file or directory"), (".", "Is a directory")],
)
def test_a_path_that_cannot_be_written_is_said_before_anything_is_asked(
    path: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    flags = [f"--prometheus={server.url}", f"--output={tmp_path / path}", "--price=1"]
    try:
        assert main(["bill", *flags]) == 2
    finally:
        server.stop()
    assert server.asked == []
    assert f"--output: {tmp_path / path}: {why}" in capsys.readouterr().err


def test_a_fleet_that_is_too_large_for_one_answer_is_asked_by_families(
    prometheus: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = bill(prometheus, capsys, "--price=1", "--by=pod")
    before = questions(prometheus)
    monkeypatch.setattr(queryapi, "MAX_SERIES", 6)  # two nodes have 20 and more
    assert bill(prometheus, capsys, "--price=1", "--by=pod") == whole
    assert questions(prometheus) - before > 30


@pytest.mark.parametrize("method", ["allocation", "use"])
def test_whoever_is_named_the_same_is_used_and_idle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    """Pods of a namespace are idle, one all the time, while another one borrows: not netted."""
    one = Exporter("GPU-a")
    with Store(tmp_path) as store:
        for second in range(-60, HOUR + 61):
            had = {"team/idle": (0.3, 0.1), "team/still": (0.2, 0.0), "team/busy": (0.3, 0.6)}
            one.second(had)
            if second % 30 == 0:
                labels = {"job": "mgpu", "instance": "a", "node": "a"}
                store.scrape(Target(labels), one.page(), BEGIN + second)
        found = [
            parts(bill(store, capsys, "--price=1", f"--by={by}", f"--method={method}"), "GPU-a")
            for by in ("namespace", "pod", "owner")
        ]
    for other in found[1:]:
        assert other == pytest.approx(found[0])
    idle_s = {"allocation": 0.4, "use": 0.3}[method] * HOUR  # what was borrowed comes from both
    assert found[0]["team", "allocated_idle"] == pytest.approx(idle_s, abs=2)
