"""The page of the metric families, from ``exporter/metrics/families.py``."""

from exporter.metrics.families import CORE, FAMILIES, LEVELS, Family
from pages.promql import expressions
from pages.tables import table

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

- **Counters** end in `_total`, and are for totals over time. All others are gauges, for now.
  `_ratio` and `_gpus` gauges are averages over `--collection.window`.
- **Units** are the base units that the names end in; a ratio of 1 is the whole.
- **Labels**: `gpu` is the device's index, `uuid` its UUID. Prometheus adds node and instance.
- **Age**: values are as old as the last cycle (`mgpu_exporter_snapshot_timestamp_seconds`), at most
  10 s or three cycles. Older ones are not served.
- **A missing value** is unknown, and an `unmeasured` series has the reason. 0 was measured.
- **The end of a process** is noticed within 5 s, if the driver is quick. Then the gauges of
  its container go, and the counters stay for `--ledger.retention`.
"""


def metrics() -> str:
    """The text of metrics.md."""
    return METRICS_PREFACE + expressions() + "".join(_level(level) for level in LEVELS)


def _level(level: str) -> str:
    families = [family for family in FAMILIES if family.level == level]
    labels = ", ".join(f"`{name}`" for name in LEVELS[level]) or "none"
    head = f"\n## `mgpu_{level}_`\n\n{LEVEL_WORDS[level]}\n\nLabels of all: {labels}.\n\n"
    heads = ("metric", "further labels", "meaning")
    return head + table(heads, (_family(family) for family in families))


def _family(family: Family) -> tuple[str, ...]:
    own = ", ".join(f"`{name}`" for name in family.labels)
    about = family.help if family.group == CORE else f"{family.help} Group `{family.group}`."
    return (f"`{family.full_name}`", own, about)
