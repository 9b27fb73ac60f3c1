"""The bill as people and programs read it."""

import csv
import io
import json
from decimal import Decimal

import pytest

from exporter.answers.prometheus import report
from exporter.answers.prometheus.bill import Bill, BillRow
from exporter.answers.prometheus.books import CardFacts
from exporter.answers.prometheus.parts import NOBODY, Part, Payer

CARD = CardFacts("GPU-1", "node", "L4", {})
DOCKER = "4f1c6f3f0e3b" + "0" * 52
BIG = Payer("research", "Job", "train")


def row(payer: Payer, milliseconds: int, cost: str, part: Part = Part.USED) -> BillRow:
    return BillRow(CARD, payer, part, milliseconds, Decimal(cost), Decimal(2))


def bill(*rows: BillRow) -> Bill:
    return Bill(0, 3600, "allocation", "USD", rows)


def lines(made: Bill) -> list[list[str]]:
    """The lines of payers, and of all."""
    table = report.as_table(made).split("\n\n")[1]
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
    assert len(list(csv.DictReader(io.StringIO(report.as_csv(MANY))))) == 92
    document = json.loads(report.as_json(MANY))
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

    assert ("2 others below 0.005" in report.as_table(made)) is shown


def test_one_of_next_to_nothing_keeps_its_name() -> None:
    made = bill(row(BIG, 3_600_000, "2"), row(short(1), 1, "0"))

    assert "batch/Job/thumbnail-1" in report.as_table(made)


def test_a_containers_id_is_shown_as_docker_shows_it_and_whole_elsewhere() -> None:
    made = bill(row(Payer("", "docker", DOCKER), 3_600_000, "2"))

    assert lines(made)[0][0] == "docker/4f1c6f3f0e3b"
    assert DOCKER in report.as_csv(made)
    assert DOCKER in report.as_json(made)


def test_a_name_cannot_forge_a_line_of_the_table() -> None:
    payer = Payer("", "cgroup", "", "x\x1b[2K\nall\u202e 0.00")
    name, *figures = lines(bill(row(payer, 1_800_000, "1.00")))[0]
    assert name == "cgroup/x\\x1b[2K\\nall\\u202e"
    assert figures == ["0.00", "0.50", "0.50", "1.00"]
