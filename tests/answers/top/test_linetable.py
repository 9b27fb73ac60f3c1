import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.answers.reading.feeds.overview import (
    Arrangement,
    Figure,
    Line,
    LineKind,
    Overview,
    rows,
)
from exporter.answers.reading.untrusted import width
from exporter.answers.top import linetable
from exporter.answers.top.linetable import Tone, bar, core, memory_bar, spark
from exporter.answers.top.topreport import report
from exporter.model import Snapshot, Unattributed
from exporter.shown.kinds import NOBODY
from exporter.shown.marks import Mark, MarkKind
from exporter.shown.words import narrow_memory, narrow_percent
from tests.agent.api.nodes import crowded, demo, hostile
from tests.answers.reading.views import everything, is_harmless, process, view


def line(value: float | None, limit: float | None = None, why: str = "") -> Line:
    share = value / limit if limit and value is not None else None
    figure = Figure(value, limit, why, share)
    return Line(("x",), LineKind.CONTAINER, "x", figure, figure)


def drawn(cell: object) -> str:
    return "".join(piece.text for piece in cell)  # type: ignore[attr-defined] # a Cell


@pytest.mark.parametrize(
    ("value", "limit", "expected"),
    [
        (0.0, None, "··········"),
        (0.001, None, "▏·········"),
        (0.5, None, "█████·····"),
        (0.55, None, "█████▌····"),
        (1.0, None, "██████████"),
        (1.7, None, "██████████"),
        (0.2, 0.5, "██···┃····"),
        (0.8, 0.5, "█████┃▓▓··"),
        (0.0, 0.5, "·····┃····"),
        (1.0, 1.0, "██████████"),
        (0.5, 0.0, "┃▓▓▓▓·····"),
    ],
)
def test_a_bar_marks_the_allocation_and_shows_what_is_beyond(
    value: float, limit: float | None, expected: str
) -> None:
    assert drawn(bar(line(value, limit), 10)) == expected


def test_what_is_not_known_is_its_reason_never_a_bar() -> None:
    unknown = line(None, 0.5, "no_hostpid")

    assert drawn(bar(unknown, 12)) == "no hostpid"
    assert drawn(core(unknown, 5)) == "?"
    assert core(unknown, 5)[0].tone is Tone.UNKNOWN
    assert drawn(memory_bar(unknown, 12)) == "no hostpid"
    assert drawn(memory_bar(unknown, 8)) == "no host…"  # it is seen that there is more
    assert drawn(bar(line(None), 10)) == drawn(core(line(None), 5)) == ""  # does not apply


@pytest.mark.parametrize(
    ("value", "limit", "tone"),
    [
        (0.1, 0.5, Tone.CALM),
        (0.1, None, Tone.CALM),
        (0.46, 0.5, Tone.NEAR),
        (0.505, 0.5, Tone.NEAR),
        (0.6, 0.5, Tone.OVER),
    ],
)
def test_tones_go_by_the_allocation(value: float, limit: float | None, tone: Tone) -> None:
    assert core(line(value, limit), 5)[0].tone is tone


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ((), "     "),
        ((0.0, 0.5, 1.0), "  ▁▅█"),
        ((None, 2.0), "   ·█"),
        ((1.0,) * 9, "█████"),
        ((0.0, 1.0) * 5, "▅▅▅▅▅"),
    ],
)
def test_sparklines_end_at_the_right(past: tuple[float | None, ...], expected: str) -> None:
    assert drawn(spark(past, 5)) == expected


@pytest.mark.parametrize(
    ("count", "words"),
    [
        *((0, "0"), (1023, "1023"), (1024, "1k"), (300 << 20, "300M"), (27 << 30, "27.0G")),
        *(
            (1023.9 * (1 << 20), "1.0G"),
            (100 << 30, "100G"),
            (80 << 30, "80.0G"),
            (2 << 40, "2.0T"),
        ),
    ],
)
def test_bytes_take_five_characters(count: float, words: str) -> None:
    assert narrow_memory(count) == words


@given(st.floats(0, 1 << 50), st.floats(0, 9.9))
def test_bytes_never_take_more_and_percents_four_at_most(count: float, ratio: float) -> None:
    assert len(narrow_memory(count)) <= 5
    assert len(narrow_percent(ratio)) <= 4


@pytest.mark.parametrize("cells", [20, 24, 40, 60, 79, 80, 100, 120, 200, 400])
@pytest.mark.parametrize("made", [demo, lambda: crowded(8, 40), hostile])
def test_every_line_is_as_wide_as_it_is_told(cells: int, made: Callable[[], Snapshot]) -> None:
    shown = rows(view(made()).lines, Arrangement())

    layout = linetable.layout(cells, linetable.longest_name(shown))

    for row in shown:
        text = drawn(linetable.line(row, layout))
        assert width(text) <= cells
        assert is_harmless(text)
        assert cells < 100 or width(text) == width(drawn(linetable.head(layout)))


