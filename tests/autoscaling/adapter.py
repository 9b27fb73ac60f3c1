"""Rules of prometheus-adapter as it asks them of Prometheus (its docs/config.md)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "autoscaling"


class Rule(NamedTuple):
    """One rule: how the adapter finds its series, and what it asks for an autoscaler."""

    series: str
    labels: dict[str, str]  # resource → the label that names it
    template: str

    def of_pods(self, namespace: str, pods: Sequence[str]) -> str:
        """The query for a metric of these pods."""
        matchers = {self.labels["namespace"]: f'="{namespace}"', self.labels["pod"]: "=~"}
        matchers[self.labels["pod"]] += f'"{"|".join(pods)}"'
        return self._filled(matchers, self.labels["pod"])

    def external(self, namespace: str) -> str:
        """The query for an external metric of a namespace: the adapter groups it by nothing."""
        return self._filled({self.labels["namespace"]: f'="{namespace}"'}, "")

    def _filled(self, matchers: dict[str, str], group_by: str) -> str:
        given = ",".join(f"{label}{match}" for label, match in matchers.items())
        filled = self.template.replace("<<.LabelMatchers>>", given)
        return filled.replace("<<.GroupBy>>", group_by)


def rules(file: str) -> dict[str, Rule]:
    """The rules of a configuration file, by the name of their metric."""
    config = yaml.safe_load((EXAMPLES / file).read_text())
    return {_name(rule): _rule(rule) for rule in [*config["rules"], *config["externalRules"]]}


def _name(rule: dict[str, Any]) -> str:
    return str(rule["name"]["as"])


def _rule(rule: dict[str, Any]) -> Rule:
    overrides = rule["resources"]["overrides"]
    labels = {override["resource"]: label for label, override in overrides.items()}
    return Rule(rule["seriesQuery"], labels, rule["metricsQuery"])
