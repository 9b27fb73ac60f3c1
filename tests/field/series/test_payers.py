"""Who pays how much, where nodes' labels, prices, shares and ranges are as others met them.

A card costs 1.00 an hour where nothing else is said, and the range has four hours.
"""

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from exporter.cli import main
from tests.answers.reading.test_accessflags import SECRET
from tests.answers.reading.test_remote import Server
from tests.field.histories import HOUR, Served
from tests.field.report import report
from tests.field.series.memory import BEGIN_S, NAME, served
from tests.field.series.test_bills import MGPU, NEW, RANGE_S, WHOLE, Had, billed, scrapes
from tests.history import Labels, Scrape

KUBE_STATE = {"job": "kube-state-metrics", "instance": "10.0.0.9:8080"}
TYPES = "node_labels: {type: {small: 1, big: 10}}"


def labelled(
    *parts: tuple[int, int, str], target: Labels = KUBE_STATE, node: str = 'node="a"'
) -> Iterator[Scrape]:
    """What kube-state-metrics says of a node: from when to when it has which labels."""
    for first_s, until_s, labels in parts:
        for second in range(first_s, until_s, 60):
            page = f"kube_node_labels{{{node}{labels and ','}{labels}}} 1"
            yield Scrape(target, BEGIN_S + second, page)


def cost(
    found: Served, capsys: pytest.CaptureFixture[str], folder: Path, prices: str, *flags: str
) -> tuple[float, str]:
    """What all rows cost, and what was said."""
    path = folder / "prices.yaml"
    path.write_text(prices)
    said = found.command(capsys, NAME, "bill", f"--prices={path}", "--format=csv", *flags)
    assert said.status == 0, said.err
    return sum(float(row["cost"]) for row in csv.DictReader(io.StringIO(said.out))), said.err


# --- nodes' labels --------------------------------------------------------------------------------


@report(
    round=3,
    source="kubernetes/kube-state-metrics#2372",
    seen="After a change of shards one of them went on showing what it knew of before: of one "
    "object there were an old and a new series.",
    first="wrong",
    kind="Two that contradict each other are mixed",
    taught="Whoever reads others' series meets two truths at a time: a third figure that nobody "
    "said is the worst answer.",
    group="series",
)
def test_of_two_words_on_a_nodes_label_none_wins_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = {**KUBE_STATE, "instance": "10.0.0.7:8080"}
    history = [
        *scrapes(BEGIN_S),
        *labelled((-HOUR, RANGE_S + 60, 'label_type="small"'), target=stale),
        *labelled((2 * HOUR, RANGE_S + 60, 'label_type="big"')),
    ]
    with served(history) as found:
        paid, said = cost(found, capsys, tmp_path, f"default: 1\n{TYPES}")
    assert paid == pytest.approx(22, abs=0.2) or ("small" in said and "big" in said)


@report(
    round=3,
    source="awslabs/eks-node-viewer#36",
    seen="The label of the kind of capacity came half a minute after the node: until a restart it "
    "had the price of nodes without the label.",
    first="right",
    group="series",
)
def test_a_label_that_comes_after_its_node_is_the_nodes_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = [
        *scrapes(BEGIN_S, started_s=0, first_s=60),
        *labelled(
            (60, 120, 'label_zone="x"'), (120, RANGE_S + 60, 'label_zone="x",label_type="big"')
        ),
    ]
    with served(history) as found:
        paid, _ = cost(found, capsys, tmp_path, f"default: 1\n{TYPES}")
    assert paid == pytest.approx(40, abs=0.4)


@report(
    round=3,
    source="prometheus-operator/kube-prometheus#228",
    seen="Where labels are not honoured, kube-state-metrics' own node stands in «node», and rules "
    "joined each node with that one.",
    first="right",
    group="series",
)
def test_the_node_of_kube_state_metrics_is_not_taken_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = {**KUBE_STATE, "node": "b"}
    history = list(scrapes(BEGIN_S))
    history += scrapes(BEGIN_S, uuid="GPU-b", labels=MGPU | {"node": "b", "instance": "b:10045"})
    for second in range(-HOUR, RANGE_S + 60, 60):
        page = "\n".join(
            f'kube_node_labels{{exported_node="{node}",label_type="{kind}"}} 1'
            for node, kind in (("a", "big"), ("b", "small"))
        )
        history.append(Scrape(target, BEGIN_S + second, page))
    with served(history) as found:
        paid, _ = cost(found, capsys, tmp_path, TYPES)
    assert paid == pytest.approx(44, abs=0.2)


