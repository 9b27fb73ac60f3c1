"""values.yaml, values.schema.json and the README's table, from the table of values."""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

import yaml

from charts import alerts, settings
from charts.table import SECTIONS
from charts.table.monitoring import RULES
from charts.table.web import SETTINGS
from charts.value import Value
from exporter import __version__

WIDTH = 100
IMAGE = "ghcr.io/mgpu-exporter/mgpu-exporter"
BEGIN = "<!-- values: written by charts/generate.py -->"
END = "<!-- end of values -->"

Tree = dict[str, "Tree | Value"]


def values_yaml() -> str:
    """Every value with its default, a comment above each, in the table's order."""
    lines = [
        "# Every value, its default and what it means. Written by charts/generate.py from",
        "# charts/table: do not edit. values.schema.json refuses what is not here.",
    ]
    for section in SECTIONS:
        lines += ["", f"# --- {section.title} ".ljust(WIDTH, "-"), ""]
        lines += _lines(_tree(section.values), 0)
    return "\n".join(lines) + "\n"


def _tree(values: tuple[Value, ...]) -> Tree:
    tree: Tree = {}
    for value in values:
        *folders, leaf = value.path.split(".")
        at = tree
        for folder in folders:
            inner = at.setdefault(folder, {})
            assert isinstance(inner, dict), value.path  # noqa: S101 - a value is no folder
            at = inner
        at[leaf] = value
    return tree


def _lines(tree: Tree, depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, node in tree.items():
        if isinstance(node, Value):
            yield from textwrap.wrap(
                node.about, WIDTH, initial_indent=f"{pad}# ", subsequent_indent=f"{pad}# "
            )
            dumped = yaml.safe_dump({name: node.default}, sort_keys=False, allow_unicode=True)
            yield from textwrap.indent(dumped, pad).rstrip().splitlines()
        else:
            yield f"{pad}{name}:"
            yield from _lines(node, depth + 1)


def schema_json() -> str:
    """JSON Schema (draft 7, as Helm reads it); what is not in the table is refused."""
    every = tuple(value for section in SECTIONS for value in section.values)
    root = _schema_of(_tree(every))
    properties = root["properties"]
    assert isinstance(properties, dict)  # noqa: S101 - see _schema_of
    properties[SETTINGS] = {**settings.schema(), "description": properties[SETTINGS]["description"]}
    rule = properties[RULES.partition(".")[0]]["properties"]
    name = RULES.rpartition(".")[2]
    rule[name] = {**alerts.schema(), "description": rule[name]["description"]}
    rule["disabled"]["items"] = {"enum": alerts.names()}
    # A chart that has this one as a part hands both down.
    properties["enabled"] = {"type": "boolean"}
    properties["global"]["additionalProperties"] = True
    document = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart mgpu-exporter",
        **_with_null(root),
        "type": "object",
        "patternProperties": {"^x-": True},  # for YAML anchors
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _schema_of(tree: Tree) -> dict[str, object]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {**node.schema, "description": node.about}
            if isinstance(node, Value)
            else _schema_of(node)
            for name, node in tree.items()
        },
    }


def _with_null(form: Mapping[str, object]) -> dict[str, object]:
    """The form with null wherever a value may be left out.

    Helm drops null only where the chart has a default: that of a label stays, and so does that of
    a setting. The templates take what is null for what is not there (``mgpu.values``).
    """
    made = {**form}
    if isinstance(form.get("type"), str):
        made["type"] = [form["type"], "null"]
    if isinstance(choices := form.get("enum"), list):
        made["enum"] = [*choices, None]
    if isinstance(choices := form.get("anyOf"), list):
        made["anyOf"] = [*choices, {"type": "null"}]
    needed = form.get("required", ())
    assert isinstance(needed, Sequence)  # noqa: S101 - so says JSON Schema
    if isinstance(inner := form.get("properties"), Mapping):
        made["properties"] = {
            # What has to be there is not null, and what is forbidden is so with any value.
            name: one if name in needed or one is False else _with_null(one)
            for name, one in inner.items()
        }
    if isinstance(others := form.get("additionalProperties"), Mapping):
        made["additionalProperties"] = _with_null(others)
    return made


def defaults_json() -> str:
    """Part of the values, the whole as "" → "filled" and "bare", each name → default.

    A template has "filled" wherever they are missing, "bare" only if the whole part is.
    """
    every = tuple(value for section in SECTIONS for value in section.values)
    parts = dict(_parts(_tree(every)))
    return json.dumps(parts, indent=1, ensure_ascii=False) + "\n"


def _parts(tree: Tree, *path: str) -> Iterator[tuple[str, object]]:
    own = [(name, node) for name, node in tree.items() if isinstance(node, Value)]
    yield (
        "/".join(path),
        {
            "filled": {name: value.default for name, value in own if not _may_be_bare(value)},
            "bare": {name: value.default for name, value in own if _may_be_bare(value)},
        },
    )
    for name, node in tree.items():
        if not isinstance(node, Value):
            yield from _parts(node, *path, name)


def _may_be_bare(value: Value) -> bool:
    """Whether null takes more away than nothing: a list, a table, or what Kubernetes has too."""
    return bool(value.default) and (value.optional or not isinstance(value.default, int | str))


MONITORS = {"podMonitor", "serviceMonitor"}


def table() -> str:
    """The values as Markdown, a table for each section."""
    parts = []
    for section in SECTIONS:
        # What two monitors have alike is one row.
        cells: dict[tuple[str, str, str], list[str]] = {}
        for value in section.values:
            of, _, name = value.path.partition(".")
            alike = name if of in MONITORS else value.path
            key = (alike, _default(value.default), _cell(value.about))
            cells.setdefault(key, []).append(f"`{value.path}`")
        rows = (f"| {', '.join(paths)} | {key[1]} | {key[2]} |\n" for key, paths in cells.items())
        parts.append(
            f"### {section.title}\n\n| value | default | meaning |\n| --- | --- | --- |\n"
            + "".join(rows)
        )
    return "\n".join(parts)


def _default(default: object) -> str:
    if default in ("", [], {}):
        return ""
    if isinstance(default, Mapping | list):
        return "see values.yaml" if len(json.dumps(default)) > 60 else f"`{json.dumps(default)}`"  # noqa: PLR2004 - what a cell holds
    return f"`{json.dumps(default) if isinstance(default, bool) else default}`"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def with_version(chart: str) -> str:
    """Chart.yaml with the exporter's version, as the chart's own and that of its image."""
    places = (
        (r"^version: .*$", f"version: {__version__}"),
        (r"^appVersion: .*$", f'appVersion: "{__version__}"'),
        (r"(?<=image: )ghcr\.io/mgpu-exporter/mgpu-exporter:.*$", f"{IMAGE}:{__version__}"),
    )
    for place, text in places:
        chart, count = re.subn(place, text, chart, flags=re.MULTILINE)
        assert count == 1, place  # noqa: S101 - Chart.yaml has each of them once
    return chart


def with_table(readme: str) -> str:
    """The README with its table replaced."""
    head, _, rest = readme.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{table()}\n{END}{tail}"
