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
    "device": "Devices: a physical GPU, or a MIG instance. Families of a group can be left out, "
    "with the driver calls that they take: `--metrics.disable=<group>`.",
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

What you can rely on:

1. **Counters are right at any scrape interval.** They are integrated from every sample that the
   driver keeps, not from one look at each scrape. `rate()` over any range is the average of that
   range.
2. **The books balance.** For every device and quantity: device = containers + groups +
   `unattributed`. Nothing is counted on two pods, and nothing vanishes.
3. **Unknown is not zero.** What cannot be measured is absent, counters too, and the `unmeasured`
   series says why. A rate of 0 means measured and idle.
4. **One vocabulary for every sharing system.** Use, allocation and their ratio have the same names,
   whoever shared the GPU.

Units are base units; a ratio of 1 is the whole. `gpu` is the device's index, `uuid` its UUID. There
is no node, host or instance label: Prometheus adds those of the target. Take counters for sums over
time, and gauges for what is now; `_ratio` and `_gpus` gauges are averages over
`--collection.window`. Values are as old as the last collection cycle
(`mgpu_exporter_snapshot_timestamp_seconds`), at most 10 s, or three cycles: older ones are not
served. The end of a process is noticed with the driver's next process list, 5 s later at most where
the driver is quick (`mgpu_device_read_interval_seconds`): until then its container keeps its
gauges. Then they go, and the counters stay for `--ledger.retention`.

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

# Busy time of a device that nobody we can name used, by reason
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
