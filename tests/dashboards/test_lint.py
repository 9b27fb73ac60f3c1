"""The dashboards, held to the rules of grafana/dashboard-linter and to a few of our own.

The linter itself is a Go program that no registry of packages has; its rules are written here under
their names (docs/rules of its repository), with the exclusions of dashboards/.lint.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from grafana_foundation_sdk.models import units

from dashboards.frame import GRAFANA
from dashboards.panels import NOT_NOW
from dashboards.tables import MOST_CARDS, ROWS, SHOWN, inside_of
from exporter.metrics.families import FAMILIES
from exporter.model.devices import FIRST_INDEX
from rules.generate import FOLDER as RULES
from tests.dashboards.grafana import (
    FOLDER,
    PATHS,
    Dashboard,
    fill,
    folded,
    links,
    load,
    panels,
    queries,
    variables,
)

DASHBOARDS = {path.stem: load(path) for path in PATHS}
EVERY = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS)
SOURCE = {"type": "prometheus", "uid": "$datasource"}
UNITS = {getattr(units, name) for name in dir(units) if name[0].isupper()} | {
    value for annotation in units.__annotations__.values() for value in get_args(annotation)
}

NAME = re.compile(r"(?<![\w:])(?:mgpu|process|scrape)_\w+|\bup\b")
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
# The oldest Grafana in which each was seen. A name that a dashboard newly uses needs its line.
SINCE = {
    "panel": dict.fromkeys(("stat", "state-timeline", "table", "timeseries"), "9.4.0"),
    "transformation": dict.fromkeys(("groupingToMatrix", "merge", "organize"), "9.4.0"),
    # schema 38 and later have cellOptions for it, which 9.4 does not read; newer ones convert it
    "cell": dict.fromkeys(("auto", "basic", "color-background-solid", "color-text"), "9.4.0"),
    "colour": {
        **dict.fromkeys(("fixed", "thresholds", "palette-classic"), "9.4.0"),
        "palette-classic-by-name": "10.0.4",
    },
}
ONE = ("mgpu-node", "mgpu-pod")
NARROWEST = 50  # pixels of a column
LETTER_WIDTH, CELL_EDGES = 7.7, 12  # pixels of a name's letter, and beside the name
SCHEMA = 37  # the newest that Grafana 9.4 reads
NEW_VARIABLE = "00000000-0000-0000-0000-000000000000"  # to Grafana: not yet in the dashboard
KEPT = ("datasource", "job", "cluster")
OF_PROMETHEUS = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}
OF_THE_CLIENT = {"process_cpu_seconds_total", "process_resident_memory_bytes"}
KNOWN = {family.full_name: family.type for family in FAMILIES}


def recorded_by(file: Path) -> set[str]:
    """The names that a file's rules record."""
    groups = yaml.safe_load(file.read_text())["groups"]
    return {rule["record"] for group in groups for rule in group["rules"]}


RECORDED = recorded_by(RULES / "mgpu-recording.yaml")
OF_TOKENS = recorded_by(RULES.parent / "examples/tokens/rules.yaml")  # with the exporter's labels
OF_NODES = 'job=~"$job",cluster=~"$cluster",instance=~"$node"'
OF_RECORDED = {"1d", "1h"}  # what is there lately and now


def excluded() -> dict[str, Any]:
    """The rules that dashboards/.lint leaves out, with the entries that it does so for."""
    found: dict[str, Any] = yaml.safe_load((FOLDER / ".lint").read_text())["exclusions"]
    return found


def chosen(dashboard: Dashboard) -> Iterator[tuple[str, dict[str, Any]]]:
    """The variables that a person chooses from what Prometheus has."""
    for name, variable in variables(dashboard).items():
        if variable["type"] == "query":
            yield name, variable


@EVERY
def test_template_datasource_rule(dashboard: Dashboard) -> None:
    (source,) = [v for v in variables(dashboard).values() if v["type"] == "datasource"]
    assert (source["name"], source["label"]) == ("datasource", "Data source")
    assert source["query"] == "prometheus"


