"""The page of the metric families, from ``exporter/metrics/families.py``."""

from exporter.metrics.families import CORE, FAMILIES, LEVELS, Family
from pages.promql import expressions
from pages.tables import table

UNITS = {
    "_seconds": "seconds",
    "_bytes": "bytes",
    "_joules": "joules",
    "_ratio": "ratio",
    "_watts": "watts",
    "_celsius": "degrees Celsius",
    "_hertz": "hertz",
    "_gpus": "GPUs",
}

LEVEL_WORDS = {
    "device": "Devices: a physical GPU, or a MIG instance. `--metrics.disable=<group>` leaves a "
    "group out, with its driver calls.",
    "container": "Containers of named pods, per device.",
    "pod": "Pods, over all their containers and devices.",
    "namespace": "Namespaces, per device. They live as long as the exporter, so that jobs shorter "
    "than a scrape interval are not lost.",
    "group": "Groups: cgroups that are not a named pod's container, such as a pod whose name is "
    "not known yet, or a container outside Kubernetes.",
    "group_kind": "All groups of a kind together, per device. They live as long as the exporter, "
    "and each kind that the node can have is there from the first page on, at 0. So `rate()` loses "
    "nothing of short jobs and containers. Which kinds those are: [off-kubernetes.md]"
    "(off-kubernetes.md#kinds).",
    "exporter": "The exporter itself. The client library's `process_*` and `python_info` stand "
    "beside them.",
}

METRICS_PREFACE = """\
# Metrics

Written by `docs/generate.py` from `exporter/metrics/families.py`. Do not edit.

Looking for a query? [Questions and queries](questions.md) has them by question. This page lists
every metric, by level: [devices](#mgpu_device_), [containers](#mgpu_container_),
[pods](#mgpu_pod_), [namespaces](#mgpu_namespace_), [groups](#mgpu_group_),
[kinds of groups](#mgpu_group_kind_), [the exporter](#mgpu_exporter_).

- **Counters or gauges?** Use counters for totals over time, gauges for now. `_ratio` and `_gpus`
  gauges are averages over `--collection.window`.
- **Units** are base units; a ratio of 1 is the whole.
- **Labels**: `gpu` is the device's index, `uuid` its UUID. Prometheus adds node and instance.
- **Age**: values are as old as the last cycle (`mgpu_exporter_snapshot_timestamp_seconds`), at most
  10 s or three cycles. Older ones are not served.
- **A missing value** is unknown, and an `unmeasured` series has the reason. 0 was measured.
- **The end of a process** is noticed within 5 s, if the driver is quick. Then the gauges of
  its container go, and the counters stay for `--ledger.retention`.

```promql
# GPUs' worth of core in use, by pod
sum by (namespace, pod) (rate(mgpu_pod_core_seconds_total[5m]))

# Use against allocation, for containers that have one
rate(mgpu_container_core_seconds_total[5m])
  / (rate(mgpu_container_allocated_core_seconds_total[5m]) > 0)

# GPU-hours of the last day, by namespace: short jobs included
sum by (namespace) (increase(mgpu_namespace_core_seconds_total[1d])) / 3600

# The same of what runs outside Kubernetes, by kind: short Slurm jobs included
sum by (kind) (increase(mgpu_group_kind_core_seconds_total[1d])) / 3600

# Containers that hold more than nine tenths of their memory
mgpu_container_memory_limit_utilization_ratio > 0.9

# Power by namespace, in watts
sum by (namespace) (rate(mgpu_namespace_energy_joules_total[5m]))

# Device busy time that could not be attributed, by reason
sum by (uuid, reason) (rate(mgpu_device_unattributed_core_seconds_total[5m]))
```
"""


def metrics() -> str:
    """The text of metrics.md."""
    return METRICS_PREFACE + expressions() + "".join(_level(level) for level in LEVELS)


def _level(level: str) -> str:
    families = [family for family in FAMILIES if family.level == level]
    labels = ", ".join(f"`{name}`" for name in LEVELS[level]) or "none"
    head = f"\n## `mgpu_{level}_`\n\n{LEVEL_WORDS[level]}\n\nLabels of all: {labels}.\n\n"
    heads = ("metric", "type", "unit", "further labels", "meaning")
    return head + table(heads, (_family(family) for family in families))


def _family(family: Family) -> tuple[str, ...]:
    own = ", ".join(f"`{name}`" for name in family.labels)
    about = family.help if family.group == CORE else f"{family.help} Group `{family.group}`."
    return (f"`{family.full_name}`", family.type, _unit(family), own, about)


def _unit(family: Family) -> str:
    name = family.name.removesuffix("_total")
    if name.endswith("_timestamp_seconds"):
        return "Unix time, seconds"
    return next((word for suffix, word in UNITS.items() if name.endswith(suffix)), "")
