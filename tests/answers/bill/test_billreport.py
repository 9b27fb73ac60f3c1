"""The bill as people and programs read it."""

import csv
import io
import json
from collections import defaultdict
from dataclasses import replace
from decimal import Decimal

import pytest

from exporter.answers.bill import billreport
from exporter.answers.bill.bill import Bill, BillRow, Period
from exporter.answers.bill.parts import NOBODY, Part, Payer
from exporter.answers.reading.who import CardFacts

CARD = CardFacts("GPU-1", "node", "L4", {})
HOUR = Period(0, 3600)
DOCKER = "4f1c6f3f0e3b" + "0" * 52
BIG = Payer("research", "Job", "train")
WEB = Payer("", "docker", "web", DOCKER)


def row(payer: Payer, milliseconds: int, cost: str, part: Part = Part.USED) -> BillRow:
    return BillRow(CARD, HOUR, payer, part, milliseconds, Decimal(cost), Decimal(2))


def bill(*rows: BillRow) -> Bill:
    return Bill(0, 3600, "allocation", "USD", rows)


def lines(made: Bill) -> list[list[str]]:
    """The lines of payers, and of all."""
    table = billreport.as_table(made).split("\n\n")[1]
    return [line.split() for line in table.splitlines()[1:]]


def short(number: int) -> Payer:
    return Payer("batch", "Job", f"thumbnail-{number}")


MANY = bill(
    row(BIG, 1_800_000, "1.00"),
    *(row(short(number), 5_000, "0.0028") for number in range(90)),
    row(NOBODY, 1_350_000, "0.748", Part.UNALLOCATED),
)


def test_payers_of_next_to_nothing_are_one_line_of_the_table_with_their_sum() -> None:
    assert lines(MANY) == [
        ["research/Job/train", "0.50", "0.50", "1.00"],
        ["90", "others", "below", "0.005", "0.12", "0.12", "0.25"],
        ["(nobody)", "0.38", "0.38", "0.75"],
        ["all", "0.62", "0.38", "1.00", "2.00"],
    ]


def test_other_formats_have_each_of_them() -> None:
    assert len(list(csv.DictReader(io.StringIO(billreport.as_csv(MANY))))) == 92
    document = json.loads(billreport.as_json(MANY))
    assert len(document["rows"]) == 92
    assert sum(Decimal(one["cost"]) for one in document["rows"]) == MANY.cost


@pytest.mark.parametrize(
    ("milliseconds", "cost", "shown"),
    [
        (17_999, "0.0049", True),  # 0.005 hours are 18 s
        (18_000, "0.0049", False),
        (17_999, "0.005", False),
        (17_999, "0", True),
    ],
)
def test_a_line_that_says_more_than_zero_stays(milliseconds: int, cost: str, shown: bool) -> None:  # noqa: FBT001
    made = bill(*(row(short(number), milliseconds, cost) for number in range(2)))

    assert ("2 others below 0.005" in billreport.as_table(made)) is shown


def test_one_of_next_to_nothing_keeps_its_name() -> None:
    made = bill(row(BIG, 3_600_000, "2"), row(short(1), 1, "0"))

    assert "batch/Job/thumbnail-1" in billreport.as_table(made)


def test_a_containers_id_is_shown_as_docker_shows_it_and_whole_elsewhere() -> None:
    made = bill(row(Payer("", "docker", DOCKER), 3_600_000, "2"))

    assert lines(made)[0][0] == "docker/4f1c6f3f0e3b"
    assert DOCKER in billreport.as_csv(made)
    assert DOCKER in billreport.as_json(made)


def test_a_group_is_called_by_its_name_and_its_id_stays_in_its_column() -> None:
    made = bill(row(WEB, 1_800_000, "1"), row(WEB._replace(pod="5" * 64), 1_800_000, "1"))
    assert lines(made)[0] == ["docker/web", "1.00", "1.00", "2.00"]  # it was created again
    first = next(csv.DictReader(io.StringIO(billreport.as_csv(made))))
    assert (first["payer"], first["payer_kind"], first["pod"]) == ("docker/web", "docker", DOCKER)


