"""A dashboard's variables and queries as Grafana resolves and asks them."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

FOLDER = Path(__file__).parent.parent.parent / "dashboards"
PATHS = sorted(FOLDER.glob("*.json"))

Dashboard = dict[str, Any]


class Ask(Protocol):
    """Asks a Prometheus for the vector that an expression gives."""

    def __call__(self, expression: str, /) -> list[dict[str, Any]]:
        """The vector."""


# $name, ${name}, ${name:format}
VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?:\.[\w.]+)?(?::\w+)?\}")
LABEL_VALUES = re.compile(r"label_values\((.+), ([\w$]+)\)")
QUERY_RESULT = re.compile(r"query_result\((.+)\)")


class Query(NamedTuple):
    """A query of a panel."""

    panel: str
    expr: str
    legend: str


def load(path: Path) -> Dashboard:
    """A dashboard's JSON."""
    found: Dashboard = json.loads(path.read_text())
    return found


def panels(dashboard: Dashboard) -> list[dict[str, Any]]:
    """The panels that show something."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def variables(dashboard: Dashboard) -> dict[str, dict[str, Any]]:
    """The variables by name."""
    return {variable["name"]: variable for variable in dashboard["templating"]["list"]}


def queries(dashboard: Dashboard) -> Iterator[Query]:
    """All queries of all panels."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield Query(panel["title"], target["expr"], target.get("legendFormat", ""))


def fill(text: str, values: Mapping[str, str]) -> str:
    """A text with the variables' values; one that is not known fails the test."""
    return VARIABLE.sub(lambda match: values[match[1] or match[2]], text)


def resolve(dashboard: Dashboard, ask: Ask, fixed: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables when a dashboard is opened: the first of each, or all."""
    values = dict(fixed)
    for name, variable in variables(dashboard).items():
        if name in values:
            continue
        if variable["type"] == "textbox":
            values[name] = variable["query"]
        elif variable["type"] == "query":
            options = _options(fill(variable["query"], values), variable.get("regex", ""), ask)
            whole = variable.get("includeAll", False)
            values[name] = variable["allValue"] if whole else options[0]
    return values


def options(dashboard: Dashboard, name: str, ask: Ask, values: Mapping[str, str]) -> list[str]:
    """What can be chosen of a variable."""
    variable = variables(dashboard)[name]
    return _options(fill(variable["query"], values), variable.get("regex", ""), ask)


def _options(query: str, regex: str, ask: Ask) -> list[str]:
    if found := LABEL_VALUES.fullmatch(query):
        vector = ask(f"count by ({found[2]}) ({found[1]})")
        return sorted({one["metric"].get(found[2], "") for one in vector})
    asked = QUERY_RESULT.fullmatch(query)
    assert asked, query
    pattern = re.compile(regex.strip("/"))
    texts = [_text(one) for one in ask(asked[1])]
    return sorted({match[1] for text in texts if (match := pattern.search(text))})


def _text(one: Mapping[str, Any]) -> str:
    """A series and its value, as query_result shows it."""
    labels = ",".join(f'{name}="{value}"' for name, value in one["metric"].items())
    return f"{{{labels}}} {one['value'][1]} {one['value'][0]}"
