"""The kinds of panel that the dashboards are made of, each with one look."""

import re
from collections.abc import Iterable, Mapping, Sequence

from grafana_foundation_sdk.builders import common, prometheus
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders import stat as stat_panel
from grafana_foundation_sdk.builders import statetimeline as timeline_panel
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
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardRangeMapOptions,
    DashboardSpecialValueMapOptions,
    DynamicConfigValue,
    FieldColorModeId,
    RangeMap,
    SpecialValueMap,
    SpecialValueMatch,
    Threshold,
    ThresholdsMode,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.dashboard import Panel as PanelModel

from dashboards.frame import SOURCE, in_range

# One meaning each, and the same in dark and light: a name such as "green" is not.
# Pink is not among the colours that Grafana gives to lines.
USED, ALLOCATED, IDLE, NOBODY, BAD = "#3274D9", "#FF4FA3", "#FF9830", "#808080", "#E02F44"
GOOD, LOOK, FREE = "#56A64B", "#E0B400", "#80808033"  # FREE: grey that is seen through
UNOBSERVED = "#B877D9"

# By unit: where an axis of nothing but zeros ends. By itself it ends at 10,000 % or 100 a second.
SOFT_MOST = {"percentunit": 0.1, "ops": 1, "cps": 1}
HEIGHT = 9  # of all that is not one number

Panel = Builder[PanelModel]
Steps = Sequence[tuple[float | None, str]]
Words = Mapping[str, tuple[str, str]]  # a value, and what it is called in which colour
Bands = Sequence[tuple[float, str, str]]  # from a value on: what it is called in which colour

HIGH: Steps = ((None, GOOD), (0.8, LOOK), (0.95, BAD))  # more is worse
OVER: Steps = ((None, USED), (1.05, LOOK), (1.5, IDLE))  # over what was promised
PROMISED: Steps = ((None, GOOD), (1.001, BAD))  # all of it is right, more than there is is not
SPARE: Steps = ((None, GOOD), (0.5, LOOK), (0.8, IDLE))  # unused: money
ANY: Steps = ((None, GOOD), (1, BAD))  # none is right
ONLY_USED: Steps = ((None, USED),)
PLAIN: Steps = ((None, "text"),)
READ: Words = {"1": ("read", GOOD), "0": ("lost", BAD)}
UP: Words = {"1": ("up", GOOD), "0": ("down", BAD)}
YES: Words = {"1": ("yes", GOOD), "0": ("no", BAD)}
UNMEASURED: Words = {"1": ("not measured", LOOK)}

# How busy a card is, by the part of its time from which on.
QUARTERS: Steps = (
    (None, FREE),
    (0.001, "#C7DCFC"),
    (0.25, "#96C0FF"),  # light enough for Grafana to write on it in black
    (0.5, "#5794F2"),
    (0.75, USED),
)
OF_CLUSTER = "{{cluster}}"  # of a line: two clusters may have a namespace of one name
NO_SHARE = "No pod was promised a share here"

# What a panel says where nothing is found, by the first family that it asks for.
NOTHING = {
    "mgpu_pod": "No pod has a GPU here",
    "mgpu_container": "No pod has a GPU here",
    "mgpu_namespace": "No pod has a GPU here",
    "mgpu_group": "No group uses a GPU here",
    "mgpu_device": "No GPU is measured here",
}
# What the names of queries begin with that answer while the others of a panel do not.
INSTEAD = "INSTEAD"
NO_VALUE = "no value"  # the gaps of a timeline's line
NOT_NOW = "not known now"  # a figure that was known in the time range
# Values of a timeline that no figure has.
NONE, UNKNOWN, NOT_KNOWN = -1, -2, "nothing is known"
ABOVE_ALL = 1e12  # of the figures that are put into words
NO_EXPORTER = "No exporter is scraped here"


def query(expr: str, letter: str) -> prometheus.Dataquery:
    """A query of the chosen Prometheus; ``letter`` is its name in the panel."""
    return prometheus.Dataquery().datasource(SOURCE).expr(expr).ref_id(letter)


def ref(place: int) -> str:
    """The letter of a query by its place."""
    return chr(ord("A") + place)


