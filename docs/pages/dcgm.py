"""The page about standing in dcgm-exporter's place, from dcgm.yaml and the table of its names."""

import re
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path
from typing import Any

import yaml

from exporter.metrics.compat.dcgm_renamed import RENAMED
from exporter.metrics.compat.subjects import SPLIT
from pages.tables import table

QUERIES = Path(__file__).with_name("dcgm.yaml")
NONE = "none: "
SELECTOR = re.compile(r"\{[^}]*\}")
BY = re.compile(r"by \([^)]*\)")

DCGM_PREFACE = """\
# In dcgm-exporter's place

<!-- Written by docs/generate.py from docs/pages/dcgm.yaml: do not edit. -->

**Dashboards, rules and tools that ask for dcgm-exporter go on working**: this exporter serves the
same series under the same Service. On a shared card they show each container's own figures.

## Install it

```sh
helm upgrade --install gpu-usage charts/mgpu-exporter --namespace gpu-operator \\
  --set compat.dropIn=dcgm
```

There is no release yet: [build the image](installation.md) and add
`--set image.registry=registry.example`. To see the series first:
`make run ARGS="--simulate=demo --compat=dcgm"`.

Switch dcgm-exporter off first, or every card is counted twice and Helm refuses the Service's name:
`dcgmExporter.enabled=false` in the GPU operator's values, or `helm uninstall` of its own chart.
An older release of this chart becomes the drop-in by an upgrade.

"""

_MONITOR_TEXT = """
`serviceMonitor.enabled=true` makes a ServiceMonitor with the job `nvidia-dcgm-exporter`, as the GPU
operator's. If your queries ask for `exported_pod`, add `--set serviceMonitor.honorLabels=false`.
"""

_RENAMED_TEXT = """
## Your boards survive the new names

dcgm-exporter 4.9 renames most default counters and changes units, so queries for old names find
nothing. The drop-in serves both name sets, each in its own units, with the labels of both, and all
queries below answer under both. For one set, and half of the series: `settings.compat: [dcgm]` or
`[dcgm-4.9]`.

"""

_SPLIT_TEXT = """
## What is split by container

All of dcgm-exporter's default counters are served. On a shared card {} have one series for each
container, and one without a container's labels for the rest. Their sum is the card. Other figures
have one series for the card, `DCGM_FI_DEV_FB_FREE` too: where a query divides used by used and free
memory, take the sum of each by `UUID`, or `mgpu_pod_memory_limit_utilization_ratio`.
"""

_CONFORMANCE_TEXT = """
## Queries of dashboards and tools

We asked a real Prometheus, which scraped the simulated node `demo`, the queries of Grafana's board
{}.
`docs/pages/dcgm.yaml` has them in full, with sources. {} mean the same in both exporters. These
differ:

"""

_NONE_TEXT = """
These find nothing here:

"""

_EQUIVALENT_TEXT = """
## Grafana's board 14574

It asks nvidia_gpu_exporter. These queries answer the same here.
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
        + _RENAMED_TEXT
        + table(
            ("`DCGM_FI_…`", "since 4.9", "new unit"),
            ((f"`{old}`", f"`{new}`", unit) for old, (new, unit) in RENAMED.items()),
        )
        + _SPLIT_TEXT.format(", ".join(f"`{whole}`" for whole in SPLIT.values()))
        + _queries(list(lists["sources"]), lists["queries"])
        + _EQUIVALENT_TEXT
        + "\n"
        + _equivalents(lists["equivalents"])
    )


def _queries(tools: list[str], queries: list[dict[str, Any]]) -> str:
    none = [one for one in queries if one["expect"] == "none"]
    differ = [one for one in queries if "differs" in one and one not in none]
    alike = len(queries) - len(differ) - len(none)
    named = f"{', '.join(tools[:-1])} and {tools[-1]}"
    return (
        _CONFORMANCE_TEXT.format(named, alike)
        + table(("from", "query", "dcgm-exporter"), _alike(differ, "differs"))
        + _NONE_TEXT
        + table(("from", "query", "why"), _alike(none, "why"))
    )


def _alike(queries: list[dict[str, Any]], about: str) -> Iterator[tuple[str, ...]]:
    """A row for all queries of which the same is said."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for one in queries:
        rows.setdefault(one[about], []).append(one)
    for text, these in rows.items():
        tools = dict.fromkeys(str(one["tool"]) for one in these)
        shown = dict.fromkeys(_shown(one["query"]) for one in these)
        yield ", ".join(tools), ", ".join(shown), text


def _shown(query: str) -> str:
    """The query without what selects series, and the labels that it sums by."""
    return f"`{BY.sub('by (…)', SELECTOR.sub('', query))}`"


def _equivalents(queries: dict[str, str]) -> str:
    """A row for each query that has an answer, and the number of the others."""
    found = {name: query for name, query in queries.items() if not query.startswith(NONE)}
    rows = table(("it asks for", "here"), starmap(_equivalent, found.items()))
    return rows + f"\n{len(queries) - len(found)} others are not in the demo, or not read.\n"


def _equivalent(name: str, query: str) -> tuple[str, str]:
    return f"`{name}`", f"`{query}`"
