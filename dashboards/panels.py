"""The kinds of panel that the dashboards are made of, each with one look."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grafana_foundation_sdk.builders import common, prometheus
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import stat as stat_panel
from grafana_foundation_sdk.builders import table as table_panel
from grafana_foundation_sdk.builders import timeseries as series_panel
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardSpecialValueMapOptions,
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsMode,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.dashboard import Panel as PanelModel
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.frame import SOURCE, WORKLOAD

USED, ALLOCATED, IDLE, NOBODY, BAD = "blue", "green", "orange", "#808080", "red"  # one meaning each

Panel = Builder[PanelModel]
Steps = Sequence[tuple[float | None, str]]

HIGH: Steps = ((None, "green"), (0.8, "yellow"), (0.95, "red"))  # more is worse
ANY: Steps = ((None, "green"), (1, "red"))  # none is right
PLAIN: Steps = ((None, "text"),)

# What a panel says where nothing is found, by the first family that it asks for.
NOTHING = {
    "mgpu_pod": "No pod has a GPU here",
    "mgpu_container": "No pod has a GPU here",
    "mgpu_namespace": "No pod has a GPU here",
    "mgpu_group": "No group uses a GPU here",
    "mgpu_device": "No GPU is measured here",
}
NO_EXPORTER = "No exporter is scraped here"


class Column(NamedTuple):
    """A column of a table: a query that gives one value a row. ``unit`` is Grafana's."""

    name: str
    expr: str
    unit: str


def _query(expr: str, ref: str) -> prometheus.Dataquery:
    return prometheus.Dataquery().datasource(SOURCE).expr(expr).ref_id(ref)


def _ref(place: int) -> str:
    return chr(ord("A") + place)


def _thresholds(steps: Steps) -> build.ThresholdsConfig:
    marks = [Threshold(value=value, color=color) for value, color in steps]
    return build.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(marks)


def _override(name: str, value: object) -> DynamicConfigValue:
    return DynamicConfigValue(id_val=name, value=value)


def _nothing(expr: str) -> str:
    """What to say where this query finds nothing."""
    family = re.search(r"mgpu_[a-z]+", expr)
    return NOTHING.get(family[0], NO_EXPORTER) if family else NO_EXPORTER


def _plain(text: str) -> SpecialValueMap:
    """A missing value as this text, in the colour of text: the thresholds do not judge it."""
    shown = ValueMappingResult(text=text, color="text")
    options = DashboardSpecialValueMapOptions(match=SpecialValueMatch.NULL, result=shown)
    return SpecialValueMap(options)


def stat(
    title: str,
    about: str,
    expr: str,
    unit: str,
    steps: Steps = PLAIN,
    *,
    nothing: str = "",
    width: int = 4,
) -> stat_panel.Panel:
    """One number. Behind it its way through the time range, unless it is of the whole range.

    ``nothing`` is what it says where the query finds nothing; by default it follows from the query.
    """
    of_range = "$__range" in expr
    target = _query(expr, "A")
    text = nothing or _nothing(expr)
    return (
        stat_panel.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .with_target(target.instant() if of_range else target.range())
        .unit(unit)
        .no_value(text)
        .mappings([_plain(text)])
        .thresholds(_thresholds(steps))
        .color_scheme(build.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.NONE if of_range else BigValueGraphMode.AREA)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .height(4)
        .span(width)
    )


def series(  # noqa: PLR0913 - what a panel says
    title: str,
    about: str,
    queries: Mapping[str, str],
    unit: str,
    *,
    stacked: bool = False,
    most: float | None = None,
    colors: Mapping[str, str] | None = None,
    nothing: str = "",
    width: int = 12,
) -> series_panel.Panel:
    """Lines over time. ``queries`` by their legend, ``colors`` by patterns of series' names.

    ``nothing`` is what it says where no query finds anything; by default it follows from the first.
    """
    targets = enumerate(queries.items())
    panel = (
        series_panel.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .targets([_query(e, _ref(i)).legend_format(legend).range() for i, (legend, e) in targets])
        .unit(unit)
        .no_value(nothing or _nothing(next(iter(queries.values()))))
        .min(0)
        .color_scheme(build.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
        .fill_opacity(30 if stacked else 0)
        .legend(_legend())
        .tooltip(_tooltip())
        .height(8)
        .span(width)
    )
    if most is not None:
        panel.max(most)
    if stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for names, color in (colors or {}).items():
        fixed = {"mode": "fixed", "fixedColor": color}
        panel.override_by_regexp(f"/{names}/", [_override("color", fixed)])
    return panel


def _tooltip() -> common.VizTooltipOptions:
    """All series at once, the highest first."""
    return common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.TABLE)
        .placement(LegendPlacement.RIGHT)
        .show_legend(show_legend=True)
        .calcs(["mean", "max", "lastNotNull"])
        .sort_by("Mean")
        .sort_desc(sort_desc=True)
    )


def table(
    title: str,
    about: str,
    keys: Mapping[str, str],
    columns: Sequence[Column],
    *,
    links: Mapping[str, str] | None = None,
    nothing: str = "",
    width: int = 24,
) -> table_panel.Panel:
    """A row for each combination of labels; ``keys`` are labels and their heads.

    ``links`` are the addresses that a key's cells lead to, by its head. ``nothing`` is what it says
    where no query finds anything; by default it follows from the first. Sorted by the first column.
    Keys have the unit ``string``: with another one Grafana writes a job 8101 as 8.10 K.
    """
    targets = enumerate(columns)
    panel = (
        table_panel.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .targets([_now(column.expr, _ref(i)) for i, column in targets])
        .unit("string")
        .no_value(nothing or _nothing(columns[0].expr))
        .with_transformation(DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(_organized(keys, columns))
        .height(8)
        .span(width)
    )
    # A cell that is empty is not the panel without data, whose text it would have.
    # With Grafana's own least width, 150 pixels, the last columns of a narrow panel lie outside.
    everywhere = [_override("noValue", "-"), _override("custom.minWidth", 80)]
    panel.override_by_regexp("/.*/", everywhere)
    for column in columns:
        panel.override_by_name(column.name, [_override("unit", column.unit)])
    for head, address in (links or {}).items():
        link = {"title": "Show", "url": address}
        panel.override_by_name(head, [_override("links", [link])])
    sort = common.TableSortByFieldState().display_name(columns[0].name).desc(desc=True)
    return panel.sort_by([sort])


def _now(expr: str, ref: str) -> prometheus.Dataquery:
    """A query at the end of the time range."""
    return _query(expr, ref).instant().format(PromQueryFormat.TABLE)


def _organized(keys: Mapping[str, str], columns: Sequence[Column]) -> DataTransformerConfig:
    """Heads and order of a table; a key may carry either of its label's names."""
    heads = {
        name: head
        for label, head in keys.items()
        for name in ((label, f"exported_{label}") if label in WORKLOAD else (label,))
    }
    # Grafana calls the values "Value #A" and so on; of a single query "Value"
    values = ["Value"] if len(columns) == 1 else [f"Value #{_ref(i)}" for i in range(len(columns))]
    heads |= dict(zip(values, (column.name for column in columns), strict=True))
    order = {name: place for place, name in enumerate(heads)}
    options = {"excludeByName": {"Time": True}, "renameByName": heads, "indexByName": order}
    return DataTransformerConfig(id_val="organize", options=options)