def thresholds(steps: Steps) -> build.ThresholdsConfig:
    """Colours from a value on."""
    marks = [Threshold(value=value, color=color) for value, color in steps]
    return build.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(marks)


def override(name: str, value: object) -> DynamicConfigValue:
    """A setting of some fields."""
    return DynamicConfigValue(id_val=name, value=value)


def why_nothing(expr: str) -> str:
    """What to say where this query finds nothing."""
    family = re.search(r"mgpu_[a-z]+", expr)
    return NOTHING.get(family[0], NO_EXPORTER) if family else NO_EXPORTER


def missing(
    text: str, color: str = "text", match: SpecialValueMatch = SpecialValueMatch.NULL_AND_NAN
) -> SpecialValueMap:
    """A missing value as this text, in a colour of its own: the thresholds do not judge it."""
    shown = ValueMappingResult(text=text, color=color)
    return SpecialValueMap(DashboardSpecialValueMapOptions(match=match, result=shown))


def now_or_unknown(expr: str, unknown: str = "") -> str:
    """A figure without labels; NaN where it is not known now and was known in the time range.

    ``unknown`` finds something where it may be so, which is asked for in place of all samples of
    the range: of a fleet these are many.
    """
    first = re.search(r"[\w:]+{[^}]*}", expr)
    if not first:
        message = f"no selector in {expr}"
        raise ValueError(message)
    return f"({expr}) or NaN * group({unknown or in_range(first[0])})"


def folded(title: str, panels: Iterable[Panel]) -> build.Row:
    """A row whose panels ask nothing before somebody unfolds it.

    It cannot be hidden where there are no such series: Grafana shows a row that is repeated by a
    variable without values once all the same, as a placeholder (grafana/grafana 11641fb6,
    ``RowRepeaterBehavior``; #3778). Conditions on data are for dashboards of its schema v2 only.
    """
    row = build.Row(title).collapsed(collapsed=True)
    for panel in panels:
        row.with_panel(panel)
    return row


