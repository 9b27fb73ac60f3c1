"""What is written from the table of values."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from charts import settings
from charts.table import SECTIONS
from exporter.agent.settings import TABLE
from tests.chart.rendering import CHART, render

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS = yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)
VALUES = [value for section in SECTIONS for value in section.values]


def errors(values: dict[str, Any]) -> list[str]:
    return [e.message for e in jsonschema.Draft7Validator(SCHEMA).iter_errors(values)]


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_the_defaults_are_allowed() -> None:
    assert errors(DEFAULTS) == []


def test_no_value_is_in_the_table_twice() -> None:
    paths = [value.path for value in VALUES]
    assert sorted(set(paths)) == sorted(paths)


def folders(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if schema.get("additionalProperties") is False:
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from folders(inner or {}, (*path, name))


@pytest.mark.parametrize("path", list(folders(SCHEMA)), ids=".".join)
def test_an_unknown_value_is_refused_with_its_name(path: tuple[str, ...]) -> None:
    values = copy.deepcopy(DEFAULTS)
    node = values
    for part in path:
        node = node.setdefault(part, {})
    node["misspelt"] = True
    assert any("misspelt" in message for message in errors(values))


NEEDED = [
    v.path for v in VALUES if isinstance(v.default, int | str) and v.default and not v.optional
]


@pytest.mark.program("helm")
def test_null_for_what_is_needed_is_the_default() -> None:
    given: dict[str, Any] = {}
    for path in NEEDED:
        *folders, leaf = path.split(".")
        node = given
        for part in folders:
            node = node.setdefault(part, {})
        node[leaf] = None
    assert len(NEEDED) > 20
    assert render(given).objects == render().objects


EVERY_PART: dict[str, Any] = {
    **{name: {"enabled": True} for name in ("serviceMonitor", "prometheusRule")},
    "dashboards": {"enabled": True, "operator": {"enabled": True}},
    "networkPolicy": {"enabled": True, "from": [{"podSelector": {}}]},
    "openshift": {"securityContextConstraints": True},
    "verticalPodAutoscaler": {"enabled": True},
}


@pytest.mark.program("helm")
@pytest.mark.parametrize("more", [{}, {"compat": {"dropIn": "dcgm"}}], ids=["own", "drop-in"])
def test_null_for_what_is_empty_is_the_same(more: dict[str, Any]) -> None:
    """As of a key in a values file with nothing below it."""
    given = copy.deepcopy({**EVERY_PART, **more})
    for value in VALUES:
        *folders, leaf = value.path.split(".")
        node = given
        for part in folders:
            node = node.setdefault(part, {})
        if not value.default:
            node.setdefault(leaf, None)
    assert render(given).objects == render({**EVERY_PART, **more}).objects


@pytest.mark.program("helm")
def test_null_for_a_list_or_a_table_is_none_of_it() -> None:
    given: dict[str, Any] = {
        **EVERY_PART,
        **dict.fromkeys(("gpuNodeLabels", "nodeSelector", "tolerations", "resources")),
        **dict.fromkeys(("livenessProbe", "readinessProbe")),
        "prometheusRule": {
            "enabled": True,
            "xids": dict.fromkeys(("critical", "warning", "ignored")),
        },
    }
    text = render(given).text
    assert "nil" not in text
    assert "%!" not in text
    assert 'xid=~""' in text


def test_a_parent_chart_may_hand_down_its_own_globals_and_condition() -> None:
    assert errors({**DEFAULTS, "enabled": True, "global": {"storageClass": "fast"}}) == []


def test_what_the_chart_owns_are_settings_that_exist() -> None:
    assert {setting.name for setting in TABLE.values()} >= settings.OWNED


@pytest.mark.parametrize("setting", list(settings.free()), ids=lambda setting: setting.name)
def test_the_schema_allows_the_default_of_each_setting(setting: Any) -> None:
    node = SCHEMA["properties"]["settings"]
    for part in setting.name.split("."):
        node = node["properties"][part]
    if setting.default:
        parts = setting.default.split(",") if setting.kind.many else setting.default
        jsonschema.validate(yaml.safe_load(str(parts)), node)


@pytest.mark.parametrize("name", sorted(settings.OWNED))
def test_a_setting_that_the_chart_owns_is_not_given_twice(name: str) -> None:
    nested: Any = "x"
    for part in reversed(name.split(".")):
        nested = {part: nested}
    assert errors({"settings": nested})
