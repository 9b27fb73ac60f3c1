"""The sixteen worlds of labels: what Prometheus calls those of ours, and kube-state-metrics' node.

Without ``honor_labels`` Prometheus renames a label of a page to ``exported_…`` where its target has
one of the same name, and so each by itself: ``namespace``, ``pod`` and ``container`` of the
exporter, and ``node`` of kube-state-metrics.
"""

import re
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

import pytest
from _pytest.mark import ParameterSet

EXPORTER = {"namespace": "monitoring", "pod": "mgpu-exporter-x7k2p", "container": "exporter"}
KUBE_STATE_METRICS = {"node": "node-of-ksm"}
LABEL = re.compile(r'\b(\w+)="')


class World(NamedTuple):
    """The labels that the two targets have."""

    exporter: Mapping[str, str]
    kube_state_metrics: Mapping[str, str]

    def of(self, series: str) -> str:
        """A series in promtool's notation as Prometheus stores it; vLLM's stay as they are."""
        name, _, labels = series.removesuffix("}").partition("{")
        if name.startswith("vllm:"):
            return series
        target = self.kube_state_metrics if name.startswith("kube_") else self.exporter
        own = LABEL.sub(
            lambda found: f"exported_{found[0]}" if found[1] in target else found[0], labels
        )
        all_of_them = [*filter(None, [own]), *(f'{key}="{value}"' for key, value in target.items())]
        return f"{name}{{{','.join(all_of_them)}}}"

    def own(self, labels: Mapping[str, str]) -> dict[str, str]:
        """The labels that the page gave a series, or that a question kept, by their own names."""
        kept = {name: value for name, value in labels.items() if name not in self.exporter}
        return {name.removeprefix("exported_"): value for name, value in kept.items()}


def _worlds() -> dict[str, World]:
    found = {}
    for *exporter, node in product((False, True), repeat=len(EXPORTER) + 1):
        has = [name for name, there in zip(EXPORTER, exporter, strict=True) if there]
        title = "-".join([*has, *(["node"] if node else [])]) or "honored"
        found[title] = World(
            {name: EXPORTER[name] for name in has}, KUBE_STATE_METRICS if node else {}
        )
    return found


WORLDS = _worlds()
"""By the labels that are renamed."""

REPORTED = ("namespace", "namespace-node", "namespace-pod")
"""What people met: OpenShift, jobs by annotations, Services' jobs. The quick tests have these."""

OFTEN = {
    title for title, world in WORLDS.items() if title in REPORTED or sum(map(len, world)) % 2 == 0
}
"""Those with an even number of renamed labels: of any three labels, each combination is in one.

A rule, a query or a command that is wrong by one, two or three of the labels is wrong in one of
these. The nightly tests have all sixteen.
"""


def slow_worlds(*but: str) -> list[ParameterSet]:
    """The titles as parameters of a slow test; of some only in the night."""
    return [
        pytest.param(title, marks=[pytest.mark.slow if title in OFTEN else pytest.mark.nightly])
        for title in WORLDS
        if title not in but
    ]
