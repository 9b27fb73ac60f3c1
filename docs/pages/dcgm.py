"""The page about standing in dcgm-exporter's place, from dcgm.yaml and the table of its names."""

from itertools import starmap
from pathlib import Path
from typing import Any

import yaml

from exporter.metrics.compat.subjects import SPLIT
from pages.tables import table

QUERIES = Path(__file__).with_name("dcgm.yaml")

DCGM_PREFACE = """\
# In dcgm-exporter's place

Written by `docs/generate.py` from `docs/pages/dcgm.yaml` and `exporter/metrics/compat/dcgm.py`. Do
not edit.

Dashboards, rules and tools that ask for dcgm-exporter go on working: this exporter serves the same
series under the same Service. On a shared card they then show each container's own figures.

## Install it

```sh
helm upgrade --install gpu-usage charts/mgpu-exporter --namespace gpu-operator \\
  --set compat.dropIn=dcgm
```

There is no release yet: [build the image](getting-started.md#4-a-cluster) and add
`--set image.registry=registry.example`. To see the series first, without a cluster:
`make run ARGS="--simulate=demo --compat=dcgm"`.

Switch dcgm-exporter off first, or every card is counted twice: `dcgmExporter.enabled=false` in the
values of the GPU operator, or `helm uninstall` of its own chart. While its Service
`nvidia-dcgm-exporter` is still there, Helm refuses to take the name. A release of this chart that
is there already becomes the drop-in by an upgrade: the DaemonSet gets another name, so that
Kubernetes replaces it.

"""

_MONITOR_TEXT = """
`serviceMonitor.enabled=true` makes a ServiceMonitor with the job `nvidia-dcgm-exporter`, as the GPU
operator's. It honours the labels of the series. If your queries ask for `exported_pod`,
`exported_namespace` and `exported_container`, as they do behind the operator's own ServiceMonitor,
add `--set serviceMonitor.honorLabels=false`.
"""

_SPLIT_TEXT = """
## What is split by container

Some device figures are split on a card that several containers share, or one container and
processes outside pods: {}. They have one series for each container, and one without a container's
labels for the rest. Their sum over a card is the card. All other figures of such a card have one
series without a container.

`DCGM_FI_DEV_FB_FREE` is such a figure: free memory is the card's and no pod's. With one container
on the card the row has its labels, with several it has none; dcgm-exporter repeats it for each pod.
So `sum by (UUID)` of used, free and reserved memory is the card's. A query that adds a pod's used
and free memory finds nothing on a shared card: take `mgpu_pod_memory_limit_utilization_ratio`.

All of dcgm-exporter's default counters are served.
"""

_CONFORMANCE_TEXT = """
## Queries of dashboards and tools

Each was asked of a real Prometheus that scraped the simulated node `demo`
(`tests/compat/test_conformance.py`). *data*: it returns series. *quiet*: it is an alert's, and
returns none on a healthy node. *none*: it cannot be given, and the last column says why. The column
before it says what dcgm-exporter answers instead, by its source. Queries that mean the same in both
are counted only; `docs/pages/dcgm.yaml` has them.

By hand, the list was asked on a Kubernetes 1.36 node under the real Prometheus Operator (0.85.0),
with the simulated node: 31 queries returned data, 8 were quiet and 9 returned none, as listed here.
kube-prometheus' rules (4d719f1) were loaded beside the chart's: 283 rules, none failed. The custom
metrics API (prometheus-adapter 0.12) had `DCGM_FI_DEV_GPU_UTIL`, `DCGM_FI_DEV_FB_USED` and
`DCGM_FI_PROF_GR_ENGINE_ACTIVE` of two pods on one card. Of three pods on a stand-in for the driver,
two on one card, 29 of the 31 were answered: the other two ask for a namespace of the demo. Queries
of power violation, XIDs, PCIe traffic and used against free memory find only pods that are alone
on their card. `make cluster-test` lets the operator's CRDs take the monitors and PrometheusRule of
all 13 presets; the drop-in's and GrafanaDashboards were taken by hand.
"""

_EQUIVALENT_TEXT = """
## Grafana's board 14574

It asks nvidia_gpu_exporter. What it shows can be asked here by these queries, each tried in the
same way.
"""


def dcgm() -> str:
    """The text of dcgm.md."""
    lists = yaml.safe_load(QUERIES.read_text(encoding="utf-8"))
    return (
        DCGM_PREFACE
        + table(
            ("who looks for dcgm-exporter", "by", "here"),
            ((one["who"], one["by"], one["here"]) for one in lists["finders"]),
        )
        + _MONITOR_TEXT
        + _SPLIT_TEXT.format(", ".join(f"`{whole}`" for whole in SPLIT.values()))
        + _CONFORMANCE_TEXT
        + "".join(
            _tool(tool, source, lists["queries"]) for tool, source in lists["sources"].items()
        )
        + _EQUIVALENT_TEXT
        + "\n"
        + table(("it asks for", "here"), starmap(_equivalent, lists["equivalents"].items()))
    )


def _tool(tool: str, source: str, queries: list[dict[str, Any]]) -> str:
    heads = ("query", "here", "dcgm-exporter", "why not")
    asked = [one for one in queries if one["tool"] == tool]
    rows = [
        (f"`{one['query']}`", one["expect"], one.get("differs", ""), one.get("why", ""))
        for one in asked
        if one.keys() & {"differs", "why"}
    ]
    same = len(asked) - len(rows)
    text = f"\n### {tool}\n\nSource: {source}.\n"
    if rows:
        text += "\n" + table(heads, rows)
    return text + (
        f"\nIts {'other ' if rows else ''}queries, {same}, answer the same.\n" if same else ""
    )


def _equivalent(name: str, query: str) -> tuple[str, str]:
    reason = query.removeprefix("none: ")
    return f"`{name}`", f"`{query}`" if reason == query else f"none: {reason}"
