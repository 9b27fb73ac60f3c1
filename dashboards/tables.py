"""Tables: a row for each combination of labels, with bars and colours in its cells."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from grafana_foundation_sdk.builders import common, prometheus
from grafana_foundation_sdk.builders import table as table_panel
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    SpecialValueMap,
    ValueMap,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.frame import SOURCE, WORKLOAD
from dashboards.panels import (
    FREE,
    HEIGHT,
    HIGH,
    INSTEAD,
    ONLY_USED,
    OVER,
    PLAIN,
    PROMISED,
    Steps,
    Words,
    missing,
    named,
    override,
    query,
    ref,
    thresholds,
    why_nothing,
)
from exporter.model.devices import FIRST_INDEX


class Cell(NamedTuple):
    """How a column's cells look. ``mode`` is Grafana's name, ``top`` where a bar is full."""

    mode: str
    steps: Steps = ()
    words: Words | None = None
    top: float | None = None


def bar(steps: Steps = ONLY_USED, top: float | None = 1) -> Cell:
    """A bar in the colour of its step; without a top the column's highest is full."""
    return Cell("basic", steps, top=top)


def colored(steps: Steps = (), words: Words | None = None) -> Cell:
    """The whole cell in a colour, by steps or by words."""
    return Cell("color-background-solid", steps, words)


def tinted(steps: Steps, words: Words | None = None) -> Cell:
    """The text in a colour, by steps or by words."""
    return Cell("color-text", steps, words)


NARROW = 80
BAR_WIDTH = 110  # in pixels
CELL = 56  # of a matrix: what the word "silent" needs
LETTER, PADDING = 8, 12
# As Grafana 12.2 draws heads; an arrow stands beside the one that a table is sorted by.
CAPITAL, M, HEAD_PADDING, ARROW = 10, 12, 15, 24
# Names of any length: they take what a wider screen gives.
NAMES = {"Namespace", "Pod", "Node", "Name", "Owner", "Container", "UUID", "Source", "Card", "Kind"}
NAMES |= {"Meaning", "Model", "Reason"}
# Of columns of text that is long or short wherever it stands, the least width.
WIDTHS = {
    "GPU": 50,
    "Namespace": 96,
    "Pod": 150,
    "Alert": 262,
    "Meaning": 350,
    "For": 84,
    "Node": 110,
    "Name": 110,
    "User": 75,
    "Container": 81,
    "Model": 115,
    "Owner": 150,
    "Advice": 190,
    "Idle energy": 110,
    "Quantity": 120,
    "Policy": 150,
    "System": 150,
    "Reason": 120,
    "Sharing": 92,
    "Kind": 92,
}
# In pixels: the narrowest screen, between its edges and a scroll bar; the gap between two panels;
# the edges of a panel and the scroll bar of a table.
SCREEN, GAP, EDGES = 1366 - 2 * 16 - 15, 8, 26
# The label and the head of the column that says why a table has no rows, and of that which says
# that it has not all; this one is the last, as all rows have it.
WHY, ROWS = "why", "Rows"
OF_ALL, SHOWN = "of_all", "Shown"
NO_FIGURE = -9  # in the row that says why there is no other, where its column has one in each row
NOTHING = "\u00a0"  # a text that is there and not seen
LARGEST = 100  # rows of a table that grows with the fleet: a browser shows each
TOO_MANY = f"largest {LARGEST} of {{}}"
COLUMNS = 24  # of Grafana's grid
MOST_CARDS = 16  # of a node, of which the order of columns is known
UNSEEN = ("Value", "cluster", "instance", *WORKLOAD, *(f"exported_{label}" for label in WORKLOAD))
USE, SHARE_USE, FILLED, GIVEN = bar(), bar(OVER), bar(HIGH), bar(PROMISED)


LINKED = "chosen"
OWN_CLUSTER = f"${{__data.fields.{LINKED}}}"


def or_all(expr: str, label: str, chosen: str = LINKED) -> str:
    """With the label as ``chosen``, for a link: "All" where it is empty, else nothing is found."""
    all_of_them = f'label_replace({expr}, "{chosen}", "$$__all", "", "")'
    return f'label_replace({all_of_them}, "{chosen}", "$1", "{label}", "(.+)")'


class Column(NamedTuple):
    """A column of a table: a query that gives one value a row. ``unit`` is Grafana's."""

    name: str
    expr: str
    unit: str
    cell: Cell | None = None


