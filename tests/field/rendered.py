"""What a site gets by its values: the chart's objects by Helm, the chart's alerts by promtool."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.chart.rendering import Refused, Rendered, render
from tests.rules.run import Alert, Case, raised, written

__all__ = ["Refused", "Rendered", "alerts", "render"]


def alerts(
    series: Mapping[str, str],
    folder: Path,
    *titles: str,
    minutes: Iterable[int],
    values: Mapping[str, Any] | None = None,
) -> list[Alert]:
    """Which of these alerts of the chart are raised over series in promtool's notation.

    A value stands for each minute. ``values`` are the chart's.
    """
    own = dict(values or {})
    own["prometheusRule"] = {"enabled": True, **own.get("prometheusRule", {})}
    groups = render(own).one("PrometheusRule")["spec"]["groups"]
    rules = [rule for group in groups for rule in group["rules"] if rule.get("alert") in titles]
    assert {rule["alert"] for rule in rules} == set(titles)
    case = Case(series, titles, list(minutes))
    return raised([written(rules, folder)], {"": case}, folder, "1m")
