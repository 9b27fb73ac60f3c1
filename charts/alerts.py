"""The alerts as values of the chart: the form of `prometheusRule.rules`, and what a template needs.

A template cannot read Python: ``files/alerts.json`` has the places in the expressions.
"""

import json
from pathlib import Path

import yaml

from charts.value import DURATION, PATTERN, TEXT, Schema
from exporter.model.alerts import HARDWARE, IGNORED, WATCH
from rules.parameters import NUMBER, TIME, Parameter, of
from rules.xids import pattern

RULES = Path(__file__).parent.parent / "rules" / "mgpu-alerts.yaml"
LISTS = {"critical": HARDWARE, "warning": WATCH, "ignored": IGNORED}
"""Value below `prometheusRule.xids` → the alert that it is the list of."""

_FORMS: dict[str, Schema] = {NUMBER: {"type": "number"}, TIME: DURATION}
_PROMQL_TIME = {"minLength": 2}  # not empty: `[]` would be no range


def names() -> list[str]:
    """All alerts, in the order of the rules."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule["alert"] for group in groups for rule in group["rules"]]


def schema() -> dict[str, object]:
    """The form of `prometheusRule.rules`: alerts by name, and nothing else."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _alert(name) for name in names()},
    }


def _alert(name: str) -> dict[str, object]:
    common: dict[str, object] = {
        "enabled": {"type": "boolean", "description": "Whether it is there."},
        "for": {**DURATION, "description": "How long it must hold."},
        "severity": {**TEXT, "description": "Its label `severity`."},
    }
    own = {one.name: _parameter(one) for one in of(name)}
    return {"type": "object", "additionalProperties": False, "properties": {**common, **own}}


def _parameter(one: Parameter) -> dict[str, object]:
    form = _FORMS.get(one.kind, PATTERN)
    more = _PROMQL_TIME if one.kind == TIME else {}
    return {**form, **more, "description": f"{one.about} ({one.default})"}


def places_json() -> str:
    """Alert → parameter → the text that is found, and what stands around the value."""
    found = {
        name: {
            one.name: {"find": one.found, "before": one.before, "after": one.after}
            for one in of(name)
        }
        for name in names()
        if of(name)
    }
    # In an expression a list of XIDs is one pattern: the template finds ours, and puts that of the
    # values in its place.
    lists = {value: pattern(alert) for value, alert in LISTS.items()}
    return json.dumps({"parameters": found, "xids": lists}, indent=1, ensure_ascii=False) + "\n"
