"""Rules of prometheus-adapter as it asks them of Prometheus (its docs/config.md)."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "autoscaling"
ADAPTER = EXAMPLES / "prometheus-adapter.yaml"


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


def rules(cluster: str = ".*", job: str = ".+") -> dict[str, list[Rule]]:
    """The rules of the configuration with this cluster and job, by the name of their metric."""
    text = ADAPTER.read_text().replace('cluster=~".*"', f'cluster=~"{cluster}"')
    text = text.replace('job=~".+"', f'job=~"{job}"')
    config = yaml.safe_load(text)
    found = defaultdict(list)
    for rule in [*config["rules"], *config["externalRules"]]:
        found[rule["name"]["as"]].append(_rule(rule))
    return dict(found)


def discovered(known: dict[str, list[Rule]], has: Callable[[str], object]) -> dict[str, Rule]:
    """The rules whose series there are. Of one metric the adapter can have but one."""
    found = {}
    for name, each in known.items():
        (found[name],) = (rule for rule in each if has(rule.series))
    return found


def _rule(rule: dict[str, Any]) -> Rule:
    overrides = rule["resources"]["overrides"]
    labels = {override["resource"]: label for label, override in overrides.items()}
    return Rule(rule["seriesQuery"], labels, rule["metricsQuery"])
