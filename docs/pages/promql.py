"""Expressions over the families: whether the books balance, what became of allocations."""

from collections.abc import Mapping

from exporter.metrics.families import PREFIX

BOOKS_PREFACE = """
## The books in PromQL

Each query finds devices whose parts differ from the whole by more than a twentieth. There should be
none.

"""

BOOKS = {  # what is used → a device's counter of it, and the name of that of its parts
    "core": ("busy_seconds_total", "core_seconds_total"),
    "memory traffic": ("memory_active_seconds_total", "memory_active_seconds_total"),
    "encoder": ("encoder_seconds_total", "encoder_seconds_total"),
    "decoder": ("decoder_seconds_total", "decoder_seconds_total"),
    "energy": ("energy_joules_total", "energy_joules_total"),
}

ALLOCATIONS_PREFACE = """
## Counters that lose nothing at their first scrape

Prometheus 3 can put a 0 where a counter began, so that `rate()` sees what was used before the first
scrape. Switch it on at both ends:

- Prometheus: `--enable-feature=created-timestamp-zero-ingestion`, or from 3.11 on
  `--enable-feature=st-storage,use-start-timestamps` (experimental).
- The exporter: `--metrics.created`. The page grows by a third, with gzip by a sixth. A Prometheus
  without the feature stores each `_created` line as a series of its own.

<a id="allocations-in-promql"></a>

## Allocations in PromQL

Each query finds what its title names, and nothing where use or allocation is not known.

- Limits are on the device that the allocation names, use on the device where it was seen
  (`mgpu_container_placement_mismatch`).
- An allocation of a pod as a whole has `container=""`; one whose device is not known has `gpu=""`
  and `uuid=""`. It is in `mgpu_container_allocation_info` also without a promised share.
- Charge a namespace by `mgpu_namespace_allocated_core_seconds_total`, used or not: it has the pods
  that were too short for a scrape, which sums of `mgpu_pod_allocated_core_seconds_total` lose. Its
  `uuid` is empty while the device is not known.

"""

ALLOCATIONS = {  # what is found → the expression that finds it
    "memory over its allocation": """\
mgpu_container_memory_limit_utilization_ratio > 1
  or on (cluster, instance, namespace, pod) mgpu_pod_memory_limit_utilization_ratio > 1""",
    "core over its share": """\
rate(mgpu_container_core_seconds_total[5m])
  / (rate(mgpu_container_allocated_core_seconds_total[5m]) > 0) > 1.1
  or on (cluster, instance, namespace, pod)
    avg_over_time(mgpu_pod_core_limit_utilization_ratio[5m]) > 1.1""",
    "allocated, and not used for half an hour": """\
increase(mgpu_pod_core_seconds_total[30m]) == 0
  and on (cluster, instance, namespace, pod) mgpu_container_allocation_info
  and on (cluster, instance, namespace, pod) mgpu_container_allocation_info offset 30m""",
    "at work without an allocation": """\
mgpu_container_processes > 0
  unless on (cluster, instance, namespace, pod) mgpu_container_allocation_info""",
    "not on the device that was allocated": "mgpu_container_placement_mismatch == 1",
    "offline, and paused by others on the card": """\
rate(mgpu_container_core_seconds_total[1m]) < 0.01
  and mgpu_container_processes > 0
  and on (cluster, instance, namespace, pod, container, uuid)
    mgpu_container_allocation_info{priority="offline"}
  and on (cluster, instance, uuid) (
    rate(mgpu_container_core_seconds_total[1m]) > 0.1
    and on (cluster, instance, namespace, pod, container, uuid)
      mgpu_container_allocation_info{priority!="offline"}
  )""",
    "over its share while a neighbour waits for its own": """\
rate(mgpu_container_core_seconds_total[5m])
  > 1.1 * (rate(mgpu_container_allocated_core_seconds_total[5m]) > 0)
  and on (cluster, instance, uuid) (
    (rate(mgpu_container_core_seconds_total[5m]) > 0.01)
    < 0.9 * rate(mgpu_container_allocated_core_seconds_total[5m])
  )
  and on (cluster, instance, uuid) rate(mgpu_device_busy_seconds_total[5m]) > 0.95""",
}


def expressions() -> str:
    """The sections of the page of metrics."""
    return _promql(BOOKS_PREFACE, books()) + _promql(ALLOCATIONS_PREFACE, ALLOCATIONS)


def _promql(preface: str, expressions: Mapping[str, str]) -> str:
    titled = "\n\n".join(f"# {what}\n{expression}" for what, expression in expressions.items())
    return f"{preface}```promql\n{titled}\n```\n"


def books() -> dict[str, str]:
    """An expression for each quantity: the devices whose parts do not add up to the whole."""
    found = {}
    for what, (whole, part) in BOOKS.items():
        parts = f'{{__name__=~"{PREFIX}_(namespace|group_kind|device_unattributed)_{part}"}}'
        found[what] = _unbalanced(f"rate({PREFIX}_device_{whole}[5m])", f"rate({parts}[5m])")
    parts = f"{PREFIX}_((container|group)_memory_used|device_unattributed_memory)_bytes"
    found["memory"] = _unbalanced(f"{PREFIX}_device_memory_used_bytes", f'{{__name__=~"{parts}"}}')
    return found


def _unbalanced(whole: str, parts: str) -> str:
    of_each = "sum by (cluster, instance, uuid)"
    return f"abs(1 -\n  {of_each} ({parts})\n  / {of_each} ({whole})\n) > 0.05"