def stat(  # noqa: PLR0913 - what a panel says
    title: str,
    about: str,
    expr: str,
    unit: str,
    steps: Steps = PLAIN,
    *,
    nothing: str = "",
    unknown: str = "",
    width: int = 4,
) -> stat_panel.Panel:
    """One number, asked at one moment: the last of many steps is minutes old in a long time range.

    ``nothing`` is what it says where the query finds nothing; by default it follows from the query.
    Where there was a value in the time range and none is now, it says so; ``unknown`` finds
    something where it may be so.
    """
    of_range = "$__range" in expr
    text = nothing or why_nothing(expr)
    return (
        stat_panel.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .with_target(query(expr if of_range else now_or_unknown(expr, unknown), "A").instant())
        .unit(unit)
        .no_value(text)
        .mappings(
            [
                missing(text, match=SpecialValueMatch.NULL),
                missing(text if of_range else NOT_NOW, match=SpecialValueMatch.NA_N),
            ]
        )
        .thresholds(thresholds(steps))
        .color_scheme(build.FieldColor().mode(FieldColorModeId.THRESHOLDS))
        .color_mode(BigValueColorMode.VALUE)
        .graph_mode(BigValueGraphMode.NONE)
        .reduce_options(common.ReduceDataOptions().calcs(["last"]))
        .min(0)
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
    dashed: str = "",
    few: bool = False,
    nothing: str = "",
    width: int = 12,
) -> series_panel.Panel:
    """Lines over time. ``queries`` by their legend, ``colors`` by patterns of series' names.

    ``dashed`` is the pattern of the names of what was promised: lines that are never stacked.
    ``few`` is whether a legend in one line holds all names: of a table three rows are seen.

    ``nothing`` is what it says where no query finds anything; by default it follows from the first.
    """
    targets = enumerate(queries.items())
    panel = (
        series_panel.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .targets([query(e, ref(i)).legend_format(legend).range() for i, (legend, e) in targets])
        .unit(unit)
        .no_value(nothing or why_nothing(next(iter(queries.values()))))
        .min(0)
        .color_scheme(build.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
        .fill_opacity(40 if stacked else 0)
        .legend(_states() if few else _legend())
        .tooltip(_tooltip())
        .height(HEIGHT)
        .span(width)
    )
    if most is not None:
        panel.max(most)
    elif unit in SOFT_MOST:
        panel.axis_soft_max(SOFT_MOST[unit])
    if stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    for names, color in (colors or {}).items():
        fixed = {"mode": "fixed", "fixedColor": color}
        panel.override_by_regexp(f"/{names}/", [override("color", fixed)])
    if dashed:
        line = {"fill": "dash", "dash": [6, 4]}
        apart = {"mode": "none", "group": "A"}
        looks = {"lineStyle": line, "fillOpacity": 0, "lineWidth": 2, "stacking": apart}
        panel.override_by_regexp(
            f"/{dashed}/", [override(f"custom.{name}", look) for name, look in looks.items()]
        )
    return panel


def timeline(
    title: str,
    about: str,
    queries: Mapping[str, str],
    words: Words | Bands,
    *,
    known: str,
    none: str = "",
    width: int = 12,
) -> timeline_panel.Panel:
    """A line of states for each series. ``words`` name and colour values, or parts of a range.

    ``queries`` by the names of their lines. While they find nothing, a grey line is called ``none``
    if there is ``known``, and says that nothing is known if there was none in the time range: of a
    timeline without data Grafana says "Data does not have a time field".
    """
    lines = {**queries, **_instead(queries.values(), known, none)}
    targets = [
        query(expr, ref(i) if i < len(queries) else f"{INSTEAD}{i}").legend_format(name)
        for i, (name, expr) in enumerate(lines.items())
    ]
    grey = {str(NONE): (none, FREE), str(UNKNOWN): (NOT_KNOWN, FREE)}
    return (
        timeline_panel.Panel()
        .title(title)
        .description(about)
        .datasource(SOURCE)
        .targets([target.range() for target in targets])
        .unit("short")
        .no_value(NO_VALUE)
        .mappings(
            [
                missing(NO_VALUE, FREE),
                named(grey),
                *([named(words)] if isinstance(words, Mapping) else bands(words)),
            ]
        )
        .thresholds(thresholds(PLAIN))
        # by thresholds, Grafana would put their names in the place of the words
        .color_scheme(build.FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
        .show_value(VisibilityMode.NEVER)
        .merge_values(merge_values=True)
        .row_height(0.8)
        .fill_opacity(80)
        .line_width(0)
        .legend(_states())
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.SINGLE).sort(SortOrder.NONE))
        .height(HEIGHT)
        .span(width)
    )


def _instead(exprs: Iterable[str], known: str, none: str) -> Mapping[str, str]:
    """What a timeline shows while none of its queries finds anything, by the names of the lines."""
    found = " or on () ".join(f"count({expr})" for expr in exprs)
    # Of the range's ends, too: in an exporter's first hour a grey row would stay beside the others.
    # All samples of the range would be read for each point.
    ever = " or on () ".join(f"count({known}{when})" for when in ("", " @ start()", " @ end()"))
    nothing = {NOT_KNOWN: f"vector({UNKNOWN}) unless on () ({ever})"}
    if none:
        nothing[none] = f"({NONE} + 0 * count({known})) unless on () ({found})"
    return nothing


def named(words: Words) -> ValueMap:
    """Values as words in colours."""
    return ValueMap(
        {
            value: ValueMappingResult(text=text, color=color)
            for value, (text, color) in words.items()
        }
    )


def _tooltip() -> common.VizTooltipOptions:
    """All series at once, the highest first."""
    return common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING)


def bands(words: Bands) -> list[RangeMap]:
    """Parts of a range as words in colours, the highest first: the first that fits counts.

    Grafana 9.4 takes an open end (null) for 0, and no figure fits.
    """
    return [
        RangeMap(
            DashboardRangeMapOptions(
                from_val=least, to=ABOVE_ALL, result=ValueMappingResult(text=text, color=color)
            )
        )
        for least, text, color in sorted(words, reverse=True)
    ]


def _states() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
        .calcs([])
    )


def _legend() -> common.VizLegendOptions:
    return (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.TABLE)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
        .calcs(["mean", "max"])  # not the last: of a series that ended it is no value of now
        .sort_by("Mean")
        .sort_desc(sort_desc=True)
    )
