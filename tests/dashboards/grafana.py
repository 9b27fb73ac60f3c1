"""A dashboard's variables and queries as Grafana resolves and asks them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.error import HTTPError

import yaml

FOLDER = Path(__file__).parent.parent.parent / "dashboards"
PATHS = sorted(FOLDER.glob("*.json"))

# What the boards read of recorded rules is of these, without cost and sizing.
RULES = [
    rule
    for group in yaml.safe_load((FOLDER.parent / "rules/mgpu-recording.yaml").read_text())["groups"]
    if group["name"] in {"mgpu-namespaces", "mgpu-pods-recorded", "mgpu-workloads"}
    for rule in group["rules"]
]

Dashboard = dict[str, Any]


class Ask(Protocol):
    """Asks a Prometheus for the vector that an expression gives."""

    def __call__(self, expression: str, /) -> list[dict[str, Any]]:
        """The vector."""


# $name, ${name}, ${name:format}
VARIABLE = re.compile(r"\$([a-zA-Z_]\w*)|\$\{(\w+)(?:\.[\w.]+)?(?::\w+)?\}")
ALL = ".*"  # what stands for all in a query; an address has Grafana's own name for it
# Where a fleet is smaller than a table: what test_largest.py says of a larger one.
LARGEST = dict.fromkeys(
    ("largest_owners", "largest_pods", "largest_core_advice", "largest_memory_advice"), ALL
)
LABEL_NAME = re.compile(r"[a-zA-Z_]\w*")
LABEL_VALUES = re.compile(r"label_values\((.+), ([\w$]*)\)")
UNSORTED = 0  # of a variable: what can be chosen stands as Prometheus answers
QUERY_RESULT = re.compile(r"query_result\((.+)\)")


class Query(NamedTuple):
    """A query of a panel."""

    panel: str
    expr: str
    legend: str
    letter: str = ""


def load(path: Path) -> Dashboard:
    """A dashboard's JSON."""
    found: Dashboard = json.loads(path.read_text())
    return found


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    """The panels that show something, those of folded rows too."""
    every = [*dashboard["panels"], *(one for row in dashboard["panels"] for one in folded(row))]
    return [panel for panel in every if panel["type"] != "row"]


def folded(panel: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The panels that a row keeps while it is folded."""
    found: list[dict[str, Any]] = panel.get("panels", [])
    return found


def variables(dashboard: Dashboard) -> dict[str, dict[str, Any]]:
    """The variables by name."""
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def queries(dashboard: Dashboard) -> Iterator[Query]:
    """All queries of all panels, and of what is marked on the axis of time."""
    for event in dashboard["annotations"]["list"]:
        yield Query(event["name"], event["expr"], event["titleFormat"] + event["textFormat"])
    for panel in panels(dashboard):
        for target in panel["targets"]:
            legend = target.get("legendFormat", "")
            yield Query(panel["title"], target["expr"], legend, target["refId"])


def links(panel: Mapping[str, Any]) -> Iterator[str]:
    """The addresses of a panel's links to boards: its own, its fields' and its columns'."""
    fields = panel["fieldConfig"]
    of_columns = [
        link
        for override in fields.get("overrides", [])
        for one in override["properties"]
        if one["id"] == "links"
        for link in one["value"]
    ]
    for link in [*panel.get("links", []), *fields["defaults"].get("links", []), *of_columns]:
        if link["url"].startswith("/d/"):
            yield link["url"]


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with the variables' values; one that is not known fails the test.

    The end of the time range is past at each moment that a test asks about: each is the last step.
    Its beginning is before all times, unless it is given.
    """
    every = {"__from": "0", "__to": "0", "__interval_ms": "0", "__all": "$__all", **values}

    def value(match: re.Match[str]) -> str:
        found = every[match[1] or match[2]]
        if match[0].endswith(":queryparam}"):
            return f"var-{match[2]}={'$__all' if found == ALL else found}"
        return found

    return VARIABLE.sub(value, text)


def resolve(dashboard: Dashboard, ask: Ask, fixed: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables when a dashboard is opened: the first of each, or all.

    A text box has what its ``current`` says: Grafana 9 and 10 do not look at its query. A variable
    that has nothing to choose from is empty.
    """
    values = dict(fixed)
    for name, variable in variables(dashboard).items():
        if name in values:
            continue
        if variable["type"] in {"textbox", "custom"}:
            values[name] = variable.get("current", {}).get("value", "")
        elif variable.get("includeAll", False):
            values[name] = variable.get("allValue") or _any_of(
                options(dashboard, name, ask, values)
            )
        elif variable["type"] == "query":
            values[name] = next(iter(options(dashboard, name, ask, values)), "")
    return values


def _any_of(names: Iterable[str]) -> str:
    """All that can be chosen, as Grafana writes them into a query where "All" has no text."""
    found = [re.escape(name).replace("\\", "\\\\") for name in names]
    return found[0] if len(found) == 1 else f"({'|'.join(found)})"


def options(dashboard: Dashboard, name: str, ask: Ask, values: Mapping[str, str]) -> list[str]:
    """What can be chosen of a variable."""
    variable = variables(dashboard)[name]
    found = _options(fill(variable["query"], values), variable.get("regex", ""), ask)
    return found if variable["sort"] == UNSORTED else sorted(found)


def refused(dashboard: Dashboard, ask: Ask, states: Iterable[Mapping[str, str]]) -> Iterator[str]:
    """What Prometheus refuses of a dashboard's queries and look-ups with these values."""
    asked = {
        (query.panel, fill(query.expr, values)) for values in states for query in queries(dashboard)
    }
    for name, variable in variables(dashboard).items():
        if variable["type"] == "query":
            asked |= {(name, looked_up(fill(variable["query"], values))) for values in states}
    for place, expression in sorted(asked):
        try:
            ask(expression)
        except HTTPError as error:
            yield f"{place}: {expression}: {error.read().decode()}"


def looked_up(query: str) -> str:
    """A look-up as an expression; one that Grafana sends to no label is not a valid one."""
    if found := LABEL_VALUES.fullmatch(query):
        label = found[2] if LABEL_NAME.fullmatch(found[2]) else "no label"
        return f"count by ({label}) ({found[1]})"
    asked = QUERY_RESULT.fullmatch(query)
    assert asked, query
    return asked[1]


def _options(query: str, regex: str, ask: Ask) -> list[str]:
    expression = looked_up(query)
    if found := LABEL_VALUES.fullmatch(query):
        vector = ask(expression)
        return [*dict.fromkeys(one["metric"].get(found[2], "") for one in vector)]
    pattern = re.compile(regex.strip("/").replace("(?<", "(?P<"))
    texts = [_text(one) for one in ask(expression)]
    value = "value" if "value" in pattern.groupindex else 1
    return [*dict.fromkeys(match[value] for text in texts if (match := pattern.search(text)))]


def _text(one: Mapping[str, Any]) -> str:
    """A series and its value, as query_result shows it."""
    labels = ",".join(f'{name}="{value}"' for name, value in one["metric"].items())
    return f"{{{labels}}} {one['value'][1]} {one['value'][0]}"