def test_the_most_telling_columns_stay_where_there_is_little_room() -> None:
    def titles(cells: int) -> list[str]:
        return [column.title for column, _ in linetable.layout(cells).columns]

    assert titles(30) == ["CORE"]
    assert titles(40) == ["CORE", "MEM"]
    assert titles(80) == ["POWER", "TEMP", "CORE", "OF ONE GPU", "LIMIT", "MEM", "LIMIT"]
    assert titles(200) == [column.title for column in linetable.COLUMNS]


@pytest.mark.parametrize("cells", [80, 100, 120, 140, 160, 200])
def test_titles_are_never_cut_within_a_word(cells: int) -> None:
    shown = rows(view(demo()).lines, Arrangement())
    layout = linetable.layout(cells, linetable.longest_name(shown))

    names = drawn(linetable.head(layout)[:1]).rstrip()

    assert linetable.NAMES.startswith(names)
    assert names[-1:].isalpha()
    assert "…" not in names


def test_what_is_marked_or_unknown_says_so_before_its_name_and_below_the_table() -> None:
    mark = Mark(MarkKind.LOST, "it has fallen off the bus")
    lost = Line(("g",), LineKind.DEVICE, "0 A100", Figure(why="gpu_lost"), marks=(mark,))
    gone = Line(("h",), LineKind.DEVICE, "1 A100", Figure(why="not_reported"))

    text = report(Overview("n", lines=(lost, gone)), 80, coloured=False)

    assert "  ! 0 A100" in text
    assert "\n! 0 A100: lost: it has fallen off the bus\n" in text
    assert "\n  gpu_lost: The device has fallen off the bus" in text
    assert "\n    core of 0 A100\n" in text
    assert "\n  not_reported: There is no figure, or none yet, and no reason for that.\n" in text
    assert "?" in text
    assert "0%" not in text


def test_use_without_an_owner_is_named_in_words() -> None:
    names = {line.name for line in everything(view(demo(90)).lines) if line.kind is LineKind.REST}

    assert "no process named" in names
    assert not names & set(Unattributed)
    assert set(NOBODY) == set(Unattributed)


def test_a_click_finds_its_column() -> None:
    layout = linetable.layout(80)

    assert linetable.column_at(layout, 0) == -1
    assert linetable.column_at(layout, 79) == len(layout.columns) - 1
    core_ends = layout.name + sum(cells + 1 for _, cells in layout.columns[:3])
    assert layout.columns[linetable.column_at(layout, core_ends - 1)][0].title == "CORE"


def test_colours_change_nothing_but_themselves() -> None:
    plain = report(view(demo()), 120, coloured=False)
    coloured = report(view(demo()), 120, coloured=True)

    for code in ("1", "2", "32", "33", "1;31", "35", "0"):
        coloured = coloured.replace(f"\x1b[{code}m", "")
    assert [text.rstrip() for text in coloured.splitlines()] == plain.splitlines()


def test_off_kubernetes_the_terminal_speaks_of_jobs_units_and_users() -> None:
    seen = view(demo(20, "hpc"))

    title, _, _, head, *_ = report(seen, 160, coloured=False).splitlines()

    assert re.search(r"\d+ jobs?, .*\d+ units?, \d+ users?", title)
    assert head.startswith("GPU / OWNER / PROCESS")
    assert "POD" not in head
    assert "pod" not in title


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_printed_once_all_fits_and_names_that_people_copy_are_whole(columns: int) -> None:
    seen = view(demo())
    said = report(seen, columns, coloured=False).splitlines()

    assert max(map(width, said)) <= columns
    shown = [row.line for row in rows(seen.lines, Arrangement(deepest=4))]
    owners = [one.name for one in shown if one.kind is not LineKind.PROCESS]
    assert [name for name in owners if not any(name in line for line in said)] == []


def test_a_name_longer_than_the_terminal_has_a_line_of_its_own() -> None:
    long = replace(process("x" * 70, 0.5), kind=LineKind.POD)
    gpu = Line(("gpu",), LineKind.DEVICE, "gpu", children=(long,))

    *_, name, figures = report(Overview("n", lines=(gpu,)), 60, coloured=False).splitlines()
    assert name.strip() == "x" * 70
    assert figures.startswith(" " * 40)
    assert figures.split() == ["50%"]
