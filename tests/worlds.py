"""The sixteen worlds of labels: what Prometheus calls those of ours, and kube-state-metrics' node.

Without ``honor_labels`` Prometheus renames a label of a page to ``exported_…`` where its target has
one of the same name, and so each by itself: ``namespace``, ``pod`` and ``container`` of the
exporter, and ``node`` of kube-state-metrics.
"""

import re
from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

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