def pivot(text: str) -> dict[tuple[str, str], tuple[str, str]]:
    """What a spreadsheet makes of the CSV: GPU hours and cost by period and payer."""
    hours: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    costs: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for one in csv.DictReader(io.StringIO(text)):
        key = one["from"], one["payer"]
        hours[key] += Decimal(one["gpu_seconds"]) / 3600
        costs[key] += Decimal(one["cost"])
    return {key: (f"{hours[key]:.2f}", f"{costs[key]:,.2f}") for key in hours}


def test_a_pivot_of_the_csv_by_payer_equals_the_table() -> None:
    payers = [BIG, WEB, Payer("", "slurm", "", "4711"), Payer("", "account", "climate"), NOBODY]
    made = bill(*(row(payer, 1_000_000 * n, f"{n}.25") for n, payer in enumerate(payers, 1)))
    table = {one[0]: (one[-2], one[-1]) for one in lines(made) if one[0] != "all"}
    assert pivot(billreport.as_csv(made)) == {
        ("1970-01-01T00:00:00Z", payer): shown for payer, shown in table.items()
    }
    assert set(table) == {
        *("research/Job/train", "docker/web", "slurm/4711", "account/climate", "(nobody)"),
    }
    for one in csv.DictReader(io.StringIO(billreport.as_csv(made))):
        assert one["until"] == "1970-01-01T01:00:00Z"
        assert (one["currency"], one["method"]) == ("USD", "allocation")


def test_a_namespace_and_a_kind_of_one_name_are_two_lines() -> None:
    made = bill(*(row(payer, 3_600_000, "2") for payer in (Payer("slurm"), Payer("", "slurm"))))
    assert [one[0] for one in lines(made)] == ["slurm", "slurm", "all"]
    found = csv.DictReader(io.StringIO(billreport.as_csv(made)))
    assert [one["payer_kind"] for one in found] == ["namespace", "slurm"]


def test_each_day_has_its_lines_and_the_range_has_them_too() -> None:
    days = [Period(day * 86_400, (day + 1) * 86_400) for day in range(2)]
    made = Bill(0, 2 * 86_400, "use", "EUR", tuple(
        replace(row(BIG, 3_600_000, "2"), period=day) for day in days
    ))  # fmt: skip
    assert (
        billreport.as_table(made)
        == """\
1970-01-01T00:00:00Z to 1970-01-03T00:00:00Z, by use

                      used  GPU hours   EUR
1970-01-01
  research/Job/train  1.00       1.00  2.00
  all                 1.00       1.00  2.00
1970-01-02
  research/Job/train  1.00       1.00  2.00
  all                 1.00       1.00  2.00
the whole range
  research/Job/train  2.00       2.00  4.00
  all                 2.00       2.00  4.00

"""
    )


def test_a_name_cannot_forge_a_line_of_the_table() -> None:
    payer = Payer("", "cgroup", "", "x\x1b[2K\nall\u202e 0.00")
    name, *figures = lines(bill(row(payer, 1_800_000, "1.00")))[0]
    assert name == "cgroup/x\\x1b[2K\\nall\\u202e"
    assert figures == ["0.00", "0.50", "0.50", "1.00"]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_in_any_width_names_are_whole_and_figures_the_same(columns: int) -> None:
    embed = Payer("inference", "Deployment", "search-embed-of-a-long-name")
    lost = Part.UNOBSERVED
    rows = [row(embed, 7_200_000, "4"), row(embed, 3_600_000, "2", Part.ALLOCATED_IDLE)]
    rows += [row(NOBODY, 1_800_000, "1", part) for part in (Part.UNALLOCATED, lost)]
    said = billreport.as_table(bill(*rows, row(BIG, 360_000, "0.20", lost)), columns).splitlines()

    assert max(map(len, said)) <= columns
    at = next(n for n, line in enumerate(said) if embed.name in line)
    figures = said[at if columns > 60 else at + 1].removeprefix(embed.name).split()
    assert figures == ["2.00", "1.00", "3.00", "6.00"]
    below = [line.split()[0] for line in said if line.startswith("  un")]
    assert below == (["unobserved", "unallocated", "unobserved"] if columns < 120 else [])
    assert [line.split()[-2:] for line in said if "4.10" in line] == [["4.10", "8.20"]]