@EVERY
def test_template_job_rule(dashboard: Dashboard) -> None:
    job = variables(dashboard)["job"]
    assert (job["label"], job["type"], job["datasource"]) == ("job", "query", SOURCE)
    assert job["multi"]
    assert job["allValue"] == ".+"


@EVERY
def test_template_on_time_change_reload_rule(dashboard: Dashboard) -> None:
    assert {variable["refresh"] for _, variable in chosen(dashboard)} == {2}
    assert all(variable["datasource"] == SOURCE for _, variable in chosen(dashboard))


@EVERY
def test_template_uneditable_rule(dashboard: Dashboard) -> None:
    assert dashboard["editable"] is False


@EVERY
def test_panel_datasource_rule(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        assert panel["datasource"] == SOURCE
        assert [target["datasource"] for target in panel["targets"]] == [SOURCE] * len(
            panel["targets"]
        )


@EVERY
def test_panel_title_description_rule(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
    titles = [panel["title"] for panel in panels(dashboard)]
    assert len(titles) == len(set(titles))


@EVERY
def test_panel_units_rule(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        overrides = panel["fieldConfig"].get("overrides", [])
        properties = [one for override in overrides for one in override["properties"]]
        own = [one["value"] for one in properties if one["id"] == "unit"]
        assert {panel["fieldConfig"]["defaults"]["unit"], *own} <= UNITS, panel["title"]


@EVERY
def test_target_rate_interval_rule(dashboard: Dashboard) -> None:
    over_the_range = {
        entry["panel"] for entry in excluded()["target-rate-interval-rule"]["entries"]
    }
    for query in queries(dashboard):
        # What there was at last is no rate: the rule asks nothing of it.
        rates = re.sub(r"last_over_time\([\w:]+{[^}]*}\[[^\]]+\]", "", query.expr)
        windows = set(re.findall(r"\[([^\]:]+)(?::5m)?\]", rates))
        if set(dict(SELECTOR.findall(query.expr))) <= RECORDED:
            windows -= OF_RECORDED
        assert windows <= {"$__rate_interval", "$__range"}
        assert ("$__range" in windows) <= (query.panel in over_the_range), query


def test_every_exclusion_has_its_reason_and_is_needed() -> None:
    assert all(rule["reason"] for rule in excluded().values())
    panels_of_all = {query.panel for board in DASHBOARDS.values() for query in queries(board)}
    entries = excluded()["target-rate-interval-rule"]["entries"]
    assert {entry["panel"] for entry in entries} <= panels_of_all


@EVERY
def test_target_job_rule_and_its_like_for_cluster_and_node(dashboard: Dashboard) -> None:
    for query in queries(dashboard):
        names = set(NAME.findall(query.expr))
        selected = dict(SELECTOR.findall(query.expr))
        for recorded in RECORDED & selected.keys():  # those of workloads have no job and no node
            assert selected.pop(recorded).startswith(('cluster=~"$cluster"', OF_NODES))
        for alerts in {"ALERTS", "ALERTS_FOR_STATE"} & selected.keys():
            assert 'instance=~"$node|"' in selected.pop(alerts)  # some alerts are of no node
        assert names == selected.keys() - OF_TOKENS, query
        for matchers in selected.values():
            assert matchers.startswith(OF_NODES)


@EVERY
def test_nodes_of_two_clusters_that_have_one_name_stay_apart(dashboard: Dashboard) -> None:
    for query in queries(dashboard):
        for labels in re.findall(r"\b(?:by|on) \(([^)]*)\)", query.expr):
            named = {label.strip() for label in labels.split(",")}
            assert "instance" not in named or "cluster" in named, query


@pytest.mark.program("promtool")
def test_every_query_is_promql(tmp_path: Path) -> None:
    names = {name for dashboard in DASHBOARDS.values() for name in variables(dashboard)}
    values = {name: name.removesuffix("_label") for name in names}
    values |= {"__rate_interval": "1m", "__range": "1h", "__range_s": "3600"}
    values |= {name: "1" for name in names if name.startswith("price")}
    asked = (query for dashboard in DASHBOARDS.values() for query in queries(dashboard))
    exprs = {fill(query.expr, values) for query in asked}
    rules = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(exprs)]
    file = tmp_path / "rules.yaml"
    file.write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    command = ["promtool", "check", "rules", "--lint=none", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@EVERY
def test_counters_are_only_asked_for_their_increase(dashboard: Dashboard) -> None:
    for query in queries(dashboard):
        for name, _ in SELECTOR.findall(query.expr):
            kind = KNOWN.get(name, "counter" if name.endswith("_total") else "gauge")
            # Between two moments it is asked for its increase, too.
            bare = re.search(rf"(?<![\w(]){name}\{{[^}}]*\}}(?!\[| @ )", query.expr)
            there = re.search(
                rf"(?:count\(|and |unless |group by \([^)]*\) \(){name}\{{", query.expr
            )
            assert kind == "gauge" or not bare or there, query


@EVERY
def test_every_metric_is_one_that_is_served(dashboard: Dashboard) -> None:
    asked = {name for query in queries(dashboard) for name in NAME.findall(query.expr)}
    assert asked <= KNOWN.keys() | OF_PROMETHEUS | OF_THE_CLIENT
    for variable in variables(dashboard).values():
        assert set(NAME.findall(str(variable.get("query", "")))) <= KNOWN.keys()


@EVERY
def test_every_variable_is_used(dashboard: Dashboard) -> None:
    text = "\n".join(query.expr + query.legend for query in queries(dashboard))
    text += "\n".join(str(variable.get("query")) for variable in variables(dashboard).values())
    text += "\n".join(link["url"] for link in dashboard["links"])
    for name in variables(dashboard).keys() - {"datasource"}:
        assert re.search(rf"\${name}\b|\${{{name}[:}}]", text), name


@EVERY
def test_variables_are_looked_up_with_what_grafana_knows_there(dashboard: Dashboard) -> None:
    """Of its own names only the range: 12.2 sends ``$__rate_interval`` to Prometheus as it is."""
    for name, variable in chosen(dashboard):
        assert set(re.findall(r"\$\{?(__\w+)", str(variable["query"]))) <= {"__range"}, name


@EVERY
def test_every_variable_has_an_id_of_its_own(dashboard: Dashboard) -> None:
    ids = [variable.get("id", variable["name"]) for variable in dashboard["templating"]["list"]]
    assert len(ids) == len(set(ids))
    assert NEW_VARIABLE not in ids


@EVERY
def test_a_variable_that_is_typed_or_listed_has_its_value(dashboard: Dashboard) -> None:
    for name, variable in variables(dashboard).items():
        if variable["type"] in {"textbox", "custom", "constant"}:
            choices = variable["query"].split(",")
            assert variable["current"]["value"] == choices[0] != "", name


def _used(panel: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What a panel needs of Grafana: kinds and names."""
    yield "panel", panel["type"]
    for transformation in panel.get("transformations", []):
        yield "transformation", transformation["id"]
    fields = panel["fieldConfig"]
    yield "colour", fields["defaults"].get("color", {"mode": "thresholds"})["mode"]
    for override in fields.get("overrides", []):
        for one in override["properties"]:
            assert one["id"] != "custom.cellOptions"
            if one["id"] == "custom.displayMode":
                yield "cell", one["value"]
            if one["id"] == "color":
                yield "colour", one["value"]["mode"]


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


@EVERY
def test_the_promised_grafana_has_everything(dashboard: Dashboard) -> None:
    assert dashboard["schemaVersion"] <= SCHEMA
    for panel in panels(dashboard):
        for kind, name in _used(panel):
            assert _version(SINCE[kind][name]) <= _version(GRAFANA), (panel["title"], name)


@EVERY
def test_what_is_required_is_what_is_promised(dashboard: Dashboard) -> None:
    required = {one["type"]: one["version"] for one in dashboard["__requires"]}
    assert required["grafana"] == GRAFANA
    kinds = {one["id"] for one in dashboard["__requires"] if one["type"] == "panel"}
    assert kinds == {panel["type"] for panel in panels(dashboard)}


@EVERY
def test_names_in_tables_are_not_formatted_as_numbers(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        if panel["type"] != "table":
            continue
        if panel["transformations"][0]["id"] == "groupingToMatrix":  # whose columns data name
            ((name, head),) = panel["transformations"][1]["options"]["renameByName"].items()
            (own,) = (one for one in panel["fieldConfig"]["overrides"] if _names(one) == head)
            assert {"id": "unit", "value": "string"} in own["properties"], name
            # one of "null and NaN" takes every name for a number that is missing
            assert {"id": "mappings", "value": []} in own["properties"], name
            continue
        units_of = {
            override["matcher"]["options"]: one["value"]
            for override in panel["fieldConfig"]["overrides"]
            for one in override["properties"]
            if one["id"] == "unit"
        }
        (heads,) = [
            transformation["options"]["renameByName"]
            for transformation in panel["transformations"]
            if transformation["id"] == "organize"
        ]
        values = {head for name, head in heads.items() if name.startswith("Value")}
        assert units_of.keys() == values, panel["title"]
        assert panel["fieldConfig"]["defaults"].get("unit") == "string", panel["title"]


def _names(override: dict[str, Any]) -> str:
    """The one field that an override is for."""
    return str(override["matcher"]["options"])


# What is chosen above the panels, and stays chosen on the way to a board that has it too.
STAYS = (*KEPT, "node", "namespace", "price_gpu_hour")


def _kept(dashboard: Dashboard, target: Dashboard) -> set[str]:
    """What a link takes along.

    A board of one node or pod has no "All" and would show each of them: from a board that has it
    only what is chosen goes there (``test_all_is_not_taken_to_a_board_that_has_none``).
    """
    one = target["uid"] in ONE and dashboard["uid"] not in ONE
    shared = variables(dashboard).keys() & variables(target).keys() & {*STAYS}
    some = shared & {"node", "namespace"} if one else set()
    return {f"{name}:queryparam" for name in shared - some} | {f"{name}_link:raw" for name in some}


def test_one_name_of_a_figure_has_one_unit_on_all_boards() -> None:
    """Of numbers and columns; what to ask for is of core or of memory, as the panel is called."""
    units: dict[str, set[str]] = {}
    for dashboard in DASHBOARDS.values():
        for panel in panels(dashboard):
            fields = panel["fieldConfig"]
            if panel["type"] == "stat":
                units.setdefault(panel["title"], set()).add(fields["defaults"]["unit"])
            if panel["type"] == "table" and not panel["title"].endswith(" to ask for"):
                for one in fields["overrides"]:
                    found = {each["value"] for each in one["properties"] if each["id"] == "unit"}
                    units.setdefault(one["matcher"]["options"], set()).update(found)
    assert {name: found for name, found in units.items() if len(found) > 1} == {}


@EVERY
def test_every_link_keeps_what_was_chosen(dashboard: Dashboard) -> None:
    """But for what the link itself sets."""
    assert dashboard["links"]
    others = [link["url"] for link in dashboard["links"]]
    assert len(others) == len(DASHBOARDS) - 1
    assert all(link["keepTime"] for link in dashboard["links"])
    for url in [*others, *(url for panel in panels(dashboard) for url in links(panel))]:
        target = DASHBOARDS[re.findall(r"/d/([\w-]+)", url)[0]]
        parts = url.partition("?")[2].split("&")
        if url not in others:  # Grafana 9.4 knows it in links of panels alone
            assert parts.pop(0) == "${__url_time_range}", url
        given = {part.partition("=")[0].removeprefix("var-") for part in parts if "=" in part}
        kept = {part[2:-1] for part in parts if "=" not in part}
        by_itself = {name for one in given for name in (f"{one}:queryparam", f"{one}_link:raw")}
        assert kept == _kept(dashboard, target) - by_itself, url


@EVERY
def test_a_link_sets_variables_that_are_there_and_names_its_node(dashboard: Dashboard) -> None:
    """The node of its row; a link to a board of one node would else show whichever is first."""
    for panel in panels(dashboard):
        heads = {head for one in panel.get("transformations", []) for head in _heads(one)}
        for url in links(panel):
            target = DASHBOARDS[re.findall(r"/d/([\w-]+)", url)[0]]
            chosen = dict(re.findall(r"&var-(\w+)=([^&]+)", url))
            assert chosen.keys() <= variables(target).keys(), url
            assert "node" in chosen or target["uid"] not in ONE, url
            fields = {re.sub(r".*fields\.(\w+)}", r"\1", value) for value in chosen.values()}
            hidden = {
                _names(one)
                for one in panel["fieldConfig"]["overrides"]
                if {"id": "custom.hidden", "value": True} in one["properties"]
            }
            assert fields - {"${__value.raw}"} <= heads | hidden, (panel["title"], url)


@EVERY
def test_a_row_with_its_cluster_leads_to_that_cluster(dashboard: Dashboard) -> None:
    """Two clusters may have a namespace or a node of one name."""
    for panel in panels(dashboard):
        heads = {head for one in panel.get("transformations", []) for head in _heads(one)}
        for url in links(panel) if "Cluster" in heads else ():
            assert "&var-cluster=${__data.fields.chosen}" in url, (panel["title"], url)


@EVERY
def test_a_row_of_a_namespace_names_its_cluster(dashboard: Dashboard) -> None:
    """Else two rows of two clusters look alike, and a link leads to both."""
    for panel in panels(dashboard):
        heads = {head for one in panel.get("transformations", []) for head in _heads(one)}
        if heads & {"Namespace", "Owner"}:
            assert "Cluster" in heads, panel["title"]


@EVERY
def test_lines_of_one_chart_have_not_all_one_colour(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        for override in panel["fieldConfig"].get("overrides", []):
            if panel["type"] == "timeseries" and override["matcher"]["id"] == "byRegexp":
                every = re.fullmatch(override["matcher"]["options"].strip("/"), "x")
                names = {one["id"] for one in override["properties"]}
                assert not every or "color" not in names, panel["title"]


def _heads(transformation: dict[str, Any]) -> Iterator[str]:
    yield from transformation["options"].get("renameByName", {}).values()


@EVERY
def test_boards_of_one_node_or_pod_have_no_all(dashboard: Dashboard) -> None:
    every = {name for name, one in variables(dashboard).items() if one.get("includeAll")}
    narrow = {"mgpu-node": {"node"}, "mgpu-pod": {"node", "namespace", "pod"}}
    assert not every & narrow.get(dashboard["uid"], set())
    assert ("node" in every) == (dashboard["uid"] not in ONE)


@EVERY
def test_colours_with_a_meaning_are_the_same_in_dark_and_light(dashboard: Dashboard) -> None:
    """Grafana's own names have a shade for each; "text" is the colour of text in both."""
    found = re.findall(r'"(?:fixedColor|color|iconColor)": "([^"]+)"', json.dumps(dashboard))
    assert found
    assert all(color == "text" or color.startswith("#") for color in found)


@EVERY
def test_every_dashboard_marks_xids_and_alerts(dashboard: Dashboard) -> None:
    marked = {event["name"]: event for event in dashboard["annotations"]["list"]}
    assert {"XIDs", "Alerts"} <= marked.keys()
    assert ("Pod starts" in marked) == (dashboard["uid"] in ONE)
    for event in marked.values():
        assert event["datasource"] == SOURCE
        assert 'instance=~"$node' in event["expr"]


def _widths(panel: dict[str, Any], inside: float, *, cut: bool = False) -> dict[str, float]:
    """The widths of a table's columns, as the table of Grafana 12 divides what is inside a panel.

    Columns of a given width have it; the others share what is left, and have their least at least.
    ``cut`` is whether the table says that it has not all rows.
    """
    heads = {head for one in panel["transformations"] for head in _heads(one)} - {ROWS}
    heads -= set() if cut else {SHOWN}
    heads -= {
        override["matcher"]["options"]
        for override in panel["fieldConfig"]["overrides"]
        if {"id": "custom.hidden", "value": True} in override["properties"]
    }
    least, given = dict.fromkeys(heads, 0.0), dict.fromkeys(heads, 0.0)
    for override in panel["fieldConfig"]["overrides"]:
        matcher = override["matcher"]
        pattern = matcher["options"].strip("/")
        pattern = pattern if matcher["id"] == "byRegexp" else re.escape(pattern)
        for head in (one for one in heads if re.fullmatch(pattern, one)):
            for one in override["properties"]:
                if one["id"] == "custom.minWidth":
                    least[head] = one["value"]
                if one["id"] == "custom.width":
                    given[head] = one["value"]
    free = [head for head in heads if not given[head]]
    share = (inside - sum(given.values())) / max(len(free), 1)
    return {head: given[head] or max(least[head], share) for head in heads}


@EVERY
def test_no_column_lies_outside_at_1366_pixels(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        if panel["type"] == "table":
            inside = inside_of(panel["gridPos"]["w"])
            widths = _widths(panel, inside)
            assert sum(widths.values()) <= inside + 1, (panel["title"], widths)
            assert min(widths.values()) >= NARROWEST, (panel["title"], widths)


@EVERY
def test_no_column_lies_outside_where_a_table_says_that_it_has_not_all_rows(
    dashboard: Dashboard,
) -> None:
    for panel in panels(dashboard):
        if any("largest 100 of " in target["expr"] for target in panel["targets"]):
            inside = inside_of(panel["gridPos"]["w"])
            widths = _widths(panel, inside, cut=True)
            assert widths[SHOWN] >= len("largest 100 of 1000") * LETTER_WIDTH
            assert sum(widths.values()) <= inside + 1, (panel["title"], widths)


@pytest.mark.parametrize(("board", "title"), [("pod", "Containers now"), ("overview", "Pods now")])
def test_a_pods_name_is_whole_at_1366_pixels(board: str, title: str) -> None:
    """One of a Deployment with a name of two words: of its pods, the ends of the names differ."""
    path = FOLDER / f"mgpu-{board}.json"
    (panel,) = (one for one in panels(load(path)) if one["title"] == title)
    widths = _widths(panel, inside_of(panel["gridPos"]["w"]))
    assert widths["Pod"] >= len("search-embed-7d5b9c6d8f-h4tqw") * LETTER_WIDTH + CELL_EDGES


HEAD_EDGES, SORTED = 14, 22  # pixels beside a head's letters, and of the arrow in Grafana 12.2
# The widths of heads' letters in pixels, as Grafana 12.2 draws them.
HEADS = {"Use of share": 86, "Memory full": 82, "Without work": 91, "Given GPU-h": 89}
HEADS |= {"GPUs used": 75, "Idle GPU-h": 74, "Of the node": 80, "Namespace": 81, "Trouble": 52}
HEADS |= {"Number": 56}


@EVERY
def test_heads_are_whole_at_1366_pixels(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        if panel["type"] == "table":
            (sort,) = (panel.get("options") or {}).get("sortBy") or [{}]
            for head, width in _widths(panel, inside_of(panel["gridPos"]["w"])).items():
                needs = HEADS.get(head, 0) + HEAD_EDGES
                needs += SORTED if head == sort.get("displayName") else 0
                assert width >= needs, (panel["title"], head)


@EVERY
def test_a_card_is_not_at_work_in_more_than_all_of_the_time(dashboard: Dashboard) -> None:
    """A scrape that is late makes a rate of more: a table and a number would say 101 %."""
    for panel in panels(dashboard):
        for target in panel["targets"] if panel["type"] in {"table", "stat"} else ():
            if "rate(mgpu_device_busy_seconds_total" in target["expr"]:
                assert "clamp_max(" in target["expr"], panel["title"]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("All GPUs now", "Node"),
        ("Pods affected", "Pod"),
        ("Alerts that fire", "Meaning"),
        ("Outside of pods now", "Name"),
        ("Pods that idle most", "Pod"),
    ],
)
def test_the_longest_name_takes_what_a_wider_screen_gives(title: str, name: str) -> None:
    (panel,) = (one for one in panels(load(FOLDER / "mgpu-overview.json")) if one["title"] == title)
    inside = inside_of(panel["gridPos"]["w"])
    narrow, wide = (_widths(panel, width) for width in (inside, inside + 100))
    assert wide[name] == narrow[name] + 100


def test_cards_stand_in_the_order_of_their_numbers() -> None:
    """Those of each vendor too: Grafana puts a column without a place where it is found first."""
    (panel,) = (
        one for one in panels(load(FOLDER / "mgpu-overview.json")) if one["title"] == "All GPUs now"
    )
    places = panel["transformations"][1]["options"]["indexByName"]
    for first in FIRST_INDEX.values():
        cards = [places[str(number)] for number in range(first, first + MOST_CARDS)]
        assert cards == sorted(cards)
    assert places["100"] < places["101"] < places["203"]


@EVERY
def test_a_panel_without_data_says_why(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults.get("noValue"), panel["title"]
        if panel["type"] == "table":  # an empty cell of a table with data has this text, too
            everywhere = panel["fieldConfig"]["overrides"][0]
            assert everywhere["matcher"] == {"id": "byRegexp", "options": "/.*/"}
            assert {"id": "noValue", "value": "-"} in everywhere["properties"]
        if panel["type"] == "stat":  # a threshold's colour would judge what is not there
            empty, unknown = (mapping["options"] for mapping in defaults["mappings"])
            # Grafana 12.2 takes an answer without series for null: a mapping wins over noValue.
            assert (empty["match"], unknown["match"]) == ("null", "nan")
            assert empty["result"]["color"] == unknown["result"]["color"] == "text"
            assert empty["result"]["text"] == defaults["noValue"]
            assert unknown["result"]["text"] in {defaults["noValue"], NOT_NOW}
            # The last sample of a range query that ended would be shown as the value of now.
            (target,) = panel["targets"]
            assert target.get("instant") or "or NaN * group(" in target["expr"], panel["title"]
            assert panel["options"]["reduceOptions"]["calcs"] == ["last"]


@EVERY
def test_a_row_that_says_why_there_is_no_other_has_no_figure(dashboard: Dashboard) -> None:
    """It is one of the first column where that finds something in every row: 0 was "GPU lost"."""
    for panel in panels(dashboard):
        for target in panel["targets"] if panel["type"] == "table" else ():
            given = re.search(
                r' or on \(\) label_replace\(vector\(([^)]+)\), "why"', target["expr"]
            )
            if given:
                ((_, head),) = (
                    one
                    for each in panel["transformations"]
                    for one in each["options"].get("renameByName", {}).items()
                    if one[0] == f"Value #{target['refId']}"
                )
                found = [
                    mapping["options"][given[1]]["text"]
                    for override in panel["fieldConfig"]["overrides"]
                    if override["matcher"]["options"] == head
                    for one in override["properties"]
                    if one["id"] == "mappings"
                    for mapping in one["value"]
                    if given[1] in mapping["options"]
                ]
                assert found == ["-"], panel["title"]


@EVERY
def test_a_range_that_is_put_into_words_has_both_ends(dashboard: Dashboard) -> None:
    """Grafana 9.4 compares with an end that is null as with 0."""
    for panel in panels(dashboard):
        for each in _settings(panel["fieldConfig"], "mappings"):
            if each["type"] == "range":
                ends = each["options"]["from"], each["options"]["to"]
                assert None not in ends, (panel["title"], ends)


def _settings(config: dict[str, Any], name: str) -> list[Any]:
    """A list that the fields of a panel have by default, and those of its overrides."""
    properties = [one for override in config["overrides"] for one in override["properties"]]
    own = [one["value"] for one in properties if one["id"] == name]
    return [each for found in (config["defaults"].get(name) or [], *own) for each in found]


@EVERY
def test_the_time_range_and_the_highest_are_asked_for_once(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        for target in panel["targets"]:
            again = target["expr"].replace("[$__range] @ end()", "")  # that is found once
            once = "$__range" in again or ("topk" in again and " @ end()" not in target["expr"])
            assert target.get("instant") or not once, panel["title"]


@EVERY
def test_many_series_have_their_legend_as_a_table_below(dashboard: Dashboard) -> None:
    for panel in panels(dashboard):
        if panel["type"] == "timeseries":
            few = panel["title"] == "All GPUs, by how busy they are"  # of six names
            assert panel["options"]["legend"]["displayMode"] == ("list" if few else "table")
            assert panel["options"]["legend"]["placement"] == "bottom"
            # The last of a series that ended would stand there as the value of now.
            assert {*panel["options"]["legend"]["calcs"]} <= {"mean", "max"}
            assert panel["options"]["tooltip"]["mode"] == "multi"


@EVERY
def test_panels_fill_the_width_and_do_not_overlap(dashboard: Dashboard) -> None:
    _fill_the_width(dashboard["panels"])
    for row in dashboard["panels"]:
        assert not folded(row) or row["collapsed"]
        _fill_the_width(folded(row))


def _fill_the_width(placed: list[dict[str, Any]]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in placed:
        grid = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    lines = sorted({y for _, y in taken})
    assert all(b == a + 1 for a, b in pairwise(lines))
    assert len(taken) == 24 * len(lines)


@EVERY
def test_a_dashboard_is_ready_to_be_provisioned(dashboard: Dashboard) -> None:
    assert dashboard["uid"].startswith("mgpu-")
    assert dashboard.get("id") is None
    assert dashboard["tags"] == ["mgpu"]
    assert dashboard["timezone"] == "utc"
    assert "__inputs" not in dashboard
    ids = [one["id"] for panel in dashboard["panels"] for one in (panel, *folded(panel))]
    assert ids == sorted(set(ids))


def test_links_lead_to_dashboards_that_are_there() -> None:
    uids = {dashboard["uid"] for dashboard in DASHBOARDS.values()}
    text = "\n".join(path.read_text() for path in PATHS)
    found = re.findall(r"/d/([\w-]+)", text)
    assert found
    assert set(found) <= uids


def test_the_catalogue_has_every_board_and_what_its_form_asks() -> None:
    """grafana.com reads name, summary and needs from the file; the form asks for the rest."""
    listed = json.loads((FOLDER / "grafana.com" / "boards.json").read_text())
    assert {one["file"] for one in listed} == {path.name for path in PATHS}
    for one in listed:
        board = DASHBOARDS[one["file"].removesuffix(".json")]
        assert (one["name"], one["summary"]) == (board["title"], board["description"])
        assert one["gnetId"] == board.get("gnetId")
        assert one["grafana"] == f">= {GRAFANA}"
        assert one["grafana"].endswith(
            next(part["version"] for part in board["__requires"] if part["type"] == "grafana")
        )