@report(
    round=3,
    source="kubernetes/kube-state-metrics#2297",
    seen="A minor version ceased to show labels, without a word: what was read by them changed on "
    "the day of the upgrade.",
    first="right",
    group="series",
)
def test_a_label_that_ceases_to_be_shown_changes_no_price_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = [*scrapes(BEGIN_S), *labelled((-HOUR, 2 * HOUR, 'label_type="big"'))]
    with served(history) as found:
        paid, said = cost(found, capsys, tmp_path, f"default: 1\n{TYPES}")
    assert paid == pytest.approx(40, abs=0.4) or "hours of the node a are at the default" in said


@report(
    round=3,
    source="kubernetes/kube-state-metrics#1501, #1411",
    seen="Version 2 shows no label but those of an allow-list: the series are there, without one.",
    first="right",
    group="series",
)
def test_nodes_whose_labels_are_not_shown_have_no_price_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served([*scrapes(BEGIN_S), *labelled((-HOUR, RANGE_S + 60, ""))]) as found:
        paid, said = cost(found, capsys, tmp_path, f"default: 1\n{TYPES}")
    assert paid == pytest.approx(4, abs=0.01)
    assert "hours of the node a are at the default price 1" in said
    assert "type" in said


@report(
    round=3,
    source="cortexlabs/cortex#2405",
    seen="A group of nodes had spot and on-demand machines of one type, and all were billed as "
    "spot.",
    first="right",
    group="series",
)
def test_machines_of_one_type_have_the_price_of_their_own_capacity(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    history = list(scrapes(BEGIN_S))
    history += scrapes(BEGIN_S, uuid="GPU-b", labels=MGPU | {"node": "b", "instance": "b:10045"})
    both = 'label_type="big",label_karpenter_sh_capacity_type='
    history += labelled((-HOUR, RANGE_S + 60, f'{both}"spot"'))
    history += labelled((-HOUR, RANGE_S + 60, f'{both}"on-demand"'), node='node="b"')
    prices = "node_labels: {karpenter.sh/capacity-type: {spot: 1, on-demand: 3}, type: {big: 3}}"
    with served(history) as found:
        paid, _ = cost(found, capsys, tmp_path, prices)
    assert paid == pytest.approx(4 + 12, abs=0.02)


# --- prices ---------------------------------------------------------------------------------------


@report(
    round=3,
    source="opencost/opencost#2796",
    seen="A price in another writing was read as a thousandth: 0.032 in place of 32.8 an hour.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("text", ["32,8", "$32.8", "32.8 USD", "-1", ".nan", "1e9", "0x20"])
def test_a_price_in_another_writing_is_refused_with_its_line(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text(f"default: 1\nmodels:\n  L4: {text}\n")
    with served(scrapes(BEGIN_S)) as found:
        said = found.command(capsys, NAME, "bill", f"--prices={path}")
    assert said.status == 2, said.out
    assert "line 3" in said.err


@report(
    round=3,
    source="openfoodfacts/openfoodfacts-server#3227, theopenco/llmgateway#3218",
    seen="A small amount stood in the CSV as 3.5e-7, which spreadsheets did not take for a number.",
    first="right",
    group="series",
)
def test_no_amount_of_a_file_has_an_exponent(capsys: pytest.CaptureFixture[str]) -> None:
    history = list(scrapes(BEGIN_S, lambda _: {"new/job-1": (1e-7, 1e-9)}))
    with served(history) as found:
        for form in ("csv", "focus"):
            said = found.command(capsys, NAME, "bill", "--price=0.0000001", f"--format={form}")
            assert said.status == 0, said.err
            cells = [cell for row in csv.reader(io.StringIO(said.out)) for cell in row]
            assert any(map(_is_number, cells))
            for cell in cells:
                assert not ("e" in cell.lower() and _is_number(cell)), cell


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- shares ---------------------------------------------------------------------------------------


@report(
    round=3,
    source="opencost/opencost#883",
    seen="The idle cost of a resource that nobody had was divided by weights that were all zero, "
    "and was gone from the sum.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("method", ["allocation", "use"])
def test_a_card_that_nobody_has_is_in_the_sum(
    method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    nobody: Had = {}
    with served(scrapes(BEGIN_S, lambda _: nobody)) as found:
        rows, _ = billed(found, capsys, NAME, f"--method={method}")
    assert rows == {("", "unallocated"): pytest.approx(4, abs=0.01)}


@report(
    round=3,
    source="opencost/opencost#3900",
    seen="The basis of use gave nearly the same as that of allocation, because both were computed "
    "of what was asked for.",
    first="right",
    group="series",
)
def test_by_use_who_uses_more_pays_more(capsys: pytest.CaptureFixture[str]) -> None:
    had: Had = {"idle/web-0": (0.5, 0.1), "busy/job-1": (0.5, 0.9)}
    with served(scrapes(BEGIN_S, lambda _: had)) as found:
        by_use, _ = billed(found, capsys, NAME, "--method=use")
        by_allocation, _ = billed(found, capsys, NAME, "--method=allocation")
    assert _of(by_use, "busy") == pytest.approx(3.6, abs=0.02)
    assert _of(by_use, "idle") == pytest.approx(0.4, abs=0.02)
    assert _of(by_allocation, "busy") == _of(by_allocation, "idle") == pytest.approx(2, abs=0.02)


def _of(rows: dict[tuple[str, str], float], payer: str) -> float:
    return sum(hours for (who, _), hours in rows.items() if who == payer)


@report(
    round=3,
    source="opencost/opencost#2901, opencost/opencost#2862",
    seen="Replicas of time-slicing counted as a card each, so that pods cost several times what "
    "their node does.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("method", ["allocation", "use"])
def test_pods_that_share_a_card_cost_no_more_than_the_card(
    method: str, capsys: pytest.CaptureFixture[str]
) -> None:
    had: Had = {f"team-{n}/web-0": (1.0, 0.2) for n in range(4)}
    with served(scrapes(BEGIN_S, lambda _: had)) as found:
        rows, _ = billed(found, capsys, NAME, f"--method={method}")
    assert sum(rows.values()) == pytest.approx(4, abs=0.01)
    assert _of(rows, "team-1") == pytest.approx(1, abs=0.02)


@report(
    round=3,
    source="kubecost/kubectl-cost#151",
    seen="By a label with a dot and a slash in its name all costs stood under «unallocated»; one "
    "had to write it as Prometheus does.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("label", ["app.kubernetes.io/name", "app_kubernetes_io_name"])
def test_a_label_is_named_as_kubernetes_writes_it(
    label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    info = (
        'mgpu_pod_info{namespace="new",pod="job-1",uid="1",qos="",owner_kind="Job",owner_name="j",'
        'label_app_kubernetes_io_name="search"} 1'
    )
    history = scrapes(BEGIN_S, page=lambda one, _: f"{one.page()}\n{info}")
    with served(history) as found:
        rows, _ = billed(found, capsys, NAME, f"--by=label:{label}", key="owner")
    assert {who for who, _ in rows if who} == {"label/search"}
    assert sum(hours for (who, _), hours in rows.items() if who) == pytest.approx(4, abs=0.02)


# --- ranges and answers ---------------------------------------------------------------------------


@report(
    round=3,
    source="opencost/opencost#656",
    seen="Each range of less than an hour cost a whole hour.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("minutes", [5, 10, 30])
def test_a_short_range_costs_its_own_time(minutes: int, capsys: pytest.CaptureFixture[str]) -> None:
    with served(scrapes(BEGIN_S)) as found:
        rows, _ = billed(found, capsys, NAME, hours=minutes / 60)
    assert sum(rows.values()) == pytest.approx(minutes / 60, rel=0.001)
    assert rows["new", "used"] == pytest.approx(minutes / 60 * 0.75, rel=0.03)


@report(
    round=3,
    source="kubecost/kubecost#816",
    seen="With an offset from UTC the days that were shown were those before.",
    first="right",
    group="series",
)
def test_a_day_of_another_zone_begins_and_ends_there(capsys: pytest.CaptureFixture[str]) -> None:
    """The job had the card from 22:00 to 02:00 UTC: two hours of each of two days in +02:00."""
    midnight = datetime(2026, 5, 29, tzinfo=UTC).timestamp() - 2 * HOUR  # 29 May in +02:00
    began = int(midnight) - BEGIN_S - 2 * HOUR
    history = scrapes(
        BEGIN_S,
        lambda second: NEW if began < second <= began + 4 * HOUR else {},
        started_s=began - 6 * HOUR,
        first_s=began - 5 * HOUR,
        length_s=began + 8 * HOUR,
    )
    with served(history) as found:
        span = ["--since=2026-05-28T20:00:00+02:00", "--until=2026-05-29T00:00:00+02:00"]
        status = main(
            ["bill", f"--prometheus=http://{found.address}", "--price=1", "--format=csv", *span]
        )
    said = capsys.readouterr()
    assert status == 0, said.err
    rows = list(csv.DictReader(io.StringIO(said.out)))
    assert {row["from"] for row in rows} == {"2026-05-28T18:00:00Z"}
    of_new = sum(float(row["cost"]) for row in rows if row["namespace"] == "new")
    assert of_new == pytest.approx(2, abs=0.03)


@report(
    round=3,
    source="prometheus/prometheus#12945, TechnitiumSoftware/DnsServer#1867",
    seen="A server adds remarks on the question to each answer, which look as those of stores that "
    "did not answer.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("where", ["warnings", "infos"])
def test_a_remark_on_the_question_makes_no_answer_partial(
    where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    remark = "PromQL info: metric might not be a counter, name does not end in _total: up (1:6)"
    with served(scrapes(BEGIN_S), {where: [remark]}) as found:
        rows, said = billed(found, capsys, NAME)
    assert rows == {key: pytest.approx(hours, abs=0.02) for key, hours in WHOLE.items()}
    assert "stores" not in said


@report(
    round=3,
    source="golang/oauth2#805, google/go-github#4190, vectordotdev/vector#24570",
    seen="A server redirected to another host, and the client showed its token there.",
    first="right",
    group="series",
)
def test_a_token_is_not_shown_where_a_server_redirects_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, server = Server(), Server()
    server.answer = lambda path, _: (302, {"Location": f"{other.url}{path}"}, b"")
    token = tmp_path / "token"
    token.write_text(SECRET)
    token.chmod(0o600)
    try:
        command = ["bill", "--price=1", f"--prometheus={server.url}", f"--token-file={token}"]
        status = main(command)
    finally:
        server.stop()
        other.stop()
    assert status == 2
    assert server.asked
    assert not other.asked
    assert "redirect" in capsys.readouterr().err


@report(
    round=3,
    source="grafana/mimir#2310, grafana/mimir#2030, grafana/mimir#4738",
    seen="A store of several tenants answered «no org id», and nobody knew what that is.",
    first="right",
    group="series",
)
@pytest.mark.parametrize("command", [["bill", "--price=1"], ["why", "team/chat-0"], ["advise"]])
def test_a_store_of_several_tenants_is_told_which_by_a_flag_that_is_named(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server()
    server.answer = lambda *_: (401, {"Content-Type": "text/plain"}, b"no org id\n")
    try:
        status = main([*command, f"--prometheus={server.url}"])
    finally:
        server.stop()
    assert status == 2
    assert "--header 'X-Scope-OrgID:" in capsys.readouterr().err


@report(
    round=3,
    source="FinOps-Open-Cost-and-Usage-Spec/FOCUS_Spec#586, #475",
    seen="It was not clear of which invoice a charge is that lies at the end of a month: its end "
    "belongs to the next one.",
    first="right",
    group="series",
)
def test_each_day_of_a_bill_is_in_the_month_that_it_is_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    may_31 = int(datetime(2026, 5, 31, tzinfo=UTC).timestamp())
    first_s = may_31 - BEGIN_S
    history = scrapes(
        BEGIN_S,
        started_s=first_s - HOUR,
        first_s=first_s,
        length_s=first_s + 48 * HOUR,
        every_s=300,
    )
    with served(history) as found:
        status = main(
            [
                *("bill", f"--prometheus=http://{found.address}", "--price=1", "--format=focus"),
                *("--step=1d", "--since=2026-05-31", "--until=2026-06-02"),
            ]
        )
    said = capsys.readouterr()
    assert status == 0, said.err
    periods = {
        (
            row["ChargePeriodStart"][:10],
            row["BillingPeriodStart"][:10],
            row["BillingPeriodEnd"][:10],
        )
        for row in csv.DictReader(io.StringIO(said.out))
    }
    assert periods == {
        ("2026-05-31", "2026-05-01", "2026-06-01"),
        ("2026-06-01", "2026-06-01", "2026-07-01"),
    }