def table(  # noqa: PLR0913 - what a table says
    title: str,
    about: str,
    keys: Mapping[str, str],
    columns: Sequence[Column],
    *,
    links: Mapping[str, str] | None = None,
    carried: Sequence[str] = (),
    widest: str = "",
    texts: Mapping[str, Words] | None = None,
    lowest_of: str = "",
    nothing: str = "",
    known: str = "",
    largest: str = "",
    among: str = "",
    width: int = 24,
    height: int = HEIGHT,
) -> table_panel.Panel:
    """A row for each combination of labels; ``keys`` are labels and their heads.

    ``links`` are the addresses that a key's cells lead to, ``texts`` what stands in place of its
    values, both by its head. Where a link has ``OWN_CLUSTER``, each row has its cluster for it,
    whichever are chosen above. ``carried`` are labels, or their heads, that no column shows, for an
    address. ``nothing`` is what it says where no query finds anything; by default it follows from
    the first. ``known`` finds something wherever there is a row; by default, any of the queries
    does. ``largest`` has a value for each row, by the labels of all columns: the ``LARGEST`` rows
    with the highest are asked for, and one more row says of how many. ``among`` is the same of few
    rows, with these among them; by default, all. A UUID is long and stands
    last. ``widest`` is the head of the one name that takes what a wider screen gives; by default
    all do. Sorted by the first column, or by ``lowest_of`` with its
    lowest first. Keys have the unit ``string``: with another one Grafana writes a job 8101 as
    8.10 K.
    """
    exprs = [column.expr for column in columns]
    why, of_the_first = nothing or why_nothing(exprs[0]), known == exprs[0]
    exprs = _of_largest(exprs, among or largest)
    if OWN_CLUSTER in "".join((links or {}).values()):
        carried, exprs = (*carried, LINKED), [or_all(expr, "cluster") for expr in exprs]
        known = exprs[0] if of_the_first else known
    if len(columns) > 1:  # of a single query that finds nothing Grafana shows the text by itself
        exprs = _with_why(exprs, why, known)
    if largest:
        exprs[-1] = f"{exprs[-1]} or on () {_cut(largest)}"
    targets = [_now(expr, ref(i)) for i, expr in enumerate(exprs[: len(columns)])]
    targets += [_now(expr, INSTEAD) for expr in exprs[len(columns) :]]
    panel = (
        table_panel.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .targets([*targets])
        .unit("string")
        .no_value(why)
        .with_transformation(DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(_organized(keys, columns, {OF_ALL: SHOWN} if largest else {}))
        .height(height)
        .span(width)
    )
    # A cell that is empty is not the panel without data, whose text it would have.
    # With Grafana's own least width, 150 pixels, the last columns of a narrow panel lie outside.
    everywhere = [override("noValue", "-"), override("custom.minWidth", NARROW)]
    panel.override_by_regexp("/.*/", everywhere)
    for column in columns:
        looks = _looks(column.cell, no_figure=of_the_first and column == columns[0])
        panel.override_by_name(column.name, [override("unit", column.unit), *looks])
    for head, text in (texts or {}).items():
        panel.override_by_name(head, [override("mappings", [named(text)])])
    for head in carried:
        panel.override_by_name(head, [override("custom.hidden", value=True)])
    sorted_by = lowest_of or columns[0].name
    shown = [head for head in keys.values() if head not in carried]
    widths = _widths(shown, columns, width, sorted_by, widest)
    for head, setting in widths.items():
        panel.override_by_name(head, [setting])
    if any(column.name not in widths for column in columns):  # else it takes the rest by itself
        panel.override_by_name(ROWS, [override("custom.width", LETTER * len(why) + PADDING)])
    if largest:
        needs = LETTER * len(TOO_MANY.format("10000")) + PADDING
        panel.override_by_name(SHOWN, [override("custom.width", needs)])
    _lead(panel, links or {})
    sort = common.TableSortByFieldState().display_name(sorted_by)
    return panel.sort_by([sort.desc(desc=not lowest_of)])


def _lead(panel: table_panel.Panel, links: Mapping[str, str]) -> None:
    """Make links of the cells of columns, by their heads."""
    for head, address in links.items():
        link = {"title": "Show", "url": address}
        # A dash would be a link, too, and lead nowhere.
        panel.override_by_name(head, [override("links", [link]), override("noValue", NOTHING)])


def matrix(
    title: str,
    about: str,
    row: tuple[str, str],
    column: str,
    expr: str,
    cell: Cell,
    *,
    width: int,
) -> table_panel.Panel:
    """A coloured cell for each pair of a row's and a column's label, the lowest row first.

    ``row`` is a label and its head. Grafana knows the columns by what is found; they stand in the
    order of their numbers, as the cards of each vendor have them.
    """
    label, head = row
    found = f"{label}\\{column}"  # what Grafana calls the column of the rows' names
    into = {"rowField": label, "columnField": column, "valueField": "Value", "emptyValue": "null"}
    numbers = (first + one for first in FIRST_INDEX.values() for one in range(2 * MOST_CARDS))
    order = {found: 0} | {str(number): number + 1 for number in numbers}
    organized = {"excludeByName": {}, "renameByName": {found: head}, "indexByName": order}
    panel = (
        table_panel.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .targets([_now(f"sort({expr})", "A")])
        .unit("percentunit")
        .decimals(0)
        .no_value(why_nothing(expr))
        .with_transformation(DataTransformerConfig(id_val="groupingToMatrix", options=into))
        .with_transformation(DataTransformerConfig(id_val="organize", options=organized))
        .height(HEIGHT)
        .span(width)
    )
    panel.override_by_regexp(
        "/.*/",
        [
            override("noValue", "-"),
            *_looks(cell),
            override("custom.align", "center"),
        ],
    )
    # A name is no number, which Grafana would take for one that is missing.
    plain = [override("unit", "string"), override("mappings", [])]
    plain.append(override("custom.displayMode", "auto"))
    width_of = override("custom.minWidth", 2 * NARROW)
    panel.override_by_name(head, [*plain, override("custom.align", "left"), width_of])
    # The names take the rest: if cards had a part of it, the last of many would lie outside.
    panel.override_by_regexp(r"/^\d+$/", [override("custom.width", CELL)])
    return panel


def _with_why(exprs: Sequence[str], text: str, known: str) -> list[str]:
    """Queries with a row that says why there is no other: Grafana shows the heads alone.

    It stands in a column that is there with it. Where the first query finds something in every row,
    it is a part of that: then nothing is asked twice.
    """
    row = f'label_replace(vector(0), "{WHY}", "{text}", "", "")'
    if known == exprs[0]:
        row = row.replace("vector(0)", f"vector({NO_FIGURE})")
        return [f"{known} or on () {row}", *exprs[1:]]
    found = " or on () ".join(f"count({expr})" for expr in ([known] if known else exprs))
    return [*exprs, f"{row} unless on () ({found})"]


def _of_largest(exprs: list[str], largest: str) -> list[str]:
    """Queries of the largest rows alone, where a table is cut."""
    return [f"({expr}) and {ranked(largest)}" for expr in exprs] if largest else exprs


def ranked(largest: str) -> str:
    """Of these rows, as many as a table has, with the highest values."""
    return f"topk({LARGEST}, {largest})"


def _cut(largest: str) -> str:
    """A row that says how many there are, where these are more than a table has rows."""
    # The number gets into a text as the value of a label: PromQL has no other way.
    counted = f'count_values("{OF_ALL}", count({largest}) > {LARGEST})'
    text = TOO_MANY.format("$1")
    return f'label_replace({counted}, "{OF_ALL}", "{text}", "{OF_ALL}", "(.+)")'


def inside_of(width: int) -> float:
    """The pixels for the columns of a panel that is ``width`` of the grid's columns wide."""
    column = (SCREEN - (COLUMNS - 1) * GAP) / COLUMNS
    return width * column + (width - 1) * GAP - EDGES


def _widths(
    keys: Iterable[str], columns: Sequence[Column], width: int, sorted_by: str, widest: str
) -> dict[str, DynamicConfigValue]:
    """The widths of the columns that do not have the usual least width.

    Grafana gives all columns without a width an equal part, and to those that need more their least
    width, by which the last column of a narrow panel lies outside. So beside another panel, where
    pods are named, and where the narrowest screen is too narrow for equal parts, all but names have
    a width that is fixed; where names would then be too narrow, what needs more than its part has.
    What is narrow is fixed everywhere.
    """
    needs = {head: WIDTHS.get(head, NARROW) for head in keys}
    bars = {one.name for one in columns if one.cell and one.cell.mode == "basic"}
    needs |= {
        one.name: BAR_WIDTH if one.name in bars else WIDTHS.get(one.name, NARROW) for one in columns
    }
    fixed = {head: need for head, need in needs.items() if need < NARROW}
    while True:
        rest = {head: need for head, need in needs.items() if head not in fixed}
        part = (inside_of(width) - sum(fixed.values())) / max(len(rest), 1)
        wide = {head: need for head, need in rest.items() if need > part}
        if not wide:
            break
        fixed |= wide
    figures = {head: need for head, need in needs.items() if head not in NAMES}
    for one in columns:
        words = [text for text, _ in ((one.cell and one.cell.words) or {}).values()]
        longest = LETTER * max(map(len, words), default=0) + PADDING
        head = _head(one.name) + (ARROW if one.name == sorted_by else 0)
        figures[one.name] = max(figures[one.name], head, longest)
    names = {head: need for head, need in needs.items() if head in NAMES}
    each = (inside_of(width) - sum(figures.values())) / max(len(names), 1)
    short = width < COLUMNS or "Pod" in names or not fixed.keys().isdisjoint(names)
    if widest:
        rest = {widest: names.pop(widest)}
        fixed = figures | names
    elif names and short and each >= max(names.values()):
        fixed, rest = figures, names
    least = {head: need for head, need in rest.items() if need > NARROW}
    return {
        **{head: override("custom.width", need) for head, need in fixed.items()},
        **{head: override("custom.minWidth", need) for head, need in least.items()},
    }


def _head(name: str) -> int:
    """The pixels that the head of a column needs."""
    letters = (CAPITAL if one.isupper() else M if one == "m" else LETTER for one in name)
    return sum(letters) + HEAD_PADDING


def _looks(cell: Cell | None, *, no_figure: bool = False) -> list[DynamicConfigValue]:
    """A cell as Grafana's field settings; whether a row may have no figure there."""
    dash: Words = {str(NO_FIGURE): ("-", FREE)} if no_figure else {}
    if cell is None:
        return [override("mappings", [named(dict.fromkeys(dash, ("-", "text")))])] if dash else []
    looks = [
        override("custom.displayMode", cell.mode),
        override("color", {"mode": "thresholds"}),
        override("thresholds", thresholds(cell.steps or PLAIN).build()),
    ]
    words = {**(cell.words or {}), **dash}
    mappings: list[ValueMap | SpecialValueMap] = [named(words)] if words else []
    if cell.mode == "color-background-solid":
        mappings.append(missing("-", FREE))  # a colour would judge what is not known
    if cell.words:
        looks.append(override("custom.align", "left"))  # as words stand, also where numbers do
    if mappings:
        looks.append(override("mappings", mappings))
    if cell.mode == "basic":
        looks.append(override("min", 0))
    if cell.top is not None:
        looks.append(override("max", cell.top))
    return looks


def _now(expr: str, letter: str) -> prometheus.Dataquery:
    """A query at the end of the time range."""
    return query(expr, letter).instant().format(PromQueryFormat.TABLE)


def _organized(
    keys: Mapping[str, str], columns: Sequence[Column], end: Mapping[str, str]
) -> DataTransformerConfig:
    """Heads and order of a table; a key may carry either of its label's names."""
    heads = {WHY: ROWS} if len(columns) > 1 else {}
    heads |= {
        name: head
        for label, head in keys.items()
        for name in ((label, f"exported_{label}") if label in WORKLOAD else (label,))
    }
    # Grafana calls the values "Value #A" and so on; of a single query "Value"
    values = ["Value"] if len(columns) == 1 else [f"Value #{ref(i)}" for i in range(len(columns))]
    heads |= dict(zip(values, (column.name for column in columns), strict=True))
    heads |= end
    last = sorted(heads, key=lambda name: name == "uuid" or name in end)
    order = {name: place for place, name in enumerate(last)}
    # Where but one of several queries finds something, Grafana calls that "Value": whose it is, is
    # not known. A label that only a link or a sum needs is no column.
    hidden = {"Time": True, f"Value #{INSTEAD}": True} | {
        name: True for name in UNSEEN if name not in heads
    }
    options = {"excludeByName": hidden, "renameByName": heads, "indexByName": order}
    return DataTransformerConfig(id_val="organize", options=options)
